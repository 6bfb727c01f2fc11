//! How long the write-ahead log is.
//!
//! Its file says nothing: it is begun anew in place. What belongs to it is told by the salt that its head
//! and each of its frames carry (SQLite file format, section 4: the WAL file format). SQLite would tell
//! it to a hook, whose type is another one in each version of its driver.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The head of the log, and that of a frame, in bytes.
const HEAD: u64 = 32;
const FRAME_HEAD: u64 = 24;
/// Where the salt is in each of them.
const SALT: u64 = 16;
const FRAME_SALT: u64 = 8;

/// The log of a file, read beside SQLite. It holds no locks on it, so that none are lost by closing it.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    page: u64,
    file: Option<File>,
}

impl Log {
    /// The log of this database, of this page size.
    pub(super) fn of(database: &Path, page: u64) -> Log {
        let mut path = OsString::from(database);
        path.push("-wal");
        Log { path: path.into(), page, file: None }
    }

    /// Whether it has so many frames. One that cannot be read has none.
    pub(super) fn reaches(&mut self, frames: u64) -> bool {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let (page, last) = (self.page, frames.saturating_sub(1));
        let Some(file) = &mut self.file else { return false };
        let frame = HEAD + last * (FRAME_HEAD + page) + FRAME_SALT;
        match (read(file, SALT), read(file, frame)) {
            (Ok(salt), Ok(of_frame)) => salt == of_frame,
            (Err(_), _) | (_, Err(_)) => false,
        }
    }
}

fn read(file: &mut File, at: u64) -> io::Result<[u8; 8]> {
    let mut bytes = [0; 8];
    file.seek(SeekFrom::Start(at))?;
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn a_log_that_was_begun_anew_is_short_though_its_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let connection = Connection::open(&path).unwrap();
        let mode = |sql| connection.query_row(sql, [], |_| Ok(())).unwrap();
        mode("PRAGMA journal_mode = wal");
        connection.execute_batch("PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)").unwrap();
        let insert = || connection.execute("INSERT INTO t VALUES (zeroblob(100000))", []).unwrap();
        let mut log = Log::of(&path, 4096);
        for _ in 0..4 {
            insert();
        }
        assert!(log.reaches(1) && log.reaches(100) && !log.reaches(1_000));
        mode("PRAGMA wal_checkpoint(RESTART)");
        insert();
        assert!(log.reaches(1) && log.reaches(25) && !log.reaches(100), "the rest is of before");
        assert!(!Log::of(&folder.path().join("y"), 4096).reaches(1), "there is none");
    }
}
