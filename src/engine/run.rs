//! The loop over the attempts of one call.

use std::time::{Duration, SystemTime};

use http::Extensions;
use reqwest::Response;

use super::attempt::{Head, Opened, Outcome};
use super::body::Read;
use super::ledger::Ledger;
use super::source::Source;
use super::{Engine, Transport};
use crate::contract::Contract;
use crate::error::{Error, Kind, RowProblem};
use crate::journal::{Held, StoredAnswer};
use crate::observer::Event;
use crate::operation::{OperationState, Options};
use crate::report::{Attempt, Report};
use crate::retry::window::{FirstSend, Moment, Window};
use crate::retry::{
    Answer, Decision, Delay, Exhausted, Known, Left, RetryBudget, RetryPolicy, Situation,
    attempt_limit, decide,
};

/// One call of an operation.
pub(super) struct Run<'a> {
    pub(super) engine: &'a Engine,
    pub(super) transport: Transport<'a>,
    pub(super) policy: &'a RetryPolicy,
    pub(super) contract: &'a Contract,
    pub(super) deadline: Option<Duration>,
    /// When the call began.
    pub(super) started: Moment,
    pub(super) window: Option<Window>,
    pub(super) report: Report,
    pub(super) state: &'a mut OperationState,
    /// The caller's.
    pub(super) extensions: &'a mut Extensions,
    /// The last attempt's copy of them.
    pub(super) last_extensions: Extensions,
    pub(super) source: Source<'a>,
    /// The attempts that count against the policy: all but those told "in progress".
    pub(super) counted: u32,
    pub(super) in_progress: InProgress,
    /// When the row was sent first, where each attempt says so.
    pub(super) first_sent: Option<SystemTime>,
    /// The row in the journal, until it is finished.
    pub(super) ledger: Option<Ledger>,
    /// The resumer goes on after the caller was told that it did not end.
    pub(super) keep_trying: bool,
    /// The answer, as it is kept in the row.
    pub(super) kept: Option<StoredAnswer>,
}

/// How often this call was told "in progress", and since when.
#[derive(Clone, Copy, Default)]
pub(super) struct InProgress {
    times: u32,
    since: Option<Duration>,
}

/// The last answer of a call that goes on: returned should there be no time for another attempt.
pub(super) type LastAnswer = Option<(Known, Read)>;

