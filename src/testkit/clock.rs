//! A clock that is moved by hand, for tests that neither wait nor depend on the time of day.
//!
//! # The rule
//! 1. A pause ([`Clock::sleep`]) advances the clock by its length when it is first polled, is
//!    noted in [`ManualClock::waits`], and is over.
//! 2. A limit ([`Clock::timer`]) passes when the time of the clock has reached it, by a pause or by
//!    [`ManualClock::advance`], and never by itself: work on a real socket is not cut off while the
//!    clock stands still.
//! 3. The wall clock moves with the monotonic one, and can be stepped on its own.
//!
//! # Not guaranteed
//! - Code that waits by other means (a client's own timeout, tokio's sleep) knows nothing of it.
//!
//! ```
//! use std::time::Duration;
//! use post_once::clock::Clock;
//! use post_once::testkit::ManualClock;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = ManualClock::new();
//! clock.sleep(Duration::from_secs(3600)).await;
//! assert_eq!(clock.monotonic(), Duration::from_secs(3600));
//! assert_eq!(clock.waits(), [Duration::from_secs(3600)]);
//! # }
//! ```

use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, SystemTime};

use crate::clock::{Clock, Sleep};

/// The time of day of a new clock, in seconds since the epoch: 2026-01-01T00:00:00Z.
const START: u64 = 1_767_225_600;

/// A clock that stands still until it is told to move. Clones share their time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    monotonic: Duration,
    wall: SystemTime,
    waits: Vec<Duration>,
    timers: Vec<Waker>,
}

impl ManualClock {
    /// A clock at monotonic zero, on 2026-01-01T00:00:00Z.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            monotonic: Duration::ZERO,
            wall: SystemTime::UNIX_EPOCH + Duration::from_secs(START),
            waits: Vec::new(),
            timers: Vec::new(),
        })))
    }

    /// Moves both readings forward, and lets the limits pass that are reached.
    pub fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.monotonic = state.monotonic.saturating_add(by);
        state.wall = state.wall.checked_add(by).unwrap_or(state.wall);
        let timers = std::mem::take(&mut state.timers);
        drop(state);
        timers.into_iter().for_each(Waker::wake);
    }

    /// Steps the wall clock forward and leaves the monotonic one: a correction of the time, or a
    /// machine that was suspended.
    ///
    /// # Panics
    /// When the step leaves what [`SystemTime`] can hold.
    pub fn step_wall_forward(&self, by: Duration) {
        self.state().wall += by;
    }

    /// Steps the wall clock back and leaves the monotonic one.
    ///
    /// # Panics
    /// When the step leaves what [`SystemTime`] can hold.
    pub fn step_wall_back(&self, by: Duration) {
        self.state().wall -= by;
    }

    /// The pauses so far, in the order in which they began. Limits are not among them.
    #[must_use]
    pub fn waits(&self) -> Vec<Duration> {
        self.state().waits.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for ManualClock {
    fn monotonic(&self) -> Duration {
        self.state().monotonic
    }

    fn wall(&self) -> SystemTime {
        self.state().wall
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        let clock = self.clone();
        Sleep::new(async move {
            clock.state().waits.push(wait);
            clock.advance(wait);
        })
    }

    fn timer(&self, limit: Duration) -> Sleep {
        let clock = self.clone();
        let deadline = self.monotonic().saturating_add(limit);
        Sleep::new(future::poll_fn(move |cx| {
            let mut state = clock.state();
            if state.monotonic >= deadline {
                return Poll::Ready(());
            }
            if !state.timers.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.timers.push(cx.waker().clone());
            }
            Poll::Pending
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_pause_advances_both_readings_at_once_and_is_noted() {
        let clock = ManualClock::new();
        let (other, wall) = (clock.clone(), clock.wall());
        drop(clock.sleep(SECOND * 100));
        clock.sleep(SECOND).await;
        clock.sleep(Duration::ZERO).await;
        assert_eq!(other.waits(), [SECOND, Duration::ZERO]);
        assert_eq!((other.monotonic(), other.wall()), (SECOND, wall + SECOND));
    }

    #[tokio::test]
    async fn a_limit_passes_when_the_time_has_come_and_wakes_whoever_waits() {
        let clock = ManualClock::new();
        let limit = tokio::spawn(clock.timer(SECOND * 2));
        tokio::task::yield_now().await;
        clock.advance(SECOND);
        tokio::task::yield_now().await;
        assert!(!limit.is_finished());
        clock.sleep(SECOND).await;
        tokio::task::yield_now().await;
        assert!(limit.is_finished());
        assert_eq!(clock.waits(), [SECOND]);
    }

    #[tokio::test]
    async fn a_limit_passes_at_once_only_when_nothing_is_left_of_it() {
        let clock = ManualClock::new();
        tokio::select! {
            biased;
            () = clock.timer(Duration::from_nanos(1)) => panic!("the clock has not moved"),
            () = tokio::task::yield_now() => {}
        }
        tokio::select! {
            biased;
            () = clock.timer(Duration::ZERO) => {}
            () = tokio::task::yield_now() => panic!("nothing was left of the limit"),
        }
    }

    #[test]
    fn the_wall_clock_steps_alone() {
        let clock = ManualClock::new();
        let wall = clock.wall();
        clock.step_wall_back(SECOND * 5);
        assert_eq!(clock.wall(), wall - SECOND * 5);
        clock.step_wall_forward(SECOND * 8);
        assert_eq!((clock.monotonic(), clock.wall()), (Duration::ZERO, wall + SECOND * 3));
    }

    #[tokio::test]
    async fn no_duration_is_too_long() {
        let clock = ManualClock::new();
        clock.sleep(Duration::MAX).await;
        clock.timer(Duration::MAX).await;
        clock.advance(Duration::MAX);
        assert_eq!(clock.monotonic(), Duration::MAX);
    }
}
