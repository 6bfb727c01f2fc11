//! One request and one fault: what is done, what is answered, and how the answer goes out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{Method, StatusCode};

use super::answer::Answer;
use super::charges::Begin;
use super::fault::{Delivery, Fault, Kind};
use super::keys::BadKey;
use super::log::{EventKind, Received};
#[cfg(feature = "server")]
use super::shop::Order;
use super::state::{State, pause};

/// How many bytes of the body go out before it is cut.
pub(super) const CUT_AFTER: usize = 7;
/// What is answered instead of HTTP.
pub(super) const GARBAGE: &[u8] = b"\x00\xffthis is no HTTP\r\n\r\n";
/// How often a body without end grows.
pub(super) const ENDLESS_INTERVAL: Duration = Duration::from_millis(100);
/// The longest body that is read: 64 MiB.
pub(super) const BODY_LIMIT: usize = 64 << 20;

/// How long the first of two deliveries is at least in progress.
#[cfg(feature = "server")]
const OVERLAP: Duration = Duration::from_millis(100);

/// Records a request whose body is left unread, and the fault.
pub(super) fn record_unread(state: &State, request: Received, fault: &Fault) {
    let connection = request.connection;
    let key = state.options.keys.read(&request.headers, b"").ok().flatten();
    state.log().request(request, key.as_deref(), None);
    state.record(connection, EventKind::Fault(fault.to_string()));
}

/// Serves a request that was read whole. Without a delivery the answer goes out as a whole.
pub(super) async fn handle(
    state: &Arc<State>,
    request: Received,
    fault: Option<Fault>,
) -> (Answer, Option<Delivery>) {
    let (connection, body) = (request.connection, request.body.clone());
    let safe = request.method.is_safe();
    let lists = request.method == Method::GET && request.target == "/v1/charges";
    let key = state.options.keys.read(&request.headers, &body);
    let shown = key.as_ref().ok().and_then(Option::as_deref);
    #[cfg(feature = "server")]
    let received = request.clone();
    state.log().request(request, shown, Some(body.len()));

    if safe {
        let answer = if lists { listing(state).await } else { Answer::json(StatusCode::OK, "{}") };
        return (answer, None);
    }
    match key {
        Ok(key) => {
            let call = Call {
                connection,
                key,
                body,
                #[cfg(feature = "server")]
                received,
            };
            call.serve(state, fault).await
        }
        Err(BadKey) => {
            let title = "The idempotency key is empty, not visible ASCII, or given twice";
            (Answer::problem(StatusCode::BAD_REQUEST, title), None)
        }
    }
}

/// Every effect so far.
async fn listing(state: &State) -> Answer {
    #[cfg(feature = "server")]
    if let Some(shop) = &state.shop {
        return match shop.till().all(state).await {
            Ok(charges) => {
                Answer::json(StatusCode::OK, super::charges::listing(&charges).to_string())
            }
            Err(error) => {
                tracing::warn!(%error, "the charges cannot be listed");
                Answer::refusal(StatusCode::SERVICE_UNAVAILABLE)
            }
        };
    }
    Answer::json(StatusCode::OK, state.store().listing().to_string())
}

/// A request that may have an effect.
struct Call {
    connection: u64,
    key: Option<String>,
    body: Bytes,
    #[cfg(feature = "server")]
    received: Received,
}

impl Call {
    async fn serve(self, state: &Arc<State>, fault: Option<Fault>) -> (Answer, Option<Delivery>) {
        let delay = state.options.delay;
        let Some(fault) = fault else {
            return (self.process(state, delay).await, None);
        };
        let name = EventKind::Fault(fault.to_string());
        if let Kind::After(delivery) = fault.kind {
            let answer = self.process(state, delay).await;
            state.record(self.connection, name);
            return (answer, Some(delivery));
        }
        state.record(self.connection, name);
        let answer = match fault.kind {
            Kind::Answer(answer) => answer,
            Kind::ReplayedAnswer(answer) => self.keep(state, answer).await,
            Kind::HangBefore(time) => {
                pause(time).await;
                self.process(state, delay).await
            }
            Kind::Delay(time) => self.process(state, time).await,
            Kind::Duplicate => self.deliver_twice(state).await,
            Kind::Unread(_) | Kind::After(_) => unreachable!("both are dealt with before this"),
        };
        (answer, None)
    }

