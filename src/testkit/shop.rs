//! The server's requests, answered through the layer of the server half.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tokio::sync::Notify;
use tower_layer::Layer;
use tower_service::Service;

use super::answer::Answer;
use super::log::{EventKind, Received};
use super::state::{State, pause};
use super::till::{NotCharged, Till};
use crate::server::layer::{Disposition, LayerBody, LayerError, Requirement};
use crate::server::store::ClaimStore;
use crate::server::{Claim, IdempotencyLayer};

/// A worker that was killed is taken for dead after this.
const LEASE: Duration = Duration::from_secs(5);

/// The layer, and what it is in front of.
#[derive(Debug)]
pub(super) struct Shop {
    layer: IdempotencyLayer,
    till: Till,
}

/// A request, and what its handler must know of it.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub(super) connection: u64,
    pub(super) key: Option<String>,
    /// How long the effect takes.
    pub(super) delay: Duration,
    /// Answered so instead, without an effect.
    pub(super) answer: Option<Answer>,
    pub(super) progress: Arc<Progress>,
}

/// Whether the handler was run.
#[derive(Debug, Default)]
pub(super) struct Progress {
    ran: AtomicBool,
    begun: Notify,
}

impl Progress {
    /// Waits for the handler to begin.
    pub(super) async fn begun(&self) {
        self.begun.notified().await;
    }
}

impl Shop {
    pub(super) fn new(
        store: Arc<dyn ClaimStore>,
        till: Till,
        key_field: HeaderName,
        retry_after: Option<u64>,
    ) -> Result<Shop, LayerError> {
        let layer = IdempotencyLayer::shared(store)
            .one_principal()
            .requirement(Requirement::Optional)
            .key_field(key_field)
            .methods(METHODS)
            .body_limit(super::exchange::BODY_LIMIT)
            .lease(LEASE)
            .longest_retry_after(Duration::from_secs(retry_after.unwrap_or(1)))
            // Its handler fails only where that is scripted, and then that is to be kept.
            .disposition(|_| Disposition::Store)
            .build()?;
        Ok(Shop { layer, till })
    }

    pub(super) fn till(&self) -> &Till {
        &self.till
    }

    /// Answers a request, and records what the layer made of it.
    pub(super) async fn answer(
        &self,
        state: &Arc<State>,
        received: &Received,
        order: Order,
    ) -> Answer {
        let (connection, progress) = (order.connection, Arc::clone(&order.progress));
        let mut request = Request::new(Full::new(received.body.clone()));
        *request.method_mut() = received.method.clone();
        *request.headers_mut() = received.headers.clone();
        let target = received.target.parse();
        *request.uri_mut() = target.unwrap_or_default();
        request.extensions_mut().insert(order);
        let mut service = self.layer.layer(Counter { state: Arc::clone(state) });
        let answer = match service.call(request).await {
            Ok(response) => Answer::of(response).await,
            Err(error) => {
                tracing::warn!(%error, "a charge was not made");
                Answer::refusal(StatusCode::SERVICE_UNAVAILABLE)
            }
        };
        if !progress.ran.load(Ordering::Acquire) {
            let kind = match answer.status {
                status if answer.headers.contains_key("idempotency-replayed") => {
                    Some(EventKind::Replay(status))
                }
                StatusCode::CONFLICT => Some(EventKind::InProgress),
                StatusCode::UNPROCESSABLE_ENTITY => Some(EventKind::Mismatch),
                _ => None,
            };
            if let Some(kind) = kind {
                state.record(connection, kind);
            }
        }
        answer
    }
}

const METHODS: [http::Method; 4] =
    [http::Method::POST, http::Method::PUT, http::Method::PATCH, http::Method::DELETE];

/// The handler behind the layer: makes a charge.
#[derive(Clone)]
struct Counter {
    state: Arc<State>,
}

impl Service<Request<LayerBody<Full<Bytes>>>> for Counter {
    type Response = Response<Full<Bytes>>;
    type Error = NotCharged;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, NotCharged>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), NotCharged>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<LayerBody<Full<Bytes>>>) -> Self::Future {
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let order: Order = parts.extensions.remove().expect("each request has its order");
            let claim = parts.extensions.remove::<Claim>();
            order.progress.ran.store(true, Ordering::Release);
            order.progress.begun.notify_one();
            // Both forms of a body that was read have no error.
            let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes);
            if !order.delay.is_zero() {
                pause(order.delay).await;
            }
            if let Some(answer) = order.answer {
                return Ok(answer.response().map(Full::new));
            }
            let shop = state.shop.as_ref().expect("it was called by the shop");
            let charged = shop.till.charge(&state, claim, order.key.as_deref(), &body).await?;
            let (id, answer) = charged;
            state.record(order.connection, EventKind::Effect(id));
            Ok(answer.response().map(Full::new))
        })
    }
}
