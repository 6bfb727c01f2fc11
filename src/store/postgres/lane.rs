//! Grouped writes: what was queued while a writer was busy is its next group.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::PgConnection;
#[cfg(feature = "client")]
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{Notify, oneshot};

use super::Trouble;
use super::retry::{Database, Open, Tries};
use super::trouble::{Class, Stopped, class};
use crate::clock::{Clock, SystemClock};

/// So many verbs, or bytes, are at most in one group.
const MOST_VERBS: usize = 256;
const MOST_BYTES: usize = 4 << 20;

/// What writers write.
pub(crate) trait Work: Send + Sync + 'static {
    /// One thing to write, or to ask.
    type Verb: Send + 'static;
    /// What comes of it.
    type Answer: Send + 'static;

    /// How many kinds of verbs there are. A group is of one kind.
    const KINDS: usize;

    /// Its kind, below [`Work::KINDS`].
    fn kind(verb: &Self::Verb) -> usize;

    /// So many verbs of a kind may be a group.
    fn most(kind: usize) -> usize;

    /// Its bytes, about.
    fn bytes(verb: &Self::Verb) -> usize;

    /// Writes a group. `again`: an earlier try may have been executed, whole or in part, and then this
    /// one must come to the same.
    fn write(
        &self,
        conn: &mut PgConnection,
        group: &mut [Self::Verb],
        again: bool,
    ) -> impl Future<Output = Result<Vec<Self::Answer>, sqlx::Error>> + Send;
}

/// The way to the writers. They end when the last clone is gone and all that was queued is written.
pub(crate) struct Lanes<W: Work> {
    handle: Arc<Handle<W>>,
}

impl<W: Work> Clone for Lanes<W> {
    fn clone(&self) -> Self {
        Lanes { handle: Arc::clone(&self.handle) }
    }
}

struct Handle<W: Work>(Arc<Shared<W>>);

struct Shared<W: Work> {
    work: W,
    database: Database,
    queue: Mutex<Queue<W>>,
    filled: Notify,
    #[cfg(feature = "client")]
    told: Mutex<Vec<Told<W>>>,
}

/// The answer to a verb that nobody waits for.
#[cfg(feature = "client")]
type Told<W> = oneshot::Receiver<Result<<W as Work>::Answer, Trouble>>;

struct Queue<W: Work> {
    kinds: Vec<VecDeque<Queued<W>>>,
    /// Counts what was queued, so that the kind whose first verb waits longest comes next.
    queued: u64,
    writers: usize,
    closed: bool,
}

struct Queued<W: Work> {
    turn: u64,
    since: Duration,
    verb: W::Verb,
    reply: Reply<W>,
}

/// Verbs of one kind, and who waits for them.
struct Group<W: Work> {
    verbs: Vec<W::Verb>,
    replies: Vec<Reply<W>>,
    /// When the last of them was queued: so long have all of them waited, and behind a server that is
    /// away that counts.
    since: Duration,
}

type Reply<W> = Option<oneshot::Sender<Result<<W as Work>::Answer, Trouble>>>;

impl<W: Work> Lanes<W> {
    /// Starts so many writers on the runtime of the caller.
    pub(crate) fn start(work: W, database: Database, writers: usize) -> Lanes<W> {
        let kinds = (0..W::KINDS).map(|_| VecDeque::new()).collect();
        let queue = Queue { kinds, queued: 0, writers, closed: false };
        let shared = Arc::new(Shared {
            work,
            database,
            queue: Mutex::new(queue),
            filled: Notify::new(),
            #[cfg(feature = "client")]
            told: Mutex::default(),
        });
        for _ in 0..writers {
            let writer = Writer(Arc::clone(&shared));
            tokio::spawn(async move { writer.run().await });
        }
        Lanes { handle: Arc::new(Handle(shared)) }
    }

    /// Queues a verb and waits for its answer.
    pub(crate) async fn ask(&self, verb: W::Verb) -> Result<W::Answer, Trouble> {
        let (reply, answer) = oneshot::channel();
        self.handle.0.push(verb, Some(reply));
        answer.await.unwrap_or_else(|_| Err(Trouble::Failed(Arc::new(Stopped))))
    }

    /// Queues a verb whose answer nobody waits for. Only the journal has such.
    #[cfg(feature = "client")]
    pub(crate) fn tell(&self, verb: W::Verb) {
        let (reply, answer) = oneshot::channel();
        {
            let mut told = self.handle.0.told();
            if told.len() >= MOST_VERBS {
                told.retain_mut(|answer| matches!(answer.try_recv(), Err(TryRecvError::Empty)));
            }
            told.push(answer);
        }
        self.handle.0.push(verb, Some(reply));
    }

    /// Waits for the answers that nobody waited for.
    #[cfg(feature = "client")]
    pub(crate) async fn flush(&self) {
        let told = std::mem::take(&mut *self.handle.0.told());
        for answer in told {
            // What came of it is nobody's business, only that it came.
            let (Ok(_) | Err(_)) = answer.await;
        }
    }
}

impl<W: Work> Drop for Handle<W> {
    fn drop(&mut self) {
        self.0.queue().closed = true;
        self.0.filled.notify_waiters();
        self.0.filled.notify_one();
    }
}

