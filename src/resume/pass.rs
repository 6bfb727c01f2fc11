//! Claiming what is due, and keeping so much of it in flight.

use std::collections::{HashMap, HashSet};
use std::future::{Future, poll_fn};
use std::ops::ControlFlow;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinSet};

use super::one::{Job, work};
use super::{Resumer, Summary};
use crate::engine::{Journaling, Ledger};
use crate::error::Error;
use crate::journal::{Due, JournalError, To};
use crate::refusal::Refusal;
use crate::retry::Effect;
use crate::retry::window::Window;

/// The most rows that are claimed at once.
const BATCH: usize = 32;

/// A resumer at work.
pub(super) struct Pass {
    resumer: Arc<Resumer>,
    journaling: Journaling,
    allowed: Arc<HashSet<String>>,
    /// Who is in flight, per origin.
    origins: HashMap<String, Arc<Semaphore>>,
    in_flight: JoinSet<Option<To>>,
    summary: Summary,
}

impl Pass {
    pub(super) fn new(mut resumer: Resumer) -> Result<Pass, Error> {
        let engine = resumer.client.engine();
        let Some(journaling) = engine.journaling.clone() else {
            return Err(Error::refused(Refusal::NoJournal));
        };
        let given = std::mem::take(&mut resumer.origins).into_iter().collect::<Result<Vec<_>, _>>();
        let mut allowed: HashSet<_> = given.map_err(Error::refused)?.into_iter().collect();
        allowed.extend(journaling.origins.iter().cloned());
        if allowed.is_empty() {
            return Err(Error::refused(Refusal::NoOrigin));
        }
        Ok(Pass {
            resumer: Arc::new(resumer),
            journaling,
            allowed: Arc::new(allowed),
            origins: HashMap::new(),
            in_flight: JoinSet::new(),
            summary: Summary::default(),
        })
    }

