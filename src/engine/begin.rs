//! Writing an operation down before its first byte goes out, or finding what became of it before.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{HeaderName, HeaderValue};
use http_body::Body as _;
use reqwest::{Body, Request, Response, ResponseBuilderExt, Url};

use super::ledger::Ledger;
use super::{Engine, JOURNAL_WAIT, Journaling};
use crate::contract::Contract;
use crate::error::{Error, Kind, RowProblem};
use crate::journal::{
    Admission, Draft, Held, Inserted, JournalError, Reason, Record, State, StoredAnswer,
    StoredRequest, Terms, To, admit,
};
use crate::key::IdempotencyKey;
use crate::operation::{OperationState, Options};
use crate::redact::Shown;
use crate::refusal::Refusal;
use crate::report::{Report, Source};
use crate::retry::window::{FirstSend, Moment, Window};
use crate::retry::{Delay, Effect, Exhausted, ceiling};

/// What a call may do.
pub(super) enum Begun {
    /// Send, and keep the row up to date.
    Go(Ledger),
    /// Return the answer of an earlier call.
    Answered(Response),
}

/// One call that begins.
pub(super) struct Begin<'a> {
    pub(super) engine: &'a Engine,
    pub(super) journaling: &'a Journaling,
    pub(super) options: &'a Options,
    pub(super) started: Moment,
}

impl Begin<'_> {
    /// Inserts the operation, or goes by the row that is there: takes it over, returns its answer, or
    /// refuses.
    pub(super) async fn begin(
        &self,
        request: &mut Option<Request>,
        state: &mut OperationState,
    ) -> Result<Begun, Error> {
        let Some(request) = request else {
            return Err(Error::refused_again(Refusal::BodyGone, state));
        };
        let buffered = buffer_body(self.journaling, request, state).await;
        buffered.map_err(|refusal| Error::refused_again(refusal, state))?;
        let contract = self.engine.contract(self.options);
        let draft = draft(self.journaling, self.options, contract, request, state);
        let draft = draft.map_err(|refusal| Error::refused_again(refusal, state))?;
        let policy = self.options.policy.as_ref().unwrap_or(&self.engine.policy);
        let deadline = self.options.deadline.or(policy.deadline());
        let clock = &self.engine.clock;
        let patience = deadline.unwrap_or(JOURNAL_WAIT);
        let started = self.started.monotonic;
        let mut polls = 0;
        loop {
            let record = match self.insert_or_find(&draft, state).await {
                Ok(Ok(ledger)) => {
                    state.row = Some(ledger.row());
                    return Ok(Begun::Go(ledger));
                }
                Ok(Err(record)) => record,
                Err(error) => return Err(self.journal_failed(error, None, request, state)),
            };
            if state.key_is_given && draft.key != record.draft.key {
                return Err(self.row_problem(RowProblem::Mismatch, &record, request));
            }
            match admit(&record, &draft.terms.fingerprint, policy.max_attempts()) {
                Admission::Replay => return self.replay(&record, request),
                Admission::TakeOver => match self.take_over(&record, request, state).await {
                    Ok(Some(ledger)) => return Ok(Begun::Go(ledger)),
                    // Somebody was faster: look again.
                    Ok(None) => {}
                    Err(error) => {
                        return Err(self.journal_failed(error, Some(&record), request, state));
                    }
                },
                Admission::InFlight(lease_left) => {
                    let left = patience.saturating_sub(clock.monotonic().saturating_sub(started));
                    if left.is_zero() {
                        return Err(self.row_problem(RowProblem::InFlight, &record, request));
                    }
                    // The answer may be there long before the lease ends.
                    let base = Duration::from_millis(20);
                    let spread = ceiling(base, Duration::from_secs(1), polls).min(lease_left);
                    polls += 1;
                    let wait = Delay { floor: spread.min(base), spread }.draw(&mut rand::rng());
                    clock.sleep(wait.min(left)).await;
                }
                Admission::Spent => {
                    let parked = self.park(&record).await;
                    parked.map_err(|e| self.journal_failed(e, Some(&record), request, state))?;
                    return Err(self.row_problem(RowProblem::Spent, &record, request));
                }
                Admission::Mismatch => {
                    return Err(self.row_problem(RowProblem::Mismatch, &record, request));
                }
                Admission::Closed(closed) => {
                    return Err(self.row_problem(RowProblem::Closed(closed), &record, request));
                }
            }
        }
    }

    async fn insert_or_find(
        &self,
        draft: &Draft,
        state: &OperationState,
    ) -> Result<Result<Ledger, Box<Record>>, JournalError> {
        let journal = &self.journaling.journal;
        if let Some((row, _)) = state.row
            && let Some(record) = journal.by_row(row).await?
        {
            return Ok(Err(Box::new(record)));
        }
        Ok(match journal.insert(draft, self.journaling.lease).await? {
            Inserted::New(claim) => Ok(Ledger::new(Arc::clone(journal), claim)),
            Inserted::Found(record) => Err(record),
        })
    }

    /// Claims the row, and makes request and state those of the row: same key, same bytes, and the
    /// window that was resolved then.
    async fn take_over(
        &self,
        record: &Record,
        request: &mut Request,
        state: &mut OperationState,
    ) -> Result<Option<Ledger>, JournalError> {
        let Journaling { journal, lease, .. } = self.journaling;
        let Held::Yes(claim) = journal.take(record.row, record.token, *lease).await? else {
            return Ok(None);
        };
        let taken = Record { attempts: record.attempts + 1, ..record.clone() };
        let ledger = Ledger::of(Arc::clone(journal), claim, &taken);
        restore_request(&record.draft.request, request).map_err(|what| corrupt(record, what))?;
        self.engine.restore_state(record, &ledger, state).map_err(|what| corrupt(record, what))?;
        Ok(Some(ledger))
    }

    /// Killed attempts used the operation up: it waits for a person.
    async fn park(&self, record: &Record) -> Result<(), JournalError> {
        let Journaling { journal, lease, .. } = self.journaling;
        if record.state == State::Parked(Reason::Attempts) {
            return Ok(());
        }
        if let Held::Yes(claim) = journal.take(record.row, record.token, *lease).await? {
            let taken = Record { attempts: record.attempts + 1, ..record.clone() };
            let ledger = Ledger::of(Arc::clone(journal), claim, &taken);
            ledger.finish(To::Parked(Reason::Attempts), None).await?;
        }
        Ok(())
    }

    /// The answer that an earlier call was given.
    fn replay(&self, record: &Record, request: &Request) -> Result<Begun, Error> {
        let kept = record.answer.as_ref().and_then(|answer| response(answer, request.url()));
        let Some(mut response) = kept else {
            return Err(self.row_problem(RowProblem::AnswerNotKept, record, request));
        };
        let report = self.report(record);
        let report = Report { effect: Effect::Answered, source: Source::Journal, ..report };
        response.extensions_mut().insert(report);
        Ok(Begun::Answered(response))
    }

    fn report(&self, record: &Record) -> Report {
        unsent(IdempotencyKey::parse(&record.draft.key).ok(), record.draft.name.as_deref())
    }

    fn row_problem(&self, problem: RowProblem, record: &Record, request: &Request) -> Error {
        let mut report = self.report(record);
        report.effect = match problem {
            RowProblem::Mismatch => Effect::NotSent,
            RowProblem::AnswerNotKept => Effect::Answered,
            _ if record.ages.first_send.is_none() => Effect::NotSent,
            _ => Effect::Unknown,
        };
        if problem == RowProblem::Closed(State::Unknown) && record.window_left().is_some() {
            report.exhausted = Some(Exhausted::Window);
        }
        Error::new(Kind::Row(problem), report, Some(target(request)))
    }

    /// What could not be written is not sent by this call. A commit in doubt may be there, and be resumed; and
    /// what was there before may have been sent before.
    fn journal_failed(
        &self,
        error: JournalError,
        record: Option<&Record>,
        request: &Request,
        state: &OperationState,
    ) -> Error {
        let name = self.options.name.as_deref();
        let mut report = match record {
            Some(record) => self.report(record),
            // It was begun before: the key is its own.
            None if state.row.is_some() => unsent(state.key.clone(), name),
            None => unwritten(&error, state.key.clone(), name),
        };
        let was_sent = record.is_some_and(|record| record.ages.first_send.is_some());
        if matches!(error, JournalError::InDoubt(_)) || state.row.is_some() || was_sent {
            report.effect = Effect::Unknown;
        }
        Error::new(Kind::Journal(error), report, Some(target(request)))
    }
}