impl<W: Work> Shared<W> {
    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        // Each change of the queue is one push or pop.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "client")]
    fn told(&self) -> MutexGuard<'_, Vec<Told<W>>> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, verb: W::Verb, reply: Reply<W>) {
        let mut queue = self.queue();
        // Without a writer the reply is dropped here, which its receiver takes for what it is.
        if queue.writers > 0 {
            queue.queued += 1;
            let (turn, since) = (queue.queued, SystemClock.monotonic());
            queue.kinds[W::kind(&verb)].push_back(Queued { turn, since, verb, reply });
            drop(queue);
            self.filled.notify_one();
        }
    }

    /// The next group; `None` when there will be none any more.
    async fn next(&self) -> Option<Group<W>> {
        loop {
            // Whoever was just answered, or woke us, is followed by others who are ready to run: a turn
            // later they have asked, too, and the group is not of the first of them alone.
            tokio::task::yield_now().await;
            let filled = self.filled.notified();
            {
                let mut queue = self.queue();
                if let Some(group) = queue.group() {
                    if !queue.is_empty() {
                        self.filled.notify_one();
                    }
                    return Some(group);
                }
                if queue.closed {
                    return None;
                }
            }
            filled.await;
        }
    }
}

impl<W: Work> Queue<W> {
    fn is_empty(&self) -> bool {
        self.kinds.iter().all(VecDeque::is_empty)
    }

    fn group(&mut self) -> Option<Group<W>> {
        let first = |kind: &VecDeque<Queued<W>>| kind.front().map(|queued| queued.turn);
        let kinds = (0..W::KINDS).filter_map(|kind| Some((first(&self.kinds[kind])?, kind)));
        let (_, kind) = kinds.min()?;
        let most = W::most(kind).min(MOST_VERBS);
        let (mut verbs, mut replies, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut since = Duration::ZERO;
        while let Some(queued) = self.kinds[kind].front() {
            bytes += W::bytes(&queued.verb);
            if verbs.len() == most || (bytes > MOST_BYTES && !verbs.is_empty()) {
                break;
            }
            let queued = self.kinds[kind].pop_front().expect("it was the front");
            verbs.push(queued.verb);
            replies.push(queued.reply);
            since = queued.since;
        }
        Some(Group { verbs, replies, since })
    }
}

struct Writer<W: Work>(Arc<Shared<W>>);

impl<W: Work> Writer<W> {
    async fn run(self) {
        let mut conn = None;
        while let Some(mut group) = self.0.next().await {
            let outcomes = self.write(&mut conn, &mut group.verbs, group.since).await;
            for (reply, outcome) in group.replies.into_iter().zip(outcomes) {
                // Whoever has gone away meanwhile does not want to know.
                let _ = reply.map(|reply| reply.send(outcome));
            }
        }
    }

    /// A group, together if possible. When the database refuses it, each verb alone, so that only
    /// those fail that are refused for themselves.
    async fn write(
        &self,
        conn: &mut Option<Open>,
        verbs: &mut [W::Verb],
        since: Duration,
    ) -> Vec<Result<W::Answer, Trouble>> {
        let mut tries = self.0.database.tries_since(since);
        match self.insist(conn, verbs, &mut tries).await {
            Ok(answers) => answers.into_iter().map(Ok).collect(),
            Err(Stop::Trouble(trouble)) => verbs.iter().map(|_| Err(trouble.clone())).collect(),
            Err(Stop::Refused) => {
                let mut outcomes = Vec::with_capacity(verbs.len());
                for verb in verbs.chunks_mut(1) {
                    let outcome = match self.insist(conn, verb, &mut tries).await {
                        Ok(mut answers) => Ok(answers.pop().expect("one answer for one verb")),
                        Err(Stop::Trouble(trouble)) => Err(trouble),
                        Err(Stop::Refused) => unreachable!("one verb is not taken apart"),
                    };
                    outcomes.push(outcome);
                }
                outcomes
            }
        }
    }

    async fn insist(
        &self,
        conn: &mut Option<Open>,
        verbs: &mut [W::Verb],
        tries: &mut Tries<'_>,
    ) -> Result<Vec<W::Answer>, Stop> {
        loop {
            let error = match self.attempt(conn, verbs, tries).await {
                Ok(answers) => return Ok(answers),
                Err(error) => error,
            };
            if class(&error) == Class::Refused && verbs.len() > 1 {
                return Err(Stop::Refused);
            }
            tries.again(error).await.map_err(Stop::Trouble)?;
        }
    }

    async fn attempt(
        &self,
        conn: &mut Option<Open>,
        verbs: &mut [W::Verb],
        tries: &mut Tries<'_>,
    ) -> Result<Vec<W::Answer>, sqlx::Error> {
        let mut open = match conn.take() {
            Some(open) => open,
            None => self.0.database.connect(tries.limit(), &mut tries.lost).await?,
        };
        let sent = self.0.work.write(&mut open.conn, verbs, tries.sent);
        let outcome = self.0.database.within(tries.limit(), sent).await;
        let failed = outcome.as_ref().err().map(class);
        // A group may be more than one statement: the first may have been committed.
        tries.sent |= failed.is_some();
        tries.in_doubt |= matches!(failed, Some(Class::Gone | Class::Again));
        if failed == Some(Class::Gone) {
            tries.lost.push(open.mark);
        } else {
            *conn = Some(open);
        }
        outcome
    }
}

enum Stop {
    /// The group as a whole is refused.
    Refused,
    Trouble(Trouble),
}

impl<W: Work> Drop for Writer<W> {
    /// When a runtime ends, its tasks are dropped: whoever waits must hear of it.
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.writers -= 1;
        if queue.writers == 0 {
            queue.kinds.iter_mut().for_each(VecDeque::clear);
        } else if queue.closed {
            self.0.filled.notify_one();
        }
    }
}
