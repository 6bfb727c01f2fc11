//! What the connections of one server share.

use std::any::Any;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http::Method;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::charges::Store;
use super::fault::Fault;
use super::keys::KeyCarrier;
use super::log::{EventKind, Log};

/// How the server behaves without a fault.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) keys: KeyCarrier,
    pub(super) delay: Duration,
    /// Seconds; `None` leaves the field away.
    pub(super) in_progress_retry_after: Option<u64>,
}

/// Everything shared. Each lock is held for one step only, never across an `await`.
#[derive(Debug)]
pub(super) struct State {
    pub(super) options: Options,
    /// With the layer of the server half: it keeps the keys.
    #[cfg(feature = "server")]
    pub(super) shop: Option<super::shop::Shop>,
    script: Mutex<VecDeque<Fault>>,
    store: Mutex<Store>,
    log: Mutex<Log>,
    /// `None` once stopped: what would be spawned then is dropped.
    tasks: Mutex<Option<JoinSet<()>>>,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    /// How many TLS handshakes are under way.
    pub(super) handshakes: watch::Sender<usize>,
}

impl State {
    pub(super) fn new(
        options: Options,
        script: VecDeque<Fault>,
        #[cfg(feature = "server")] shop: Option<super::shop::Shop>,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            #[cfg(feature = "server")]
            shop,
            script: Mutex::new(script),
            store: Mutex::default(),
            log: Mutex::new(Log::new()),
            tasks: Mutex::new(Some(JoinSet::new())),
            panic: Mutex::default(),
            handshakes: watch::Sender::new(0),
        })
    }

    pub(super) fn script(&self) -> MutexGuard<'_, VecDeque<Fault>> {
        locked(&self.script)
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        locked(&self.store)
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        locked(&self.log)
    }

    pub(super) fn record(&self, connection: u64, kind: EventKind) {
        self.log().record(connection, kind);
    }

    /// The fault for a request of this method: safe ones have none.
    pub(super) fn next_fault(&self, method: &Method) -> Option<Fault> {
        if method.is_safe() { None } else { self.script().pop_front() }
    }

    /// Runs a task until it ends or the server stops; keeps its panic for the owner of the server.
    pub(super) fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let state = Arc::clone(self);
        let mut tasks = locked(&self.tasks);
        let Some(tasks) = tasks.as_mut() else { return };
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let mut task = pin!(task);
            let result = poll_fn(|context| {
                match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(context))) {
                    Ok(poll) => poll.map(Ok),
                    Err(panic) => Poll::Ready(Err(panic)),
                }
            });
            if let Err(panic) = result.await {
                locked(&state.panic).get_or_insert(panic);
            }
        });
    }

    /// Takes all tasks away, to be dropped or shut down.
    pub(super) fn take_tasks(&self) -> Option<JoinSet<()>> {
        locked(&self.tasks).take()
    }

    /// What the first panicking task panicked with.
    pub(super) fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        locked(&self.panic).take()
    }
}

/// A poisoned lock is no reason to hide the panic behind another one.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits on the real clock, for real sockets.
#[expect(clippy::disallowed_methods, reason = "faults on real sockets take real time")]
pub(super) async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
