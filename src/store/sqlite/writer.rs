//! The thread that writes, many verbs in one transaction.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rusqlite::Connection;
use thiserror::Error;
use tokio::sync::oneshot;

use super::StoreError;
use super::checkpoint::Checkpointer;
use super::log::Log;
use crate::clock::{Clock, SystemClock};

/// So many verbs share a transaction at most.
pub(crate) const MOST_AT_ONCE: usize = 256;

/// Those who ask again do so one soon after the other; when nobody does for so long, nobody will.
const GAP: Duration = Duration::from_micros(40);
/// And so long at most the first of them waits: about as long as a fast disk takes for a flush.
const MOST_GATHERING: Duration = Duration::from_micros(300);

/// When a write gets to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    /// Before it is answered.
    Now,
    /// With the next one that is flushed, whoever makes it. Until then it is lost with the machine, and only so.
    Later,
}

/// Something to be written.
trait Job: Send {
    /// Writes it, inside a transaction. When that is rolled back because of somebody else it is called
    /// once more.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;

    /// When it gets to the disk.
    fn flush(&self) -> Flush {
        Flush::Now
    }

    /// Answers whoever waits for it.
    fn answer(self: Box<Self>, fate: Result<(), StoreError>);
}

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: RwLock<Option<Sender<Queued>>>,
}

/// A job in the queue.
pub(super) struct Queued(Box<dyn Job>);

impl Writer {
    pub(super) fn new(jobs: Sender<Queued>) -> Writer {
        Writer { jobs: RwLock::new(Some(jobs)) }
    }

    pub(super) async fn write<T: Send + 'static>(
        &self,
        flush: Flush,
        verb: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        if !self.queue(Verb { verb, flush, made: None, reply }) {
            return Err(StoreError::closed());
        }
        // Without a word the thread has panicked: perhaps after the commit.
        answer.await.map_err(StoreError::in_doubt)?
    }

    #[cfg(feature = "client")]
    pub(super) fn write_soon(
        &self,
        verb: impl FnMut(&Connection) -> rusqlite::Result<()> + Send + 'static,
    ) {
        // Nobody waits for it, and nobody is told that the store is closed.
        self.queue(Unanswered(verb));
    }

    pub(super) fn stop(&self) {
        *self.jobs.write().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn queue(&self, job: impl Job + 'static) -> bool {
        match &*self.jobs.read().unwrap_or_else(PoisonError::into_inner) {
            Some(jobs) => jobs.send(Queued(Box::new(job))).is_ok(),
            None => false,
        }
    }
}

struct Verb<T, V> {
    verb: V,
    flush: Flush,
    made: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, V: FnMut(&Connection) -> rusqlite::Result<T> + Send> Job for Verb<T, V> {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.made = Some((self.verb)(connection)?);
        Ok(())
    }

    fn flush(&self) -> Flush {
        self.flush
    }

    fn answer(self: Box<Self>, fate: Result<(), StoreError>) {
        let made = self.made;
        let answer = fate.map(|()| made.expect("a verb that was committed has run"));
        // Whoever went away is not told; it is written all the same.
        let (Ok(()) | Err(_)) = self.reply.send(answer);
    }
}

#[cfg(feature = "client")]
struct Unanswered<V>(V);

#[cfg(feature = "client")]
impl<V: FnMut(&Connection) -> rusqlite::Result<()> + Send> Job for Unanswered<V> {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        (self.0)(connection)
    }

    fn answer(self: Box<Self>, _fate: Result<(), StoreError>) {}
}

/// Runs several statements as one: all of them, or none.
pub(crate) fn atomically<T, E: From<rusqlite::Error>>(
    connection: &Connection,
    statements: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let execute = |sql| connection.prepare_cached(sql)?.execute([]).map(drop);
    execute("SAVEPOINT post_once")?;
    let result = statements();
    if connection.is_autocommit() {
        return result;
    }
    let undone = if result.is_err() { execute("ROLLBACK TO post_once") } else { Ok(()) };
    if let Err(error) = undone.and_then(|()| execute("RELEASE post_once")) {
        // It is not the transaction in which they began: nothing of it may be taken for written.
        execute("ROLLBACK")?;
        return Err(error.into());
    }
    result
}

/// Writes until nobody can ask any more.
pub(super) fn work(
    mut pen: Pen,
    jobs: &Receiver<Queued>,
    checkpointer: &Checkpointer,
    mut log: Log,
) {
    let mut last = 1;
    while let Ok(first) = jobs.recv() {
        let group = gather(first, jobs, last);
        if flush(&group) == Flush::Now {
            last = group.len();
        }
        checkpointer.before();
        pen.write(group);
        checkpointer.after(&mut log);
    }
}

