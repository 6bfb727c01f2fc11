//! Opening the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Inner, SqliteClaims, schema};
use crate::clock::{Clock, SystemClock};
use crate::server::store::ClaimError;
use crate::store::sqlite::Store;

/// The pages of a new file, in bytes. A key that is claimed or swept changes a page of its own in the index of the
/// names, all of which is written.
const PAGE: u32 = 4 * 1024;

/// Opens a [`SqliteClaims`].
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before `open` is awaited"]
pub struct SqliteClaimsBuilder {
    path: PathBuf,
    clock: Arc<dyn Clock>,
}

impl SqliteClaims {
    /// Opens the store in this file; creates it when it is not there.
    ///
    /// # Errors
    /// [`ClaimError::Unusable`], see [`SqliteClaimsBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<SqliteClaims, ClaimError> {
        SqliteClaims::builder(path).open().await
    }

    /// Opens a store otherwise than by default.
    pub fn builder(path: impl AsRef<Path>) -> SqliteClaimsBuilder {
        SqliteClaimsBuilder { path: path.as_ref().to_owned(), clock: Arc::new(SystemClock) }
    }
}

impl SqliteClaimsBuilder {
    /// Judges times by another clock. All who open the file must agree on the time of day.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens it.
    ///
    /// # Errors
    /// [`ClaimError::Unusable`] when the file cannot be created, is no SQLite database, is damaged, lies on a
    /// network file system, or was written by a newer version; [`ClaimError::Failed`] when the disk fails
    /// or another process holds it locked for half a minute.
    pub async fn open(self) -> Result<SqliteClaims, ClaimError> {
        let store = Store::open(&self.path, PAGE, schema::prepare).await?;
        Ok(SqliteClaims(Arc::new(Inner { store, clock: self.clock })))
    }
}
