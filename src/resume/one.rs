//! One claimed row: send it once, hand its outcome over, and write down where it goes.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};
use reqwest::{Request, Url};
use tokio::sync::Semaphore;

use super::{Resumed, Resumer, Scoped, Verdict};
use crate::contract::Contract;
use crate::engine::{Engine, Journaling, Ledger, Resent, restore_request, within};
use crate::journal::{Ending, Reason, Record, Recovery, StoredAnswer, To, recover, settle};
use crate::operation::{OperationState, Options};
use crate::report::Report;
use crate::retry::{Delay, Effect, Known, RetryBudget, ceiling};

/// The ceiling of the jitter before the first retry of the resumer.
const BASE: Duration = Duration::from_secs(1);
/// Its cap.
const CAP: Duration = Duration::from_secs(5 * 60);

/// A claimed row, and what it takes to work on it.
pub(super) struct Job {
    pub(super) resumer: Arc<Resumer>,
    pub(super) journaling: Journaling,
    /// Its origin may be sent to.
    pub(super) allowed: bool,
    pub(super) ledger: Ledger,
    pub(super) record: Record,
}

/// A row, without its claim.
struct Row<'a> {
    resumer: &'a Resumer,
    journaling: &'a Journaling,
    allowed: bool,
    record: &'a Record,
}

/// What came of a row, before it is written down.
struct Came {
    to: To,
    effect: Effect,
    ledger: Option<Ledger>,
    answer: Option<StoredAnswer>,
    report: Option<Report>,
}

/// Works on a row when there is room for its origin, for as long as its claim is ours. `None`: it was
/// lost.
pub(super) async fn work(job: Job, room: Arc<Semaphore>) -> Option<To> {
    let clock = Arc::clone(&job.resumer.client.engine().clock);
    let heartbeat = job.ledger.heartbeat(clock, job.journaling.lease);
    let work = async {
        // The room is never closed.
        let _room = room.acquire_owned().await.ok()?;
        finish(job).await
    };
    within(pin!(heartbeat), pin!(work)).await.flatten()
}

async fn finish(job: Job) -> Option<To> {
    let Job { resumer, journaling, allowed, ledger, record } = job;
    let job = Row { resumer: &resumer, journaling: &journaling, allowed, record: &record };
    let mut came = match recover(&record) {
        Recovery::Unknown => unknown(&job, ledger).await,
        Recovery::Park(reason) => parked(&record, reason, ledger),
        Recovery::Resend => resend(&job, ledger).await,
    };
    let ends = matches!(came.to, To::Completed | To::Parked(_) | To::Unknown);
    if ends
        && let Some(handler) = &job.resumer.handler
        && handler(came.told(&record)).await.is_err()
    {
        came.to = To::Later(later(&record, None));
    }
    let told = job.resumer.outcomes.as_ref().map(|outcomes| (outcomes, came.told(&record)));
    if let Some(ledger) = came.ledger {
        match ledger.finish(came.to, came.answer).await {
            Ok(Some(_)) => {}
            Ok(None) => return None,
            Err(error) => {
                // The lease ends, and the row is resumed: the server replays its answer.
                tracing::warn!(%error, "the end of a resumed operation was not written down");
                return None;
            }
        }
    }
    if let Some((outcomes, resumed)) = told {
        outcomes(&resumed);
    }
    Some(came.to)
}

impl Came {
    /// As those who ask for outcomes are told.
    fn told(&self, record: &Record) -> Resumed {
        Resumed {
            record: record.clone(),
            to: self.to,
            effect: self.effect,
            answer: self.answer.clone(),
            report: self.report.clone(),
        }
    }
}

/// The window has closed over an open end: a person's, unless the hook can tell.
async fn unknown(job: &Row<'_>, ledger: Ledger) -> Came {
    let verdict = match &job.resumer.reconcile {
        Some(reconcile) => reconcile(job.record.clone()).await,
        None => Verdict::Unknown,
    };
    let (to, effect) = match verdict {
        Verdict::Happened => (To::Completed, Effect::Answered),
        Verdict::Unknown => (To::Unknown, Effect::Unknown),
    };
    Came { to, effect, ledger: Some(ledger), answer: None, report: None }
}

fn parked(record: &Record, reason: Reason, ledger: Ledger) -> Came {
    let sent = record.trail.sent || record.lost > 1;
    let effect = if sent { Effect::Unknown } else { Effect::NotSent };
    Came { to: To::Parked(reason), effect, ledger: Some(ledger), answer: None, report: None }
}

