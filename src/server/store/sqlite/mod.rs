//! The store in a SQLite file: for one machine, durable.
//!
//! One file beside its `-wal` and `-shm`; several processes may have it open. Tables begin with
//! `post_once_`, so that it can be the database in which your own rows are: then
//! [`SqliteClaims::complete_in`] commits effect and answer together.
//!
//! # Guarantees
//! - What a verb acknowledged outlives every process. Answers, recovery points and decisions are on disk then:
//!   `synchronous` is `FULL`, and `fullfsync` where there is one. What is claimed, renewed, released and swept
//!   gets there with the next of them: a machine that fails takes all workers with it, and a request whose claim
//!   it lost is run again, as it would be after its lease.
//! - A request that goes well is two writes, of [`claim`](ClaimStore::claim) and
//!   [`complete`](ClaimStore::complete), and one flush. Writes at the same time share a transaction, and its
//!   flush.
//! - The file is created for its owner alone (mode 0600).
//! - A row that is no longer what was written is neither run nor given again: [`ClaimError::Corrupt`].
//!   It is not swept either.
//!
//! # Not guaranteed
//! - Anything on a network file system. Those that Linux names as such are refused.
//! - Leases and retention where the time of day is stepped: they are longer or shorter by that much. All
//!   processes that have the file open must agree on it.
//! - That a row is found whose entry in an index was damaged. `PRAGMA integrity_check` tells.
//! - Fullness of [`list`](ClaimStore::list) where a row cannot be read: a page ends before it, and the
//!   page after begins with its error.
//!
//! ```
//! use std::time::Duration;
//! use http::Method;
//! use post_once::IdempotencyKey;
//! use post_once::fingerprint::Fingerprint;
//! use post_once::server::store::{Ask, ClaimStore, Claimed, Holder, Name, SqliteClaims, Token};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("claims.db");
//! let (lease, retention) = (Duration::from_secs(30), Duration::from_secs(86_400));
//! let ask = || -> Result<Ask, Box<dyn std::error::Error>> {
//!     let name = Name::new("acct_1", &IdempotencyKey::parse("order-42")?);
//!     let fingerprint = Fingerprint::new(&Method::POST, "/charges", None, b"{}");
//!     Ok(Ask::new(Holder::new(name, Token::mint()), fingerprint, lease, retention))
//! };
//! let claims = SqliteClaims::open(&path).await?;
//! assert_eq!(claims.claim(&ask()?).await?, Claimed::Won { run: 1, point: None });
//! claims.close().await;
//!
//! let claims = SqliteClaims::open(&path).await?;
//! assert!(matches!(claims.claim(&ask()?).await?, Claimed::InProgress { .. }), "it is kept");
//! # Ok(()) }
//! ```

mod builder;
mod row;
mod schema;
mod verbs;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use self::row::{Read, Written};
use self::verbs::Settle;
pub(crate) use self::verbs::Undone;
use super::{Ask, ClaimError, ClaimStore, Claimed, Decision, Held, Holder, Name, Row, Sealed};
use crate::clock::Clock;
use crate::server::answer::StoredAnswer;
use crate::server::claim::RecoveryPoint;
use crate::store::sqlite::{Flush, Store, StoreError};

pub use builder::SqliteClaimsBuilder;

/// A store of keys in a SQLite file. Clones share it; the last one to go writes what is still queued.
#[derive(Clone, Debug)]
pub struct SqliteClaims(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
}

impl SqliteClaims {
    /// Writes what is queued, and closes the file. Whoever asks a clone afterwards is refused.
    ///
    /// Dropping the last clone does the same, but blocks its thread meanwhile.
    pub async fn close(&self) {
        self.0.store.close().await;
    }

