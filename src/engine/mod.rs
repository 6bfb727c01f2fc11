//! The one loop: begin, send, classify, wait, finish.
//!
//! It decides nothing by itself. What is known comes from the contract or from the type of the
//! error, what to do from [`decide`]; here are only the effects, in order.

mod attempt;
mod body;
mod race;
mod settings;
mod source;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response};
use tracing::Instrument;

use self::attempt::{Head, Opened, Outcome};
use self::body::Read;
use self::source::Source;
use crate::clock::Clock;
use crate::contract::Contract;
use crate::error::{Error, Kept, Kind};
use crate::observer::{Event, Watch};
use crate::operation::{OperationState, Options};
use crate::redact::Shown;
use crate::refusal::Refusal;
use crate::report::{Attempt, Report};
use crate::retry::window::{Moment, Window};
use crate::retry::{
    Answer, Decision, Delay, Exhausted, Known, Left, RetryBudget, RetryBudgets, RetryPolicy,
    Situation, attempt_limit, decide,
};
use crate::telemetry;

pub(crate) use self::settings::engine_settings;
pub(crate) use self::transport::Transport;

/// What a client and a middleware share: the settings, the clock, and the retry budgets.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) policy: RetryPolicy,
    pub(crate) contract: Contract,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) watch: Watch,
    pub(crate) budgets: RetryBudgets,
    /// The most of an answer's body that is read inside the attempt, in bytes.
    pub(crate) response_limit: usize,
}

/// Marks an attempt's extensions: whoever of us meets it below passes the request through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active;

impl Engine {
    /// The contract of an operation: its own or the client's.
    pub(crate) fn contract<'a>(&'a self, options: &'a Options) -> &'a Contract {
        options.contract.as_ref().unwrap_or(&self.contract)
    }

    fn now(&self) -> Moment {
        Moment { monotonic: self.clock.monotonic(), wall: self.clock.wall() }
    }

    /// Sends a sealed request to its end. Request and state are true at every moment, so that a
    /// dropped call can be continued; a request whose body can be read only once is gone once sent.
    pub(crate) async fn run(
        &self,
        transport: Transport<'_>,
        request: &mut Option<Request>,
        options: &Options,
        state: &mut OperationState,
        extensions: &mut Extensions,
    ) -> Result<Response, Error> {
        let source =
            Source::new(request).ok_or_else(|| Error::refused_again(Refusal::BodyGone, state))?;
        let policy = options.policy.as_ref().unwrap_or(&self.policy);
        let contract = self.contract(options);
        let path = source.url().path();
        let span = telemetry::operation(source.method(), source.url(), state.key.as_ref());
        let mut run = Run {
            engine: self,
            transport,
            policy,
            contract,
            deadline: options.deadline.or(policy.deadline()),
            started: self.now(),
            window: state.key.as_ref().and_then(|_| contract.window_for(path)),
            report: Report::new(state.key.clone()),
            state,
            extensions,
            last_extensions: Extensions::new(),
            source,
            counted: 0,
            in_progress: InProgress::default(),
        };
        run.drive().instrument(span).await
    }
}

/// One call of an operation.
struct Run<'a> {
    engine: &'a Engine,
    transport: Transport<'a>,
    policy: &'a RetryPolicy,
    contract: &'a Contract,
    deadline: Option<Duration>,
    /// When the call began.
    started: Moment,
    window: Option<Window>,
    report: Report,
    state: &'a mut OperationState,
    /// The caller's.
    extensions: &'a mut Extensions,
    /// The last attempt's copy of them.
    last_extensions: Extensions,
    source: Source<'a>,
    /// The attempts that count against the policy: all but those told "in progress".
    counted: u32,
    in_progress: InProgress,
}

/// How often this call was told "in progress", and since when.
#[derive(Clone, Copy, Default)]
struct InProgress {
    times: u32,
    since: Option<Duration>,
}

/// The last answer of a call that goes on: returned should there be no time for another attempt.
type LastAnswer = Option<(Known, Read)>;

impl Run<'_> {
    async fn drive(&mut self) -> Result<Response, Error> {
        let mut waited = Duration::ZERO;
        let mut last: LastAnswer = None;
        let mut now = self.started;
        loop {
            let limit = match attempt_limit(self.policy, self.left(now)) {
                Ok(limit) => limit,
                Err(by) => return self.out_of_time(by, last),
            };
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

    async fn pause(&self, because: Known, delay: Delay) -> Duration {
        let wait = delay.draw(&mut rand::rng());
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
    fn open(&mut self, now: Moment, limit: Duration) -> Opened {
        let opened = Opened { at: now, first: self.state.first_send };
        self.state.attempts += 1;
        self.state.history.open();
        self.state.first_send.get_or_insert(now);
        self.publish();
        let (key, number) = (self.report.key(), self.state.attempts);
        self.engine.watch.tell(|| Event::AttemptStarted { key, number, limit });
        opened
    }

    /// Closes an attempt: into the state, the report, and to the observer.
    fn close(
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
        self.state.history.close(Answer {
            known,
            status: answered.map(|status| status.as_u16()),
            behind_key: answered.is_some_and(|status| self.contract.rejects_behind_key(status)),
        });
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
        let key = self.report.key();
        self.engine.watch.tell(|| Event::AttemptEnded { key, attempt });
        attempt
    }

    /// The delay before the attempt that follows what this one taught us, or what ends the call.
    /// Takes the token of a retry.
    ///
    /// # Errors
    /// When no attempt follows: because the outcome is final, or because a limit forbids it.
    fn next(
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

    /// Hands an answer over, unless it says "in progress".
    fn answered(
        &mut self,
        known: Known,
        read: Read,
        exhausted: Option<Exhausted>,
    ) -> Result<Response, Error> {
        self.report.buffered = read.is_complete();
        if known == Known::InProgress {
            return Err(self.failed(Kind::InProgress(Kept(read.into_bytes())), exhausted));
        }
        if known == Known::DoneBefore {
            self.report.resource = self.contract.resource(read.bytes());
        }
        let mut response = read.into_response();
        if response.status().is_success() {
            self.engine.budgets.give_back(self.source.url());
        }
        let report = self.finish(exhausted);
        response.extensions_mut().insert(report);
        Ok(response)
    }

    /// No useful attempt fits any more: the last answer, if it is still here, or an error.
    fn out_of_time(&mut self, by: Exhausted, last: LastAnswer) -> Result<Response, Error> {
        self.report.effect = self.state.history.effect();
        match last {
            Some((known, read)) => self.answered(known, read, Some(by)),
            None => Err(self.failed(Kind::OutOfTime, Some(by))),
        }
    }

    fn failed(&mut self, kind: Kind, exhausted: Option<Exhausted>) -> Error {
        let target = format!("{} {}", self.source.method(), Shown(self.source.url()));
        Error::new(kind, self.finish(exhausted), Some(target))
    }

    /// Ends the call: the last attempt's extensions become the caller's, and the report is whole.
    fn finish(&mut self, exhausted: Option<Exhausted>) -> Report {
        if self.transport.has_extensions() && self.report.last_attempt().is_some() {
            *self.extensions = std::mem::take(&mut self.last_extensions);
            self.extensions.remove::<Active>();
            self.publish();
        }
        self.report.exhausted = exhausted;
        telemetry::operation_ended(&self.report);
        self.engine.watch.tell(|| Event::Finished { report: &self.report });
        std::mem::replace(&mut self.report, Report::new(None))
    }

    /// Keeps the state in the caller's extensions true, for a middleware outside that may drop this
    /// call and repeat it.
    fn publish(&mut self) {
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
