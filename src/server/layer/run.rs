//! A request in a task of its own: claims its key, runs its handler, and writes down how that ended.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, Response, response};
use http_body::Body;
use http_body_util::BodyExt;
use tower_service::Service;

use super::body::{Gathered, LayerBody};
use super::handle::Ticket;
use super::{Disposition, Rules};
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::server::answer::StoredAnswer;
use crate::server::problem::Problem;
use crate::server::service::{Claim, Ended, Outcome, alive};

/// The pause before an answer is tried again to be written down.
const PAUSE: Duration = Duration::from_millis(100);

/// A request that was read, and what it takes to answer it.
pub(super) struct Job<S> {
    pub(super) rules: Arc<Rules>,
    pub(super) inner: S,
    pub(super) request: (Parts, Bytes),
    pub(super) key: IdempotencyKey,
    pub(super) principal: String,
    pub(super) fingerprint: Fingerprint,
    pub(super) ticket: Ticket,
}

/// What came of a job.
pub(super) enum Tried<S, R, E> {
    Done(Result<Response<LayerBody<R>>, E>),
    /// Its key is being worked on: the job, and what is left of the lease.
    InProgress(Box<Job<S>>, Duration),
}

impl<S> Job<S> {
    pub(super) async fn run<B, R>(self) -> Tried<S, R, S::Error>
    where
        S: Service<Request<LayerBody<B>>, Response = Response<R>>,
        B: Body<Data = Bytes>,
        R: Body<Data = Bytes> + Unpin,
    {
        let claimed = self.rules.keeper.claim(&self.principal, &self.key, self.fingerprint).await;
        let problem = match claimed {
            Ok(Outcome::Won(claim)) => {
                let Job { rules, inner, request, ticket, .. } = self;
                // In a box: a job is moved several times on its way to its task, and most of it would be this.
                let answer = Box::pin(work(&rules, inner, request, &claim)).await;
                drop(ticket);
                return Tried::Done(answer.map(|answer| rules.advertised(answer)));
            }
            Ok(Outcome::Answered(answer)) => {
                return Tried::Done(Ok(self.rules.advertised(self.rules.replay(answer))));
            }
            Ok(Outcome::InProgress(left)) => return Tried::InProgress(Box::new(self), left),
            Ok(Outcome::Mismatch) => Problem::KeyReused,
            Ok(Outcome::Reconcile) => Problem::Reconcile,
            Err(error) => {
                tracing::warn!(%error, "a key could not be claimed, and its request was not run");
                Problem::StoreUnavailable
            }
        };
        Tried::Done(Ok(self.rules.refuse(&problem)))
    }
}

/// Runs the handler for as long as the claim is ours, and ends the claim.
async fn work<S, B, R>(
    rules: &Rules,
    mut inner: S,
    (mut parts, bytes): (Parts, Bytes),
    claim: &Claim,
) -> Result<Response<LayerBody<R>>, S::Error>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>>,
    B: Body<Data = Bytes>,
    R: Body<Data = Bytes> + Unpin,
{
    parts.extensions.insert(claim.clone());
    let request = Request::from_parts(parts, LayerBody::whole(bytes));
    let limit = rules.keeper.answer_limit;
    let handler = async { Ok(collect(inner.call(request).await?, limit).await) };
    let work = async {
        match caught(handler).await {
            Some(Ok(collected)) => Ok(end(rules, claim, collected).await),
            Some(Err(error)) => {
                give_back(claim).await;
                Err(error)
            }
            None => {
                give_back(claim).await;
                Ok(rules.refuse(&Problem::HandlerFailed))
            }
        }
    };
    alive(claim, work).await.unwrap_or_else(|| {
        tracing::warn!(key = %claim.key(), "a claim was lost, and its handler was dropped");
        Ok(rules.refuse(&Problem::NotRecorded))
    })
}

/// The work's result; nothing when it panics.
async fn caught<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Some),
            // It was reported by the hook of panics, and is not polled again.
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// A handler's answer, read as far as it is to be kept.
enum Collected<R> {
    Whole(response::Parts, Bytes),
    TooLarge(response::Parts, Bytes, R),
    /// It broke off.
    Broken,
}

async fn collect<R>(response: Response<R>, limit: usize) -> Collected<R>
where
    R: Body<Data = Bytes> + Unpin,
{
    let (parts, mut body) = response.into_parts();
    let mut gathered = Gathered::default();
    while let Some(frame) = Pin::new(&mut body).frame().await {
        let Ok(frame) = frame else { return Collected::Broken };
        let Ok(data) = frame.into_data() else { continue };
        gathered.push(data);
        if gathered.len() > limit {
            return Collected::TooLarge(parts, gathered.into_bytes(), body);
        }
    }
    Collected::Whole(parts, gathered.into_bytes())
}

/// Ends the claim as the answer wants it, and gives what its client is to get.
async fn end<R>(rules: &Rules, claim: &Claim, answer: Collected<R>) -> Response<LayerBody<R>> {
    let (parts, kept, body) = match answer {
        Collected::Whole(parts, bytes) => (parts, Some(bytes.clone()), LayerBody::whole(bytes)),
        Collected::TooLarge(parts, read, rest) => (parts, None, LayerBody::in_parts(read, rest)),
        Collected::Broken => {
            return match give_back(claim).await {
                Some(answer) => rules.replay(answer),
                None => rules.refuse(&Problem::HandlerFailed),
            };
        }
    };
    let status = parts.status;
    if (rules.disposition)(status) == Disposition::Release {
        // A transaction that was committed after all, as when the word of its commit was lost, has the last word.
        return match give_back(claim).await {
            Some(answer) => rules.replay(answer),
            None => Response::from_parts(parts, body),
        };
    }
    if claim.was_completed_with(status) {
        return Response::from_parts(parts, body);
    }
    let fields = rules.keeper.fields.keep(&parts.headers);
    let stored = StoredAnswer::new(status, fields, kept);
    loop {
        match claim.complete(&stored).await {
            Ok(Ended::Yes) => return Response::from_parts(parts, body),
            Ok(Ended::Answered(answer)) => return rules.replay(answer),
            Ok(Ended::Lost) => return rules.refuse(&Problem::NotRecorded),
            Err(error) => {
                tracing::warn!(key = %claim.key(), %error, "an answer was not stored, and is tried again");
                // Until the lease is over, which ends us.
                rules.keeper.clock.sleep(PAUSE).await;
            }
        }
    }
}

/// Gives the claim back. The answer that is stored, where it had been completed meanwhile.
async fn give_back(claim: &Claim) -> Option<StoredAnswer> {
    match claim.release().await {
        Ok(Ended::Answered(answer)) => Some(answer),
        Ok(Ended::Yes | Ended::Lost) => None,
        Err(error) => {
            tracing::warn!(key = %claim.key(), %error, "a claim was not given back, and ends with its lease");
            None
        }
    }
}

impl Rules {
    /// A stored answer, marked.
    fn replay<R>(&self, answer: StoredAnswer) -> Response<LayerBody<R>> {
        let mut response = match answer.body {
            Some(body) => {
                let mut response = Response::new(body);
                *response.status_mut() = answer.status;
                *response.headers_mut() = answer.headers;
                response
            }
            None => Problem::AnswerNotKept.response(),
        };
        if let Some(marker) = self.marker.name() {
            response.headers_mut().insert(marker, HeaderValue::from_static("true"));
        }
        response.map(LayerBody::whole)
    }
}
