//! The journal: operations that survive their process.
//!
//! With a journal an operation is on disk, with its key and its exact bytes, before the first of them
//! goes out. Whatever happens then (a crash, a redeploy, a dropped future), it is finished by this
//! process, by the next one, or by another machine: under the same key, and never after the window.
//!
//! # The rule
//!
//! | state | meaning | who moves it |
//! |---|---|---|
//! | [`Pending`](State::Pending) | not finished, and nobody was told | the caller while it lives, then the resumer |
//! | [`Completed`](State::Completed) | the server told what happened | nobody |
//! | [`Parked`](State::Parked) | a caller was told of something that does not close it | the caller, by the same name, or a person |
//! | [`Unknown`](State::Unknown) | it may have happened, and the server may have forgotten its key | a person, or the reconcile hook |
//! | [`Abandoned`](State::Abandoned) | given up by a person | nobody |
//!
//! # Guarantees
//! - What [`Journal::insert`] acknowledged is durable: it survives `kill -9` and a power cut.
//! - Every write to a row names the token of its claim. After a claim was lost nothing of its holder is
//!   written any more, and it is told so: [`Held::Lost`].
//! - A token is never reset and never used twice, so that a write of a former holder can never pass.
//! - No credential is stored: of a header that is not known to be harmless only the name is kept.
//!
//! # Not guaranteed
//! - That a holder who lost its claim has stopped sending: a paused process cannot know that it is late.
//!   It sends under the same key, so that the server recognises it.
//! - That bodies are kept secret. They are stored as they are: use an encrypted disk.
//!
//! Times are *ages* and *durations*, never instants: each store judges them with one clock of its own.

#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "only a store on disk writes and reads what is persisted")
)]
mod draft;
mod headers;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "only a store on disk writes and reads what is persisted")
)]
mod record;
mod rule;
#[cfg(feature = "sqlite")]
mod sqlite;

#[doc = include_str!("guide.md")]
pub mod operating {}

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

pub use draft::{Draft, StoredRequest, Terms};
pub use memory::MemoryJournal;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresJournal, PostgresJournalBuilder};
pub use record::{Ages, Outcome, PastAttempt, Reason, Record, State, StoredAnswer, To, Trail};
#[cfg(feature = "sqlite")]
pub use rusqlite;
#[cfg(feature = "sqlite")]
pub use sqlite::{Completions, SqliteJournal, SqliteJournalBuilder};

pub(crate) use headers::{HeaderRules, of_answer};
pub(crate) use rule::{Admission, Ending, Recovery, admit, recover, settle};

/// Where operations are kept. Implemented by this crate's stores only, for as long as it is young.
///
/// Every verb is one atomic step, durable when it returns. A verb that changes a claimed row names the
/// claim, and changes nothing when the claim was lost.
#[async_trait]
pub trait Journal: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// Inserts the operation, claimed by us, its first attempt counted as begun now; or finds the row
    /// that has its name already. One atomic step: of two at once exactly one inserts.
    async fn insert(&self, draft: &Draft, lease: Duration) -> Result<Inserted, JournalError>;

    /// Inserts the operation for the resumer: due now, nothing sent. Or finds the row that has its name.
    async fn enqueue(&self, draft: &Draft) -> Result<Inserted, JournalError>;

    /// Takes a row over that was read with this token, unless its claim is live or it has changed since.
    /// Its next attempt is counted as begun now.
    async fn take(
        &self,
        row: RowId,
        seen: Token,
        lease: Duration,
    ) -> Result<Held<Claim>, JournalError>;

    /// Claims rows that are due, the longest due first: pending, unclaimed or with an expired lease.
    /// Each counts as claimed once more without an outcome.
    async fn claim_due(
        &self,
        filter: &Due,
        lease: Duration,
    ) -> Result<Vec<(Claim, Record)>, JournalError>;

    /// Records how the last attempt ended and counts the next as begun now, before it is sent.
    async fn attempt(&self, claim: &Claim, trail: &Trail) -> Result<Held<()>, JournalError>;

    /// Extends the lease, from now.
    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Held<()>, JournalError>;

    /// Ends the claim with the outcome of its work. The attempts are from now on those of its trail; none
    /// is lost, unless the claim is released, which takes back the one that it counted.
    async fn finish(&self, claim: &Claim, outcome: &Outcome) -> Result<Held<()>, JournalError>;

    /// The same without waiting for it, and without a word when it fails: for a future that is dropped.
    /// Should it be lost, the lease ends the claim.
    fn finish_soon(&self, claim: Claim, outcome: Outcome);

    /// Waits until all that [`Journal::finish_soon`] was given has been written, or has failed.
    async fn flush(&self);

    /// This row.
    async fn by_row(&self, row: RowId) -> Result<Option<Record>, JournalError>;

    /// The row of this name.
    async fn by_name(&self, scope: &str, name: &str) -> Result<Option<Record>, JournalError>;

    /// The rows that have this key: more than one only where scopes share a caller's key.
    async fn by_key(&self, key: &str) -> Result<Vec<Record>, JournalError>;

    /// Rows in the order in which they were inserted, after the one given, at most so many.
    async fn list(&self, filter: &List) -> Result<Vec<Record>, JournalError>;

    /// Moves a row that nobody holds, seen with this token, to a state: what a person decided.
    async fn decide(
        &self,
        row: RowId,
        seen: Token,
        decision: Decision,
    ) -> Result<Held<()>, JournalError>;

    /// Deletes the bodies of completed and abandoned rows older than this, at most so many; a tombstone
    /// stays. With `names` the tombstones too. Returns how many rows were touched.
    async fn purge(
        &self,
        older_than: Duration,
        what: Purge,
        limit: u32,
    ) -> Result<u64, JournalError>;

    /// How many rows stand in each state, and how old the oldest are.
    async fn gauges(&self) -> Result<Gauges, JournalError>;
}

