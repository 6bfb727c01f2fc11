//! Where keys, claims and answers are kept.
//!
//! # Guarantees
//! - A claim is one atomic insert-or-fetch: of any number at once, in any number of processes, exactly one wins.
//!   When it returns the end of no process undoes it, nor that of a machine on which workers are not.
//! - All other writes are durable when they return, as far as the store is.
//! - Every write of a worker names its [`Holder`], whose token no one else has ever had. After the claim was
//!   lost nothing of it is written any more, and it is told so: [`Held::Lost`].
//! - Times are durations and what is left of them, by one clock of the store's own.
//!
//! # Not guaranteed
//! - That a worker who lost its claim has stopped: a paused process cannot know that it is late. Only what it
//!   writes through the store, or in a transaction with its answer, is refused.

mod memory;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use thiserror::Error;

pub use memory::MemoryClaims;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresClaims, PostgresClaimsBuilder};
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::Undone;
#[cfg(feature = "sqlite")]
pub use {
    rusqlite,
    sqlite::{SqliteClaims, SqliteClaimsBuilder},
};

use super::answer::StoredAnswer;
use super::claim::{RecoveryPoint, Seen};
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;

/// Where keys are kept. Implemented by this crate's stores only, for as long as it is young.
#[async_trait]
pub trait ClaimStore: sealed::Sealed + fmt::Debug + Send + Sync + 'static {
    /// Claims the key, or says why not; by the rule of [`claim`](super::claim::claim), in one atomic step.
    /// "There is a row, but none can be seen" is never a claim.
    async fn claim(&self, ask: &Ask) -> Result<Claimed, ClaimError>;

    /// Extends the lease, from now.
    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Held<()>, ClaimError>;

    /// Writes down how far the work has come, and extends the lease.
    async fn checkpoint(
        &self,
        holder: &Holder,
        point: &RecoveryPoint,
        lease: Duration,
    ) -> Result<Held<()>, ClaimError>;

    /// Ends the claim with its answer, kept for so long from now.
    async fn complete(
        &self,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError>;

    /// Gives the claim up, so that the next request with this key is run: at once, from its recovery
    /// point if it has one. It is held no longer.
    async fn release(&self, holder: &Holder) -> Result<Held<()>, ClaimError>;

    /// The row of this key.
    async fn look(&self, name: &Name) -> Result<Option<Row>, ClaimError>;

    /// Rows that need a person: nobody works on them, and either nobody may, or their retention is over
    /// before they came to an end. In the order of their names, after the one given, at most so many.
    async fn list(&self, after: Option<&Name>, limit: u32) -> Result<Vec<Row>, ClaimError>;

    /// Settles a row that nobody works on, seen with this token, as a person decided.
    async fn settle(&self, seen: &Holder, decision: &Decision) -> Result<Held<()>, ClaimError>;

    /// Deletes rows that may be forgotten, at most so many. Never one that somebody works on. Returns how
    /// many were deleted.
    async fn sweep(&self, limit: u32) -> Result<u64, ClaimError>;
}

/// What names a row: whose key it is, and the key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Name {
    /// Who asks: an account, a tenant. The same key of two principals is two keys.
    pub principal: String,
    /// The key.
    pub key: String,
}

impl Name {
    /// The key of a principal.
    #[must_use]
    pub fn new(principal: impl Into<String>, key: &IdempotencyKey) -> Name {
        Name { principal: principal.into(), key: key.to_string() }
    }
}

impl fmt::Debug for Name {
    /// Without the principal, which may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Name").field("key", &self.key).finish_non_exhaustive()
    }
}

/// The token of one run: random, so that it is never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub i64);

impl Token {
    /// A new one.
    #[must_use]
    pub fn mint() -> Token {
        Token(rand::random())
    }
}

/// Who works on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The row.
    pub name: Name,
    /// The token of this run.
    pub token: Token,
}

impl Holder {
    /// The holder of a row.
    #[must_use]
    pub fn new(name: Name, token: Token) -> Holder {
        Holder { name, token }
    }
}

/// What to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ask {
    /// The row, and the token that its run is to have.
    pub holder: Holder,
    /// What is asked for.
    pub fingerprint: Fingerprint,
    /// How long the worker may be silent.
    pub lease: Duration,
    /// How long the key is remembered, should it never be answered.
    pub retention: Duration,
}

impl Ask {
    /// A claim to make.
    #[must_use]
    pub fn new(
        holder: Holder,
        fingerprint: Fingerprint,
        lease: Duration,
        retention: Duration,
    ) -> Ask {
        Ask { holder, fingerprint, lease, retention }
    }
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claimed {
    /// It is ours: run it.
    Won {
        /// Which run it is: 1 for the first.
        run: u32,
        /// How far a worker that died had come.
        point: Option<RecoveryPoint>,
    },
    /// It was answered before.
    Answered(StoredAnswer),
    /// Somebody works on it.
    InProgress {
        /// What is left of the lease.
        lease_left: Duration,
    },
    /// The key belongs to another request.
    Mismatch,
    /// Only a person can tell what happened.
    Reconcile,
}

/// What came of a write that named a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a lost claim must stop the work on it"]
pub enum Held<T> {
    /// It was written.
    Yes(T),
    /// The claim is no longer ours: nothing was written.
    Lost,
}

/// A row, as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Row {
    /// The row, and the token of its last run.
    pub holder: Holder,
    /// What the rule sees of it.
    pub seen: Seen,
    /// Since when it is there.
    pub age: Duration,
    /// Its answer.
    pub answer: Option<StoredAnswer>,
}

/// What a person decided on a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It has not happened, or may happen again: the next request with this key is run, from its recovery
    /// point if it has one.
    RunAgain,
    /// It has happened: this is its answer, kept for so long from now.
    Answer(StoredAnswer, Duration),
    /// Forget the key.
    Forget,
}

/// Why a store could not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClaimError {
    /// The store cannot be opened or used as it is; the text says what to do.
    #[error("{0}")]
    Unusable(String),
    /// The store failed; nothing of this verb was written.
    #[error("the store of keys failed: {0}")]
    Failed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The store failed in the middle of a commit: the verb may or may not have been written.
    #[error("the store of keys failed while it was committing: {0}")]
    InDoubt(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The claim is no longer ours; nothing was written. Stop, and roll back what is not committed: another
    /// worker has taken it over, or will.
    #[error("the claim was lost to another worker: nothing was written, stop and roll back")]
    Lost,
    /// A stored row cannot be read.
    #[error("the row of key {key} cannot be read: {what}")]
    Corrupt {
        /// The key.
        key: String,
        /// What is wrong with it.
        what: String,
    },
}

mod sealed {
    pub trait Sealed {
        /// The store itself, for what only one kind of store can do.
        fn as_any(&self) -> &dyn std::any::Any;
    }
}

pub(crate) use sealed::Sealed;
