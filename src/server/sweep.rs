//! Deleting what is over, unasked: keys are used once, and nobody comes back for them.
//!
//! The rule: a batch at a time, each a short transaction of its own that finds its rows by an index, until a
//! batch is not full; then a pause. Only rows that may be forgotten go (see [`claim`](super::claim)): never one
//! that somebody works on, never one that has reached a recovery point and was not answered.
//!
//! # Not guaranteed
//! - That a row is gone the moment its retention is over. It counts as forgotten from then on, swept or not.
//! - That a database gives the space back to the disk; it uses it again.
//!
//! ```
//! use std::time::Duration;
//! use post_once::server::Sweeper;
//! use post_once::server::store::MemoryClaims;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryClaims::new();
//! let sweeper = Sweeper::new(store.clone()).every(Duration::from_secs(60)).batch(500);
//! # let shutdown = std::future::ready(());
//! let task = tokio::spawn(sweeper.run(shutdown)); // until the service is shut down
//! # assert_eq!(task.await?, 0);
//! # Ok(()) }
//! ```

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;

use super::store::{ClaimError, ClaimStore};
use crate::clock::{Clock, SystemClock};

const BATCH: u32 = 1_000;
const EVERY: Duration = Duration::from_secs(60);

/// Deletes what is over, as a task or in one pass.
#[derive(Clone, Debug)]
#[must_use = "a sweeper does nothing until it runs"]
pub struct Sweeper {
    store: Arc<dyn ClaimStore>,
    clock: Arc<dyn Clock>,
    every: Duration,
    batch: u32,
}

impl Sweeper {
    /// A sweeper of this store: batches of 1,000 rows, a pass each minute.
    pub fn new(store: impl ClaimStore) -> Sweeper {
        Sweeper::shared(Arc::new(store))
    }

    /// The same, of a store whose kind is known at run time only.
    pub fn shared(store: Arc<dyn ClaimStore>) -> Sweeper {
        Sweeper { store, clock: Arc::new(SystemClock), every: EVERY, batch: BATCH }
    }

    /// So many rows at most are deleted in one transaction; 1 at least.
    pub fn batch(mut self, rows: u32) -> Self {
        self.batch = rows.max(1);
        self
    }

    /// The pause between two passes. Several processes may sweep one store: each pause varies by a tenth.
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause;
        self
    }

    /// Waits by another clock.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// One pass: until a batch is not full. Returns how many rows were deleted.
    ///
    /// # Errors
    /// When the store fails. What was deleted before stays deleted.
    pub async fn once(&self) -> Result<u64, ClaimError> {
        let mut deleted = 0;
        loop {
            let batch = self.store.sweep(self.batch).await?;
            deleted += batch;
            if batch < u64::from(self.batch) {
                return Ok(deleted);
            }
            // A store in memory never waits: others must come to their turn.
            tokio::task::yield_now().await;
        }
    }

    /// Goes on until the shutdown is there. A store that fails is tried again after the pause. Returns how many
    /// rows were deleted by whole passes.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> u64 {
        let mut shutdown = pin!(shutdown);
        let mut deleted = 0;
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => return deleted,
                pass = self.once() => match pass {
                    Ok(rows) => deleted += rows,
                    Err(error) => tracing::warn!(%error, "keys that are over were not deleted"),
                },
            }
            let pause = pause(self.every, rand::rng().random());
            tokio::select! {
                biased;
                () = &mut shutdown => return deleted,
                () = self.clock.sleep(pause) => {}
            }
        }
    }
}

/// The pause, a tenth shorter to a tenth longer.
fn pause(every: Duration, unit: f64) -> Duration {
    Duration::try_from_secs_f64(every.as_secs_f64() * (0.9 + unit * 0.2)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_vary_by_a_tenth() {
        let minute = Duration::from_secs(60);
        assert_eq!(pause(minute, 0.0), Duration::from_secs(54));
        assert_eq!(pause(minute, 0.5), minute);
        assert_eq!(pause(minute, 1.0), Duration::from_secs(66));
        assert_eq!(pause(Duration::MAX, 1.0), Duration::MAX);
    }
}
