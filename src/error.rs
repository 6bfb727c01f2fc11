//! Why an operation did not end in an answer for its caller, and what that leaves open.
//!
//! One opaque type. It says three things: what went wrong ([`Display`](std::fmt::Display)), whether
//! the write may have happened ([`Error::effect`]), and what to do now (in the text). Ask it with
//! predicates rather than by its text.
//!
//! An *answer* is never an error here: a 4xx, and the last 429 or 5xx when the attempts run out, are
//! returned as responses, unchanged. The one exception is an answer that says "in progress" for
//! longer than the budget for that: [`Error::is_in_progress`], with the answer in
//! [`Error::response`].
//!
//! Users of the middleware get a [`reqwest_middleware::Error`]; [`Error::find`] finds ours in it.
//!
//! # Guarantees
//! - [`Effect::NotSent`] is said only when it is certain.
//! - No text of an error holds a query, a userinfo, a header value or a body.
//!
//! # Not guaranteed
//! What an error of a foreign middleware says of itself. Its text is passed on as the source, less
//! the URL of the request.

use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use thiserror::Error as ThisError;

use crate::key::IdempotencyKey;
use crate::operation::OperationState;
use crate::refusal::Refusal;
use crate::report::Report;
use crate::retry::{Effect, Exhausted, Known};

/// Why an operation did not end in an answer.
pub struct Error(Box<Inner>);

struct Inner {
    kind: Kind,
    report: Report,
    /// Method and URL, as they may be shown.
    target: Option<String>,
}

/// What went wrong.
#[derive(Debug)]
pub(crate) enum Kind {
    /// The input cannot be sent as it is; nothing was.
    Refused(Refusal),
    /// The last attempt failed.
    Failed(Cause),
    /// The server said "in progress" for longer than we wait.
    InProgress(Kept),
    /// A limit forbids a further attempt, and the last answer is no longer there to be returned.
    OutOfTime,
}

/// An answer that is kept in an error. Its headers and body may hold secrets, so that it shows
/// nothing of itself.
pub(crate) struct Kept(pub(crate) http::Response<Bytes>);

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0.status()).finish()
    }
}

/// How the last attempt failed.
#[derive(Debug)]
pub(crate) enum Cause {
    /// Our own limit on the attempt ran out.
    Timeout,
    /// The client failed; without its URL.
    Client(reqwest::Error),
    /// The stack failed in a way that holds no URL to hide.
    Stack(reqwest_middleware::Error),
    /// The stack failed with an error that shows the URL: its text, less the URL.
    Text(Flattened),
}

/// The texts of a chain of errors that could not be kept as it was.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub(crate) struct Flattened(String);

impl Cause {
    /// Takes the error of a bare client, without its URL.
    pub(crate) fn of_client(error: reqwest::Error) -> Cause {
        Cause::Client(error.without_url())
    }

    /// Takes the error of a stack. Where a middleware wrapped an error that shows the URL, which may
    /// hold a secret in its query, the chain becomes text without it.
    pub(crate) fn of_stack(error: reqwest_middleware::Error, url: &reqwest::Url) -> Cause {
        let wrapped = match error {
            reqwest_middleware::Error::Reqwest(error) => return Cause::of_client(error),
            reqwest_middleware::Error::Middleware(error) => error,
        };
        let text = wrapped.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let hidden = crate::redact::without_secrets(&text, url);
        // The alternate form is the derived one, which shows the fields that the text leaves out.
        let debug = format!("{wrapped:#?}");
        if hidden != text || crate::redact::without_secrets(&debug, url) != debug {
            return Cause::Text(Flattened(hidden));
        }
        Cause::Stack(reqwest_middleware::Error::Middleware(wrapped))
    }

    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Cause::Timeout => None,
            Cause::Client(error) => Some(error),
            Cause::Stack(error) => Some(error),
            Cause::Text(error) => Some(error),
        }
    }
}

impl Error {
    pub(crate) fn new(kind: Kind, report: Report, target: Option<String>) -> Error {
        Error(Box::new(Inner { kind, report, target }))
    }

    /// Input that cannot be sent: no key was used, nothing went out.
    pub(crate) fn refused(refusal: impl Into<Refusal>) -> Error {
        Error::new(Kind::Refused(refusal.into()), Report::new(None), None)
    }

    /// The same, when earlier calls of the operation have sent it: what became of them still holds.
    pub(crate) fn refused_again(refusal: Refusal, state: &OperationState) -> Error {
        let mut report = Report::new(state.key.clone());
        report.effect = state.history.effect();
        Error::new(Kind::Refused(refusal), report, None)
    }

    /// Finds ours in the error of a middleware stack.
    #[must_use]
    pub fn find(error: &reqwest_middleware::Error) -> Option<&Error> {
        match error {
            reqwest_middleware::Error::Middleware(error) => {
                error.chain().find_map(|cause| cause.downcast_ref())
            }
            reqwest_middleware::Error::Reqwest(_) => None,
        }
    }

