//! The reference store: everything in memory, nothing survives the process.
//!
//! It is what the other stores are measured against in the conformance suite, and what to use in tests
//! that need no file. It promises all that a [`Journal`] promises, but durability.

mod row;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;

use self::row::{Row, after};
use super::{
    Claim, Decision, Draft, Due, Gauges, Held, Inserted, Journal, JournalError, List, Outcome,
    Purge, Record, RowId, Sealed, State, Token, Trail,
};
use crate::clock::{Clock, SystemClock};

/// A journal in memory. Clones share their rows.
#[derive(Clone, Debug)]
pub struct MemoryJournal {
    clock: Arc<dyn Clock>,
    rows: Arc<Mutex<Rows>>,
}

#[derive(Debug, Default)]
struct Rows {
    last: i64,
    rows: BTreeMap<RowId, Row>,
}

impl MemoryJournal {
    /// An empty journal on the system's clock.
    #[must_use]
    pub fn new() -> MemoryJournal {
        MemoryJournal::with_clock(SystemClock)
    }

    /// An empty journal on another clock.
    pub fn with_clock(clock: impl Clock) -> MemoryJournal {
        MemoryJournal { clock: Arc::new(clock), rows: Arc::default() }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        // Each verb changes a row in one piece: whatever panicked, rows are whole.
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, draft: &Draft, row: impl FnOnce(Draft, SystemTime) -> Row) -> Inserted {
        let now = self.clock.wall();
        let mut rows = self.rows();
        if let Some((id, row)) = rows.named(&draft.scope, draft.name.as_deref()) {
            return Inserted::Found(Box::new(row.record(id, now)));
        }
        rows.last += 1;
        let id = RowId(rows.last);
        let row = row(draft.clone(), now);
        let claim = Claim::new(id, row.token);
        rows.rows.insert(id, row);
        Inserted::New(claim)
    }

    /// Changes the row of a claim that is still the row's last one, expired or not: as long as nobody
    /// else has claimed it, its holder's word is the latest.
    fn held<T>(&self, claim: &Claim, change: impl FnOnce(&mut Row, SystemTime) -> T) -> Held<T> {
        let now = self.clock.wall();
        let mut rows = self.rows();
        match rows.rows.get_mut(&claim.row) {
            Some(row) if row.token == claim.token => {
                row.updated = now;
                Held::Yes(change(row, now))
            }
            _ => Held::Lost,
        }
    }
}

impl Default for MemoryJournal {
    fn default() -> Self {
        MemoryJournal::new()
    }
}

impl Rows {
    fn named(&self, scope: &str, name: Option<&str>) -> Option<(RowId, &Row)> {
        let name = name?;
        let mut rows = self.rows.iter();
        rows.find(|(_, row)| row.draft.scope == scope && row.draft.name.as_deref() == Some(name))
            .map(|(id, row)| (*id, row))
    }
}

impl Sealed for MemoryJournal {}

#[async_trait]
impl Journal for MemoryJournal {
    async fn insert(&self, draft: &Draft, lease: Duration) -> Result<Inserted, JournalError> {
        Ok(self.add(draft, |draft, now| {
            let mut row = Row::new(draft, now);
            row.claim(now, lease);
            row
        }))
    }

    async fn enqueue(&self, draft: &Draft) -> Result<Inserted, JournalError> {
        Ok(self.add(draft, Row::new))
    }

    async fn take(
        &self,
        row: RowId,
        seen: Token,
        lease: Duration,
    ) -> Result<Held<Claim>, JournalError> {
        let now = self.clock.wall();
        let mut rows = self.rows();
        Ok(match rows.rows.get_mut(&row) {
            Some(found) if found.token == seen && found.is_free(now) => {
                found.claim(now, lease);
                Held::Yes(Claim::new(row, found.token))
            }
            _ => Held::Lost,
        })
    }

    async fn claim_due(
        &self,
        filter: &Due,
        lease: Duration,
    ) -> Result<Vec<(Claim, Record)>, JournalError> {
        let now = self.clock.wall();
        let mut rows = self.rows();
        let wanted =
            |row: &Row| filter.scopes.is_empty() || filter.scopes.contains(&row.draft.scope);
        let due = |row: &Row| row.lease.unwrap_or(row.due);
        let is_due =
            |row: &Row| now.duration_since(due(row)).is_ok_and(|for_| for_ >= filter.since);
        let mut ids: Vec<_> = rows
            .rows
            .iter()
            .filter(|(_, row)| row.state == State::Pending && is_due(row) && wanted(row))
            .map(|(id, row)| (due(row), *id))
            .collect();
        ids.sort_unstable();
        ids.truncate(usize::try_from(filter.limit).unwrap_or(usize::MAX));
        let claim = |(_, id): (SystemTime, RowId)| {
            let row = rows.rows.get_mut(&id)?;
            row.claim(now, lease);
            Some((Claim::new(id, row.token), row.record(id, now)))
        };
        Ok(ids.into_iter().filter_map(claim).collect())
    }

    async fn attempt(&self, claim: &Claim, trail: &Trail) -> Result<Held<()>, JournalError> {
        Ok(self.held(claim, |row, now| {
            row.trail = trail.clone();
            row.attempts = trail.count() + 1;
            row.lost = 1;
            row.first_send = row.first_send.filter(|_| trail.sent).or(Some(now));
        }))
    }