/// When a group gets to the disk: when one of them has to.
fn flush(group: &[Box<dyn Job>]) -> Flush {
    if group.iter().any(|job| job.flush() == Flush::Now) { Flush::Now } else { Flush::Later }
}

/// The next group: what is queued, and, where a flush is to be shared, what comes before long when the last one
/// was larger.
///
/// Those who were answered together ask again together, but not in the same microsecond: to begin with
/// the first of them would be a flush for it alone, while all the others wait for the next one.
fn gather(first: Queued, jobs: &Receiver<Queued>, last: usize) -> Vec<Box<dyn Job>> {
    let mut group = Vec::with_capacity(last);
    group.push(first.0);
    let begun = SystemClock.monotonic();
    loop {
        group.extend(jobs.try_iter().take(MOST_AT_ONCE - group.len()).map(|Queued(job)| job));
        let waited = SystemClock.monotonic().saturating_sub(begun);
        if group.len() >= last || waited >= MOST_GATHERING || flush(&group) != Flush::Now {
            return group;
        }
        match jobs.recv_timeout(GAP) {
            Ok(Queued(job)) => group.push(job),
            Err(_) => return group,
        }
    }
}

/// A job must not do so, but work that is handed in can.
#[derive(Debug, Error)]
#[error(
    "the work ended the transaction that it ran in: leave BEGIN, COMMIT and ROLLBACK to the store"
)]
struct Ended;

/// How a whole transaction fails.
enum Broken {
    /// All of it, for one reason.
    Together(StoreError),
    /// Because of one of several.
    Apart,
}

impl Broken {
    fn by(error: StoreError, group: &[Box<dyn Job>]) -> Broken {
        if group.len() > 1 && matches!(error, StoreError::Failed(_)) {
            Broken::Apart
        } else {
            Broken::Together(error)
        }
    }
}

/// What writes.
pub(super) struct Pen {
    connection: Connection,
    /// When its commits get to the disk.
    flush: Flush,
    /// It commits. Nobody else may: neither what work that is handed in tells SQLite to commit, nor what is
    /// written after it has ended its transaction.
    commits: Arc<AtomicBool>,
}

impl Pen {
    pub(super) fn of(connection: Connection) -> rusqlite::Result<Pen> {
        let commits = Arc::new(AtomicBool::new(false));
        let may = Arc::clone(&commits);
        connection.commit_hook(Some(move || !may.load(Ordering::Relaxed)))?;
        Ok(Pen { connection, flush: Flush::Now, commits })
    }

    /// Writes a group and answers it. What breaks the whole transaction must not take the others with it:
    /// then each gets a transaction of its own.
    fn write(&mut self, mut group: Vec<Box<dyn Job>>) {
        match self.transact(&mut group) {
            Ok(fates) => group.into_iter().zip(fates).for_each(|(job, fate)| job.answer(fate)),
            Err(Broken::Together(error)) => {
                group.into_iter().for_each(|job| job.answer(Err(error.clone())));
            }
            Err(Broken::Apart) => group.into_iter().for_each(|job| self.write(vec![job])),
        }
    }

    fn transact(
        &mut self,
        group: &mut [Box<dyn Job>],
    ) -> Result<Vec<Result<(), StoreError>>, Broken> {
        self.flush(flush(group)).map_err(|error| Broken::Together(error.into()))?;
        self.execute("BEGIN IMMEDIATE").map_err(|error| Broken::Together(error.into()))?;
        let mut fates = Vec::with_capacity(group.len());
        for at in 0..group.len() {
            let fate = group[at].run(&self.connection).map_err(StoreError::from);
            if self.connection.is_autocommit() {
                // All that was written before it is gone with it.
                let ended = || StoreError::failed(Ended);
                return Err(Broken::by(fate.err().unwrap_or_else(ended), group));
            }
            fates.push(fate);
        }
        self.commit().map_err(|error| {
            if !self.connection.is_autocommit() && self.execute("ROLLBACK").is_err() {
                // It was rolled back by itself, or the next one meets what is wrong.
            }
            Broken::by(StoreError::of_commit(error), group)
        })?;
        Ok(fates)
    }

    /// Has the commits from now on flush, or leave that to a later one.
    fn flush(&mut self, flush: Flush) -> rusqlite::Result<()> {
        if self.flush != flush {
            let level = if flush == Flush::Now { "FULL" } else { "NORMAL" };
            self.connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            self.flush = flush;
        }
        Ok(())
    }

    fn commit(&self) -> rusqlite::Result<()> {
        self.commits.store(true, Ordering::Relaxed);
        let committed = self.execute("COMMIT");
        self.commits.store(false, Ordering::Relaxed);
        committed
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
