//! The store in memory: the reference, and what tests want. It forgets all with its process.
//!
//! Its verbs take as long among a million keys as among a thousand, but for what a cache no longer holds: what may
//! be forgotten, and what may wait for a person, have an index each.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::{
    Ask, ClaimError, ClaimStore, Claimed, Decision, Held, Holder, Name, Row, Sealed, Token,
};
use crate::clock::{Clock, SystemClock};
use crate::fingerprint::Fingerprint;
use crate::server::answer::StoredAnswer;
use crate::server::claim::{MOST_RUNS, RecoveryPoint, Seen, Verdict, claim};

/// A store in memory. Clones share it.
///
/// # Not guaranteed
/// - Anything after the end of the process: a retry that reaches the next one is run again.
#[derive(Clone, Debug)]
pub struct MemoryClaims {
    rows: Arc<Mutex<Rows>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Each in a box: a table that grows moves all that is in it.
    kept: HashMap<Arc<Name>, Box<Kept>>,
    /// By when each may be forgotten; without those that may never be.
    ending: BTreeSet<(Duration, Arc<Name>)>,
    /// Those of which some wait for a person. What goes well is never here.
    unfinished: BTreeSet<Arc<Name>>,
}

#[derive(Debug)]
struct Kept {
    name: Arc<Name>,
    token: Token,
    fingerprint: Fingerprint,
    answer: Option<StoredAnswer>,
    point: Option<RecoveryPoint>,
    runs: u32,
    since: Duration,
    locked_until: Duration,
    expires: Duration,
}

impl Default for MemoryClaims {
    fn default() -> MemoryClaims {
        MemoryClaims::new()
    }
}

impl MemoryClaims {
    /// An empty one.
    #[must_use]
    pub fn new() -> MemoryClaims {
        MemoryClaims::with_clock(SystemClock)
    }

    /// An empty one that judges leases and retention by this clock.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> MemoryClaims {
        MemoryClaims { rows: Arc::default(), clock: Arc::new(clock) }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Nothing panics between a change of a row and that of its places in the indexes.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the row that this holder works on.
    fn held(
        &self,
        holder: &Holder,
        change: impl FnOnce(&mut Kept, Duration),
    ) -> Result<Held<()>, ClaimError> {
        let now = self.clock.monotonic();
        let mut held = Held::Lost;
        self.rows().change(&holder.name, |kept| {
            if kept.is_held_by(holder) {
                change(kept, now);
                held = Held::Yes(());
            }
        });
        Ok(held)
    }
}

impl Rows {
    fn is_held_by(&self, holder: &Holder) -> bool {
        self.kept.get(&holder.name).is_some_and(|kept| kept.is_held_by(holder))
    }

    fn insert(&mut self, kept: Kept) {
        let (name, ends) = (Arc::clone(&kept.name), kept.ends());
        if let Some(former) = self.kept.insert(Arc::clone(&name), Box::new(kept)) {
            self.unlist(*former);
        }
        self.ending.extend(ends.map(|end| (end, name)));
    }

    fn change(&mut self, name: &Name, change: impl FnOnce(&mut Kept)) {
        let Some(kept) = self.kept.get_mut(name) else { return };
        let (end, unfinished) = (kept.ends(), kept.is_unfinished());
        change(kept);
        if end != kept.ends() {
            if let Some(end) = end {
                self.ending.remove(&(end, Arc::clone(&kept.name)));
            }
            self.ending.extend(kept.ends().map(|end| (end, Arc::clone(&kept.name))));
        }
        match (unfinished, kept.is_unfinished()) {
            (false, true) => drop(self.unfinished.insert(Arc::clone(&kept.name))),
            (true, false) => drop(self.unfinished.remove(name)),
            (false, false) | (true, true) => {}
        }
    }

    fn remove(&mut self, name: &Name) {
        if let Some(kept) = self.kept.remove(name) {
            self.unlist(*kept);
        }
    }

    /// Takes it out of the indexes.
    fn unlist(&mut self, kept: Kept) {
        if kept.is_unfinished() {
            self.unfinished.remove(&kept.name);
        }
        if let Some(end) = kept.ends() {
            self.ending.remove(&(end, kept.name));
        }
    }
}

