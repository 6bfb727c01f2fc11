//! Why the file could not be opened, read or written.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::{ErrorCode, ffi};
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
    /// the last one. What failed while it was flushed, or put into the index of the log afterwards, may be
    /// there after a crash.
    pub(super) fn of_commit(error: rusqlite::Error) -> StoreError {
        let code = error.sqlite_error().map(|error| error.extended_code);
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull | ErrorCode::DatabaseBusy) => StoreError::failed(error),
            _ if code == Some(ffi::SQLITE_IOERR_WRITE) => StoreError::failed(error),
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

    /// Says what to do where the file itself is broken. What is in doubt stays so.
    pub(super) fn of(self, path: &Path) -> StoreError {
        let (StoreError::Failed(source) | StoreError::InDoubt(source)) = &self else {
            return self;
        };
        let code = source.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
        let shown = path.display();
        let told = match code {
            Some(ErrorCode::NotADatabase) => StoreError::no_database(path),
            Some(ErrorCode::DatabaseCorrupt) => StoreError::damaged(path, source),
            Some(ErrorCode::ReadOnly) => StoreError::Unusable(format!(
                "{shown} cannot be written ({source}): make file and folder writable for this user"
            )),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                StoreError::Unusable(format!(
                    "{shown} cannot be opened ({source}): give a file in a folder that this user may \
                     write"
                ))
            }
            _ => return self,
        };
        match self {
            StoreError::InDoubt(_) => StoreError::in_doubt(told),
            _ => told,
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> StoreError {
        StoreError::failed(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    /// Every code that a commit meets after its last frame leaves it in doubt; what else is not known too.
    #[test]
    fn only_a_commit_that_was_not_written_has_failed() {
        for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_FULL, ffi::SQLITE_BUSY] {
            assert!(matches!(StoreError::of_commit(error(code)), StoreError::Failed(_)), "{code}");
        }
        for code in [
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_SHMSIZE,
            ffi::SQLITE_IOERR_SHMMAP,
            ffi::SQLITE_IOERR_NOMEM,
            ffi::SQLITE_NOMEM,
            ffi::SQLITE_IOERR,
            ffi::SQLITE_CORRUPT,
            ffi::SQLITE_READONLY,
        ] {
            assert!(matches!(StoreError::of_commit(error(code)), StoreError::InDoubt(_)), "{code}");
        }
        let other = StoreError::of_commit(rusqlite::Error::QueryReturnedNoRows);
        assert!(matches!(other, StoreError::InDoubt(_)));
    }

    #[test]
    fn what_to_do_about_a_file_takes_no_doubt_away() {
        let path = Path::new("a.journal");
        for (code, told) in [
            (ffi::SQLITE_NOTADB, "is not a SQLite database"),
            (ffi::SQLITE_CORRUPT, "is damaged"),
            (ffi::SQLITE_READONLY, "cannot be written"),
            (ffi::SQLITE_CANTOPEN, "cannot be opened"),
        ] {
            let of = StoreError::failed(error(code)).of(path);
            assert!(matches!(&of, StoreError::Unusable(what) if what.contains(told)), "{of}");
            let of = StoreError::in_doubt(error(code)).of(path);
            assert!(matches!(of, StoreError::InDoubt(_)) && of.to_string().contains(told), "{of}");
        }
        let of = StoreError::failed(error(ffi::SQLITE_IOERR_READ)).of(path);
        assert!(matches!(of, StoreError::Failed(_)));
    }
}
