//! The store in memory: the reference, and what tests want. It forgets all with its process.

use std::collections::BTreeMap;
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
use crate::server::claim::{RecoveryPoint, Seen, Verdict, claim};

/// A store in memory. Clones share it.
///
/// # Not guaranteed
/// - Anything after the end of the process: a retry that reaches the next one is run again.
#[derive(Clone, Debug)]
pub struct MemoryClaims {
    rows: Arc<Mutex<BTreeMap<Name, Kept>>>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug)]
struct Kept {
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

    fn rows(&self) -> MutexGuard<'_, BTreeMap<Name, Kept>> {
        // Each verb changes a row at its end, in one go.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the row that this holder works on.
    fn held<T>(
        &self,
        holder: &Holder,
        change: impl FnOnce(&mut Kept, Duration) -> T,
    ) -> Result<Held<T>, ClaimError> {
        let now = self.clock.monotonic();
        match self.rows().get_mut(&holder.name) {
            Some(kept) if kept.token == holder.token && kept.answer.is_none() => {
                Ok(Held::Yes(change(kept, now)))
            }
            _ => Ok(Held::Lost),
        }
    }
}

impl Kept {
    fn new(ask: &Ask, now: Duration) -> Kept {
        Kept {
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

    fn row(&self, name: &Name, now: Duration) -> Row {
        Row {
            holder: Holder::new(name.clone(), self.token),
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

impl Sealed for MemoryClaims {}

#[async_trait]
impl ClaimStore for MemoryClaims {
    async fn claim(&self, ask: &Ask) -> Result<Claimed, ClaimError> {
        let now = self.clock.monotonic();
        let mut rows = self.rows();
        let kept = rows.get_mut(&ask.holder.name);
        let verdict = claim(kept.as_ref().map(|kept| kept.seen(now)).as_ref(), &ask.fingerprint);
        Ok(match (verdict, kept) {
            (Verdict::TakeOver, Some(kept)) => {
                kept.token = ask.holder.token;
                kept.runs = kept.runs.saturating_add(1);
                kept.locked_until = now.saturating_add(ask.lease);
                Claimed::Won { run: kept.runs, point: kept.point.clone() }
            }
            (Verdict::Fresh | Verdict::TakeOver, _) => {
                rows.insert(ask.holder.name.clone(), Kept::new(ask, now));
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
        match rows.get_mut(&holder.name) {
            Some(kept) if kept.token == holder.token && kept.answer.is_none() => {
                if kept.point.is_some() {
                    // A heartbeat that comes late must not hold it again.
                    kept.token = Token::mint();
                    kept.locked_until = Duration::ZERO;
                } else {
                    rows.remove(&holder.name);
                }
                Ok(Held::Yes(()))
            }
            _ => Ok(Held::Lost),
        }
    }

    async fn look(&self, name: &Name) -> Result<Option<Row>, ClaimError> {
        let now = self.clock.monotonic();
        Ok(self.rows().get(name).map(|kept| kept.row(name, now)))
    }

    async fn list(&self, after: Option<&Name>, limit: u32) -> Result<Vec<Row>, ClaimError> {
        let now = self.clock.monotonic();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = self.rows();
        let rows = rows.range((from, Bound::Unbounded)).map(|(name, kept)| kept.row(name, now));
        let wanted = rows.filter(|row| row.seen.waits_for_a_person());
        Ok(wanted.take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    async fn settle(&self, seen: &Holder, decision: &Decision) -> Result<Held<()>, ClaimError> {
        let now = self.clock.monotonic();
        let mut rows = self.rows();
        let Some(kept) = rows.get_mut(&seen.name) else { return Ok(Held::Lost) };
        if kept.token != seen.token || kept.answer.is_some() || kept.seen(now).is_live() {
            return Ok(Held::Lost);
        }
        // Whoever was late must not write any more.
        kept.token = Token::mint();
        match decision {
            Decision::RunAgain => {
                kept.runs = 0;
                if let Some(point) = &mut kept.point {
                    point.unconfirmed = false;
                }
            }
            Decision::Answer(answer, retention) => kept.complete(answer, now, *retention),
            Decision::Forget => drop(rows.remove(&seen.name)),
        }
        Ok(Held::Yes(()))
    }

    async fn sweep(&self, limit: u32) -> Result<u64, ClaimError> {
        let now = self.clock.monotonic();
        let mut rows = self.rows();
        let over = rows.iter().filter(|(_, kept)| kept.seen(now).may_be_forgotten());
        let over: Vec<_> = over
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(|(name, _)| name.clone())
            .collect();
        over.iter().for_each(|name| drop(rows.remove(name)));
        Ok(over.len() as u64)
    }
}
