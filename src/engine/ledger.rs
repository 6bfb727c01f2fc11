//! The row of an operation, for as long as a call works on it.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::race::within;
use crate::clock::Clock;
use crate::journal::{
    Claim, Held, Journal, JournalError, Outcome, PastAttempt, Record, RowId, StoredAnswer, To,
    Token, Trail,
};
use crate::report::Attempt;
use crate::retry::{Answer, History, Known};

/// A claimed row. Dropped before it is finished, it is released: the resumer goes on with it.
#[derive(Debug)]
pub(crate) struct Ledger {
    journal: Arc<dyn Journal>,
    claim: Claim,
    trail: Trail,
    /// The attempt that is under way, and when it started.
    open: Option<(u32, SystemTime)>,
    /// The attempts that were made under this claim.
    made: u32,
    /// What the server asked to wait at least, as long as that lasts.
    hint: Duration,
    finished: bool,
}

impl Ledger {
    /// Of a row that was just inserted.
    pub(crate) fn new(journal: Arc<dyn Journal>, claim: Claim) -> Ledger {
        Ledger::with(journal, claim, Trail::default())
    }

    /// Of a row that was there before. What it says of attempts that were killed is added to its trail.
    pub(crate) fn of(journal: Arc<dyn Journal>, claim: Claim, record: &Record) -> Ledger {
        let mut trail = record.trail.clone();
        // The last of those counted is the one that this claim is about to make.
        for number in trail.count() + 1..record.attempts {
            trail.push(PastAttempt::lost(number, 0), true);
        }
        Ledger::with(journal, claim, trail)
    }

    fn with(journal: Arc<dyn Journal>, claim: Claim, trail: Trail) -> Ledger {
        let hint = Duration::ZERO;
        Ledger { journal, claim, trail, open: None, made: 0, hint, finished: false }
    }

    /// The row, and its token under this claim.
    pub(crate) fn row(&self) -> (RowId, Token) {
        (self.claim.row, self.claim.token)
    }

    /// What the attempts so far add up to.
    pub(crate) fn history(&self) -> History {
        let mut history = History::default();
        for attempt in &self.trail.attempts {
            history.open();
            history.close(Answer {
                known: Known::from_name(&attempt.known),
                status: attempt.status.filter(|_| attempt.error.is_none()),
                behind_key: attempt.behind_key,
            });
        }
        history
    }

    /// An attempt is about to be sent.
    pub(super) fn opened(&mut self, number: u32, started: SystemTime) {
        self.open = Some((number, started));
        self.made += 1;
        self.hint = Duration::ZERO;
    }

    /// The next attempt waits, for at least so long.
    pub(super) fn waits(&mut self, hint: Duration) {
        self.hint = hint;
    }

    /// The attempt that was under way has ended.
    pub(super) fn closed(&mut self, attempt: &Attempt, behind_key: bool) {
        self.open = None;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let past = PastAttempt {
            number: attempt.number(),
            started_ms: since_epoch(attempt.started()),
            waited_ms: millis(attempt.waited()),
            elapsed_ms: millis(attempt.elapsed()),
            known: attempt.known().as_str().to_owned(),
            status: attempt.status().map(|status| status.as_u16()),
            error: attempt.error().map(str::to_owned),
            request_id: attempt.request_id().map(str::to_owned),
            behind_key,
        };
        self.trail.push(past, !attempt.known().is_not_sent());
    }

    /// Counts the next attempt durably, before it is sent.
    pub(super) async fn count(&self) -> Result<Held<()>, JournalError> {
        self.journal.attempt(&self.claim, &self.trail).await
    }

    /// When the row was sent first, as the store has it.
    pub(super) async fn first_send(&self) -> Result<Option<SystemTime>, JournalError> {
        let record = self.journal.by_row(self.claim.row).await?;
        Ok(record.and_then(|record| record.ages.first_send_at))
    }

    /// Ends the claim. The row and its token as they are then, if it was still ours.
    pub(crate) async fn finish(
        mut self,
        to: To,
        answer: Option<StoredAnswer>,
    ) -> Result<Option<(RowId, Token)>, JournalError> {
        let outcome = self.outcome(to, answer);
        self.finished = true;
        Ok(match self.journal.finish(&self.claim, &outcome).await? {
            Held::Yes(()) => Some((self.claim.row, Token(self.claim.token.0 + 1))),
            Held::Lost => None,
        })
    }

    /// Ends the claim without waiting for it.
    pub(super) fn finish_soon(mut self, to: To, answer: Option<StoredAnswer>) {
        let outcome = self.outcome(to, answer);
        self.finished = true;
        self.journal.finish_soon(self.claim, outcome);
    }

    /// Renews the claim a third of its lease before the end of each; returns when it was lost, or could
    /// not be confirmed in time.
    pub(crate) fn heartbeat(
        &self,
        clock: Arc<dyn Clock>,
        lease: Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (journal, claim) = (Arc::clone(&self.journal), self.claim);
        async move {
            let mut confirmed = clock.monotonic();
            loop {
                clock.timer(lease / 3).await;
                let asked = clock.monotonic();
                let left = lease.saturating_sub(asked.saturating_sub(confirmed));
                match within(pin!(clock.timer(left)), pin!(journal.renew(&claim, lease))).await {
                    Some(Ok(Held::Yes(()))) => confirmed = asked,
                    // The store is away: try again for as long as the lease is known to be ours.
                    Some(Err(_)) if !left.is_zero() => {}
                    Some(Ok(Held::Lost) | Err(_)) | None => return,
                }
            }
        }
    }

    fn outcome(&mut self, to: To, answer: Option<StoredAnswer>) -> Outcome {
        Outcome { to, trail: std::mem::take(&mut self.trail), answer }
    }
}

impl Drop for Ledger {
    /// Whoever worked on it is gone, and nobody was told: the resumer goes on, no sooner than the server
    /// asked for. A claim under which nothing was sent is taken back.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        if let Some((number, started)) = self.open.take() {
            self.trail.push(PastAttempt::lost(number, since_epoch(started)), true);
        }
        let to = if self.made == 0 { To::Released } else { To::Later(self.hint) };
        let outcome = self.outcome(to, None);
        self.journal.finish_soon(self.claim, outcome);
    }
}

fn since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
