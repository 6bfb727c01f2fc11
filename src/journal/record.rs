//! A row of the journal, as it is read.

use std::fmt;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Draft, RowId, Token};
use crate::retry::Known;

/// A row of the journal, as it was when it was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Record {
    /// The row.
    pub row: RowId,
    /// The token of its last claim.
    pub token: Token,
    /// The state as stored. See [`Record::state_now`].
    pub state: State,
    /// The operation.
    pub draft: Draft,
    /// The attempts begun so far.
    pub attempts: u32,
    /// The last so many of them ended without a recorded outcome: their process was killed.
    pub lost: u32,
    /// How the others ended.
    pub trail: Trail,
    /// The last answer, if it was kept.
    pub answer: Option<StoredAnswer>,
    /// Its times, by the store's clock.
    pub ages: Ages,
}

impl Record {
    /// The state, as it is now: pending or parked turns into [`State::Unknown`] by age alone, once the
    /// window of what may have been sent has closed.
    #[must_use]
    pub fn state_now(&self) -> State {
        match self.state {
            State::Pending | State::Parked(_) if self.window_left() == Some(Duration::ZERO) => {
                State::Unknown
            }
            state => state,
        }
    }

    /// What is left of the window less its margin. `None`: nothing was sent yet, or there is no window.
    #[must_use]
    pub fn window_left(&self) -> Option<Duration> {
        let (window, margin) = self.draft.terms.window?;
        Some(window.saturating_sub(margin).saturating_sub(self.ages.first_send?))
    }
}

/// Where an operation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Not finished, and nobody was told.
    Pending,
    /// The server told what happened.
    Completed,
    /// A caller was told of something that does not close it.
    Parked(Reason),
    /// It may have happened, and it can no longer be asked for safely.
    Unknown,
    /// Given up by a person.
    Abandoned,
}

impl State {
    /// The stable name, in snake case; without the reason.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Completed => "completed",
            State::Parked(_) => "parked",
            State::Unknown => "unknown",
            State::Abandoned => "abandoned",
        }
    }

    /// Why it is parked.
    #[must_use]
    pub const fn reason(self) -> Option<Reason> {
        match self {
            State::Parked(reason) => Some(reason),
            _ => None,
        }
    }

    /// Reads back what a store wrote.
    pub(crate) fn read(state: &str, reason: Option<&str>) -> Result<State, String> {
        Ok(match state {
            "pending" => State::Pending,
            "completed" => State::Completed,
            "parked" => State::Parked(Reason::read(reason.unwrap_or_default())),
            "unknown" => State::Unknown,
            "abandoned" => State::Abandoned,
            other => return Err(format!("its state {other:?}")),
        })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            State::Parked(reason) => write!(f, "parked ({})", reason.as_str()),
            state => f.write_str(state.as_str()),
        }
    }
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident => $name:literal),* $(,)?) => {
        /// Why an operation is parked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$doc])* $variant),*
        }

        impl Reason {
            /// The stable name, in snake case.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Reason::$variant => $name),* }
            }

            /// A reason of a newer version is an answer that does not close the operation.
            fn read(name: &str) -> Reason {
                match name { $($name => Reason::$variant,)* _ => Reason::Status }
            }
        }
    };
}

reasons! {
    /// The server answered with a status that does not say what happened.
    Status => "status",
    /// No answer came.
    NoAnswer => "no_answer",
    /// The attempts are used up.
    Attempts => "attempts",
    /// The server still says "in progress".
    InProgress => "in_progress",
    /// The answer is a redirect, or came from elsewhere.
    Redirected => "redirected",
    /// A header that is never stored was not supplied again.
    MissingHeader => "missing_header",
    /// Its origin is not one that may be sent to.
    ForeignOrigin => "foreign_origin",
    /// There is no client for its scope.
    NoClient => "no_client",
    /// Its first send lies in the future: the clock went back.
    ClockWentBack => "clock_went_back",
}

/// The times of a row, by the store's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ages {
    /// Since it was inserted.
    pub created: Duration,
    /// Since it was last written.
    pub updated: Duration,
    /// Since the first send; `None` when nothing was sent.
    pub first_send: Option<Duration>,
    /// When that was: the same for all who read it.
    pub first_send_at: Option<SystemTime>,
    /// The first send lies in the future.
    pub clock_went_back: bool,
    /// What is left of the lease, while it is held.
    pub lease_left: Option<Duration>,
}

/// How the attempts of an operation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trail {
    /// One for each attempt whose outcome was recorded, and for each that was lost before one.
    pub attempts: Vec<PastAttempt>,
    /// One of them may have reached the server.
    pub sent: bool,
}

