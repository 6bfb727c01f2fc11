//! A row in memory.

use std::time::{Duration, SystemTime};

use crate::journal::{Ages, Draft, Outcome, Record, RowId, State, StoredAnswer, To, Token, Trail};

/// A row as it is stored: times as points on the store's clock.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) draft: Draft,
    pub(super) token: Token,
    pub(super) state: State,
    pub(super) attempts: u32,
    pub(super) lost: u32,
    pub(super) trail: Trail,
    pub(super) answer: Option<StoredAnswer>,
    pub(super) created: SystemTime,
    pub(super) updated: SystemTime,
    pub(super) first_send: Option<SystemTime>,
    /// The end of the lease, while the row is claimed.
    pub(super) lease: Option<SystemTime>,
    /// When it is due, while it is pending and not claimed.
    pub(super) due: SystemTime,
}

impl Row {
    pub(super) fn new(draft: Draft, now: SystemTime) -> Row {
        Row {
            draft,
            token: Token(0),
            state: State::Pending,
            attempts: 0,
            lost: 0,
            trail: Trail::default(),
            answer: None,
            created: now,
            updated: now,
            first_send: None,
            lease: None,
            due: now,
        }
    }

    /// A claim on the row, its next attempt counted as begun now.
    pub(super) fn claim(&mut self, now: SystemTime, lease: Duration) {
        self.token.0 += 1;
        self.state = State::Pending;
        self.attempts += 1;
        self.lost += 1;
        self.first_send.get_or_insert(now);
        self.lease = Some(after(now, lease));
        self.updated = now;
    }

    pub(super) fn is_free(&self, now: SystemTime) -> bool {
        self.lease.is_none_or(|end| end <= now)
    }

    pub(super) fn finish(&mut self, now: SystemTime, outcome: &Outcome) {
        self.token.0 += 1;
        self.lease = None;
        self.due = now;
        self.first_send = if outcome.trail.sent { self.first_send } else { None };
        self.trail = outcome.trail.clone();
        self.attempts = self.trail.count();
        self.lost = if outcome.to == To::Released { self.lost - 1 } else { 0 };
        if outcome.answer.is_some() {
            self.answer = outcome.answer.clone();
        }
        match outcome.to {
            To::Completed => self.state = State::Completed,
            To::Parked(reason) => self.state = State::Parked(reason),
            To::Unknown => self.state = State::Unknown,
            To::Later(wait) => self.due = after(now, wait),
            To::Released => {}
        }
    }

    pub(super) fn record(&self, row: RowId, now: SystemTime) -> Record {
        let since = |time: SystemTime| now.duration_since(time).unwrap_or_default();
        let lease_left = self.lease.and_then(|end| end.duration_since(now).ok());
        Record {
            row,
            token: self.token,
            state: self.state,
            draft: self.draft.clone(),
            attempts: self.attempts,
            lost: self.lost,
            trail: self.trail.clone(),
            answer: self.answer.clone(),
            ages: Ages {
                created: since(self.created),
                updated: since(self.updated),
                first_send: self.first_send.map(since),
                first_send_at: self.first_send,
                clock_went_back: self.first_send.is_some_and(|first| first > now),
                lease_left: lease_left.filter(|left| !left.is_zero()),
            },
        }
    }
}

/// So long after this; at the end of time when that is beyond it.
pub(super) fn after(now: SystemTime, wait: Duration) -> SystemTime {
    let century = Duration::from_secs(100 * 365 * 86_400);
    now.checked_add(wait.min(century)).unwrap_or(now)
}
