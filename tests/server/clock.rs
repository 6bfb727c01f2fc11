//! A clock that tells how often it was asked, so that a test moves it when what it is about has come to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use post_once::clock::{Clock, Sleep, SystemClock};
use post_once::testkit::ManualClock;

use crate::world::until;

/// Clones share their time and their counts.
#[derive(Clone, Debug)]
pub(crate) struct Counted<C> {
    pub(crate) clock: C,
    asked: Arc<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    readings: AtomicU64,
    pauses: AtomicU64,
    limits: AtomicU64,
}

impl Counted<ManualClock> {
    pub(crate) fn manual() -> Self {
        Counted { clock: ManualClock::new(), asked: Arc::default() }
    }
}

impl Counted<SystemClock> {
    pub(crate) fn system() -> Self {
        Counted { clock: SystemClock, asked: Arc::default() }
    }
}

impl<C> Counted<C> {
    pub(crate) fn readings(&self) -> u64 {
        self.asked.readings.load(Ordering::SeqCst)
    }

    pub(crate) fn pauses(&self) -> u64 {
        self.asked.pauses.load(Ordering::SeqCst)
    }

    pub(crate) fn limits(&self) -> u64 {
        self.asked.limits.load(Ordering::SeqCst)
    }

    /// Forgets the limits so far.
    pub(crate) fn count_anew(&self) {
        self.asked.limits.store(0, Ordering::SeqCst);
    }

    /// Waits until so many limits were asked for. They run from then on.
    pub(crate) async fn asked_for(&self, limits: u64) {
        until(|| async { self.limits() == limits }).await;
    }
}

impl<C: Clock> Clock for Counted<C> {
    fn monotonic(&self) -> Duration {
        let now = self.clock.monotonic();
        self.asked.readings.fetch_add(1, Ordering::SeqCst);
        now
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        let sleep = self.clock.sleep(wait);
        self.asked.pauses.fetch_add(1, Ordering::SeqCst);
        sleep
    }

    fn timer(&self, limit: Duration) -> Sleep {
        let timer = self.clock.timer(limit);
        self.asked.limits.fetch_add(1, Ordering::SeqCst);
        timer
    }
}
