//! What a store in a file must do beside: survive, and say what is wrong.

mod crash;
mod damage;
mod full;
mod open;
mod outbox;
mod processes;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use post_once::journal::{
    Claim, Draft, Inserted, Journal, JournalError, Record, SqliteJournal, rusqlite,
};
use post_once::testkit::journal::list;
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(600);

/// A place for a journal.
struct Place {
    folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        Place { folder, path }
    }

    async fn open(&self) -> SqliteJournal {
        SqliteJournal::open(&self.path).await.unwrap()
    }

    /// A file beside the journal's: `-wal`, `-shm`.
    fn beside(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("journal{suffix}"))
    }

    fn plain(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }
}

async fn begin(journal: &SqliteJournal, draft: &Draft) -> Claim {
    match journal.insert(draft, LEASE).await.unwrap() {
        Inserted::New(claim) => claim,
        found => panic!("it is new: {found:?}"),
    }
}

async fn all(journal: &SqliteJournal) -> Vec<Record> {
    journal.list(&list([], None, None, u32::MAX)).await.unwrap()
}

/// The text of what must be an error that says what to do.
async fn refused(path: &Path) -> String {
    match SqliteJournal::open(path).await {
        Err(JournalError::Unusable(what)) => what,
        other => panic!("it must be refused: {other:?}"),
    }
}

/// This test program once more, as another process that runs one of the tests marked as its work.
fn child(test: &str, path: &Path, argument: impl AsRef<OsStr>) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("POST_ONCE_TEST_PATH", path)
        .env("POST_ONCE_TEST_ARGUMENT", argument)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// What the other process was given.
fn given() -> (PathBuf, String) {
    let path = std::env::var_os("POST_ONCE_TEST_PATH").expect("it is run by another test");
    (path.into(), std::env::var("POST_ONCE_TEST_ARGUMENT").unwrap())
}
