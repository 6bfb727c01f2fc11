//! The points at which a child kills itself.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use post_once::observer::Event;
use post_once::retry::Known;
use serde::{Deserialize, Serialize};

use crate::pause;

/// Where in the life of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Point {
    /// Before it is begun.
    Begin,
    /// It is written down, and not sent.
    Started,
    /// The server works on it.
    Working,
    /// The answer is there, and nothing is made of it.
    Ended,
    /// In the wait before another attempt.
    Waiting,
    /// Its end is being written down.
    Finishing,
    /// Those who watch are told: a worker has written its end down, a resumer is about to.
    Finished,
    /// The caller has its answer, or the handler its outcome.
    Returned,
    /// At any time: the parent kills it.
    AnyTime,
}

impl Point {
    pub(crate) const OF_A_WORKER: &[Point] = &[
        Point::Begin,
        Point::Started,
        Point::Working,
        Point::Ended,
        Point::Waiting,
        Point::Finishing,
        Point::Finished,
        Point::Returned,
        Point::AnyTime,
    ];
    /// A resumer begins nothing, and waits in the journal.
    pub(crate) const OF_A_RESUMER: &[Point] = &[
        Point::Started,
        Point::Working,
        Point::Ended,
        Point::Finishing,
        Point::Finished,
        Point::Returned,
        Point::AnyTime,
    ];
}

/// When a child kills itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) point: Point,
    /// At the operation that is the so-maniest to reach the point.
    pub(crate) nth: u32,
    /// Where the point is a stretch of time: how far into it.
    pub(crate) into: Duration,
}

/// Kills this process when it has come so far.
#[derive(Clone)]
pub(crate) struct Killer {
    plan: Option<Plan>,
    reached: Arc<AtomicU32>,
}

impl Killer {
    pub(crate) fn new(plan: Option<Plan>) -> Killer {
        Killer { plan, reached: Arc::default() }
    }

    /// An operation is there.
    pub(crate) fn at(&self, point: Point) {
        let Some(plan) = self.plan.as_ref().filter(|plan| plan.point == point) else { return };
        if self.reached.fetch_add(1, Ordering::Relaxed) + 1 != plan.nth {
            return;
        }
        match point {
            Point::Working | Point::Finishing | Point::Waiting => {
                let into = plan.into;
                std::thread::spawn(move || {
                    pause(into);
                    die()
                });
            }
            _ => die(),
        }
    }

    pub(crate) fn observe(&self, event: &Event<'_>) {
        match event {
            Event::AttemptStarted { .. } => {
                self.at(Point::Started);
                self.at(Point::Working);
            }
            Event::AttemptEnded { attempt, .. } => {
                self.at(Point::Ended);
                if matches!(attempt.known(), Known::Final | Known::Replayed) {
                    self.at(Point::Finishing);
                }
            }
            Event::Waiting { .. } => self.at(Point::Waiting),
            Event::Finished { .. } => self.at(Point::Finished),
            _ => {}
        }
    }
}

/// Nothing of this process runs after it: no destructor, no handler, no flush.
fn die() -> ! {
    let me = std::process::id().to_string();
    let sent = Command::new("kill").args(["-KILL", &me]).status();
    unreachable!("a process that was sent SIGKILL is gone: {sent:?}")
}
