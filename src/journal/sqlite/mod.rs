//! The journal in a SQLite file: the store for one machine.
//!
//! One file, `orders.journal` say, beside its `-wal` and `-shm`; several processes may have it open.
//! Tables begin with `post_once_`, so that it can be the database in which your own rows are.
//!
//! # Guarantees
//! - What a verb acknowledged is on disk: `synchronous` is `FULL`, and `fullfsync` where there is one.
//! - A fault-free operation is two durable writes, of [`insert`](Journal::insert) and
//!   [`finish`](Journal::finish). Writes at the same time share a transaction, and its flush.
//! - The file is created for its owner alone (mode 0600).
//! - A request or an answer that is no longer what was written is not handed out:
//!   [`JournalError::Corrupt`].
//! - The number of a row and the token of a claim are never used again, not even after a purge.
//!
//! # Not guaranteed
//! - Anything on a network file system. Those that Linux names as such are refused.
//! - That the order of rows is that in which several processes began them.
//! - Fullness of [`Journal::list`] where a row cannot be read: a page ends before it, and the page after
//!   begins with its error; go on after the row that it names.
//!
//! ```
//! use post_once::journal::{Journal, SqliteJournal};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("orders.journal");
//! let journal = SqliteJournal::builder(&path).environment("production").open().await?;
//! assert_eq!(journal.gauges().await?.pending, 0);
//! journal.close().await;
//!
//! let copy = SqliteJournal::builder(&path).environment("staging").open().await;
//! assert!(copy.is_err(), "a restored copy must not send");
//! # Ok(()) }
//! ```

mod builder;
mod queries;
mod row;
mod schema;
mod sum;
mod verbs;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use tokio::sync::Semaphore;

use self::verbs::{Added, Finish, Insert, Read, Written};
use super::{
    Claim, Decision, Draft, Due, Gauges, Held, Inserted, Journal, JournalError, List, Outcome,
    Purge, Record, RowId, Sealed, Token, Trail,
};
use crate::clock::Clock;
use crate::store::sqlite::{Flush, Store, StoreError, millis};

pub use builder::{Completions, SqliteJournalBuilder};

/// A journal in a SQLite file. Clones share it; the last one to go writes what is still queued.
#[derive(Clone, Debug)]
pub struct SqliteJournal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    store: Store,
    clock: Arc<dyn Clock>,
    /// With [`Completions::Background`]: how many may be on their way.
    background: Option<Arc<Semaphore>>,
    /// Up to where a purge has come: of bodies, and of names.
    purged: [Mutex<i64>; 2],
}

impl SqliteJournal {
    /// Writes what is queued, and closes the file. Whoever asks a clone afterwards is refused.
    ///
    /// Dropping the last clone does the same, but blocks its thread meanwhile.
    pub async fn close(&self) {
        self.0.store.close().await;
    }

    /// Inserts an operation for the resumer in *your* transaction: your row and the outgoing call are
    /// committed together, or neither is.
    ///
    /// The transaction must be on the file of this journal. It is as durable as your connection is:
    /// set `synchronous = FULL` on it.
    ///
    /// # Errors
    /// [`JournalError::Failed`] when it cannot be written, for instance in another file; your
    /// transaction goes on without it, so roll it back. [`JournalError::Corrupt`] when a row of this
    /// name is there and cannot be read.
    pub fn enqueue_in(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        draft: &Draft,
    ) -> Result<Inserted, JournalError> {
        let added = Insert::new(draft).run(transaction, self.0.clock.wall(), None);
        inserted(added.map_err(StoreError::from)?)
    }

