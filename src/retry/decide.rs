//! Stop, retry or wait: the decision after an attempt.

use std::fmt;
use std::time::Duration;

use super::known::Wish;
use super::{Delay, Known, RetryPolicy, ceiling};

/// What ended an operation that would otherwise have been tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Exhausted {
    /// The policy's attempts are used up.
    Attempts,
    /// No useful attempt fits into what is left of the deadline.
    Deadline,
    /// No attempt fits into what is left of the retention window.
    Window,
    /// The retry budget of the origin is empty.
    Budget,
    /// The server asked for a longer wait than `max_retry_after`.
    RetryAfter,
    /// The server said "in progress" for longer than the budget for that.
    InProgress,
    /// The body was a stream that can be read once only.
    Body,
}

impl Exhausted {
    /// The stable name, in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Exhausted::Attempts => "attempts",
            Exhausted::Deadline => "deadline",
            Exhausted::Window => "window",
            Exhausted::Budget => "budget",
            Exhausted::RetryAfter => "retry_after",
            Exhausted::InProgress => "in_progress",
            Exhausted::Body => "body",
        }
    }
}

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is left of the limits in time; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) deadline: Option<Duration>,
    /// Of the window less its margin.
    pub(crate) window: Option<Duration>,
}

impl Left {
    /// The tighter of the limits, if there is one. The window is named when both are equal: it is
    /// the one that no caller can extend.
    fn tightest(self) -> Option<(Duration, Exhausted)> {
        let window = self.window.map(|left| (left, Exhausted::Window));
        let deadline = self.deadline.map(|left| (left, Exhausted::Deadline));
        [window, deadline].into_iter().flatten().min_by_key(|(left, _)| *left)
    }
}

/// The limit of an attempt that would start now: the least of its own, what is left of the deadline,
/// and what is left of the window.
///
/// # Errors
/// When that is a useless slice: less than the attempt's own limit and less than 100 ms.
pub(crate) fn attempt_limit(policy: &RetryPolicy, left: Left) -> Result<Duration, Exhausted> {
    match left.tightest() {
        Some((left, by)) if left < useful_slice(policy) => Err(by),
        Some((left, _)) => Ok(left.min(policy.attempt_timeout())),
        None => Ok(policy.attempt_timeout()),
    }
}

/// The shortest attempt that is worth starting.
fn useful_slice(policy: &RetryPolicy) -> Duration {
    policy.attempt_timeout().min(Duration::from_millis(100))
}

/// Where an operation stands after an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) known: Known,
    /// The server's `Retry-After`, if it gave a valid one.
    pub(crate) retry_after: Option<Duration>,
    /// The attempts that count so far, this one included: all but those told "in progress".
    pub(crate) attempts: u32,
    /// How often this call was told "in progress", this time included.
    pub(crate) in_progress: u32,
    /// How long ago it was told so first.
    pub(crate) in_progress_for: Duration,
    /// Whether the body can be sent again.
    pub(crate) replayable: bool,
    pub(crate) left: Left,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The outcome is the caller's.
    Stop,
    /// A retry would have been in order, but a limit forbids it: the outcome is the caller's, and
    /// the report says so.
    Exhausted(Exhausted),
    /// Send again after this delay. Costs a token of the retry budget.
    Retry(Delay),
    /// Ask again after this delay; free.
    Wait(Delay),
}

/// Decides what follows an attempt. The retry budget is not looked at here: taking a token is an
/// effect.
pub(crate) fn decide(policy: &RetryPolicy, situation: &Situation) -> Decision {
    if situation.known.is_the_end() {
        return Decision::Stop;
    }
    if !situation.replayable {
        return Decision::Exhausted(Exhausted::Body);
    }
    let delay = match situation.known.wish() {
        Wish::Wait => in_progress_delay(policy, situation).map(Decision::Wait),
        _ => retry_delay(policy, situation).map(Decision::Retry),
    };
    delay.unwrap_or_else(Decision::Exhausted)
}

fn retry_delay(policy: &RetryPolicy, situation: &Situation) -> Result<Delay, Exhausted> {
    if situation.attempts >= policy.max_attempts() {
        return Err(Exhausted::Attempts);
    }
    delay(policy, situation, situation.attempts, room(policy, situation.left)?)
}

fn in_progress_delay(policy: &RetryPolicy, situation: &Situation) -> Result<Delay, Exhausted> {
    let budget = policy.in_progress_budget().saturating_sub(situation.in_progress_for);
    if budget.is_zero() {
        return Err(Exhausted::InProgress);
    }
    let room = match room(policy, situation.left)? {
        Some(room) if room.longest < budget => room,
        _ => Room { longest: budget, by: Exhausted::InProgress },
    };
    delay(policy, situation, situation.in_progress, Some(room))
}

