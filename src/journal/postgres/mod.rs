//! The store in PostgreSQL: a fleet of processes on one journal.
//!
//! The rule:
//!
//! 1. It lives in a schema of its own (`post_once`), in your database, reached through your pool. Each
//!    [`PostgresJournal`] takes a few connections out of the pool for good, its writers; reads that may
//!    take longer borrow one.
//! 2. What is asked while a writer is busy is its next statement: up to 256 verbs, one round trip.
//! 3. Only the server's clock counts, to the microsecond and without time zones. The moment of a verb is
//!    that of its statement.
//! 4. While the server is away, or restarts, verbs wait, for 30 seconds unless told otherwise. One whose
//!    commit was in doubt is looked up, never guessed and never doubled.
//!
//! # Guarantees
//! - Those of the [journal](super), by the commit of the database: `synchronous_commit` is never off on
//!   the writers' connections, whatever the default is.
//! - An operation is written once even where the connection was lost in the middle of its insert: the
//!   lost session has come to its end before the row is looked for.
//! - Opening is safe twice and at once: migrations run under a lock. A schema of a newer program, another
//!   environment, a read-only server, one that is too old: each is refused with what to do.
//!
//! # Not guaranteed
//! - What the server does not keep: `fsync = off`, or a failover to a standby that lags behind, loses what
//!   was acknowledged.
//! - Claims of [`Journal::claim_due`] whose answer was lost on the way are found again only when their
//!   lease is over.
//! - A pooler between us and the server that hands one session to many clients (transaction pooling)
//!   breaks the session's lock that the second guarantee stands on: connect past it.
//!
//! ```no_run
//! use post_once::journal::PostgresJournal;
//! use sqlx::PgPool;
//!
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PgPool::connect("postgres://app@db.example/shop").await?;
//! let journal = PostgresJournal::builder(pool).environment("production").build().await?;
//! # let _ = journal; Ok(()) }
//! ```
//!
//! # From other drivers and languages
//!
#![doc = include_str!("enqueue.md")]

mod builder;
mod claim;
mod enqueue;
mod insert;
mod purge;
mod read;
mod row;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{PgConnection, PgPool};

use super::{
    Claim, Decision, Draft, Due, Gauges, Held, Inserted, Journal, JournalError, List, Outcome,
    Purge, Record, RowId, Sealed, Token, Trail,
};
use crate::store::postgres::{Database, Lanes, Schema, Trouble};
use insert::Insert;
use write::{Answer, Verb, Writes, mark};

pub use builder::PostgresJournalBuilder;

/// A journal in PostgreSQL. Clones share their writers, which end with the last of them.
#[derive(Clone)]
pub struct PostgresJournal {
    schema: Schema,
    database: Database,
    lanes: Lanes<Writes>,
    /// The row up to which bodies were purged in this round.
    purged: Arc<AtomicI64>,
}

impl PostgresJournal {
    /// Opens the journal in the schema `post_once`, and makes it when it is not there.
    ///
    /// # Errors
    /// As [`PostgresJournalBuilder::build`].
    pub async fn connect(pool: PgPool) -> Result<PostgresJournal, JournalError> {
        PostgresJournal::builder(pool).build().await
    }

    /// Opens the journal with other settings.
    pub fn builder(pool: PgPool) -> PostgresJournalBuilder {
        PostgresJournalBuilder::new(pool)
    }

    /// Enqueues an operation in the caller's own transaction: it is there when that commits, and never
    /// was when it does not.
    ///
    /// A row of the same name by another transaction that is still open is waited for.
    ///
    /// # Errors
    /// When the database refuses it; the caller's transaction is then to be rolled back.
    pub async fn enqueue_in(
        &self,
        transaction: &mut PgConnection,
        draft: &Draft,
    ) -> Result<Inserted, JournalError> {
        fits(draft)?;
        insert::insert_in(transaction, &self.schema, draft)
            .await
            .map_err(|error| JournalError::Failed(Box::new(error)))?
    }

    async fn add(&self, draft: &Draft, lease: Option<Duration>) -> Result<Inserted, JournalError> {
        fits(draft)?;
        match self.lanes.ask(Verb::Insert(Insert::new(draft, lease))).await? {
            Answer::Inserted(inserted) => inserted,
            Answer::Held(_) | Answer::Rows(_) => unreachable!("an insert is answered as one"),
        }
    }

