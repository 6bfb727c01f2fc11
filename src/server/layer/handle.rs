//! What runs, and waiting for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

use super::Rules;

/// Counts the handlers that run: each holds a receiver.
#[derive(Debug)]
pub(super) struct Running {
    closing: AtomicBool,
    each: watch::Sender<()>,
}

/// One that runs.
#[derive(Debug)]
pub(super) struct Ticket {
    _held: watch::Receiver<()>,
}

impl Running {
    pub(super) fn new() -> Running {
        Running { closing: AtomicBool::new(false), each: watch::Sender::new(()) }
    }

    /// `None` once it is closing.
    pub(super) fn enter(&self) -> Option<Ticket> {
        // First held, then asked: whoever closes sets the flag first and then waits for all that are held.
        let ticket = Ticket { _held: self.each.subscribe() };
        (!self.closing.load(Ordering::SeqCst)).then_some(ticket)
    }

    async fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.each.closed().await;
    }
}

/// The way to the handlers that run in a layer.
#[derive(Clone)]
pub struct Handle(Arc<Rules>);

impl Handle {
    pub(super) fn new(rules: Arc<Rules>) -> Handle {
        Handle(rules)
    }

    /// Refuses new work with 503 and waits until all that runs has ended and is written down.
    ///
    /// Handlers outlive their connections: a server's own graceful shutdown knows nothing of those whose clients
    /// have left. Call this after it.
    pub async fn shutdown(&self) {
        self.0.running.close().await;
    }

    /// How many handlers run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.running.each.receiver_count()
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("running", &self.running()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn closing_waits_for_all_that_run_and_lets_none_in() {
        let running = Running::new();
        let (one, other) = (running.enter(), running.enter());
        assert!(one.is_some() && other.is_some());
        let mut closing = pin!(running.close());
        let mut context = Context::from_waker(Waker::noop());
        assert!(closing.as_mut().poll(&mut context).is_pending());
        assert!(running.enter().is_none());
        drop(one);
        assert!(closing.as_mut().poll(&mut context).is_pending());
        drop(other);
        assert!(closing.as_mut().poll(&mut context).is_ready());
    }
}
