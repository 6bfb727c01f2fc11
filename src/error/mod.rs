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

mod cause;

use std::error::Error as StdError;
use std::fmt;

use bytes::Bytes;
use http::StatusCode;
use thiserror::Error as ThisError;

use crate::journal::{JournalError, Reason, State};
use crate::key::IdempotencyKey;
use crate::operation::OperationState;
use crate::refusal::Refusal;
use crate::report::Report;
use crate::retry::{Effect, Exhausted, Known};

pub(crate) use self::cause::{Cause, Kept};

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
    /// The journal failed; nothing was sent without it.
    Journal(JournalError),
    /// The journal's row forbids to send.
    Row(RowProblem),
}

/// Why the row of an operation forbids to send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowProblem {
    /// The name stands for another request.
    Mismatch,
    /// Somebody else is at it.
    InFlight,
    /// Its state is final without an answer to return.
    Closed(State),
    /// It was completed, and its answer was too large to keep or was purged.
    AnswerNotKept,
    /// Killed attempts used up all that the policy allows.
    Spent,
    /// Our claim was lost while we worked.
    ClaimLost,
}

impl Error {
    pub(crate) fn new(kind: Kind, report: Report, target: Option<String>) -> Error {
        Error(Box::new(Inner { kind, report, target }))
    }

    /// Input that cannot be sent: no key was used, nothing went out.
    pub(crate) fn refused(refusal: impl Into<Refusal>) -> Error {
        Error::new(Kind::Refused(refusal.into()), Report::new(None), None)
    }

    /// The journal failed outside of any operation, or between several.
    pub(crate) fn journal(error: JournalError, effect: Effect) -> Error {
        Error::new(Kind::Journal(error), Report { effect, ..Report::new(None) }, None)
    }

    /// The same, of an operation that somebody else goes on with: nothing may have been sent, but it may
    /// be yet.
    pub(crate) fn gone_on_with(mut self) -> Error {
        if self.effect() == Effect::NotSent {
            self.0.report.effect = Effect::Unknown;
        }
        self
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
    /// one, for methods that need none, and when the journal could not tell which key a name has.
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

    /// Whether the journal failed. Nothing is sent that could not be written down first; of an operation with a
    /// name, an earlier call may have been sent.
    #[must_use]
    pub fn is_journal(&self) -> bool {
        matches!(self.0.kind, Kind::Journal(_))
    }

    /// Whether the operation's name stands for another request in the journal; nothing was sent.
    #[must_use]
    pub fn is_mismatch(&self) -> bool {
        matches!(self.0.kind, Kind::Row(RowProblem::Mismatch))
    }

    /// Whether somebody else is working on the operation, here or elsewhere: ask again later.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        matches!(self.0.kind, Kind::Row(RowProblem::InFlight | RowProblem::ClaimLost))
    }

    /// Whether the operation was completed by an earlier call, but its answer was not kept.
    #[must_use]
    pub fn is_answer_not_kept(&self) -> bool {
        matches!(self.0.kind, Kind::Row(RowProblem::AnswerNotKept))
    }

    /// The state in the journal that forbids to send the operation again: unknown, abandoned, or parked
    /// because only a person can go on.
    #[must_use]
    pub fn journal_state(&self) -> Option<State> {
        match self.0.kind {
            Kind::Row(RowProblem::Closed(state)) => Some(state),
            Kind::Row(RowProblem::Spent) => Some(State::Parked(Reason::Attempts)),
            _ => None,
        }
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
            Kind::Journal(_) => "the operation could not be written to the journal",
            Kind::Row(RowProblem::Mismatch) => {
                "the operation's name stands for another request in the journal"
            }
            Kind::Row(RowProblem::InFlight) => "somebody else is working on the operation",
            Kind::Row(RowProblem::ClaimLost) => {
                "another process has taken the operation over while it was being sent"
            }
            Kind::Row(RowProblem::Closed(State::Abandoned)) => "the operation was given up",
            Kind::Row(RowProblem::Closed(State::Unknown)) => {
                "the operation was sent, and what became of it is unknown"
            }
            Kind::Row(RowProblem::Closed(_)) => "the operation is parked until a person decides",
            Kind::Row(RowProblem::AnswerNotKept) => {
                "the operation was completed, and its answer was not kept"
            }
            Kind::Row(RowProblem::Spent) => {
                "killed attempts used up all that the policy allows; it is parked"
            }
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
            (Effect::Unknown, _) if self.is_in_flight() => {
                "nothing was sent twice: ask again later"
            }
            (Effect::Unknown, _) if self.is_journal() && self.key().is_none() => {
                "an earlier call of its name may have been sent: call it by this name again"
            }
            (Effect::Unknown, _)
                if self.exhausted() == Some(Exhausted::Window)
                    || self.journal_state() == Some(State::Unknown) =>
            {
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
            Kind::Journal(error) => Some(error),
            Kind::InProgress(_) | Kind::OutOfTime | Kind::Row(_) => None,
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
