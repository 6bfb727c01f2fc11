//! What a store in a file must do beside: survive, and say what is wrong.

mod damage;
mod full;
mod open;
mod processes;
mod restart;
mod transaction;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use post_once::server::store::{
    Ask, ClaimError, ClaimStore, Claimed, Held, Holder, Name, SqliteClaims, rusqlite,
};
use post_once::testkit::claims::ask;
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(600);
const RETENTION: Duration = Duration::from_secs(86_400);
const BODY: &str = r#"{"amount":1}"#;
const FRESH: Claimed = Claimed::Won { run: 1, point: None };

/// A place for a store.
struct Place {
    folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claims");
        Place { folder, path }
    }

    async fn open(&self) -> SqliteClaims {
        SqliteClaims::open(&self.path).await.unwrap()
    }

    /// A file beside the store's: `-wal`, `-shm`.
    fn beside(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("claims{suffix}"))
    }

    fn plain(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }
}

fn asked(name: &Name) -> Ask {
    ask(name, BODY, LEASE, RETENTION)
}

async fn claim(store: &SqliteClaims, name: &Name) -> Claimed {
    store.claim(&asked(name)).await.unwrap()
}

async fn win(store: &SqliteClaims, name: &Name) -> Holder {
    let ask = asked(name);
    assert_eq!(store.claim(&ask).await.unwrap(), FRESH);
    ask.holder
}

/// The text of what must be an error that says what to do.
async fn refused(path: &Path) -> String {
    match SqliteClaims::open(path).await {
        Err(ClaimError::Unusable(what)) => what,
        other => panic!("it must be refused: {other:?}"),
    }
}

/// This test program once more, as another process that runs one of the tests marked as its work.
fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("POST_ONCE_TEST_PATH", path)
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The path that the other process was given.
fn given() -> PathBuf {
    std::env::var_os("POST_ONCE_TEST_PATH").expect("it is run by another test").into()
}

const YES: Held<()> = Held::Yes(());