    async fn write<T: Send + 'static>(
        &self,
        mut verb: impl FnMut(&rusqlite::Connection, SystemTime) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        let clock = Arc::clone(&self.0.clock);
        Ok(self.0.store.write(Flush::Now, move |connection| verb(connection, clock.wall())).await?)
    }

    async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&rusqlite::Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, JournalError> {
        Ok(self.0.store.read(query).await?)
    }

    /// What the rows mean now, up to the first that cannot be read; its error when it is the first.
    fn records(&self, rows: Vec<Read>) -> Result<Vec<Record>, JournalError> {
        let now = millis(self.0.clock.wall());
        let mut records = Vec::with_capacity(rows.len());
        for read in rows {
            match read.and_then(|stored| stored.record(now)) {
                Ok(record) => records.push(record),
                Err(error) if records.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(records)
    }

    fn finish_later(&self, finish: Finish, permit: Option<tokio::sync::OwnedSemaphorePermit>) {
        let clock = Arc::clone(&self.0.clock);
        self.0.store.write_soon(move |connection| {
            let _until_written = &permit;
            // Nobody waits for the word of a claim that was lost meanwhile.
            finish.run(connection, clock.wall()).map(|(Held::Yes(()) | Held::Lost)| ())
        });
    }
}

impl Sealed for SqliteJournal {}

#[async_trait]
impl Journal for SqliteJournal {
    async fn insert(&self, draft: &Draft, lease: Duration) -> Result<Inserted, JournalError> {
        let insert = Insert::new(draft);
        let added = self.write(move |on, now| insert.run(on, now, Some(lease))).await?;
        inserted(added)
    }

    async fn enqueue(&self, draft: &Draft) -> Result<Inserted, JournalError> {
        let insert = Insert::new(draft);
        let added = self.write(move |on, now| insert.run(on, now, None)).await?;
        inserted(added)
    }

    async fn take(
        &self,
        row: RowId,
        seen: Token,
        lease: Duration,
    ) -> Result<Held<Claim>, JournalError> {
        self.write(move |on, now| verbs::take(on, row, seen, now, lease)).await
    }

    async fn claim_due(
        &self,
        filter: &Due,
        lease: Duration,
    ) -> Result<Vec<(Claim, Record)>, JournalError> {
        let filter = filter.clone();
        let (rows, now) = self
            .write(move |on, now| {
                let rows = verbs::claim_due(on, &filter, now, lease)?;
                Ok((rows, millis(now)))
            })
            .await?;
        let mut claimed = Vec::with_capacity(rows.len());
        for read in rows {
            // One of these was set aside where it was claimed.
            let Ok(stored) = read else { continue };
            let row = stored.row;
            match stored.record(now) {
                Ok(record) => claimed.push((Claim::new(row, record.token), record)),
                Err(_) => self.write(move |on, _| verbs::set_aside(on, row.0, now)).await?,
            }
        }
        Ok(claimed)
    }

    async fn attempt(&self, claim: &Claim, trail: &Trail) -> Result<Held<()>, JournalError> {
        let (claim, trail) = (*claim, Written::new(trail));
        self.write(move |on, now| verbs::attempt(on, claim, &trail, now)).await
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Held<()>, JournalError> {
        let claim = *claim;
        self.write(move |on, now| verbs::renew(on, claim, now, lease)).await
    }

    async fn finish(&self, claim: &Claim, outcome: &Outcome) -> Result<Held<()>, JournalError> {
        let finish = Finish::new(*claim, outcome);
        let Some(background) = &self.0.background else {
            return self.write(move |on, now| finish.run(on, now)).await;
        };
        // It is never closed.
        let permit = Arc::clone(background).acquire_owned().await.ok();
        self.finish_later(finish, permit);
        Ok(Held::Yes(()))
    }

    fn finish_soon(&self, claim: Claim, outcome: Outcome) {
        self.finish_later(Finish::new(claim, &outcome), None);
    }

    async fn flush(&self) {
        // Verbs are written in their order: what was given before this one is written with it.
        if let Err(error) = self.write(|_, _| Ok(())).await {
            tracing::warn!(%error, "what was to be written down may not have been");
        }
    }

    async fn by_row(&self, row: RowId) -> Result<Option<Record>, JournalError> {
        let found = self.read(move |on| verbs::by_row(on, row)).await?;
        Ok(self.records(found.into_iter().collect())?.pop())
    }

    async fn by_name(&self, scope: &str, name: &str) -> Result<Option<Record>, JournalError> {
        let (scope, name) = (scope.to_owned(), name.to_owned());
        let found = self.read(move |on| verbs::by_name(on, &scope, &name)).await?;
        Ok(self.records(found.into_iter().collect())?.pop())
    }

    async fn by_key(&self, key: &str) -> Result<Vec<Record>, JournalError> {
        let key = key.to_owned();
        let found = self.read(move |on| queries::by_key(on, &key)).await?;
        self.records(found)
    }

    async fn list(&self, filter: &List) -> Result<Vec<Record>, JournalError> {
        let filter = filter.clone();
        let found = self.read(move |on| queries::list(on, &filter)).await?;
        self.records(found)
    }

    async fn decide(
        &self,
        row: RowId,
        seen: Token,
        decision: Decision,
    ) -> Result<Held<()>, JournalError> {
        self.write(move |on, now| verbs::decide(on, row, seen, decision, now)).await
    }

    async fn purge(
        &self,
        older_than: Duration,
        what: Purge,
        limit: u32,
    ) -> Result<u64, JournalError> {
        let before = queries::before(self.0.clock.wall(), older_than);
        let place = &self.0.purged[usize::from(what == Purge::Names)];
        let from = *place.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = self
            .read(move |on| {
                // From where the last batch ended, and once around: what lies before was passed by.
                let mut rows = queries::purgeable(on, what, from, before, limit)?;
                let left = limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX));
                if from > 0 && left > 0 {
                    let passed = queries::purgeable(on, what, 0, before, left)?;
                    rows.extend(passed.into_iter().filter(|row| *row <= from));
                }
                Ok(rows)
            })
            .await?;
        *place.lock().unwrap_or_else(PoisonError::into_inner) = rows.last().copied().unwrap_or(0);
        self.write(move |on, _| queries::purge(on, what, &rows, before)).await
    }

    async fn gauges(&self) -> Result<Gauges, JournalError> {
        let now = self.0.clock.wall();
        self.read(move |on| queries::gauges(on, now)).await
    }
}

fn inserted(added: Added) -> Result<Inserted, JournalError> {
    match added {
        Added::New(claim) => Ok(Inserted::New(claim)),
        Added::Found(read, now) => {
            let record = (*read)?.record(millis(now))?;
            Ok(Inserted::Found(Box::new(record)))
        }
    }
}

impl From<StoreError> for JournalError {
    fn from(error: StoreError) -> JournalError {
        match error {
            StoreError::Unusable(what) => JournalError::Unusable(what),
            StoreError::Failed(source) => JournalError::Failed(Box::new(source)),
            StoreError::InDoubt(source) => JournalError::InDoubt(Box::new(source)),
        }
    }
}