impl Kept {
    fn is_held_by(&self, holder: &Holder) -> bool {
        self.token == holder.token && self.answer.is_none()
    }

    fn new(ask: &Ask, now: Duration) -> Kept {
        Kept {
            name: Arc::new(ask.holder.name.clone()),
            token: ask.holder.token,
            fingerprint: ask.fingerprint,
            answer: None,
            point: None,
            runs: 1,
            since: now,
            locked_until: now.saturating_add(ask.lease),
            expires: now.saturating_add(ask.retention),
        }
    }

    fn seen(&self, now: Duration) -> Seen {
        Seen {
            fingerprint: self.fingerprint,
            answered: self.answer.is_some(),
            lease_left: self.locked_until.saturating_sub(now),
            retention_left: self.expires.saturating_sub(now),
            point: self.point.clone(),
            runs: self.runs,
        }
    }

    /// When it may be forgotten, as it is; by the same rule as [`Seen::may_be_forgotten`].
    fn ends(&self) -> Option<Duration> {
        match (&self.answer, &self.point) {
            (Some(_), _) => Some(self.expires),
            (None, None) => Some(self.expires.max(self.locked_until)),
            (None, Some(_)) => None,
        }
    }

    /// It may wait for a person, now or when its lease or its retention is over.
    fn is_unfinished(&self) -> bool {
        self.answer.is_none() && (self.point.is_some() || self.runs >= MOST_RUNS)
    }

    fn row(&self, now: Duration) -> Row {
        Row {
            holder: Holder::new(Name::clone(&self.name), self.token),
            seen: self.seen(now),
            age: now.saturating_sub(self.since),
            answer: self.answer.clone(),
        }
    }

    fn complete(&mut self, answer: &StoredAnswer, now: Duration, retention: Duration) {
        self.answer = Some(answer.clone());
        self.expires = now.saturating_add(retention);
    }
}