/// The report of an operation of which this call sends nothing.
fn unsent(key: Option<IdempotencyKey>, name: Option<&str>) -> Report {
    Report { operation: name.map(Into::into), ..Report::new(key) }
}

/// The report of an operation that could not be written, whose row is not known. A commit in doubt may be there
/// after a crash, and be sent then. And what a name stands for nobody knows: it may have been sent before, under
/// another key than the one that was not written.
fn unwritten(error: &JournalError, key: Option<IdempotencyKey>, name: Option<&str>) -> Report {
    let is_in_doubt = matches!(error, JournalError::InDoubt(_));
    let mut report = unsent(key.filter(|_| is_in_doubt || name.is_none()), name);
    if is_in_doubt || name.is_some() {
        report.effect = Effect::Unknown;
    }
    report
}

impl Engine {
    /// Writes an operation down for the resumer.
    pub(crate) async fn enqueue(&self, draft: &Draft) -> Result<IdempotencyKey, Error> {
        let journaling =
            self.journaling.as_ref().ok_or_else(|| Error::refused(Refusal::NoJournal))?;
        let key = match journaling.journal.enqueue(draft).await {
            Err(error) => {
                let (key, name) = (IdempotencyKey::parse(&draft.key).ok(), draft.name.as_deref());
                let report = unwritten(&error, key, name);
                return Err(Error::new(Kind::Journal(error), report, None));
            }
            Ok(Inserted::New(_)) => &draft.key,
            Ok(Inserted::Found(record)) => {
                if record.draft.terms.fingerprint != draft.terms.fingerprint {
                    let report = Report::new(IdempotencyKey::parse(&record.draft.key).ok());
                    let target = format!("{} in the journal", draft.request.method);
                    return Err(Error::new(Kind::Row(RowProblem::Mismatch), report, Some(target)));
                }
                &record.draft.key.clone()
            }
        };
        IdempotencyKey::parse(key).map_err(Error::refused)
    }

