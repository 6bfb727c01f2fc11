//! A request on its way: what is refused before its key is claimed.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use rand::RngExt;
use tower_service::Service;

use super::body::LayerBody;
use super::drain::{self, Unread};
use super::run::{Job, Tried};
use super::{InProgress, Requirement, Rules, key};
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::server::problem::Problem;

/// The pauses between two looks at a key that is being worked on.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A service behind the [layer](super).
#[derive(Clone)]
pub struct IdempotencyService<S> {
    rules: Arc<Rules>,
    inner: S,
}

impl<S> IdempotencyService<S> {
    pub(super) fn new(rules: Arc<Rules>, inner: S) -> Self {
        IdempotencyService { rules, inner }
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for IdempotencyService<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyService").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, B, R> Service<Request<B>> for IdempotencyService<S>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    type Response = Response<LayerBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone that was polled ready is the one to call.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        Box::pin(serve(Arc::clone(&self.rules), inner, request))
    }
}

async fn serve<S, B, R>(
    rules: Arc<Rules>,
    mut inner: S,
    request: Request<B>,
) -> Result<Response<LayerBody<R>>, S::Error>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    let (parts, body) = request.into_parts();
    let (key, principal) = match rules.admit(&parts) {
        Ok(Some(admitted)) => admitted,
        Ok(None) => {
            let request = Request::from_parts(parts, LayerBody::as_it_came(body));
            return Ok(inner.call(request).await?.map(LayerBody::as_it_came));
        }
        Err(problem) => {
            drain::drain(pin!(body), &*rules.keeper.clock).await;
            return Ok(rules.refuse(&problem));
        }
    };
    let mut body = pin!(body);
    let bytes = match drain::read(body.as_mut(), rules.body_limit).await {
        Ok(bytes) => bytes,
        Err(unread) => {
            let problem = match unread {
                Unread::TooLarge => Problem::BodyTooLarge(rules.body_limit as u64),
                Unread::Incomplete => Problem::BodyIncomplete,
            };
            drain::drain(body, &*rules.keeper.clock).await;
            return Ok(rules.refuse(&problem));
        }
    };
    let fingerprint = fingerprint(&parts, &bytes);
    let Some(ticket) = rules.running.enter() else {
        return Ok(rules.refuse(&Problem::ShuttingDown));
    };
    let mut parts = parts;
    // What is stored is for whoever asks again, whatever it can decode.
    parts.headers.remove(ACCEPT_ENCODING);
    let job = Job {
        rules: Arc::clone(&rules),
        inner,
        request: (parts, bytes),
        key,
        principal,
        fingerprint,
        ticket,
    };
    wait(&rules, job).await
}

/// Runs the job in a task of its own, which goes on though we may not. While its key is being worked on it comes
/// back, and is tried again for as long as a request may wait.
async fn wait<S, B, R>(rules: &Rules, mut job: Job<S>) -> Result<Response<LayerBody<R>>, S::Error>
where
    S: Service<Request<LayerBody<B>>, Response = Response<R>> + Send + 'static,
    S::Future: Send,
    S::Error: Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    let begun = rules.keeper.clock.monotonic();
    let mut ceiling = FIRST_PAUSE;
    loop {
        let lease_left = match tokio::spawn(job.run::<B, R>()).await {
            Ok(Tried::Done(answer)) => return answer,
            Ok(Tried::InProgress(back, lease_left)) => {
                job = *back;
                lease_left
            }
            // Only where the runtime is shut down: a panic of the handler is caught where it can be written down.
            Err(_) => return Ok(rules.refuse(&Problem::NotRecorded)),
        };
        let waited = rules.keeper.clock.monotonic().saturating_sub(begun);
        let left = match rules.in_progress {
            InProgress::Answer => Duration::ZERO,
            InProgress::Wait(most) => most.saturating_sub(waited),
        };
        if left.is_zero() {
            let again = lease_left.min(rules.longest_retry_after);
            return Ok(rules.refuse(&Problem::InProgress(again)));
        }
        let pause = ceiling.mul_f64(rand::rng().random_range(0.5..1.0));
        rules.keeper.clock.sleep(pause.min(left)).await;
        ceiling = (ceiling * 2).min(LONGEST_PAUSE);
    }
}

fn fingerprint(parts: &Parts, body: &[u8]) -> Fingerprint {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let media_type = parts.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Fingerprint::new(&parts.method, target, media_type, body)
}

impl Rules {
    /// The key of a request, and whose it is; nothing when it goes to its handler as it is.
    fn admit(&self, parts: &Parts) -> Result<Option<(IdempotencyKey, String)>, Problem> {
        if !self.methods.contains(&parts.method) {
            return Ok(None);
        }
        let key = match key::read(&parts.headers, &self.key_field, self.longest_key)? {
            Some(key) => key,
            None if self.requirement == Requirement::Optional => return Ok(None),
            None => return Err(Problem::KeyMissing),
        };
        let principal = match &self.principal {
            Some(of) => of(parts).ok_or(Problem::Unidentified)?,
            None => String::new(),
        };
        Ok(Some((key, principal)))
    }

    pub(super) fn refuse<R>(&self, problem: &Problem) -> Response<LayerBody<R>> {
        tracing::debug!(problem = problem.name(), "a request is not answered by its handler");
        problem.response().map(LayerBody::whole)
    }

    /// Adds to an answer under a key what clients may want to know.
    pub(super) fn advertised<R>(&self, mut response: Response<R>) -> Response<R> {
        if self.advertise {
            let seconds = HeaderValue::from(self.keeper.retention.as_secs());
            response.headers_mut().insert("idempotency-key-lifetime", seconds);
        }
        response
    }
}