    async fn renew(&self, claim: &Claim, lease: Duration) -> Result<Held<()>, JournalError> {
        Ok(self.held(claim, |row, now| row.lease = Some(after(now, lease))))
    }

    async fn finish(&self, claim: &Claim, outcome: &Outcome) -> Result<Held<()>, JournalError> {
        Ok(self.held(claim, |row, now| row.finish(now, outcome)))
    }

    fn finish_soon(&self, claim: Claim, outcome: Outcome) {
        // Nobody waits for the word of a claim that was lost meanwhile.
        let (Held::Yes(()) | Held::Lost) = self.held(&claim, |row, now| row.finish(now, &outcome));
    }

    async fn flush(&self) {}

    async fn by_row(&self, row: RowId) -> Result<Option<Record>, JournalError> {
        let now = self.clock.wall();
        Ok(self.rows().rows.get(&row).map(|found| found.record(row, now)))
    }

    async fn by_name(&self, scope: &str, name: &str) -> Result<Option<Record>, JournalError> {
        let now = self.clock.wall();
        Ok(self.rows().named(scope, Some(name)).map(|(id, row)| row.record(id, now)))
    }

    async fn by_key(&self, key: &str) -> Result<Vec<Record>, JournalError> {
        let now = self.clock.wall();
        let rows = self.rows();
        let with_key = rows.rows.iter().filter(|(_, row)| row.draft.key == key);
        Ok(with_key.map(|(id, row)| row.record(*id, now)).collect())
    }

    async fn list(&self, filter: &List) -> Result<Vec<Record>, JournalError> {
        let now = self.clock.wall();
        let rows = self.rows();
        let wanted = |id: RowId, row: &Row| {
            filter.after.is_none_or(|after| id > after)
                && filter.scope.as_ref().is_none_or(|scope| *scope == row.draft.scope)
                && (filter.states.is_empty()
                    || filter.states.iter().any(|s| s.as_str() == row.state.as_str()))
        };
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let listed = rows.rows.iter().filter(|(id, row)| wanted(**id, row)).take(limit);
        Ok(listed.map(|(id, row)| row.record(*id, now)).collect())
    }

    async fn decide(
        &self,
        row: RowId,
        seen: Token,
        decision: Decision,
    ) -> Result<Held<()>, JournalError> {
        let now = self.clock.wall();
        let mut rows = self.rows();
        Ok(match rows.rows.get_mut(&row) {
            Some(row) if row.token == seen && row.is_free(now) => {
                row.token.0 += 1;
                row.lease = None;
                row.updated = now;
                match decision {
                    Decision::Retry => {
                        row.state = State::Pending;
                        row.due = now;
                        row.lost = 0;
                    }
                    Decision::Abandon => row.state = State::Abandoned,
                    Decision::Unknown => row.state = State::Unknown,
                    Decision::Completed => row.state = State::Completed,
                }
                Held::Yes(())
            }
            _ => Held::Lost,
        })
    }

    async fn purge(
        &self,
        older_than: Duration,
        what: Purge,
        limit: u32,
    ) -> Result<u64, JournalError> {
        let now = self.clock.wall();
        let mut rows = self.rows();
        let old = |row: &Row| {
            matches!(row.state, State::Completed | State::Abandoned)
                && now.duration_since(row.updated).is_ok_and(|age| age >= older_than)
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        match what {
            Purge::Names => {
                let ids: Vec<_> = rows
                    .rows
                    .iter()
                    .filter(|(_, row)| old(row))
                    .take(limit)
                    .map(|(id, _)| *id)
                    .collect();
                ids.iter().for_each(|id| {
                    rows.rows.remove(id);
                });
                Ok(ids.len() as u64)
            }
            Purge::Bodies => {
                let purged = |row: &Row| {
                    row.draft.request.body.is_empty()
                        && row.answer.as_ref().is_none_or(|answer| answer.body.is_none())
                };
                let full =
                    rows.rows.values_mut().filter(|row| old(row) && !purged(row)).take(limit);
                Ok(full
                    .map(|row| {
                        row.draft.request.body.clear();
                        if let Some(answer) = &mut row.answer {
                            answer.body = None;
                        }
                    })
                    .count() as u64)
            }
        }
    }

    async fn gauges(&self) -> Result<Gauges, JournalError> {
        let now = self.clock.wall();
        let rows = self.rows();
        let mut gauges = Gauges::default();
        for (id, row) in &rows.rows {
            let record = row.record(*id, now);
            match record.state_now() {
                State::Pending => gauges.pending += 1,
                State::Parked(_) => gauges.parked += 1,
                State::Unknown => gauges.unknown += 1,
                State::Completed => gauges.completed += 1,
                State::Abandoned => gauges.abandoned += 1,
            }
            if matches!(record.state_now(), State::Pending | State::Parked(_)) {
                gauges.oldest = gauges.oldest.max(Some(record.ages.created));
                let left = [gauges.closes_first, record.window_left()];
                gauges.closes_first = left.into_iter().flatten().min();
            }
        }
        Ok(gauges)
    }
}
