//! The thread that writes, many verbs in one transaction.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{PoisonError, RwLock};
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

/// Something to be written.
trait Job: Send {
    /// Writes it, inside a transaction. When that is rolled back because of somebody else it is called
    /// once more.
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()>;

    /// Whether it is to be on disk before it is answered.
    fn flushes(&self) -> bool {
        true
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
        flushes: bool,
        verb: impl FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        if !self.queue(Verb { verb, flushes, made: None, reply }) {
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
    flushes: bool,
    made: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, V: FnMut(&Connection) -> rusqlite::Result<T> + Send> Job for Verb<T, V> {
    fn run(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        self.made = Some((self.verb)(connection)?);
        Ok(())
    }

    fn flushes(&self) -> bool {
        self.flushes
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
    connection: &Connection,
    jobs: &Receiver<Queued>,
    checkpointer: &Checkpointer,
    mut log: Log,
) {
    let mut last = 1;
    let mut pen = Pen { connection, flushes: true };
    while let Ok(first) = jobs.recv() {
        let group = gather(first, jobs, last);
        if flushes(&group) {
            last = group.len();
        }
        checkpointer.before();
        pen.write(group);
        checkpointer.after(&mut log);
    }
}

/// One of them is to be on disk before it is answered.
fn flushes(group: &[Box<dyn Job>]) -> bool {
    group.iter().any(|job| job.flushes())
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
        if group.len() >= last || waited >= MOST_GATHERING || !flushes(&group) {
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
struct Pen<'c> {
    connection: &'c Connection,
    /// Its commits flush.
    flushes: bool,
}

impl Pen<'_> {
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
        self.flush(flushes(group)).map_err(|error| Broken::Together(error.into()))?;
        self.execute("BEGIN IMMEDIATE").map_err(|error| Broken::Together(error.into()))?;
        let mut fates = Vec::with_capacity(group.len());
        for at in 0..group.len() {
            let fate = group[at].run(self.connection).map_err(StoreError::from);
            if self.connection.is_autocommit() {
                // With it all that was written before it is gone, or is committed without the others.
                let ended = || StoreError::failed(Ended);
                return Err(Broken::by(fate.err().unwrap_or_else(ended), group));
            }
            fates.push(fate);
        }
        self.execute("COMMIT").map_err(|error| {
            if !self.connection.is_autocommit() && self.execute("ROLLBACK").is_err() {
                // It was rolled back by itself, or the next one meets what is wrong.
            }
            Broken::by(StoreError::of_commit(error), group)
        })?;
        Ok(fates)
    }

    /// Has the commits from now on flush, or leave that to a later one.
    fn flush(&mut self, flushes: bool) -> rusqlite::Result<()> {
        if self.flushes != flushes {
            let level = if flushes { "FULL" } else { "NORMAL" };
            self.connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            self.flushes = flushes;
        }
        Ok(())
    }

    fn execute(&self, sql: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached(sql)?.execute([]).map(drop)
    }
}