    /// Makes the state of an operation that of its row.
    pub(crate) fn restore_state(
        &self,
        record: &Record,
        ledger: &Ledger,
        state: &mut OperationState,
    ) -> Result<(), String> {
        let key = IdempotencyKey::parse(&record.draft.key);
        state.key = Some(key.map_err(|_| "its key".to_owned())?);
        state.row = Some(ledger.row());
        state.attempts = record.attempts;
        state.history = ledger.history();
        let age = record.ages.first_send;
        state.first_send = age.map(|already| FirstSend::new(self.now(), already));
        let window = record.draft.terms.window;
        state.resolved =
            window.and_then(|(length, margin)| Window::with_margin(length, margin).ok());
        Ok(())
    }
}

/// The operation as it is written down.
pub(crate) fn draft(
    journaling: &Journaling,
    options: &Options,
    contract: &Contract,
    request: &Request,
    state: &OperationState,
) -> Result<Draft, Refusal> {
    let key = state.key.as_ref().map(ToString::to_string).unwrap_or_default();
    let own = |name: &HeaderName| contract.is_of_operation(name);
    let headers = journaling.headers.sort(request.headers(), own, contract.first_sent_header());
    let body = request.body().map(|body| body.as_bytes().ok_or(Refusal::BodyTooLarge));
    let body = body.transpose()?.unwrap_or_default();
    if body.len() > journaling.request_limit {
        return Err(Refusal::BodyTooLarge);
    }
    Ok(Draft {
        scope: options.scope.clone().unwrap_or_default(),
        name: options.name.clone().or_else(|| state.key_is_given.then(|| key.clone())),
        key,
        request: StoredRequest {
            method: request.method().as_str().to_owned(),
            url: request.url().as_str().to_owned(),
            headers: headers.stored,
            body: bytes::Bytes::copy_from_slice(body),
        },
        terms: Terms {
            missing: headers.missing,
            contract: contract.name().to_owned(),
            window: contract
                .window_for(request.url().path())
                .map(|window| (window.length(), window.margin())),
            fingerprint: state.fingerprint().ok_or(Refusal::Url("it was not fingerprinted"))?,
            context: options.context.clone(),
            keep_trying: options.keep_trying,
        },
    })
}

/// Reads a streamed body into memory, so that it can be written down and sent again.
pub(super) async fn buffer_body(
    journaling: &Journaling,
    request: &mut Request,
    state: &mut OperationState,
) -> Result<(), Refusal> {
    if request.body().is_none_or(|body| body.as_bytes().is_some()) {
        return Ok(());
    }
    let Some(mut stream) = request.body_mut().take() else { return Ok(()) };
    let mut buffered = BytesMut::new();
    while let Some(frame) =
        std::future::poll_fn(|cx| std::pin::Pin::new(&mut stream).poll_frame(cx)).await
    {
        let data = frame.map_err(Refusal::Request)?.into_data();
        if let Ok(data) = data {
            buffered.extend_from_slice(&data);
        }
        if buffered.len() > journaling.request_limit {
            return Err(Refusal::BodyTooLarge);
        }
    }
    *request.body_mut() = Some(Body::from(buffered.freeze()));
    *state = std::mem::take(state).with_fingerprint(request);
    Ok(())
}

/// Puts what is stored of a request into one that has the credentials.
pub(crate) fn restore_request(stored: &StoredRequest, request: &mut Request) -> Result<(), String> {
    let headers = request.headers_mut();
    for (name, _) in &stored.headers {
        headers.remove(name.as_str());
    }
    for (name, value) in &stored.headers {
        let name: HeaderName = name.parse().map_err(|_| format!("its header {name:?}"))?;
        let mut value =
            HeaderValue::from_bytes(value).map_err(|_| format!("its header {name:?}"))?;
        value.set_sensitive(true);
        headers.append(name, value);
    }
    *request.body_mut() = Some(Body::from(stored.body.clone()));
    Ok(())
}

/// A stored answer as an ordinary response; `None` when its body was not kept.
fn response(answer: &StoredAnswer, url: &Url) -> Option<Response> {
    let mut builder = http::Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        builder = builder.header(name.as_str(), value.as_slice());
    }
    let body = Body::from(answer.body.clone()?);
    builder.url(url.clone()).body(body).ok().map(Response::from)
}

fn corrupt(record: &Record, what: String) -> JournalError {
    JournalError::Corrupt { row: record.row.0, what }
}

fn target(request: &Request) -> String {
    format!("{} {}", request.method(), Shown(request.url()))
}
