//! Opening the file.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, busy, filesystem};

/// The page cache of each connection, in KiB.
const CACHE_KIB: i32 = 8 * 1024;
/// The least that a database has, in bytes.
const HEADER: u64 = 100;
/// Statements that a connection keeps ready.
const STATEMENTS: usize = 64;

/// The whole path, so that a change of the working directory means nothing, and that no name is taken
/// for an address or for a database in memory.
pub(super) fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(|error| unusable(path, &error))
}

/// Creates the file, for its owner alone and with pages of so many bytes, unless it is there; and opens it in
/// write-ahead mode.
pub(super) fn create(path: &Path, page: u32) -> Result<Connection, StoreError> {
    filesystem::check(path)?;
    let mut options = OpenOptions::new();
    // A file that is there is never opened and closed here: closing it would drop the locks that other
    // connections of this process hold on it.
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unusable(path, &error));
        }
        Ok(_) | Err(_) => {}
    }
    if let Ok(found) = fs::metadata(path) {
        if found.is_dir() {
            let path = path.display();
            return Err(StoreError::Unusable(format!(
                "{path} is a folder: give the path of a file"
            )));
        }
        // SQLite takes what is shorter than its header for an empty file, and writes over it.
        if (1..HEADER).contains(&found.len()) {
            return Err(StoreError::no_database(path));
        }
    }
    let connection = open(path)?;
    let mode = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0));
    let ready = || -> rusqlite::Result<String> {
        let now = mode("PRAGMA main.journal_mode")?;
        if now == "wal" {
            return Ok(now);
        }
        // Of a database that is not empty this changes nothing.
        connection.execute_batch(&format!("PRAGMA main.page_size = {page}"))?;
        mode("PRAGMA main.journal_mode = wal")
    };
    match busy::patiently(ready) {
        Ok(mode) if mode == "wal" => check_length(&connection, path).map(|()| connection),
        Ok(mode) => Err(StoreError::Unusable(format!(
            "{} stays in journal mode {mode}: it needs a file system that supports write-ahead \
             logging",
            path.display()
        ))),
        Err(error) => Err(StoreError::from(error).of(path)),
    }
}

/// Refuses a file that ends within a page: SQLite reads what is missing as zeros, and finds fewer rows.
/// It may do so after a crash, and for a moment while somebody writes; then the log has the whole page.
fn check_length(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let size = page_size(connection)?;
    let is_whole = || {
        let length = fs::metadata(path).map_or(0, |data| data.len());
        length.is_multiple_of(size)
    };
    for _ in 0..3 {
        if is_whole() {
            return Ok(());
        }
        connection.query_row("PRAGMA main.wal_checkpoint(FULL)", [], |_| Ok(()))?;
    }
    if is_whole() { Ok(()) } else { Err(StoreError::damaged(path, "it ends within a page")) }
}

/// Opens a file that is there.
pub(super) fn open(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let prepared = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        busy::patient(&mut connection)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        let settings = format!(
            "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA checkpoint_fullfsync = ON;
             PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -{CACHE_KIB};
             PRAGMA secure_delete = FAST; PRAGMA cell_size_check = ON; PRAGMA trusted_schema = OFF;
             PRAGMA temp_store = MEMORY;"
        );
        busy::patiently(|| connection.execute_batch(&settings))?;
        // Plans do not depend on what is bound: SQLite would make some of them anew for each value.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        Ok(connection)
    };
    prepared().map_err(|error| StoreError::from(error).of(path))
}

/// The size of its pages, in bytes.
pub(super) fn page_size(connection: &Connection) -> rusqlite::Result<u64> {
    let size: u32 = connection.query_row("PRAGMA main.page_size", [], |row| row.get(0))?;
    Ok(size.max(512).into())
}

fn unusable(path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unusable(format!(
        "{} cannot be created ({error}): give a file in a folder that is there and that this user may \
         write",
        path.display()
    ))
}