    /// Every row that is due now, once, unless the shutdown is there before.
    pub(super) async fn once_until(
        &mut self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, Error> {
        let clock = Arc::clone(&self.resumer.client.engine().clock);
        let began = clock.monotonic();
        let mut shutdown = pin!(shutdown);
        loop {
            let since = clock.monotonic().saturating_sub(began);
            let claimed = match self.claim(since).await {
                Ok(claimed) => claimed,
                Err(error) => return Err(Error::journal(error, self.effect())),
            };
            if claimed == 0 && self.in_flight.is_empty() {
                return Ok(self.summary);
            }
            if self.wait(shutdown.as_mut(), claimed, None).await.is_break() {
                return Ok(self.release().await);
            }
        }
    }

    /// Until the shutdown is there.
    pub(super) async fn until(
        &mut self,
        shutdown: impl Future<Output = ()>,
    ) -> Result<Summary, Error> {
        let mut shutdown = pin!(shutdown);
        loop {
            let claimed = self.claim(Duration::ZERO).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the journal cannot be read; trying again");
                0
            });
            let idle = Some(self.resumer.idle);
            if self.wait(shutdown.as_mut(), claimed, idle).await.is_break() {
                return Ok(self.release().await);
            }
        }
    }

    /// Waits until there may be something to claim: at once where the last claim left room, else until
    /// something has ended, or for so long. A shutdown is looked for here only, between the claims, so
    /// that none is granted to somebody who has gone.
    async fn wait(
        &mut self,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
        claimed: usize,
        idle: Option<Duration>,
    ) -> ControlFlow<()> {
        let room = self.in_flight.len() < self.resumer.concurrency;
        let more = claimed > 0 && room;
        let clock = &self.resumer.client.engine().clock;
        // Without room there is nothing to claim before something has ended.
        let mut rest = pin!(idle.filter(|_| room).map(|idle| clock.sleep(idle)));
        // A clock that is moved by hand rests for no time, and others want to work.
        tokio::task::yield_now().await;
        let (in_flight, summary) = (&mut self.in_flight, &mut self.summary);
        poll_fn(|cx| {
            if shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(ControlFlow::Break(()));
            }
            let mut goes_on = more;
            while let Poll::Ready(Some(ended)) = in_flight.poll_join_next(cx) {
                summary.count(ended);
                goes_on = true;
            }
            if !goes_on && let Some(rest) = rest.as_mut().as_pin_mut() {
                goes_on = rest.poll(cx).is_ready();
            }
            if goes_on { Poll::Ready(ControlFlow::Continue(())) } else { Poll::Pending }
        })
        .await
    }

    /// What is known of all that it has gone on with so far.
    fn effect(&self) -> Effect {
        let nothing = self.summary == Summary::default() && self.in_flight.is_empty();
        if nothing { Effect::NotSent } else { Effect::Unknown }
    }

    /// What is in flight is dropped, which releases its claims.
    async fn release(&mut self) -> Summary {
        self.in_flight.shutdown().await;
        self.journaling.journal.flush().await;
        self.summary
    }

    /// Claims as many due rows as there is room for, and sends them off.
    async fn claim(&mut self, since: Duration) -> Result<usize, JournalError> {
        let room = self.resumer.concurrency.saturating_sub(self.in_flight.len()).min(BATCH);
        if room == 0 {
            return Ok(0);
        }
        let limit = u32::try_from(room).unwrap_or(u32::MAX);
        let scopes = self.resumer.only.clone();
        let due = Due { scopes, since, limit };
        let claimed = self.journaling.journal.claim_due(&due, self.journaling.lease).await?;
        let count = claimed.len();
        for (claim, mut record) in claimed {
            let window = &mut record.draft.terms.window;
            *window = shortened(*window, self.resumer.window);
            let origin = reqwest::Url::parse(&record.draft.request.url)
                .map(|url| url.origin().ascii_serialization())
                .unwrap_or_default();
            let most = self.resumer.per_origin;
            let room = self.origins.entry(origin.clone());
            let room = Arc::clone(room.or_insert_with(|| Arc::new(Semaphore::new(most))));
            let journal = Arc::clone(&self.journaling.journal);
            let job = Job {
                resumer: Arc::clone(&self.resumer),
                journaling: self.journaling.clone(),
                allowed: self.allowed.contains(&origin),
                // From here on whoever drops it releases the claim.
                ledger: Ledger::of(journal, claim, &record),
                record,
            };
            self.in_flight.spawn(work(job, room));
        }
        Ok(count)
    }
}

impl Summary {
    fn count(&mut self, ended: Result<Option<To>, JoinError>) {
        // A handler that panicked has dropped its claim: the row is released.
        let counter = match ended.ok().flatten() {
            Some(To::Completed) => &mut self.completed,
            Some(To::Later(_) | To::Released) => &mut self.later,
            Some(To::Parked(_)) => &mut self.parked,
            Some(To::Unknown) => &mut self.unknown,
            None => &mut self.lost,
        };
        *counter += 1;
    }
}

/// The window of a row and its margin, no longer than the one that was given.
fn shortened(
    stored: Option<(Duration, Duration)>,
    given: Option<Duration>,
) -> Option<(Duration, Duration)> {
    let Some(given) = given else { return stored };
    let window = match stored {
        Some((length, margin)) => {
            Window::with_margin(length, margin).map(|w| w.shortened_to(given))
        }
        None => Window::new(given),
    };
    // A window that leaves nothing stays what it is: closed.
    Some(window.map_or((Duration::ZERO, Duration::ZERO), |w| (w.length(), w.margin())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_is_given_only_shortens() {
        let seconds =
            |length, margin| Some((Duration::from_secs(length), Duration::from_secs(margin)));
        let given = |length| Some(Duration::from_secs(length));
        for (stored, given, expected) in [
            (seconds(100, 20), None, seconds(100, 20)),
            (None, None, None),
            (seconds(100, 20), given(200), seconds(100, 20)),
            (seconds(100, 20), given(50), seconds(50, 5)),
            (seconds(100, 2), given(50), seconds(50, 2)),
            (None, given(50), seconds(50, 5)),
            (None, given(0), seconds(0, 0)),
        ] {
            assert_eq!(shortened(stored, given), expected, "{stored:?} {given:?}");
        }
    }
}
