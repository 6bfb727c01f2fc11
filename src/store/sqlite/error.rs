//! Why the file could not be opened, read or written.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::ErrorCode;
use thiserror::Error;

/// What went wrong, by what is known of the write.
#[derive(Clone, Debug, Error)]
pub(crate) enum StoreError {
    /// It cannot be used as it is; the text says what to do.
    #[error("{0}")]
    Unusable(String),
    /// Nothing was written.
    #[error("{0}")]
    Failed(#[source] Arc<dyn std::error::Error + Send + Sync>),
    /// It may or may not have been written.
    #[error("{0}")]
    InDoubt(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    pub(super) fn failed(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
        StoreError::Failed(Arc::new(error))
    }

    pub(super) fn in_doubt(error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
        StoreError::InDoubt(Arc::new(error))
    }

    /// How a commit failed. It is not written when a page of it could not be: the frame that commits is
    /// the last one. What failed while it was flushed may be there after a crash.
    pub(super) fn of_commit(error: rusqlite::Error) -> StoreError {
        let written = |error: &rusqlite::Error| {
            let code = error.sqlite_error().map(|error| error.extended_code);
            code == Some(rusqlite::ffi::SQLITE_IOERR_WRITE)
        };
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy | ErrorCode::OutOfMemory) => {
                StoreError::failed(error)
            }
            _ if written(&error) => StoreError::failed(error),
            _ => StoreError::in_doubt(error),
        }
    }

    /// The error of somebody who asked after the store was closed.
    pub(super) fn closed() -> StoreError {
        StoreError::Unusable("it was closed; open it again".to_owned())
    }

    /// The error of a file that is something else.
    pub(super) fn no_database(path: &Path) -> StoreError {
        StoreError::Unusable(format!(
            "{} is not a SQLite database: give another path, or move the file away",
            path.display()
        ))
    }

    /// The error of a file that is not what was written.
    pub(super) fn damaged(path: &Path, what: impl fmt::Display) -> StoreError {
        let path = path.display();
        StoreError::Unusable(format!(
            "{path} is damaged ({what}): stop what uses it, copy it with its -wal file, and save what \
             can be read with `sqlite3 {path} .recover`"
        ))
    }

    /// Says what to do where the file itself is broken.
    pub(super) fn of(self, path: &Path) -> StoreError {
        let (StoreError::Failed(source) | StoreError::InDoubt(source)) = &self else {
            return self;
        };
        let code = source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
        if code == Some(ErrorCode::NotADatabase) {
            return StoreError::no_database(path);
        }
        if code == Some(ErrorCode::DatabaseCorrupt) {
            return StoreError::damaged(path, source);
        }
        let path = path.display();
        match code {
            Some(ErrorCode::ReadOnly) => StoreError::Unusable(format!(
                "{path} cannot be written ({source}): make file and folder writable for this user"
            )),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                StoreError::Unusable(format!(
                    "{path} cannot be opened ({source}): give a file in a folder that this user may \
                     write"
                ))
            }
            _ => self,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::failed(error)
    }
}
