//! Opening a journal.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::Semaphore;

use super::{Inner, SqliteJournal, schema};
use crate::clock::{Clock, SystemClock};
use crate::journal::JournalError;
use crate::store::sqlite::Store;

/// The pages of a new file, in bytes: of the usual 4 KiB, two operations of 1 KiB leave a quarter empty.
const PAGE: u32 = 8 * 1024;

/// Completions that may be on their way at once with [`Completions::Background`].
const MOST_IN_BACKGROUND: usize = 1024;

/// Whether [`Journal::finish`](crate::journal::Journal::finish) waits for the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Completions {
    /// It returns when the outcome is on disk, and says when the claim was lost. The default.
    #[default]
    Wait,
    /// It returns when the outcome is queued; a few hundred microseconds earlier, and sooner for the
    /// caller of the operation. A crash before it is written leaves the operation pending, so that it is
    /// sent once more under its key, inside its window: right for servers that answer a replay. A claim
    /// that was lost meanwhile is not told.
    Background,
}

/// Opens a [`SqliteJournal`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open` is awaited"]
pub struct SqliteJournalBuilder {
    path: PathBuf,
    environment: String,
    clock: Arc<dyn Clock>,
    completions: Completions,
    existing: bool,
}

impl SqliteJournal {
    /// Opens the journal in this file, in the environment `default`; creates it when it is not there.
    ///
    /// # Errors
    /// [`JournalError::Unusable`], see [`SqliteJournalBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<SqliteJournal, JournalError> {
        SqliteJournal::builder(path).open().await
    }

    /// Opens a journal otherwise than by default.
    pub fn builder(path: impl AsRef<Path>) -> SqliteJournalBuilder {
        SqliteJournalBuilder {
            path: path.as_ref().to_owned(),
            environment: "default".to_owned(),
            clock: Arc::new(SystemClock),
            completions: Completions::default(),
            existing: false,
        }
    }
}

impl SqliteJournalBuilder {
    /// What the journal belongs to: `production`, `staging`. A file is bound to it when it is created,
    /// and refused under another one, so that a restored copy sends nothing.
    pub fn environment(mut self, environment: impl Into<String>) -> Self {
        self.environment = environment.into();
        self
    }

    /// Judges times by another clock. All who open the file must agree on the time of day.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Whether a completion waits for the disk. By default it does.
    pub fn completions(mut self, completions: Completions) -> Self {
        self.completions = completions;
        self
    }

    /// Only opens a journal that is there: one that is not is an error, and is not created.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`JournalError::Unusable`] when the file is not there and has to be, cannot be created, is no SQLite database, is damaged, lies
    /// on a network file system, belongs to another environment, or was written by a newer version;
    /// [`JournalError::Failed`] when the disk fails or another process holds it locked for half a minute.
    pub async fn open(self) -> Result<SqliteJournal, JournalError> {
        let environment = self.environment;
        let existing = self.existing;
        if existing && !self.path.is_file() {
            let path = self.path.display();
            return Err(JournalError::Unusable(format!("there is no journal at {path}")));
        }
        let prepare = move |connection: &mut _| {
            if existing {
                schema::is_there(connection)?;
            }
            schema::prepare(connection, &environment)
        };
        let store = Store::open(&self.path, PAGE, prepare).await?;
        let background = match self.completions {
            Completions::Wait => None,
            Completions::Background => Some(Arc::new(Semaphore::new(MOST_IN_BACKGROUND))),
        };
        let purged = [Mutex::new(0), Mutex::new(0)];
        Ok(SqliteJournal(Arc::new(Inner { store, clock: self.clock, background, purged })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_has_to_be_there_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.journal");
        let existing = || SqliteJournal::builder(&path).existing().open();
        let refused = existing().await.unwrap_err().to_string();
        assert!(refused.contains("there is no journal"), "{refused}");
        assert!(!path.exists());

        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("CREATE TABLE of_somebody_else (id INTEGER)").unwrap();
        drop(other);
        let refused = existing().await.unwrap_err().to_string();
        assert!(refused.contains("holds no journal"), "{refused}");

        SqliteJournal::open(&path).await.unwrap().close().await;
        existing().await.unwrap();
    }
}
