//! The retention window: for how long the server remembers a key.
//!
//! Once a server has forgotten a key, a retry under it is a second execution. So no attempt may
//! still be under way later than `first send + window − margin`. The *first send* is the start of
//! the first attempt that is not known to be unsent.
//!
//! ```
//! use post_once::retry::window::Window;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), post_once::retry::window::WindowError> {
//! let window = Window::new(Duration::from_secs(24 * 3600))?;
//! assert_eq!(window.margin(), Duration::from_secs(300));
//! assert_eq!(window.usable(), Duration::from_secs(24 * 3600 - 300));
//!
//! // A margin that leaves nothing of the window is refused.
//! assert!(Window::with_margin(Duration::from_secs(10), Duration::from_secs(10)).is_err());
//! # Ok(()) }
//! ```
//!
//! # Not guaranteed
//! That the server keeps its promise. The margin covers clock differences and a request's way
//! through the network, not a server that forgets early.

use std::time::{Duration, SystemTime};

use thiserror::Error;

/// The largest margin that is taken by default.
const LARGEST_DEFAULT_MARGIN: Duration = Duration::from_secs(5 * 60);

/// How long the server remembers a key, less a margin for safety.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    length: Duration,
    margin: Duration,
}

impl Window {
    /// A window with the default margin: a tenth of it, at most five minutes.
    ///
    /// # Errors
    /// When the window is zero.
    pub const fn new(length: Duration) -> Result<Window, WindowError> {
        Window::with_margin(length, default_margin(length))
    }

    /// A window with a margin of its own.
    ///
    /// # Errors
    /// When the margin leaves nothing of the window.
    pub const fn with_margin(length: Duration, margin: Duration) -> Result<Window, WindowError> {
        if length.as_nanos() <= margin.as_nanos() {
            return Err(WindowError { length, margin });
        }
        Ok(Window { length, margin })
    }

    /// For how long the server remembers a key.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// What is held back at its end.
    #[must_use]
    pub const fn margin(&self) -> Duration {
        self.margin
    }

    /// The part in which an attempt may be under way.
    #[must_use]
    pub const fn usable(&self) -> Duration {
        self.length.saturating_sub(self.margin)
    }

    /// The one of two in which less can be done.
    pub(crate) fn tighter(self, other: Window) -> Window {
        if other.usable() < self.usable() { other } else { self }
    }

    /// The shorter of this window and the one that the server advertised: never longer. The margin
    /// stays where it fits, and is the default one of the shorter window where it does not.
    #[must_use]
    pub fn shortened_to(self, advertised: Duration) -> Window {
        if advertised >= self.length {
            return self;
        }
        let margin = self.margin.min(default_margin(advertised));
        Window { length: advertised, margin }
    }
}

const fn default_margin(length: Duration) -> Duration {
    match length.checked_div(10) {
        Some(tenth) if tenth.as_nanos() < LARGEST_DEFAULT_MARGIN.as_nanos() => tenth,
        _ => LARGEST_DEFAULT_MARGIN,
    }
}

/// A window that its margin uses up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "a margin of {margin:?} leaves nothing of a window of {length:?}; \
     give a longer window or a smaller margin"
)]
pub struct WindowError {
    length: Duration,
    margin: Duration,
}

/// A moment, on both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) monotonic: Duration,
    pub(crate) wall: SystemTime,
}

impl Moment {
    /// How long ago it was: the larger of what the two clocks say. A suspended machine stops the
    /// first, a step bends the second, and too old is the safe side.
    pub(crate) fn age(self, now: Moment) -> Duration {
        let steady = now.monotonic.saturating_sub(self.monotonic);
        let by_wall = now.wall.duration_since(self.wall).unwrap_or(Duration::ZERO);
        steady.max(by_wall)
    }
}

/// When an operation was first sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstSend {
    /// When it was, or when its age was learned.
    learned: Moment,
    /// Its age at that time, where it was sent first by another process.
    already: Duration,
}

impl FirstSend {
    /// A first send at this moment, or so long before it.
    pub(crate) fn new(learned: Moment, already: Duration) -> FirstSend {
        FirstSend { learned, already }
    }

    /// When it was, by the wall clock.
    pub(crate) fn at(self) -> SystemTime {
        self.learned.wall.checked_sub(self.already).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// How long ago it was.
    pub(crate) fn age(self, now: Moment) -> Duration {
        self.already.saturating_add(self.learned.age(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn margin_is_a_tenth_but_at_most_five_minutes() {
        for (length, margin) in [(10, 1), (300, 30), (3_000, 300), (86_400, 300)] {
            assert_eq!(Window::new(seconds(length)).unwrap().margin(), seconds(margin), "{length}");
        }
    }

    #[test]
    fn window_not_longer_than_its_margin_is_refused() {
        assert!(Window::with_margin(seconds(10), seconds(9)).is_ok());
        assert!(Window::with_margin(seconds(10), seconds(10)).is_err());
        assert!(Window::with_margin(seconds(10), seconds(11)).is_err());
        assert!(Window::new(Duration::ZERO).is_err());
    }

    #[test]
    fn an_advertised_window_shortens_and_never_lengthens() {
        let day = Window::new(24 * HOUR).unwrap();
        assert_eq!(day.shortened_to(48 * HOUR), day);
        let half_hour = day.shortened_to(seconds(1_800));
        assert_eq!((half_hour.length(), half_hour.margin()), (seconds(1_800), seconds(180)));
        assert_eq!(day.shortened_to(Duration::ZERO).usable(), Duration::ZERO);
    }

    #[test]
    fn age_is_the_larger_of_the_two_clocks() {
        let wall = SystemTime::UNIX_EPOCH + 1_000_000 * HOUR;
        let first = Moment { monotonic: seconds(100), wall };
        let age = |monotonic, wall| first.age(Moment { monotonic, wall });
        assert_eq!(age(seconds(105), wall + seconds(5)), seconds(5));
        assert_eq!(age(seconds(105), wall + HOUR), HOUR, "suspended: the steady clock stood still");
        assert_eq!(age(seconds(105), wall - HOUR), seconds(5), "the wall clock went back");
        let elsewhere = FirstSend::new(first, HOUR);
        let later = Moment { monotonic: seconds(105), wall };
        assert_eq!(elsewhere.age(later), HOUR + seconds(5), "sent by another process");
        assert_eq!(elsewhere.at(), wall - HOUR);
    }
}