    /// What is known of the write.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.report.effect()
    }

    /// The operation's key: what to ask again with. `None` when the call was refused before it had
    /// one, and for methods that need none.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.0.report.key()
    }

    /// Everything that was tried.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.0.report
    }

    /// What ended the operation although another attempt would have been in order.
    #[must_use]
    pub fn exhausted(&self) -> Option<Exhausted> {
        self.0.report.exhausted()
    }

    /// Whether the input was refused, and this call sent nothing: an unusable URL, header, key or
    /// body. Sending the same again fails the same.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self.0.kind, Kind::Refused(_))
    }

    /// Whether the server still says "in progress". [`Error::response`] has its answer.
    #[must_use]
    pub fn is_in_progress(&self) -> bool {
        matches!(self.0.kind, Kind::InProgress(_))
    }

    /// Whether the last attempt ran out of its time.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        self.last_kind() == Some("timeout")
    }

    /// Whether the last attempt could not connect, and so was not sent.
    #[must_use]
    pub fn is_connect(&self) -> bool {
        self.0
            .report
            .last_attempt()
            .is_some_and(|last| matches!(last.known(), Known::NotSent | Known::NotSentPermanent))
    }

    /// Whether a limit ended the operation although another attempt would have been in order.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.exhausted().is_some()
    }

    /// The status of the last answer, if the last attempt had one.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.0.report.last_attempt().and_then(|last| last.status())
    }

    /// The answer that says "in progress", when that is the error.
    #[must_use]
    pub fn response(&self) -> Option<&http::Response<Bytes>> {
        match &self.0.kind {
            Kind::InProgress(Kept(response)) => Some(response),
            _ => None,
        }
    }

    fn last_kind(&self) -> Option<&'static str> {
        self.0.report.last_attempt().and_then(|last| last.error())
    }

    /// What went wrong, in a few words.
    fn what(&self) -> &'static str {
        match &self.0.kind {
            Kind::Refused(_) => "refused",
            Kind::InProgress(_) => "the server still says that the operation is in progress",
            Kind::OutOfTime if self.0.report.first.is_none() => "no time is left for an attempt",
            Kind::OutOfTime => "no time is left for another attempt",
            Kind::Failed(Cause::Timeout) => "the attempt ran out of time",
            Kind::Failed(_) => match self.last_kind() {
                Some("connect") => "could not connect",
                Some("tls") if self.is_connect() => "the server's TLS certificate is not accepted",
                Some("timeout") => "timed out",
                Some("connection_lost") => "the connection was lost",
                Some("refused_by_protocol") => "the server refused the stream",
                _ => "the request failed",
            },
        }
    }

    /// What it leaves open, and what to do.
    fn advice(&self) -> &'static str {
        match (self.effect(), self.is_refused()) {
            (Effect::NotSent, true) => "nothing was sent",
            (Effect::NotSent, _) => "nothing was sent: it is safe to start again",
            (Effect::Answered, _) => "the server had answered",
            (Effect::Unknown, _) if self.exhausted() == Some(Exhausted::Window) => {
                "the write may have happened, and the server may have forgotten its key: \
                 look it up, and do not send it again"
            }
            (Effect::Unknown, _) => {
                "the write may have happened: send it again with the same key, or look it up"
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = &self.0.report;
        match &self.0.kind {
            Kind::Refused(refusal) => write!(f, "{refusal}")?,
            _ => f.write_str(self.what())?,
        }
        if let Some(target) = &self.0.target {
            write!(f, " ({target}")?;
            if let Some(last) = report.last_attempt() {
                write!(f, ", attempt {}", last.number())?;
            }
            if let Some(by) = report.exhausted() {
                write!(f, ", stopped by {by}")?;
            }
            f.write_str(")")?;
        }
        write!(f, "; {}", self.advice())?;
        match report.key() {
            Some(key) if report.effect() == Effect::Unknown => write!(f, "; key {key}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("report", &self.0.report)
            .field("target", &self.0.target)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.kind {
            Kind::Refused(refusal) => refusal.source(),
            Kind::Failed(cause) => cause.source(),
            Kind::InProgress(_) | Kind::OutOfTime => None,
        }
    }
}

impl From<Error> for reqwest_middleware::Error {
    fn from(error: Error) -> reqwest_middleware::Error {
        reqwest_middleware::Error::middleware(InStack(error))
    }
}

/// Ours on its way up through a stack. A middleware outside may wrap it in an error whose `source()`
/// skips what it wraps; so ours is a source here, where [`Error::find`] still comes by.
#[derive(Debug, ThisError)]
#[error("{0}")]
struct InStack(#[source] Error);
