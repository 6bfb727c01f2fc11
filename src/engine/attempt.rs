//! One attempt: send, read what is needed, and decide, all within its limit.

use std::pin::pin;
use std::time::{Duration, SystemTime};

use http::header::HeaderValue;
use http::{Extensions, StatusCode};
use reqwest::{Request, Response};
use tracing::Instrument;

use super::body::{self, Read};
use super::race::within;
use super::{Active, Run};
use crate::clock::Clock;
use crate::contract::{Contract, Reading};
use crate::error::Cause;
use crate::retry::window::{FirstSend, Moment};
use crate::retry::{Delay, Exhausted, Failure, Known};
use crate::telemetry;

/// The most that is read of an answer which will be followed by another attempt, in bytes. Enough
/// for an error page, so that the connection can be used again.
const DRAIN_LIMIT: usize = 64 * 1024;
/// The longest that is waited for it.
const DRAIN_TIME: Duration = Duration::from_millis(100);

/// How an attempt ended.
pub(super) enum Outcome {
    /// An answer for the caller.
    Answered { known: Known, read: Read, exhausted: Option<Exhausted> },
    /// A failure for the caller.
    Failed { cause: Cause, exhausted: Option<Exhausted> },
    /// Another attempt after a delay.
    Again { known: Known, delay: Delay, answer: Answer },
}

/// The answer of an attempt that another one follows.
pub(super) enum Answer {
    /// There was none.
    None,
    /// Its body was needed to understand it.
    Read(Read),
    /// Its body is still to be read.
    Unread(Response),
}

/// When an attempt began, and the first send as it stood before.
pub(super) struct Opened {
    pub(super) at: Moment,
    pub(super) first: Option<FirstSend>,
}

/// What the head of an answer said. Known also when the body is lost afterwards.
#[derive(Default)]
pub(super) struct Head {
    pub(super) status: Option<StatusCode>,
    pub(super) retry_after: Option<Duration>,
    pub(super) request_id: Option<Box<str>>,
    pub(super) advertised: Option<Duration>,
}

impl Run<'_> {
    /// Sends once, and says what follows.
    pub(super) async fn attempt(
        &mut self,
        now: Moment,
        limit: Duration,
        waited: Duration,
    ) -> Outcome {
        let opened = self.open(now, limit);
        let mut copy = self.copy_of_extensions();
        let mut head = Head::default();
        let span = telemetry::attempt(self.state.attempts);
        let timer = pin!(self.engine.clock.timer(limit));
        let ended = {
            let exchange = self.exchange(now.wall, &mut copy, &mut head);
            within(timer, pin!(exchange.instrument(span.clone()))).await
        };
        self.last_extensions = copy;

        let (known, outcome, error) = match ended.unwrap_or(Err((Failure::TIMEOUT, Cause::Timeout)))
        {
            Ok((known, outcome)) => (known, outcome, None),
            Err((failure, cause)) => {
                let outcome = match self.next(failure.known, head.retry_after) {
                    Ok(delay) => {
                        Outcome::Again { known: failure.known, delay, answer: Answer::None }
                    }
                    Err(exhausted) => Outcome::Failed { cause, exhausted },
                };
                (failure.known, outcome, Some(failure.kind))
            }
        };
        let attempt = self.close(opened, waited, known, head, error);
        telemetry::attempt_ended(&span, attempt);
        outcome
    }

    /// Sends, reads the head, decides, and reads as much of the body as the decision leaves to read.
    async fn exchange(
        &mut self,
        now: SystemTime,
        extensions: &mut Extensions,
        head: &mut Head,
    ) -> Result<(Known, Outcome), (Failure, Cause)> {
        let request = self.next_request(now);
        let url = self.source.url();
        let response = self.transport.send(request, url, extensions).await?;
        let status = response.status();
        let redirected = !body::is_same_resource(url, response.url());
        *head = Head::of(&response, self.contract, &*self.engine.clock);

        let reading = self.contract.read_head(status, response.headers(), redirected);
        let (known, answer) = match reading {
            Reading::Known(known) => (known, Answer::Unread(response)),
            Reading::NeedsBody => {
                let read = self.read(response).await?;
                let known = self.contract.read_body(status, read.headers(), read.bytes());
                (known, Answer::Read(read))
            }
        };
        let known = self.without_key_signals(known, status);
        let outcome = match self.next(known, head.retry_after) {
            Ok(delay) => Outcome::Again { known, delay, answer },
            Err(exhausted) => {
                let read = match answer {
                    Answer::Unread(response) => self.read(response).await?,
                    Answer::Read(read) => read,
                    Answer::None => unreachable!("an answer came"),
                };
                Outcome::Answered { known, read, exhausted }
            }
        };
        Ok((known, outcome))
    }

    /// The request of an attempt that starts now.
    fn next_request(&mut self, now: SystemTime) -> Request {
        let mut request = self.source.next();
        if let Some(name) = self.contract.first_sent_header() {
            let ours = || self.state.first_send.map_or(now, |first| first.at());
            let first = self.first_sent.unwrap_or_else(ours);
            request.headers_mut().insert(name, http_date(first));
        }
        request
    }

    /// Reads the body for the caller. One that is lost on the way is no answer (RFC 9112 §8).
    async fn read(&self, response: Response) -> Result<Read, (Failure, Cause)> {
        Read::up_to(self.engine.response_limit, response)
            .await
            .map_err(|error| (Failure::while_reading(&error), Cause::of_client(error)))
    }

    /// Reads what is left of an answer that another attempt will follow, within bounds, so that its
    /// connection can be used again. Kept if it is whole.
    pub(super) async fn drain(&self, answer: Answer) -> Option<Read> {
        match answer {
            Answer::None => None,
            Answer::Read(read) => read.if_complete(),
            Answer::Unread(response) => {
                let limit = pin!(self.engine.clock.timer(DRAIN_TIME));
                let read = within(limit, pin!(Read::up_to(DRAIN_LIMIT, response))).await?;
                read.ok()?.if_complete()
            }
        }
    }

    /// What is said of keys is said to those who sent one.
    fn without_key_signals(&self, known: Known, status: StatusCode) -> Known {
        if self.state.key.is_none() && known.is_about_keys() {
            return Known::from_status(status.as_u16());
        }
        known
    }

    /// The caller's extensions for one attempt, marked, so that nothing of it flows into the next.
    fn copy_of_extensions(&self) -> Extensions {
        if !self.transport.has_extensions() {
            return Extensions::new();
        }
        let mut copy = self.extensions.clone();
        copy.insert(Active);
        copy
    }
}

impl Head {
    fn of(response: &Response, contract: &Contract, clock: &dyn Clock) -> Head {
        let headers = response.headers();
        Head {
            status: Some(response.status()),
            retry_after: contract.retry_after(headers, || clock.wall()),
            request_id: contract.request_id(headers).map(Into::into),
            advertised: contract.advertised_window(headers),
        }
    }
}

/// A time as an IMF-fixdate (RFC 9110 §5.6.7).
fn http_date(time: SystemTime) -> HeaderValue {
    HeaderValue::from_str(&httpdate::fmt_http_date(time)).expect("a date is visible ASCII")
}
