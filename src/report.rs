//! What became of an operation: the report on every response and in every error.
//!
//! ```no_run
//! # async fn run(client: post_once::Client) -> Result<(), post_once::Error> {
//! use post_once::Report;
//!
//! let response = client.post_once("https://api.example.com/charges", &"body").await?;
//! if let Some(report) = Report::of(&response) {
//!     println!("{} after {} attempts", report.effect(), report.attempts().count());
//! }
//! # Ok(()) }
//! ```
//!
//! # Guarantees
//! - [`Effect::NotSent`] is said only when it is certain.
//! - Nothing in a report is secret: no header value but the provider's request id, no URL, no body.
//!
//! # Not guaranteed
//! That the server did what its answer says.

use std::time::{Duration, SystemTime};

use http::StatusCode;

use crate::key::IdempotencyKey;
use crate::retry::{Effect, Exhausted, Known};

/// What became of an operation: its key, its attempts, and what is known of its effect.
///
/// It covers one call. When a middleware outside repeats the call, the key goes on and the numbers
/// of the attempts too.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) operation: Option<Box<str>>,
    pub(crate) source: Source,
    pub(crate) effect: Effect,
    /// The first attempt stands here and not in the list, so that a fault-free operation needs no
    /// list.
    pub(crate) first: Option<Attempt>,
    pub(crate) further: Vec<Attempt>,
    pub(crate) exhausted: Option<Exhausted>,
    pub(crate) resource: Option<String>,
    pub(crate) buffered: bool,
}

impl Report {
    /// The report on a response that came through this crate.
    #[must_use]
    pub fn of(response: &reqwest::Response) -> Option<&Report> {
        response.extensions().get()
    }

    /// A report on nothing sent yet.
    pub(crate) fn new(key: Option<IdempotencyKey>) -> Report {
        Report {
            key,
            operation: None,
            source: Source::Network,
            effect: Effect::NotSent,
            first: None,
            further: Vec::new(),
            exhausted: None,
            resource: None,
            buffered: true,
        }
    }

    pub(crate) fn push(&mut self, attempt: Attempt) {
        match self.first {
            None => self.first = Some(attempt),
            Some(_) => self.further.push(attempt),
        }
    }

    /// The operation's key; `None` for a method that needs none, or when the call was refused before
    /// it had one.
    #[must_use]
    pub fn key(&self) -> Option<&IdempotencyKey> {
        self.key.as_ref()
    }

    /// The operation's name in the journal, if it has one.
    #[must_use]
    pub fn operation(&self) -> Option<&str> {
        self.operation.as_deref()
    }

    /// Where the answer is from.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// What is known of the write, over all attempts.
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// The attempts of this call, in order.
    pub fn attempts(&self) -> impl ExactSizeIterator<Item = &Attempt> + Clone {
        Attempts { first: self.first.as_ref(), further: self.further.iter() }
    }

    /// The last attempt, unless nothing was sent.
    #[must_use]
    pub fn last_attempt(&self) -> Option<&Attempt> {
        self.further.last().or(self.first.as_ref())
    }

    /// Whether the server marked the answer as one that it had stored.
    #[must_use]
    pub fn is_replayed(&self) -> bool {
        self.last_attempt().is_some_and(|last| last.known == Known::Replayed)
    }

    /// What ended the operation although another attempt would have been in order.
    #[must_use]
    pub fn exhausted(&self) -> Option<Exhausted> {
        self.exhausted
    }

    /// The resource that an earlier execution had made, where the server answers "done before" and
    /// the contract says where the answer names it.
    #[must_use]
    pub fn resource(&self) -> Option<&str> {
        self.resource.as_deref()
    }

    /// Whether the whole body was read inside the attempt. `false` for one above the client's
    /// limit: it is handed over as it arrives, and may still be cut short.
    #[must_use]
    pub fn is_buffered(&self) -> bool {
        self.buffered
    }
}

/// Where an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The server gave it in this call.
    Network,
    /// The server gave it in an earlier call, and the journal had kept it: nothing was sent.
    Journal,
}

impl Source {
    /// The stable name, in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Network => "network",
            Source::Journal => "journal",
        }
    }
}

/// One send of an operation.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub(crate) number: u32,
    pub(crate) started: SystemTime,
    pub(crate) waited: Duration,
    pub(crate) elapsed: Duration,
    pub(crate) known: Known,
    pub(crate) status: Option<StatusCode>,
    pub(crate) error: Option<&'static str>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) request_id: Option<Box<str>>,
}

impl Attempt {
    /// Its number within the operation, from 1.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// When it started, by the wall clock.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// The wait before it.
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How long it took, with the part of the body that was read.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// What it taught us.
    #[must_use]
    pub fn known(&self) -> Known {
        self.known
    }

    /// The status, if the head of an answer came: also when its body was then lost.
    #[must_use]
    pub fn status(&self) -> Option<StatusCode> {
        self.status
    }

    /// The kind of failure, if it failed: `connect`, `tls`, `timeout`, `connection_lost`,
    /// `refused_by_protocol`, `request` or `other`.
    #[must_use]
    pub fn error(&self) -> Option<&'static str> {
        self.error
    }

    /// The wait that the server asked for, if it did.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The provider's name for the request, to quote to its support.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }
}

/// Iterates over the attempts of a report.
#[derive(Clone)]
struct Attempts<'a> {
    first: Option<&'a Attempt>,
    further: std::slice::Iter<'a, Attempt>,
}

impl<'a> Iterator for Attempts<'a> {
    type Item = &'a Attempt;

    fn next(&mut self) -> Option<&'a Attempt> {
        self.first.take().or_else(|| self.further.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::from(self.first.is_some()) + self.further.len();
        (left, Some(left))
    }
}

impl ExactSizeIterator for Attempts<'_> {}
