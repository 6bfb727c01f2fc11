//! The thread that moves the write-ahead log into the file.
//!
//! A passive checkpoint waits for nobody, but as long as somebody writes it does not reach the log's end,
//! without which the log is not begun anew. So it is run until little is left, and that is moved while the
//! writer of this process pauses, for a few milliseconds. Where that does not help (a reader of another
//! process that stays) it is tried again when the log has grown by as much again.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use super::log::Log;
use super::{busy, spawn};

/// The size of the write-ahead log at which it is moved, in bytes.
pub(crate) const LOG_BYTES: u64 = 16 << 20;

/// So often the log is moved while others write, until not much is left for the pause.
const MOST_PASSES: u32 = 3;
/// And this is not much.
const FEW_PAGES: u64 = 128;

/// What writer and checkpointer know of each other.
#[derive(Clone, Debug)]
pub(super) struct Checkpointer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The pages at which the log is moved.
    most: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The log has grown long.
    due: bool,
    /// The pages of a log that could not be moved: it is not tried again for these alone.
    stuck: u64,
    /// The writer must not begin.
    pause: bool,
    stop: bool,
}

impl Checkpointer {
    /// For a file with pages of this size.
    pub(super) fn new(page: u64) -> Checkpointer {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Checkpointer(Arc::new(Shared { most: LOG_BYTES / page, state, changed }))
    }

    /// Called before a transaction begins: waits while the end of the log is moved.
    pub(super) fn before(&self) {
        let state = self.state();
        drop(self.0.changed.wait_while(state, |state| state.pause));
    }

    /// Called after a commit, with the log as it left it.
    pub(super) fn after(&self, log: &mut Log) {
        let mut state = self.state();
        if state.stuck > 0 && !log.reaches(state.stuck) {
            // Somebody has begun it anew.
            state.stuck = 0;
        }
        if log.reaches(state.stuck + self.0.most) {
            state.due = true;
            self.0.changed.notify_all();
        }
    }

    pub(super) fn stop(&self) {
        self.state().stop = true;
        self.0.changed.notify_all();
    }

    pub(super) fn spawn(self, mut connection: Connection) -> io::Result<JoinHandle<()>> {
        spawn("checkpoint", move || {
            let impatient = busy::impatient(&mut connection);
            while impatient.is_ok() && self.wait() {
                self.checkpoint(&connection);
            }
        })
    }

    /// Waits until there is something to do; `false` at the end.
    fn wait(&self) -> bool {
        let idle = |state: &mut State| !state.stop && !state.due;
        let state = self.0.changed.wait_while(self.state(), idle);
        !state.unwrap_or_else(PoisonError::into_inner).stop
    }

    fn checkpoint(&self, connection: &Connection) {
        let mut pages = 0;
        for _ in 0..MOST_PASSES {
            // It tells how long the log was when it began: what was added since is for the next one.
            match run(connection, "PRAGMA main.wal_checkpoint(PASSIVE)") {
                Some(moved) if moved.pages > pages + FEW_PAGES => pages = moved.pages,
                _ => break,
            }
        }
        self.state().pause = true;
        let moved = run(connection, "PRAGMA main.wal_checkpoint(RESTART)");
        let mut state = self.state();
        state.pause = false;
        state.due = false;
        state.stuck = match moved {
            Some(Moved { left: 0, .. }) => 0,
            Some(Moved { pages, .. }) => pages,
            // It failed, or somebody was in the way. The next commit meets what is wrong with the disk.
            None => state.stuck + self.0.most,
        };
        self.0.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a checkpoint did.
struct Moved {
    pages: u64,
    left: u64,
}

/// `None` when it failed or somebody was in the way.
fn run(connection: &Connection, sql: &str) -> Option<Moved> {
    let result = connection.query_row(sql, [], |row| {
        Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, row.get::<_, u32>(2)?))
    });
    match result {
        Ok((0, pages, moved)) => {
            Some(Moved { pages: pages.into(), left: pages.saturating_sub(moved).into() })
        }
        _ => None,
    }
}