async fn resend(job: &Row<'_>, ledger: Ledger) -> Came {
    let Row { resumer, record, .. } = job;
    if !job.allowed {
        return parked(record, Reason::ForeignOrigin, ledger);
    }
    let Some(scoped) = resumer.scopes.get(&record.draft.scope) else {
        return parked(record, Reason::NoClient, ledger);
    };
    let engine = scoped.client.engine();
    let request = match request(record, scoped, job.journaling) {
        Ok(request) => request,
        Err(reason) => return parked(record, reason, ledger),
    };
    // The first send is free, and so is asking again for an answer that is on its way.
    let last = record.trail.attempts.last();
    let in_progress = last.is_some_and(|last| Known::from_name(&last.known) == Known::InProgress);
    let is_retry = record.attempts > 1 && !in_progress;
    let budgeted = engine.policy.retry_budget() == RetryBudget::PerOrigin;
    let now = engine.clock.monotonic();
    if is_retry && budgeted && !engine.budgets.take_or_probe(request.url(), now) {
        let effect = if record.trail.sent { Effect::Unknown } else { Effect::NotSent };
        let to = To::Later(put_off(record));
        return Came { to, effect, ledger: Some(ledger), answer: None, report: None };
    }
    let mut state = OperationState::default();
    if engine.restore_state(record, &ledger, &mut state).is_err() {
        return parked(record, Reason::Status, ledger);
    }
    // The claim has counted the attempt that is about to be made.
    state.attempts = record.attempts.saturating_sub(1);
    let contract = contract(record, engine);
    let options = Options {
        policy: Some(engine.policy.for_one_attempt()),
        contract: Some(contract.clone()),
        name: record.draft.name.clone(),
        ..Options::default()
    };
    let resent =
        engine.resend(scoped.client.transport(), request, &options, &mut state, ledger).await;
    settled(record, &contract, engine, resent).await
}

/// Where the row goes after an attempt.
async fn settled(record: &Record, contract: &Contract, engine: &Engine, resent: Resent) -> Came {
    let Resent { ended, ledger, kept } = resent;
    let report = match &ended {
        Ok(response) => Report::of(response).cloned(),
        Err(error) => Some(error.report().clone()),
    };
    let last = report.as_ref().and_then(|report| Some((report, report.last_attempt()?)));
    let (to, effect) = match last {
        // The window had closed by the time that it would have been sent.
        None => (To::Later(Duration::ZERO), Effect::Unknown),
        Some((report, last)) => {
            let to = match settle(Ending::of(report, last, contract)) {
                To::Parked(_) if !last.known().is_the_end() => {
                    To::Later(later(record, last.retry_after()))
                }
                to => to,
            };
            (to, report.effect())
        }
    };
    if ledger.is_none()
        && let Ok(mut response) = ended
    {
        // Too large to keep: its end closes the row, and nobody else reads it.
        let limit = engine.clock.timer(engine.policy.attempt_timeout());
        let read = async { while let Ok(Some(_)) = response.chunk().await {} };
        within(pin!(limit), pin!(read)).await;
    }
    Came { to, effect, ledger, answer: kept, report }
}

/// The request of a row, with what is never stored of it supplied again.
fn request(record: &Record, scoped: &Scoped, journaling: &Journaling) -> Result<Request, Reason> {
    let stored = &record.draft.request;
    let method = Method::from_bytes(stored.method.as_bytes()).map_err(|_| Reason::Status)?;
    let url = Url::parse(&stored.url).map_err(|_| Reason::ForeignOrigin)?;
    let supplied = |name: &String| {
        let name = HeaderName::from_bytes(name.as_bytes());
        name.is_ok_and(|name| {
            scoped.headers.contains_key(&name) || journaling.headers.reapplied.contains(&name)
        })
    };
    if !record.draft.terms.missing.iter().all(supplied) {
        return Err(Reason::MissingHeader);
    }
    let mut request = Request::new(method, url);
    *request.headers_mut() = scoped.headers.clone();
    restore_request(stored, &mut request).map_err(|_| Reason::Status)?;
    Ok(request)
}

/// The contract that the row was written under, or the client's own when nobody knows it any more.
fn contract(record: &Record, engine: &Engine) -> Contract {
    let name = &record.draft.terms.contract;
    let terms = if engine.contract.name() == name { None } else { Contract::named(name) };
    terms.unwrap_or_else(|| engine.contract.clone())
}

/// When a row is due again: full jitter on top of the server's hint, and no later than its window closes.
fn later(record: &Record, retry_after: Option<Duration>) -> Duration {
    let spread = ceiling(BASE, CAP, record.attempts.saturating_sub(1));
    within_window(record, Delay { floor: retry_after.unwrap_or(Duration::ZERO), spread })
}

/// When a row is due again that the retry budget kept from being sent. Nothing was learned that could be
/// counted, so it is its age that doubles: many rows must not turn in circles while a server is away.
fn put_off(record: &Record) -> Duration {
    let spread = record.ages.created.clamp(BASE, CAP);
    within_window(record, Delay { floor: Duration::ZERO, spread })
}

fn within_window(record: &Record, delay: Delay) -> Duration {
    let wait = delay.draw(&mut rand::rng());
    record.window_left().map_or(wait, |left| wait.min(left))
}