    /// Ends the claim with its answer in *your* transaction: the effect of the request, if it is rows of
    /// this file, and its answer are committed together, or neither is. So a crash leaves either nothing, and
    /// the request is run again, or both, and it is answered.
    ///
    /// The transaction must be on the file of this store. It is as durable as your connection is: set
    /// `synchronous = FULL` on it. One that read before another process wrote cannot write any more:
    /// begin it as `IMMEDIATE`.
    ///
    /// At [`Held::Lost`] somebody else works on the request, or has answered it: roll back.
    ///
    /// # Errors
    /// [`ClaimError::Failed`] when it cannot be written, for instance in another file, and
    /// [`ClaimError::Corrupt`] when the row cannot be read; your transaction goes on without it, so roll
    /// it back.
    pub fn complete_in(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError> {
        let (answer, now) = (Written::new(answer), self.0.clock.wall());
        verbs::complete(transaction, holder, &answer, retention, now).map_err(StoreError::from)?
    }

    /// Does work on the connection of the store, and ends the claim with the answer that comes of it, in one
    /// transaction, which it shares with what others write at the same time.
    pub(crate) async fn transact<T, E>(
        &self,
        holder: &Holder,
        retention: Duration,
        mut work: impl FnMut(&rusqlite::Connection) -> Result<(T, StoredAnswer), E> + Send + 'static,
    ) -> Result<T, Undone<E>>
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        let (clock, holder) = (Arc::clone(&self.0.clock), holder.clone());
        let transact = move |on: &rusqlite::Connection| {
            let work = |on: &_| work(on).map(|(value, answer)| (value, Written::new(&answer)));
            verbs::transact(on, &holder, retention, clock.wall(), work)
        };
        self.0
            .store
            .write(Flush::Now, transact)
            .await
            .map_err(|error| Undone::Store(error.into()))?
    }

    async fn write<T: Send + 'static>(
        &self,
        flush: Flush,
        mut verb: impl FnMut(&rusqlite::Connection, SystemTime) -> rusqlite::Result<Read<T>>
        + Send
        + 'static,
    ) -> Result<T, ClaimError> {
        let clock = Arc::clone(&self.0.clock);
        self.0.store.write(flush, move |connection| verb(connection, clock.wall())).await?
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection, SystemTime) -> rusqlite::Result<Read<T>>
        + Send
        + 'static,
    ) -> Result<T, ClaimError> {
        let clock = Arc::clone(&self.0.clock);
        self.0.store.read(move |connection| query(connection, clock.wall())).await?
    }
}

impl Sealed for SqliteClaims {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

/// What is flushed later may be lost with the machine: it takes all workers with it, so that who worked on what is of
/// no use any more, and what was swept is swept again.
#[async_trait]
impl ClaimStore for SqliteClaims {
    async fn claim(&self, ask: &Ask) -> Result<Claimed, ClaimError> {
        let ask = ask.clone();
        self.write(Flush::Later, move |on, now| verbs::claim(on, &ask, now)).await
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Held<()>, ClaimError> {
        let holder = holder.clone();
        self.write(Flush::Later, move |on, now| verbs::renew(on, &holder, lease, now)).await
    }

    async fn checkpoint(
        &self,
        holder: &Holder,
        point: &RecoveryPoint,
        lease: Duration,
    ) -> Result<Held<()>, ClaimError> {
        let (holder, point) = (holder.clone(), point.clone());
        self.write(Flush::Now, move |on, now| verbs::checkpoint(on, &holder, &point, lease, now))
            .await
    }

    async fn complete(
        &self,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError> {
        let (holder, answer) = (holder.clone(), Written::new(answer));
        self.write(Flush::Now, move |on, now| verbs::complete(on, &holder, &answer, retention, now))
            .await
    }

    async fn release(&self, holder: &Holder) -> Result<Held<()>, ClaimError> {
        let holder = holder.clone();
        self.write(Flush::Later, move |on, now| verbs::release(on, &holder, now)).await
    }

    async fn look(&self, name: &Name) -> Result<Option<Row>, ClaimError> {
        let name = name.clone();
        self.read(move |on, now| verbs::look(on, &name, now)).await
    }

    async fn list(&self, after: Option<&Name>, limit: u32) -> Result<Vec<Row>, ClaimError> {
        let after = after.cloned();
        self.read(move |on, now| verbs::list(on, after.as_ref(), limit, now)).await
    }

    async fn settle(&self, seen: &Holder, decision: &Decision) -> Result<Held<()>, ClaimError> {
        let seen = seen.clone();
        let decision = match decision {
            Decision::RunAgain => Settle::RunAgain,
            Decision::Answer(answer, retention) => Settle::Answer(Written::new(answer), *retention),
            Decision::Forget => Settle::Forget,
        };
        self.write(Flush::Now, move |on, now| verbs::settle(on, &seen, &decision, now)).await
    }

    async fn sweep(&self, limit: u32) -> Result<u64, ClaimError> {
        self.write(Flush::Later, move |on, now| verbs::sweep(on, limit, now).map(Ok)).await
    }
}

impl From<StoreError> for ClaimError {
    fn from(error: StoreError) -> ClaimError {
        match error {
            StoreError::Unusable(what) => ClaimError::Unusable(what),
            StoreError::Failed(source) => ClaimError::Failed(Box::new(source)),
            StoreError::InDoubt(source) => ClaimError::InDoubt(Box::new(source)),
        }
    }
}