    async fn held(&self, verb: Verb) -> Result<Held<()>, JournalError> {
        match self.lanes.ask(verb).await? {
            Answer::Held(true) => Ok(Held::Yes(())),
            Answer::Held(false) => Ok(Held::Lost),
            Answer::Inserted(_) | Answer::Rows(_) => unreachable!("a claim's write is answered so"),
        }
    }
}

impl fmt::Debug for PostgresJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresJournal")
            .field("schema", &self.schema.name())
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl From<Trouble> for JournalError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unusable(what) => JournalError::Unusable(what),
            Trouble::Failed(error) => JournalError::Failed(Box::new(error)),
            Trouble::InDoubt(error) => JournalError::InDoubt(Box::new(error)),
        }
    }
}

/// Scope and name together, in bytes: what an index entry holds.
const LONGEST_NAME: usize = 2000;

/// What the columns can hold, asked before it is queued among others.
fn fits(draft: &Draft) -> Result<(), JournalError> {
    let name = draft.name.as_deref().unwrap_or_default();
    if [&draft.scope, name, &draft.key].iter().any(|text| text.contains('\0')) {
        let what = "a scope, name or key with a NUL cannot be stored in Postgres: leave it out";
        return Err(JournalError::Failed(what.into()));
    }
    if draft.scope.len() + name.len() > LONGEST_NAME {
        let what = format!("scope and name have at most {LONGEST_NAME} bytes in Postgres together");
        return Err(JournalError::Failed(what.into()));
    }
    Ok(())
}

impl Sealed for PostgresJournal {}

#[async_trait]
impl Journal for PostgresJournal {
    async fn insert(&self, draft: &Draft, lease: Duration) -> Result<Inserted, JournalError> {
        self.add(draft, Some(lease)).await
    }

    async fn enqueue(&self, draft: &Draft) -> Result<Inserted, JournalError> {
        self.add(draft, None).await
    }

    async fn take(
        &self,
        row: RowId,
        seen: Token,
        lease: Duration,
    ) -> Result<Held<Claim>, JournalError> {
        claim::take(self, row, seen, lease).await
    }

    async fn claim_due(
        &self,
        filter: &Due,
        lease: Duration,
    ) -> Result<Vec<(Claim, Record)>, JournalError> {
        claim::due(self, filter, lease).await
    }

    async fn attempt(&self, claim: &Claim, trail: &Trail) -> Result<Held<()>, JournalError> {
        self.held(Verb::Attempt { claim: *claim, trail: trail.clone() }).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Held<()>, JournalError> {
        self.held(Verb::Renew { claim: *claim, lease }).await
    }

    async fn finish(&self, claim: &Claim, outcome: &Outcome) -> Result<Held<()>, JournalError> {
        let outcome = outcome.clone();
        self.held(Verb::Finish { claim: *claim, outcome, wrote: mark() }).await
    }

    fn finish_soon(&self, claim: Claim, outcome: Outcome) {
        self.lanes.tell(Verb::Finish { claim, outcome, wrote: mark() });
    }

    async fn flush(&self) {
        self.lanes.flush().await;
    }

    async fn by_row(&self, row: RowId) -> Result<Option<Record>, JournalError> {
        read::by_row(self, row).await
    }

    async fn by_name(&self, scope: &str, name: &str) -> Result<Option<Record>, JournalError> {
        read::by_name(self, scope, name).await
    }

    async fn by_key(&self, key: &str) -> Result<Vec<Record>, JournalError> {
        read::by_key(self, key).await
    }

    async fn list(&self, filter: &List) -> Result<Vec<Record>, JournalError> {
        read::list(self, filter).await
    }

    async fn decide(
        &self,
        row: RowId,
        seen: Token,
        decision: Decision,
    ) -> Result<Held<()>, JournalError> {
        claim::decide(self, row, seen, decision).await
    }

    async fn purge(
        &self,
        older_than: Duration,
        what: Purge,
        limit: u32,
    ) -> Result<u64, JournalError> {
        purge::purge(self, older_than, what, limit).await
    }

    async fn gauges(&self) -> Result<Gauges, JournalError> {
        read::gauges(self).await
    }
}
