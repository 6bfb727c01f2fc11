//! What the stored row of a key says of a request: the decision, without the store.
//!
//! The rule, in this order:
//!
//! 1. no row, or one that may be forgotten → [`Verdict::Fresh`];
//! 2. another fingerprint → [`Verdict::Mismatch`], whatever else the row says;
//! 3. answered → [`Verdict::Replay`];
//! 4. a live lease → [`Verdict::InProgress`];
//! 5. a dead worker whose call to somewhere else was not confirmed, or one of too many →
//!    [`Verdict::Reconcile`];
//! 6. any other dead worker → [`Verdict::TakeOver`].
//!
//! A row may be forgotten when its retention is over and nothing is lost with it: it is answered, or its
//! worker is dead and has reached no recovery point.
//!
//! # Not guaranteed
//! - Fingerprints of two versions of the algorithm are never equal, so that a key that was claimed before
//!   such a change is a mismatch after it, until its retention is over. The other way round an answer could
//!   be given to another request.

use std::time::Duration;

use crate::fingerprint::Fingerprint;

/// So many runs of one claim may end without a word. Then it is not run again: whatever it is, it kills
/// its worker.
pub const MOST_RUNS: u32 = 20;

/// What a store knows of a key, by its own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seen {
    /// What the first request asked for.
    pub fingerprint: Fingerprint,
    /// Whether its answer is stored.
    pub answered: bool,
    /// What is left of the worker's lease; zero when it is over, or was given back.
    pub lease_left: Duration,
    /// What is left of the retention; zero when it is over.
    pub retention_left: Duration,
    /// How far the work has come.
    pub point: Option<RecoveryPoint>,
    /// How often it was begun.
    pub runs: u32,
}

/// How far the work behind a claim has come, as its handler wrote down: where the next worker goes on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct RecoveryPoint {
    /// Its name: `charged`.
    pub name: String,
    /// What the handler wants to know again: a downstream key, an id.
    pub data: Option<String>,
    /// A call to somewhere else begins here, and cannot be repeated: only a person, or the other side,
    /// knows whether it happened.
    pub unconfirmed: bool,
}

impl RecoveryPoint {
    /// Up to here the work is done, and goes on from here.
    #[must_use]
    pub fn reached(name: impl Into<String>, data: Option<String>) -> RecoveryPoint {
        RecoveryPoint { name: name.into(), data, unconfirmed: false }
    }

    /// From here on it is not known whether a call that cannot be repeated has happened.
    #[must_use]
    pub fn unconfirmed(name: impl Into<String>, data: Option<String>) -> RecoveryPoint {
        RecoveryPoint { name: name.into(), data, unconfirmed: true }
    }
}

/// What to do with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is the first: run it.
    Fresh,
    /// Its key belongs to another request: refuse it.
    Mismatch,
    /// It is being worked on.
    InProgress {
        /// What is left of the worker's lease.
        lease_left: Duration,
    },
    /// Give the stored answer.
    Replay,
    /// Its worker is dead: go on from the recovery point.
    TakeOver,
    /// Its worker is dead, and only a person can tell what happened.
    Reconcile,
}

/// Decides, by what is stored under the key of a request.
#[must_use]
pub fn claim(seen: Option<&Seen>, fingerprint: &Fingerprint) -> Verdict {
    match seen {
        None => Verdict::Fresh,
        Some(seen) if seen.may_be_forgotten() => Verdict::Fresh,
        Some(seen) if seen.fingerprint != *fingerprint => Verdict::Mismatch,
        Some(seen) if seen.answered => Verdict::Replay,
        Some(seen) if seen.is_live() => Verdict::InProgress { lease_left: seen.lease_left },
        Some(seen) if seen.needs_a_person() => Verdict::Reconcile,
        Some(_) => Verdict::TakeOver,
    }
}