/// One attempt, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PastAttempt {
    /// Its number, from 1.
    pub number: u32,
    /// When it started, in milliseconds since the epoch by its process's clock. To be read by people.
    pub started_ms: u64,
    /// The wait before it, in milliseconds.
    pub waited_ms: u64,
    /// How long it took, in milliseconds.
    pub elapsed_ms: u64,
    /// What it taught us: a name of [`Known`](crate::retry::Known).
    pub known: String,
    /// The status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The kind of failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The provider's name for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The contract said that its status is given by code that has looked at the key.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind_key: bool,
}

impl PastAttempt {
    /// An attempt of which nothing is known: its process was killed, or its future dropped.
    pub(crate) fn lost(number: u32, started_ms: u64) -> PastAttempt {
        PastAttempt {
            number,
            started_ms,
            waited_ms: 0,
            elapsed_ms: 0,
            known: Known::Ambiguous.as_str().to_owned(),
            status: None,
            error: Some("interrupted".to_owned()),
            request_id: None,
            behind_key: false,
        }
    }
}

impl Trail {
    /// How many attempts it holds.
    #[must_use]
    pub fn count(&self) -> u32 {
        u32::try_from(self.attempts.len()).unwrap_or(u32::MAX)
    }

    /// Adds an attempt.
    pub(crate) fn push(&mut self, attempt: PastAttempt, sent: bool) {
        self.attempts.push(attempt);
        self.sent |= sent;
    }

    /// What a store writes.
    #[must_use]
    pub(crate) fn write(&self) -> String {
        serde_json::to_string(&self.attempts).expect("strings and numbers are JSON")
    }

    /// Reads back what a store wrote.
    pub(crate) fn read(text: &str, sent: bool) -> Result<Trail, String> {
        let attempts =
            serde_json::from_str(text).map_err(|error| format!("its attempts: {error}"))?;
        Ok(Trail { attempts, sent })
    }
}

/// An answer, as it is kept.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAnswer {
    /// The status.
    pub status: u16,
    /// The kept headers, by allow-list, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body; `None` when it was too large to keep, or has been purged.
    pub body: Option<Bytes>,
    /// It was a marked replay.
    pub replayed: bool,
}

impl StoredAnswer {
    /// The headers and the marker, as a store writes them.
    #[must_use]
    pub(crate) fn head(&self) -> String {
        let head = AnswerHead { headers: latin1::encode(&self.headers), replayed: self.replayed };
        serde_json::to_string(&head).expect("strings are JSON")
    }

    /// Reads back what a store wrote.
    pub(crate) fn read(
        status: u16,
        head: &str,
        body: Option<Bytes>,
    ) -> Result<StoredAnswer, String> {
        let head: AnswerHead =
            serde_json::from_str(head).map_err(|error| format!("its answer: {error}"))?;
        let headers = latin1::decode(head.headers)?;
        Ok(StoredAnswer { status, headers, body, replayed: head.replayed })
    }
}

impl fmt::Debug for StoredAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

#[derive(Serialize, Deserialize)]
struct AnswerHead {
    headers: Vec<(String, String)>,
    #[serde(default)]
    replayed: bool,
}

/// What became of the work on a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// Where the row goes.
    pub to: To,
    /// How its attempts ended, the lost ones too.
    pub trail: Trail,
    /// The last answer, if there was one.
    pub answer: Option<StoredAnswer>,
}

/// Where a row goes at the end of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum To {
    /// The server told what happened.
    Completed,
    /// A caller was told of something that does not close it.
    Parked(Reason),
    /// It can no longer be asked for safely.
    Unknown,
    /// Pending, due after this.
    Later(Duration),
    /// Pending as it was, due now: nothing was sent under this claim, and its attempt is not counted.
    Released,
}

/// Bytes as the characters of the same number, so that any header value is a JSON string.
pub(super) mod latin1 {
    pub(in super::super) fn encode(headers: &[(String, Vec<u8>)]) -> Vec<(String, String)> {
        let text = |value: &[u8]| value.iter().copied().map(char::from).collect();
        headers.iter().map(|(name, value)| (name.clone(), text(value))).collect()
    }

    pub(in super::super) fn decode(
        headers: Vec<(String, String)>,
    ) -> Result<Vec<(String, Vec<u8>)>, String> {
        let bytes = |value: String| value.chars().map(u8::try_from).collect::<Result<_, _>>();
        headers
            .into_iter()
            .map(|(name, value)| match bytes(value) {
                Ok(value) => Ok((name, value)),
                Err(_) => Err(format!("its header {name:?}")),
            })
            .collect()
    }
}