    /// Keeps the contract: claims the key, takes `delay` for the effect, stores the answer.
    async fn process(&self, state: &Arc<State>, delay: Duration) -> Answer {
        #[cfg(feature = "server")]
        if let Some(shop) = &state.shop {
            return shop.answer(state, &self.received, self.order(delay, None)).await;
        }
        match self.claim(state) {
            None => self.finish(state, delay).await,
            Some(refusal) => refusal,
        }
    }

    /// Two deliveries of one request. The second is served while the first is in progress.
    async fn deliver_twice(self, state: &Arc<State>) -> Answer {
        #[cfg(feature = "server")]
        if state.shop.is_some() {
            return self.deliver_twice_to_shop(state).await;
        }
        if let Some(refusal) = self.claim(state) {
            return refusal;
        }
        let second = self.process(state, Duration::ZERO).await;
        let delay = state.options.delay;
        if delay.is_zero() {
            self.finish(state, delay).await;
        } else {
            let first_state = Arc::clone(state);
            state.spawn(async move {
                self.finish(&first_state, delay).await;
            });
        }
        second
    }

    #[cfg(feature = "server")]
    fn order(&self, delay: Duration, answer: Option<Answer>) -> Order {
        let progress = Arc::default();
        Order { connection: self.connection, key: self.key.clone(), delay, answer, progress }
    }

    /// Two deliveries, the second when the handler of the first has begun.
    #[cfg(feature = "server")]
    async fn deliver_twice_to_shop(self, state: &Arc<State>) -> Answer {
        let first = self.order(state.options.delay.max(OVERLAP), None);
        let progress = Arc::clone(&first.progress);
        let (on, received) = (Arc::clone(state), self.received.clone());
        state.spawn(async move {
            if let Some(shop) = &on.shop {
                shop.answer(&on, &received, first).await;
            }
        });
        let begun = progress.begun();
        tokio::select! {
            () = begun => {}
            // It was answered without its handler.
            () = pause(OVERLAP) => {}
        }
        self.process(state, Duration::ZERO).await
    }

    async fn keep(&self, state: &Arc<State>, answer: Answer) -> Answer {
        #[cfg(feature = "server")]
        if let Some(shop) = &state.shop {
            let order = self.order(Duration::ZERO, Some(answer));
            return shop.answer(state, &self.received, order).await;
        }
        if let Some(refusal) = self.claim(state) {
            return refusal;
        }
        state.store().keep(self.key.as_deref(), &self.body, &answer);
        answer
    }

    /// Claims the key; if that cannot be, returns what is to be answered instead.
    fn claim(&self, state: &State) -> Option<Answer> {
        let begin = state.store().begin(self.key.as_deref(), &self.body);
        let (kind, answer) = match begin {
            Begin::Fresh => return None,
            Begin::Replay(answer) => (EventKind::Replay(answer.status), answer),
            Begin::Mismatch => {
                let title = "This idempotency key was used with another body";
                let answer = Answer::problem(StatusCode::UNPROCESSABLE_ENTITY, title);
                (EventKind::Mismatch, answer)
            }
            Begin::InProgress => {
                let title = "A request with this idempotency key is in progress";
                let answer = Answer::problem(StatusCode::CONFLICT, title);
                let answer = match state.options.in_progress_retry_after {
                    Some(seconds) => answer.with(RETRY_AFTER, seconds.into()),
                    None => answer,
                };
                (EventKind::InProgress, answer)
            }
        };
        state.record(self.connection, kind);
        Some(answer)
    }

    async fn finish(&self, state: &State, delay: Duration) -> Answer {
        if !delay.is_zero() {
            pause(delay).await;
        }
        let (id, answer) = state.store().commit(self.key.as_deref(), &self.body);
        state.record(self.connection, EventKind::Effect(id));
        answer
    }
}