impl<'a> Run<'a> {
    pub(super) fn new(
        engine: &'a Engine,
        transport: Transport<'a>,
        options: &'a Options,
        source: Source<'a>,
        state: &'a mut OperationState,
        extensions: &'a mut Extensions,
        started: Moment,
    ) -> Run<'a> {
        let policy = options.policy.as_ref().unwrap_or(&engine.policy);
        let contract = engine.contract(options);
        let given = state.key.as_ref().and_then(|_| contract.window_for(source.url().path()));
        let operation = options.name.as_deref().map(Into::into);
        Run {
            engine,
            transport,
            policy,
            contract,
            deadline: options.deadline.or(policy.deadline()),
            started,
            window: [given, state.resolved].into_iter().flatten().reduce(Window::tighter),
            report: Report { operation, ..Report::new(state.key.clone()) },
            state,
            extensions,
            last_extensions: Extensions::new(),
            source,
            counted: 0,
            in_progress: InProgress::default(),
            first_sent: None,
            ledger: None,
            keep_trying: options.keep_trying,
            kept: None,
        }
    }

    /// Attempt after attempt, until one is the last.
    pub(super) async fn drive(&mut self) -> Result<Response, Error> {
        let mut waited = Duration::ZERO;
        let mut last: LastAnswer = None;
        let mut now = self.started;
        loop {
            let limit = match attempt_limit(self.policy, self.left(now)) {
                Ok(limit) => limit,
                Err(by) => return self.out_of_time(by, last),
            };
            self.count_durably().await?;
            self.read_first_send().await?;
            match self.attempt(now, limit, waited).await {
                Outcome::Answered { known, read, exhausted } => {
                    return self.answered(known, read, exhausted);
                }
                Outcome::Failed { cause, exhausted } => {
                    return Err(self.failed(Kind::Failed(cause), exhausted));
                }
                Outcome::Again { known, delay, answer } => {
                    self.publish();
                    last = self.drain(answer).await.map(|read| (known, read));
                    waited = self.pause(known, delay).await;
                    now = self.engine.now();
                }
            }
        }
    }

    /// Counts an attempt in the journal before it is sent. The first of a call was counted with its
    /// claim.
    async fn count_durably(&mut self) -> Result<(), Error> {
        let Some(ledger) = self.ledger.as_ref().filter(|_| self.report.first.is_some()) else {
            return Ok(());
        };
        match ledger.count().await {
            Ok(Held::Yes(())) => Ok(()),
            Ok(Held::Lost) => {
                self.ledger = None;
                Err(self.failed(Kind::Row(RowProblem::ClaimLost), None))
            }
            Err(error) => Err(self.failed(Kind::Journal(error), None)),
        }
    }

    /// Reads back when the row was sent first, where each attempt has to say so: by the store's clock, and so
    /// the same whoever goes on with it.
    async fn read_first_send(&mut self) -> Result<(), Error> {
        if self.contract.first_sent_header().is_none() {
            return Ok(());
        }
        let Some(ledger) = &self.ledger else { return Ok(()) };
        match ledger.first_send().await {
            Ok(first) => self.first_sent = first,
            Err(error) => return Err(self.failed(Kind::Journal(error), None)),
        }
        Ok(())
    }

    async fn pause(&mut self, because: Known, delay: Delay) -> Duration {
        let wait = delay.draw(&mut rand::rng());
        if let Some(ledger) = &mut self.ledger {
            ledger.waits(delay.floor);
        }
        let key = self.report.key();
        self.engine.watch.tell(|| Event::Waiting { key, because, wait });
        self.engine.clock.sleep(wait).await;
        wait
    }

    /// What is left of deadline and window now.
    fn left(&self, now: Moment) -> Left {
        let age = self.state.first_send.map_or(Duration::ZERO, |first| first.age(now));
        let window = self.window.map(|ours| match self.state.advertised {
            Some(advertised) => ours.shortened_to(advertised),
            None => ours,
        });
        let called = now.monotonic.saturating_sub(self.started.monotonic);
        Left {
            deadline: self.deadline.map(|limit| limit.saturating_sub(called)),
            window: window.map(|window| window.usable().saturating_sub(age)),
        }
    }

    /// Opens an attempt: counts it, and starts the window with the first one that may be sent.
    pub(super) fn open(&mut self, now: Moment, limit: Duration) -> Opened {
        let opened = Opened { at: now, first: self.state.first_send };
        self.state.attempts += 1;
        self.state.history.open();
        self.state.first_send.get_or_insert(FirstSend::new(now, Duration::ZERO));
        self.publish();
        if let Some(ledger) = &mut self.ledger {
            ledger.opened(self.state.attempts, now.wall);
        }
        let (key, number) = (self.report.key(), self.state.attempts);
        self.engine.watch.tell(|| Event::AttemptStarted { key, number, limit });
        opened
    }

    /// Closes an attempt: into the state, the report, and to the observer.
    pub(super) fn close(
        &mut self,
        opened: Opened,
        waited: Duration,
        known: Known,
        head: Head,
        error: Option<&'static str>,
    ) -> &Attempt {
        let now = self.engine.clock.monotonic();
        if known.is_not_sent() {
            self.state.first_send = opened.first;
        }
        if known == Known::InProgress {
            self.in_progress.times += 1;
            self.in_progress.since.get_or_insert(now);
        } else {
            self.counted += 1;
        }
        // A head whose body was lost is no answer.
        let answered = head.status.filter(|_| error.is_none());
        let behind_key = answered.is_some_and(|status| self.contract.rejects_behind_key(status));
        let status = answered.map(|status| status.as_u16());
        self.state.history.close(Answer { known, status, behind_key });
        self.state.shorten_window(head.advertised);
        self.report.effect = self.state.history.effect();
        self.report.push(Attempt {
            number: self.state.attempts,
            started: opened.at.wall,
            waited,
            elapsed: now.saturating_sub(opened.at.monotonic),
            known,
            status: head.status,
            error,
            retry_after: head.retry_after,
            request_id: head.request_id,
        });
        let attempt = self.report.last_attempt().expect("one was pushed");
        if let Some(ledger) = &mut self.ledger {
            ledger.closed(attempt, behind_key);
        }
        let key = self.report.key();
        self.engine.watch.tell(|| Event::AttemptEnded { key, attempt });
        attempt
    }

    /// The delay before the attempt that follows what this one taught us, or what ends the call.
    /// Takes the token of a retry.
    ///
    /// # Errors
    /// When no attempt follows: because the outcome is final, or because a limit forbids it.
    pub(super) fn next(
        &self,
        known: Known,
        retry_after: Option<Duration>,
    ) -> Result<Delay, Option<Exhausted>> {
        if known.is_the_end() {
            return Err(None);
        }
        let now = self.engine.now();
        let told = self.in_progress;
        let situation = Situation {
            known,
            retry_after,
            attempts: self.counted + 1,
            in_progress: told.times + 1,
            in_progress_for: told
                .since
                .map_or(Duration::ZERO, |since| now.monotonic.saturating_sub(since)),
            replayable: self.source.is_replayable(),
            left: self.left(now),
        };
        match decide(self.policy, &situation) {
            Decision::Stop => Err(None),
            Decision::Exhausted(by) => Err(Some(by)),
            Decision::Wait(delay) => Ok(delay),
            Decision::Retry(delay) => match self.policy.retry_budget() {
                RetryBudget::PerOrigin if !self.engine.budgets.take(self.source.url()) => {
                    Err(Some(Exhausted::Budget))
                }
                _ => Ok(delay),
            },
        }
    }

    /// Keeps the state in the caller's extensions true, for a middleware outside that may drop this
    /// call and repeat it.
    pub(super) fn publish(&mut self) {
        if let Transport::Next(_) = self.transport {
            match self.extensions.get_mut::<OperationState>() {
                Some(published) => published.clone_from(self.state),
                None => {
                    self.extensions.insert(self.state.clone());
                }
            }
        }
    }
}