impl Sealed for MemoryClaims {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[async_trait]
impl ClaimStore for MemoryClaims {
    async fn claim(&self, ask: &Ask) -> Result<Claimed, ClaimError> {
        let now = self.clock.monotonic();
        let mut rows = self.rows();
        let kept = rows.kept.get(&ask.holder.name).map(Box::as_ref);
        let verdict = claim(kept.map(|kept| kept.seen(now)).as_ref(), &ask.fingerprint);
        Ok(match (verdict, kept) {
            (Verdict::TakeOver, Some(kept)) => {
                let (run, point) = (kept.runs.saturating_add(1), kept.point.clone());
                rows.change(&ask.holder.name, |kept| {
                    kept.token = ask.holder.token;
                    kept.runs = run;
                    kept.locked_until = now.saturating_add(ask.lease);
                });
                Claimed::Won { run, point }
            }
            (Verdict::Fresh | Verdict::TakeOver, _) => {
                rows.insert(Kept::new(ask, now));
                Claimed::Won { run: 1, point: None }
            }
            (Verdict::Replay, Some(Kept { answer: Some(answer), .. })) => {
                Claimed::Answered(answer.clone())
            }
            (Verdict::InProgress { lease_left }, _) => Claimed::InProgress { lease_left },
            (Verdict::Mismatch, _) => Claimed::Mismatch,
            (Verdict::Reconcile | Verdict::Replay, _) => Claimed::Reconcile,
        })
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Held<()>, ClaimError> {
        self.held(holder, |kept, now| kept.locked_until = now.saturating_add(lease))
    }

    async fn checkpoint(
        &self,
        holder: &Holder,
        point: &RecoveryPoint,
        lease: Duration,
    ) -> Result<Held<()>, ClaimError> {
        self.held(holder, |kept, now| {
            kept.point = Some(point.clone());
            kept.locked_until = now.saturating_add(lease);
        })
    }

    async fn complete(
        &self,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError> {
        self.held(holder, |kept, now| kept.complete(answer, now, retention))
    }

    async fn release(&self, holder: &Holder) -> Result<Held<()>, ClaimError> {
        let mut rows = self.rows();
        if !rows.is_held_by(holder) {
            return Ok(Held::Lost);
        }
        if rows.kept.get(&holder.name).is_some_and(|kept| kept.point.is_some()) {
            rows.change(&holder.name, |kept| {
                // A heartbeat that comes late must not hold it again.
                kept.token = Token::mint();
                kept.locked_until = Duration::ZERO;
            });
        } else {
            rows.remove(&holder.name);
        }
        Ok(Held::Yes(()))
    }

    async fn look(&self, name: &Name) -> Result<Option<Row>, ClaimError> {
        let now = self.clock.monotonic();
        Ok(self.rows().kept.get(name).map(|kept| kept.row(now)))
    }

    async fn list(&self, after: Option<&Name>, limit: u32) -> Result<Vec<Row>, ClaimError> {
        let now = self.clock.monotonic();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.rows();
        let names = rows.unfinished.range::<Name, _>((from, Bound::Unbounded));
        let found = names.filter_map(|name| rows.kept.get(name)).map(|kept| kept.row(now));
        let wanted = found.filter(|row| row.seen.waits_for_a_person());
        Ok(wanted.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    async fn settle(&self, seen: &Holder, decision: &Decision) -> Result<Held<()>, ClaimError> {
        let now = self.clock.monotonic();
        let mut rows = self.rows();
        let is_live = rows.kept.get(&seen.name).is_some_and(|kept| kept.seen(now).is_live());
        if is_live || !rows.is_held_by(seen) {
            return Ok(Held::Lost);
        }
        if let Decision::Forget = decision {
            rows.remove(&seen.name);
            return Ok(Held::Yes(()));
        }
        rows.change(&seen.name, |kept| {
            // Whoever was late must not write any more.
            kept.token = Token::mint();
            if let Decision::Answer(answer, retention) = decision {
                kept.complete(answer, now, *retention);
                return;
            }
            kept.runs = 0;
            if let Some(point) = &mut kept.point {
                point.unconfirmed = false;
            }
        });
        Ok(Held::Yes(()))
    }

    async fn sweep(&self, limit: u32) -> Result<u64, ClaimError> {
        let now = self.clock.monotonic();
        let mut rows = self.rows();
        let mut swept = 0;
        while swept < u64::from(limit) && rows.ending.first().is_some_and(|(end, _)| *end <= now) {
            if let Some((_, name)) = rows.ending.pop_first() {
                rows.remove(&name);
                swept += 1;
            }
        }
        Ok(swept)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, StatusCode};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_indexes_follow_the_rule() {
        let name = Name { principal: String::new(), key: "order-1".to_owned() };
        let fingerprint = Fingerprint::new(&Method::POST, "/", None, b"");
        let holder = Holder::new(name, Token::mint());
        let answer = StoredAnswer::new(StatusCode::OK, HeaderMap::new(), None);
        let point = RecoveryPoint::reached("charged", None);
        for lease in 0..3 {
            for retention in 0..3 {
                for (answer, point, runs) in [
                    (None, None, 1),
                    (None, None, MOST_RUNS),
                    (None, Some(&point), 1),
                    (Some(&answer), None, 1),
                    (Some(&answer), Some(&point), MOST_RUNS),
                ] {
                    let (lease, retention) = (SECOND * lease, SECOND * retention);
                    let ask = Ask::new(holder.clone(), fingerprint, lease, retention);
                    let (answer, point) = (answer.cloned(), point.cloned());
                    let kept = Kept { answer, point, runs, ..Kept::new(&ask, Duration::ZERO) };
                    for now in (0..4).map(|seconds| SECOND * seconds) {
                        let ended = kept.ends().is_some_and(|end| end <= now);
                        assert_eq!(ended, kept.seen(now).may_be_forgotten(), "{kept:?} {now:?}");
                        let waits = kept.seen(now).waits_for_a_person();
                        assert!(!waits || kept.is_unfinished(), "{kept:?} {now:?}");
                    }
                }
            }
        }
    }
}
