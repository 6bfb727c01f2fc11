//! The time, as an argument: everything in this crate that waits or measures asks a [`Clock`].
//!
//! There are two readings, and they answer different questions. [`Clock::monotonic`] never goes
//! back, but may stand still while a machine sleeps; [`Clock::wall`] goes on over a suspend and a
//! restart, but may be stepped in either direction. There are two ways to wait as well:
//! [`Clock::sleep`] is a pause that really is waited for, [`Clock::timer`] is a limit that races
//! against work. For the real clock they are the same; a clock for tests skips the pauses at once
//! and lets a limit pass only when it is told to.
//!
//! # Guarantees
//! - No other module of this crate reads the real time, waits on it, or races against it.
//! - [`SystemClock`] waits without an allocation, and no duration is too long for it.
//!
//! # Not guaranteed
//! - Nothing ties the two readings to each other.
//! - A pause ends late on a busy machine, and tokio's timers round up to the next millisecond.
//!
//! ```
//! use std::time::Duration;
//! use post_once::clock::{Clock, SystemClock};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let clock = SystemClock;
//! let before = clock.monotonic();
//! clock.sleep(Duration::from_millis(2)).await;
//! assert!(clock.monotonic() - before >= Duration::from_millis(2));
//! # }
//! ```

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use pin_project_lite::pin_project;

/// A source of time, and of waiting for it.
///
/// Bring your own to test code that uses this crate; the `testkit` feature has one that is moved
/// by hand. All readings and waits of one clock must be of the same time.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The time since a fixed but arbitrary origin of this clock. Never goes back.
    fn monotonic(&self) -> Duration;

    /// The time of day. May be stepped.
    fn wall(&self) -> SystemTime;

    /// A pause of this length.
    fn sleep(&self, wait: Duration) -> Sleep;

    /// A limit of this length from now on, to be raced against work and dropped when the work
    /// wins. The same as [`Clock::sleep`] unless a clock overrides it.
    fn timer(&self, limit: Duration) -> Sleep {
        self.sleep(limit)
    }
}

/// The clock of the machine.
///
/// Its origin is fixed once per process, so that two of these agree. The waits are tokio's and
/// must be made within a runtime whose time driver is on; tokio panics otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the seam for the real time")]
    fn monotonic(&self) -> Duration {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam for the real time")]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the seam for the real time")]
    fn sleep(&self, wait: Duration) -> Sleep {
        Sleep { inner: Inner::Tokio { sleep: tokio::time::sleep(wait) } }
    }
}

/// Blocks this thread: for the threads of a store, which wait for the locks of other processes.
#[cfg(all(any(feature = "client", feature = "server"), feature = "sqlite"))]
#[expect(clippy::disallowed_methods, reason = "this is the seam for the real time")]
pub(crate) fn block(wait: Duration) {
    std::thread::sleep(wait);
}

pin_project! {
    /// A wait in progress: a future that ends when the time has come. Dropping it ends it early.
    #[must_use = "a wait does nothing unless it is awaited"]
    pub struct Sleep {
        #[pin]
        inner: Inner,
    }
}

pin_project! {
    #[project = InnerProjection]
    enum Inner {
        Tokio { #[pin] sleep: tokio::time::Sleep },
        Foreign { wait: Pin<Box<dyn Future<Output = ()> + Send>> },
    }
}

impl Sleep {
    /// The wait of a clock that is not [`SystemClock`].
    pub fn new(wait: impl Future<Output = ()> + Send + 'static) -> Self {
        Self { inner: Inner::Foreign { wait: Box::pin(wait) } }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.project().inner.project() {
            InnerProjection::Tokio { sleep } => sleep.poll(cx),
            InnerProjection::Foreign { wait } => wait.as_mut().poll(cx),
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

/// The real time is read here, for it is what these tests are about; none waits longer than a few
/// milliseconds.
#[cfg(test)]
mod tests {
    use std::future;

    use super::*;

    #[tokio::test]
    async fn a_pause_is_as_long_as_asked_on_the_monotonic_reading() {
        let before = SystemClock.monotonic();
        SystemClock.sleep(Duration::from_millis(3)).await;
        assert!(SystemClock.monotonic() - before >= Duration::from_millis(3));
    }

    #[test]
    fn clocks_of_one_process_share_their_origin() {
        let before = SystemClock.monotonic();
        let elsewhere = std::thread::spawn(|| SystemClock.monotonic()).join().unwrap();
        assert!(before <= elsewhere && elsewhere <= SystemClock.monotonic());
        assert!(SystemClock.wall() > SystemTime::UNIX_EPOCH);
    }

    #[tokio::test]
    async fn no_pause_is_too_long_to_start() {
        for wait in [Duration::MAX, Duration::from_secs(u64::MAX / 2)] {
            let pending = |sleep: Sleep| {
                let mut sleep = Box::pin(sleep);
                future::poll_fn(move |cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending()))
            };
            assert!(pending(SystemClock.sleep(wait)).await);
            assert!(pending(SystemClock.timer(wait)).await);
        }
    }

    #[tokio::test]
    async fn a_foreign_wait_ends_with_its_future() {
        Sleep::new(future::ready(())).await;
    }
}