/// A row of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId(pub i64);

/// The fencing token of a row: grows by one with each claim, with its end, and with each decision, so
/// that whoever names it knows that nothing has happened since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub i64);

/// The right to work on one row for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claim {
    /// The row.
    pub row: RowId,
    /// The token of this claim.
    pub token: Token,
}

impl Claim {
    /// A claim, as a store grants it.
    pub(crate) fn new(row: RowId, token: Token) -> Claim {
        Claim { row, token }
    }
}

/// What came of inserting an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Inserted {
    /// It is new.
    New(Claim),
    /// There is a row of this name already.
    Found(Box<Record>),
}

/// What came of a write that named a claim, or a token that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lost claim must stop the work on it"]
pub enum Held<T> {
    /// It was written.
    Yes(T),
    /// The claim is no longer ours, or the row has changed since it was seen: nothing was written.
    Lost,
}

/// Which due rows to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Due {
    /// Only rows of these scopes; of all when empty.
    pub scopes: Vec<String>,
    /// Only rows that have been due for so long already: a pass does not meet again what it put off.
    pub since: Duration,
    /// At most so many.
    pub limit: u32,
}

/// Which rows to list.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct List {
    /// Rows in one of these states, as stored; in any when empty.
    pub states: Vec<State>,
    /// Only of this scope.
    pub scope: Option<String>,
    /// Only rows after this one.
    pub after: Option<RowId>,
    /// At most so many.
    pub limit: u32,
}

impl Default for List {
    /// The first 1,000 rows in any state.
    fn default() -> List {
        List { states: Vec::new(), scope: None, after: None, limit: 1_000 }
    }
}

impl Default for Due {
    /// The 32 rows that are due longest, of any scope.
    fn default() -> Due {
        Due { scopes: Vec::new(), since: Duration::ZERO, limit: 32 }
    }
}

/// What a person decided on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Send it again: pending, due now, with fresh attempts.
    Retry,
    /// Give it up.
    Abandon,
    /// It is unknown: its window has closed.
    Unknown,
    /// It was found to have happened.
    Completed,
}

/// What to delete of old rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Purge {
    /// Bodies: a late redelivery still finds the name and mints no new key.
    Bodies,
    /// Names too: a later call of the same name is a new operation.
    Names,
}

/// How many rows stand in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gauges {
    /// Pending.
    pub pending: u64,
    /// Parked.
    pub parked: u64,
    /// Unknown.
    pub unknown: u64,
    /// Completed.
    pub completed: u64,
    /// Abandoned.
    pub abandoned: u64,
    /// The age of the oldest pending or parked row.
    pub oldest: Option<Duration>,
    /// The least that is left of the window of any pending or parked row that may have been sent.
    pub closes_first: Option<Duration>,
}

/// Why a journal could not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The store cannot be opened or used as it is; the text says what to do.
    #[error("{0}")]
    Unusable(String),
    /// The store failed; nothing of this verb was written.
    #[error("the journal failed: {0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store failed in the middle of a commit: the verb may or may not have been written.
    #[error("the journal failed while it was committing: {0}")]
    InDoubt(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A stored row cannot be read.
    #[error("row {row} of the journal cannot be read: {what}")]
    Corrupt {
        /// The row.
        row: i64,
        /// What is wrong with it.
        what: String,
    },
}

mod sealed {
    pub trait Sealed {}
}

pub(crate) use sealed::Sealed;
