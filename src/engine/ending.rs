//! How a call ends: for its caller, and in the journal.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Response;

use super::body::Read;
use super::race::within;
use super::run::{LastAnswer, Run};
use super::{Active, Engine};
use crate::error::{Error, Kept, Kind, RowProblem};
use crate::journal::{Ending, Reason, StoredAnswer, To, of_answer, settle};
use crate::observer::Event;
use crate::redact::Shown;
use crate::report::Report;
use crate::retry::{Effect, Exhausted, Known};
use crate::telemetry;

impl Engine {
    /// Tells those who watch what the caller is told.
    pub(super) fn told(&self, ended: Result<Response, Error>) -> Result<Response, Error> {
        if let Some(report) = reported(&ended) {
            self.watch.tell(|| Event::Finished { report });
        }
        ended
    }
}

impl Run<'_> {
    /// Carries the call out, and tells those who watch what its caller is told.
    pub(super) async fn carry_out(&mut self) -> Result<Response, Error> {
        let ended = self.drive_with_claim().await;
        self.told(ended)
    }

    /// The same under the claim of a resumer, who ends it.
    pub(super) async fn carry_out_claimed(&mut self) -> Result<Response, Error> {
        let ended = self.drive().await;
        self.told(ended)
    }

    fn told(&self, ended: Result<Response, Error>) -> Result<Response, Error> {
        if let Some(report) = reported(&ended) {
            telemetry::operation_ended(report);
        }
        self.engine.told(ended)
    }

    /// Drives the loop; with a journal for as long as the claim is ours, and writes down how it ended.
    async fn drive_with_claim(&mut self) -> Result<Response, Error> {
        let heartbeat = match (&self.ledger, &self.engine.journaling) {
            (Some(ledger), Some(journaling)) => {
                ledger.heartbeat(Arc::clone(&self.engine.clock), journaling.lease)
            }
            _ => return self.drive().await,
        };
        let Some(mut ended) = within(pin!(heartbeat), pin!(self.drive())).await else {
            self.ledger = None;
            return Err(self.failed(Kind::Row(RowProblem::ClaimLost), None));
        };
        if let Some(ledger) = self.ledger.take() {
            let to = reported(&ended).map_or(To::Later(Duration::ZERO), |r| self.settled(r));
            let left = ledger.finish(to, self.kept.take()).await;
            // The caller gets its answer all the same; the row stays, and is resumed.
            let left = left.unwrap_or_else(|error| {
                tracing::warn!(%error, "the end of an operation was not written down");
                None
            });
            self.state.row = left.or(self.state.row);
            if left.is_none() || matches!(to, To::Later(_) | To::Released) {
                ended = ended.map_err(Error::gone_on_with);
            }
        }
        ended
    }

    /// Where the row goes, by what the caller is told.
    fn settled(&self, report: &Report) -> To {
        let Some(last) = report.last_attempt() else {
            // Nothing was sent, and the caller was told so: the resumer must not do it after all.
            return if self.keep_trying { To::Released } else { To::Parked(Reason::NoAnswer) };
        };
        match settle(Ending::of(report, last, self.contract)) {
            To::Parked(_) if self.keep_trying && !last.known().is_the_end() => {
                let hint = last.retry_after().unwrap_or_default();
                To::Later(hint.max(self.policy.max_delay()))
            }
            to => to,
        }
    }

    /// Hands an answer over, unless it says "in progress".
    pub(super) fn answered(
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
        let mut response = self.hand_over(read, known);
        if response.status().is_success() {
            self.engine.budgets.give_back(self.source.url());
        }
        let report = self.finish(self.state.history.effect(), exhausted);
        response.extensions_mut().insert(report);
        Ok(response)
    }

    /// The answer for the caller, kept for the row. One that is too large to keep closes its row when the
    /// caller has read it to a clean end.
    fn hand_over(&mut self, read: Read, known: Known) -> Response {
        let Some(ledger) = self.ledger.take() else { return read.into_response() };
        let kept = StoredAnswer {
            status: read.status().as_u16(),
            headers: of_answer(read.headers()),
            body: read.is_complete().then(|| read.bytes().clone()),
            replayed: known == Known::Replayed,
        };
        if read.is_complete() {
            self.kept = Some(kept);
            self.ledger = Some(ledger);
            return read.into_response();
        }
        let to = self.settled(&self.report);
        read.into_response_ending(move || ledger.finish_soon(to, Some(kept)))
    }

    /// No useful attempt fits any more: the last answer, if it is still here, or an error.
    pub(super) fn out_of_time(
        &mut self,
        by: Exhausted,
        last: LastAnswer,
    ) -> Result<Response, Error> {
        match last {
            Some((known, read)) => self.answered(known, read, Some(by)),
            None => Err(self.failed(Kind::OutOfTime, Some(by))),
        }
    }

    pub(super) fn failed(&mut self, kind: Kind, exhausted: Option<Exhausted>) -> Error {
        let target = format!("{} {}", self.source.method(), Shown(self.source.url()));
        let taken_over = matches!(kind, Kind::Row(RowProblem::ClaimLost));
        let effect = if taken_over { Effect::Unknown } else { self.state.history.effect() };
        Error::new(kind, self.finish(effect, exhausted), Some(target))
    }

    /// Ends the call: the last attempt's extensions become the caller's, and the report is whole.
    fn finish(&mut self, effect: Effect, exhausted: Option<Exhausted>) -> Report {
        if self.transport.has_extensions() && self.report.last_attempt().is_some() {
            *self.extensions = std::mem::take(&mut self.last_extensions);
            self.extensions.remove::<Active>();
            self.publish();
        }
        self.report.effect = effect;
        self.report.exhausted = exhausted;
        std::mem::replace(&mut self.report, Report::new(None))
    }
}

/// What the caller is told.
fn reported(ended: &Result<Response, Error>) -> Option<&Report> {
    match ended {
        Ok(response) => Report::of(response),
        Err(error) => Some(error.report()),
    }
}