impl Seen {
    /// Somebody works on it.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !self.answered && !self.lease_left.is_zero()
    }

    /// Its retention is over, and nothing is lost with it.
    #[must_use]
    pub fn may_be_forgotten(&self) -> bool {
        let done = self.answered || (!self.is_live() && self.point.is_none());
        done && self.retention_left.is_zero()
    }

    /// Nobody works on it, and nobody may without a person's word.
    #[must_use]
    pub fn needs_a_person(&self) -> bool {
        let unconfirmed = self.point.as_ref().is_some_and(|point| point.unconfirmed);
        !self.answered && !self.is_live() && (unconfirmed || self.runs >= MOST_RUNS)
    }

    /// It waits for a person: nobody may work on it, or nobody has asked for it again until its retention
    /// was over, and it is half done.
    #[must_use]
    pub fn waits_for_a_person(&self) -> bool {
        let left = self.point.is_some() && self.retention_left.is_zero();
        let left = left && !self.answered && !self.is_live();
        (left || self.needs_a_person()) && !self.may_be_forgotten()
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn of(body: &str) -> Fingerprint {
        Fingerprint::new(&Method::POST, "/charges", None, body.as_bytes())
    }

    fn dead() -> Seen {
        Seen {
            fingerprint: of("a"),
            answered: false,
            lease_left: Duration::ZERO,
            retention_left: SECOND,
            point: None,
            runs: 1,
        }
    }

    #[test]
    fn each_row_has_its_verdict() {
        let live = Seen { lease_left: SECOND, ..dead() };
        let answered = Seen { answered: true, ..dead() };
        let at = |point: RecoveryPoint| Seen { point: Some(point), ..dead() };
        let reached = at(RecoveryPoint::reached("charged", None));
        let unconfirmed = at(RecoveryPoint::unconfirmed("charging", None));
        let old = |seen: &Seen| Seen { retention_left: Duration::ZERO, ..seen.clone() };
        let worn = Seen { runs: MOST_RUNS, ..dead() };
        let in_progress = Verdict::InProgress { lease_left: SECOND };
        for (rule, seen, expected) in [
            ("no row is fresh", None, Verdict::Fresh),
            ("a live one is in progress", Some(live.clone()), in_progress),
            ("a live one past its retention too", Some(old(&live)), in_progress),
            ("an answered one is replayed", Some(answered.clone()), Verdict::Replay),
            ("an answered one past its retention is new", Some(old(&answered)), Verdict::Fresh),
            ("a dead one is taken over", Some(dead()), Verdict::TakeOver),
            ("a dead one past its retention is new", Some(old(&dead())), Verdict::Fresh),
            ("a checkpoint is gone on from", Some(reached.clone()), Verdict::TakeOver),
            ("a checkpoint is never forgotten", Some(old(&reached)), Verdict::TakeOver),
            ("an unconfirmed call is not repeated", Some(unconfirmed.clone()), Verdict::Reconcile),
            ("an unconfirmed call is never forgotten", Some(old(&unconfirmed)), Verdict::Reconcile),
            ("what kills its workers is not run for ever", Some(worn.clone()), Verdict::Reconcile),
            ("it may be forgotten", Some(old(&worn)), Verdict::Fresh),
        ] {
            assert_eq!(claim(seen.as_ref(), &of("a")), expected, "{rule}");
        }
        for (rule, seen, expected) in [
            ("in progress", live, Verdict::Mismatch),
            ("answered", answered.clone(), Verdict::Mismatch),
            ("dead", dead(), Verdict::Mismatch),
            ("unconfirmed", old(&unconfirmed), Verdict::Mismatch),
            ("forgotten", old(&answered), Verdict::Fresh),
        ] {
            assert_eq!(claim(Some(&seen), &of("b")), expected, "another body, {rule}");
        }
    }

    #[test]
    fn work_that_goes_on_is_neither_forgotten_nor_a_persons() {
        let point = Some(RecoveryPoint::unconfirmed("charging", None));
        let live = Seen { lease_left: SECOND, runs: MOST_RUNS, point, ..dead() };
        assert!(live.is_live() && !live.may_be_forgotten() && !live.needs_a_person());
        let answered = Seen { answered: true, ..live };
        assert!(!answered.is_live() && !answered.may_be_forgotten() && !answered.needs_a_person());
    }

    #[test]
    fn what_nobody_may_or_will_end_waits_for_a_person() {
        let at = |point: RecoveryPoint| Seen { point: Some(point), ..dead() };
        let reached = at(RecoveryPoint::reached("charged", None));
        let old = |seen: &Seen| Seen { retention_left: Duration::ZERO, ..seen.clone() };
        let worn = Seen { runs: MOST_RUNS, ..dead() };
        let unconfirmed = at(RecoveryPoint::unconfirmed("charging", None));
        for (rule, seen, waits) in [
            ("an unconfirmed call", unconfirmed, true),
            ("a checkpoint whose client may come back", reached.clone(), false),
            ("a checkpoint whose client never came", old(&reached), true),
            ("one that is being worked on", Seen { lease_left: SECOND, ..old(&reached) }, false),
            ("one that is answered", Seen { answered: true, ..old(&reached) }, false),
            ("one that kills its workers", worn.clone(), true),
            ("one that may be forgotten", old(&worn), false),
            ("one that can be run again", dead(), false),
        ] {
            assert_eq!(seen.waits_for_a_person(), waits, "{rule}");
        }
    }
}