/// How long a wait may be so that a useful attempt can still follow it, and what limits it.
struct Room {
    longest: Duration,
    by: Exhausted,
}

/// # Errors
/// When even an attempt that started now would be useless.
fn room(policy: &RetryPolicy, left: Left) -> Result<Option<Room>, Exhausted> {
    let Some((left, by)) = left.tightest() else { return Ok(None) };
    let longest = left.checked_sub(useful_slice(policy)).ok_or(by)?;
    Ok(Some(Room { longest, by }))
}

/// The delay before the next attempt: the server's hint as a floor, and jitter on top that stays
/// inside the room.
fn delay(
    policy: &RetryPolicy,
    situation: &Situation,
    made: u32,
    room: Option<Room>,
) -> Result<Delay, Exhausted> {
    let floor = situation.retry_after.unwrap_or(Duration::ZERO);
    let spread = ceiling(policy.base_delay(), policy.max_delay(), made.saturating_sub(1));
    let spread = match room {
        Some(room) => spread.min(room.longest.checked_sub(floor).ok_or(room.by)?),
        None => spread,
    };
    if floor > policy.max_retry_after() {
        return Err(Exhausted::RetryAfter);
    }
    Ok(Delay { floor, spread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::RetryPolicyBuilder;

    const SECOND: Duration = Duration::from_secs(1);
    const MS: Duration = Duration::from_millis(1);

    fn policy() -> RetryPolicyBuilder {
        RetryPolicy::builder().base_delay(SECOND).max_delay(8 * SECOND)
    }

    /// The first attempt met a 503; nothing limits time.
    fn after_503() -> Situation {
        Situation {
            known: Known::Unavailable,
            retry_after: None,
            attempts: 1,
            in_progress: 0,
            in_progress_for: Duration::ZERO,
            replayable: true,
            left: Left::default(),
        }
    }

    fn in_progress() -> Situation {
        Situation { known: Known::InProgress, attempts: 0, in_progress: 1, ..after_503() }
    }

    fn decided(policy: RetryPolicyBuilder, situation: Situation) -> Decision {
        decide(&policy.build().unwrap(), &situation)
    }

    fn retry(floor: Duration, spread: Duration) -> Decision {
        Decision::Retry(Delay { floor, spread })
    }

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let ceilings = [1, 2, 4, 8, 8];
        for (n, ceiling) in (1..).zip(ceilings) {
            let situation = Situation { attempts: n, ..after_503() };
            assert_eq!(
                decided(policy().max_attempts(9), situation),
                retry(Duration::ZERO, ceiling * SECOND)
            );
        }
    }

    #[test]
    fn the_last_attempt_is_not_followed_by_another() {
        for (made, expected) in
            [(2, None), (3, Some(Exhausted::Attempts)), (4, Some(Exhausted::Attempts))]
        {
            let decision =
                decided(policy().max_attempts(3), Situation { attempts: made, ..after_503() });
            match expected {
                None => assert!(matches!(decision, Decision::Retry(_))),
                Some(by) => assert_eq!(decision, Decision::Exhausted(by)),
            }
        }
        assert_eq!(
            decided(policy().max_attempts(1), after_503()),
            Decision::Exhausted(Exhausted::Attempts),
            "zero retries is exactly one request"
        );
    }

    #[test]
    fn a_final_outcome_stops_whatever_the_limits() {
        for known in [
            Known::Final,
            Known::Replayed,
            Known::Redirected,
            Known::Unclassified,
            Known::NotSentPermanent,
        ] {
            let situation = Situation { known, attempts: 9, replayable: false, ..after_503() };
            assert_eq!(decided(policy(), situation), Decision::Stop, "{known}");
        }
    }

    // O-04.
    #[test]
    fn a_body_that_cannot_be_replayed_is_never_retried() {
        let situation = Situation { replayable: false, ..after_503() };
        assert_eq!(decided(policy(), situation), Decision::Exhausted(Exhausted::Body));
    }

    // O-15.
    #[test]
    fn retry_after_is_a_floor_under_the_jitter() {
        let situation = Situation { retry_after: Some(5 * SECOND), ..after_503() };
        assert_eq!(decided(policy(), situation), retry(5 * SECOND, SECOND));
        let zero = Situation { retry_after: Some(Duration::ZERO), ..after_503() };
        assert_eq!(decided(policy(), zero), retry(Duration::ZERO, SECOND), "zero is a valid hint");
    }

    // O-14.
    #[test]
    fn retry_after_beyond_a_limit_stops_now() {
        let left = |deadline, window| Left { deadline, window };
        let table = [
            ("60 s are waited for", 60 * SECOND, Left::default(), None),
            ("the maximum", 61 * SECOND, Left::default(), Some(Exhausted::RetryAfter)),
            ("the largest duration", Duration::MAX, Left::default(), Some(Exhausted::RetryAfter)),
            (
                "past the deadline",
                11 * SECOND,
                left(Some(10 * SECOND), None),
                Some(Exhausted::Deadline),
            ),
            (
                "past the window",
                11 * SECOND,
                left(None, Some(10 * SECOND)),
                Some(Exhausted::Window),
            ),
            (
                "nothing useful left after it",
                9_950 * MS,
                left(Some(10 * SECOND), None),
                Some(Exhausted::Deadline),
            ),
            ("just enough left after it", 9_900 * MS, left(Some(10 * SECOND), None), None),
        ];
        for (rule, hint, left, expected) in table {
            let decision =
                decided(policy(), Situation { retry_after: Some(hint), left, ..after_503() });
            match expected {
                Some(by) => assert_eq!(decision, Decision::Exhausted(by), "{rule}"),
                None => {
                    assert!(matches!(decision, Decision::Retry(d) if d.floor == hint), "{rule}")
                }
            }
        }
    }

    #[test]
    fn jitter_stays_inside_what_is_left() {
        let left = Left { deadline: Some(600 * MS), window: Some(5 * SECOND) };
        let situation = Situation { left, retry_after: Some(200 * MS), ..after_503() };
        assert_eq!(decided(policy(), situation), retry(200 * MS, 300 * MS));
    }

    // O-18.
    #[test]
    fn no_attempt_that_could_outlast_the_window() {
        let policy = policy().attempt_timeout(2 * SECOND).build().unwrap();
        let limit = |left| attempt_limit(&policy, Left { deadline: None, window: Some(left) });
        assert_eq!(limit(9 * SECOND), Ok(2 * SECOND));
        assert_eq!(limit(SECOND), Ok(SECOND), "cut to what is left");
        assert_eq!(limit(99 * MS), Err(Exhausted::Window), "a useless slice");
        assert_eq!(limit(Duration::ZERO), Err(Exhausted::Window));
        let closed = Left { deadline: Some(SECOND), window: Some(Duration::ZERO) };
        assert_eq!(
            decide(&policy, &Situation { left: closed, ..after_503() }),
            Decision::Exhausted(Exhausted::Window)
        );
    }

    #[test]
    fn a_slice_as_long_as_the_attempt_is_useful_however_short() {
        let policy = policy().attempt_timeout(10 * MS).build().unwrap();
        let left = |deadline| Left { deadline: Some(deadline), window: None };
        assert_eq!(attempt_limit(&policy, left(10 * MS)), Ok(10 * MS));
        assert_eq!(attempt_limit(&policy, left(9 * MS)), Err(Exhausted::Deadline));
    }

    // O-09.
    #[test]
    fn in_progress_waits_on_its_own_budget_not_on_attempts() {
        let wait = |spread| Decision::Wait(Delay { floor: Duration::ZERO, spread });
        let many = Situation { attempts: 99, in_progress: 2, ..in_progress() };
        assert_eq!(decided(policy(), many), wait(2 * SECOND));
        let nearly = Situation { in_progress: 9, in_progress_for: 59_500 * MS, ..in_progress() };
        assert_eq!(decided(policy(), nearly), wait(500 * MS));
        let over = Situation { in_progress_for: 60 * SECOND, ..in_progress() };
        assert_eq!(decided(policy(), over), Decision::Exhausted(Exhausted::InProgress));
        let hint = Situation {
            retry_after: Some(31 * SECOND),
            in_progress_for: 30 * SECOND,
            ..in_progress()
        };
        assert_eq!(decided(policy(), hint), Decision::Exhausted(Exhausted::InProgress));
        let none = decided(policy().in_progress_budget(Duration::ZERO), in_progress());
        assert_eq!(none, Decision::Exhausted(Exhausted::InProgress));
    }

    #[test]
    fn in_progress_is_still_held_to_deadline_and_window() {
        let left = Left { deadline: Some(SECOND), window: None };
        let hint = Situation { retry_after: Some(2 * SECOND), left, ..in_progress() };
        assert_eq!(decided(policy(), hint), Decision::Exhausted(Exhausted::Deadline));
    }
}
