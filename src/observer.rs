//! Watching operations from outside, for metrics and progress.

use std::fmt;
use std::time::Duration;

use crate::key::IdempotencyKey;
use crate::report::{Attempt, Report};
use crate::retry::Known;

/// Is told what happens to each operation, as it happens.
///
/// It is called on the path of the operation and should return at once: count, or send on a
/// channel. A closure will do:
///
/// ```
/// use post_once::observer::{Event, Observer};
///
/// fn is_observer(_: impl Observer) {}
/// is_observer(|event: &Event<'_>| {
///     if let Event::Waiting { wait, .. } = event {
///         println!("next attempt in {wait:?}");
///     }
/// });
/// ```
pub trait Observer: Send + Sync + 'static {
    /// Called for each event.
    fn observe(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Observer for F {
    fn observe(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Something that happened to an operation.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// An attempt is about to be sent.
    #[non_exhaustive]
    AttemptStarted {
        /// The operation's key, if it has one.
        key: Option<&'a IdempotencyKey>,
        /// The attempt's number, from 1.
        number: u32,
        /// The time that it has.
        limit: Duration,
    },
    /// An attempt ended.
    #[non_exhaustive]
    AttemptEnded {
        /// The operation's key, if it has one.
        key: Option<&'a IdempotencyKey>,
        /// How it ended.
        attempt: &'a Attempt,
    },
    /// The next attempt will be sent after a wait.
    #[non_exhaustive]
    Waiting {
        /// The operation's key, if it has one.
        key: Option<&'a IdempotencyKey>,
        /// What asks for another attempt.
        because: Known,
        /// The wait, jitter included.
        wait: Duration,
    },
    /// The call returns what the report says; what it has to write down of its row, if it has one, it has
    /// tried to. Of a row that a resumer sends: its attempt is over, and not written down yet. Not told
    /// when the future is dropped instead.
    #[non_exhaustive]
    Finished {
        /// The whole report.
        report: &'a Report,
    },
}

/// An observer as the engine holds it.
pub(crate) struct Watch(pub(crate) Option<Box<dyn Observer>>);

impl Watch {
    /// Tells the observer, if there is one. The event is not even made without.
    pub(crate) fn tell<'a>(&self, event: impl FnOnce() -> Event<'a>) {
        if let Some(observer) = &self.0 {
            observer.observe(&event());
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Watch(Some)" } else { "Watch(None)" })
    }
}
