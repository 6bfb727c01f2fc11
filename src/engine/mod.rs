//! The one loop: begin, send, classify, wait, finish.
//!
//! It decides nothing by itself. What is known comes from the contract or from the type of the
//! error, what to do from [`decide`]; here are only the effects, in order.

mod attempt;
mod begin;
mod body;
mod ending;
mod ledger;
mod race;
mod run;
mod settings;
mod source;
mod transport;

use std::sync::Arc;
use std::time::Duration;

use http::Extensions;
use reqwest::{Request, Response};
use tracing::Instrument;

use self::begin::{Begin, Begun};
use self::run::Run;
use self::source::Source;
use crate::clock::Clock;
use crate::contract::Contract;
use crate::error::Error;
use crate::journal::{Draft, HeaderRules, Journal, StoredAnswer};
use crate::observer::Watch;
use crate::operation::{Operation, OperationState, Options};
use crate::refusal::Refusal;
use crate::retry::window::Moment;
use crate::retry::{RetryBudgets, RetryPolicy};
use crate::telemetry;

pub(crate) use self::begin::restore_request;
pub(crate) use self::ledger::Ledger;
pub(crate) use self::race::within;
pub(crate) use self::settings::{JournalSettings, engine_settings};
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
    pub(crate) journaling: Option<Journaling>,
}

/// Where operations are written down, and how.
#[derive(Clone, Debug)]
pub(crate) struct Journaling {
    pub(crate) journal: Arc<dyn Journal>,
    /// For how long a claim is ours without a sign of life.
    pub(crate) lease: Duration,
    pub(crate) headers: HeaderRules,
    /// The largest body that is written down, in bytes.
    pub(crate) request_limit: usize,
    /// Where the resumer may send to.
    pub(crate) origins: Vec<String>,
}

/// The longest that a call without a deadline waits for somebody else's work on its operation.
const JOURNAL_WAIT: Duration = Duration::from_secs(30);

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

    /// The state with the fingerprint of its request, which has no key yet, where there is a journal to
    /// keep it.
    pub(crate) fn fingerprinted(&self, state: OperationState, request: &Request) -> OperationState {
        match self.journaling {
            Some(_) => state.with_fingerprint(request),
            None => state,
        }
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
        let started = self.now();
        let ledger = match &self.journaling {
            Some(journaling) if state.key.is_some() => {
                let begin = Begin { engine: self, journaling, options, started };
                match begin.begin(request, state).await {
                    Ok(Begun::Go(ledger)) => Some(ledger),
                    Ok(Begun::Answered(response)) => return self.told(Ok(response)),
                    Err(error) => return self.told(Err(error)),
                }
            }
            _ => None,
        };
        let Some(source) = Source::new(request) else {
            return self.told(Err(Error::refused_again(Refusal::BodyGone, state)));
        };
        let span = telemetry::operation(source.method(), source.url(), state.key.as_ref());
        let mut run = Run::new(self, transport, options, source, state, extensions, started);
        run.ledger = ledger;
        run.carry_out().instrument(span).await
    }

    /// Sends the request of a claimed row once. Neither the heartbeat nor the end of the claim is its
    /// business.
    pub(crate) async fn resend(
        &self,
        transport: Transport<'_>,
        request: Request,
        options: &Options,
        state: &mut OperationState,
        ledger: Ledger,
    ) -> Resent {
        let (mut request, mut extensions) = (Some(request), Extensions::new());
        let source = Source::new(&mut request).expect("a request was given");
        let span = telemetry::operation(source.method(), source.url(), state.key.as_ref());
        let started = self.now();
        let mut run = Run::new(self, transport, options, source, state, &mut extensions, started);
        run.ledger = Some(ledger);
        let ended = run.carry_out_claimed().instrument(span).await;
        Resent { ended, ledger: run.ledger.take(), kept: run.kept.take() }
    }

    /// A prepared operation, as it is written down.
    pub(crate) fn draft(&self, operation: &Operation) -> Result<Draft, Refusal> {
        let journaling = self.journaling.as_ref().ok_or(Refusal::NoJournal)?;
        let request = operation.request.as_ref().ok_or(Refusal::BodyGone)?;
        if operation.key().is_none() {
            return Err(Refusal::NoKey);
        }
        let contract = self.contract(&operation.options);
        begin::draft(journaling, &operation.options, contract, request, &operation.state)
    }
}

/// What came of sending the request of a claimed row.
pub(crate) struct Resent {
    pub(crate) ended: Result<Response, Error>,
    /// `None`: the answer is too large to keep; the claim ends with its body.
    pub(crate) ledger: Option<Ledger>,
    pub(crate) kept: Option<StoredAnswer>,
}
