//! The layer that keeps the contract in front of a service of tower.
//!
//! # The rule
//!
//! | a request | gets |
//! |---|---|
//! | of another method | its handler, untouched |
//! | without a key | 400; or its handler, untouched, where keys are [optional](Requirement::Optional) |
//! | with two keys, or one that is none | 400 |
//! | with a body above the limit, or cut short | 413, 400 |
//! | whose key is new | its handler; the answer is stored, then given |
//! | whose key is answered | the same status, body and end-to-end fields, and `Idempotency-Replayed: true` |
//! | whose key belongs to another request | 422 |
//! | whose key is being worked on | 409 with `Retry-After`; or the answer, where it may [wait](InProgress::Wait) |
//! | whose worker died where only a person can tell what happened | 409 without `Retry-After` |
//! | while the store is away | 503 with `Retry-After` |
//!
//! All but the handler's own answers are [problem documents](super::problem). The handler
//!
//! 1. runs in a task of its own: it ends though its client leaves, and
//!    [`Handle::shutdown`] waits for it;
//! 2. finds the [`Claim`](super::Claim) in the extensions of its request;
//! 3. is answered for by its status: 2xx, 3xx and 4xx are stored, but 401, 403, 408, 425 and 429; those, 5xx and a
//!    panic give the key back, so that the next request is run;
//! 4. is dropped when its claim was lost.
//!
//! Put it inside of authentication, rate limits and compression: what they answer is not stored, and each answer
//! is encoded for its own client. The handler does not see `Accept-Encoding`.
//!
//! # Not guaranteed
//! - In lease mode (the handler does not end with
//!   [`Claim::complete_in`](super::Claim::complete_in)): one effect where the process dies between effect and
//!   answer. The next request runs it again.
//! - That a streamed body reaches the handler as a stream: it is read whole before.

mod body;
mod builder;
mod drain;
#[cfg(feature = "axum")]
mod extract;
mod handle;
mod key;
mod run;
mod service;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use tower_layer::Layer;

use self::handle::Running;
use super::service::Keeper;
use super::store::ClaimStore;

pub use body::LayerBody;
pub use builder::{IdempotencyLayerBuilder, LayerError};
#[cfg(feature = "axum")]
pub use extract::NoClaim;
pub use handle::Handle;
pub use service::IdempotencyService;

/// Whether a request must have a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Requirement {
    /// One without is refused with 400. The default.
    #[default]
    Required,
    /// One without goes to its handler, and may have its effect twice.
    Optional,
}

/// What a request gets whose key is being worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InProgress {
    /// 409 with `Retry-After`, at once. The default.
    #[default]
    Answer,
    /// The stored answer when it is there; 409 if that takes longer than this.
    Wait(Duration),
}

/// The field that marks a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Marker {
    /// `Idempotency-Replayed: true`. The default.
    #[default]
    IdempotencyReplayed,
    /// `Idempotent-Replayed: true`, as Stripe has it.
    IdempotentReplayed,
    /// None.
    Absent,
}

impl Marker {
    fn name(self) -> Option<HeaderName> {
        match self {
            Marker::IdempotencyReplayed => Some(HeaderName::from_static("idempotency-replayed")),
            Marker::IdempotentReplayed => Some(HeaderName::from_static("idempotent-replayed")),
            Marker::Absent => None,
        }
    }
}

/// What becomes of a key when its handler has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disposition {
    /// The answer is stored, and given to whoever asks again.
    Store,
    /// The key is given back: whoever asks again is run.
    Release,
}

/// What is stored unless told otherwise: what would be the same the next time.
#[must_use]
pub fn disposition(status: StatusCode) -> Disposition {
    match status.as_u16() {
        401 | 403 | 408 | 425 | 429 => Disposition::Release,
        200..=499 => Disposition::Store,
        _ => Disposition::Release,
    }
}

type Principal = Arc<dyn Fn(&Parts) -> Option<String> + Send + Sync>;

/// How requests are dealt with.
struct Rules {
    keeper: Keeper,
    /// `None`: waived, all have one.
    principal: Option<Principal>,
    requirement: Requirement,
    key_field: HeaderName,
    longest_key: usize,
    methods: Vec<Method>,
    body_limit: usize,
    in_progress: InProgress,
    longest_retry_after: Duration,
    disposition: Arc<dyn Fn(StatusCode) -> Disposition + Send + Sync>,
    marker: Marker,
    advertise: bool,
    running: Running,
}

/// Keeps the contract in front of a service. Clones, and all services that they wrap, share its settings, its
/// store and its [`Handle`].
#[derive(Clone)]
#[must_use = "a layer does nothing until it is put around a service"]
pub struct IdempotencyLayer(Arc<Rules>);

impl IdempotencyLayer {
    /// A layer on this store. Say whose a key is, by [`IdempotencyLayerBuilder::principal`], or that it does not
    /// matter, by [`IdempotencyLayerBuilder::one_principal`].
    pub fn builder(store: impl ClaimStore) -> IdempotencyLayerBuilder {
        IdempotencyLayer::shared(Arc::new(store))
    }

    /// The same, on a store whose kind is known at run time only.
    pub fn shared(store: Arc<dyn ClaimStore>) -> IdempotencyLayerBuilder {
        IdempotencyLayerBuilder::new(store)
    }

    /// The way to what runs in it: for a graceful shutdown.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle::new(Arc::clone(&self.0))
    }
}

impl<S> Layer<S> for IdempotencyLayer {
    type Service = IdempotencyService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        IdempotencyService::new(Arc::clone(&self.0), inner)
    }
}

impl fmt::Debug for IdempotencyLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer").field("keeper", &self.0.keeper).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_the_same_the_next_time_is_stored() {
        for (status, expected) in [
            (200, Disposition::Store),
            (201, Disposition::Store),
            (204, Disposition::Store),
            (303, Disposition::Store),
            (400, Disposition::Store),
            (402, Disposition::Store),
            (404, Disposition::Store),
            (409, Disposition::Store),
            (422, Disposition::Store),
            (401, Disposition::Release),
            (403, Disposition::Release),
            (408, Disposition::Release),
            (425, Disposition::Release),
            (429, Disposition::Release),
            (500, Disposition::Release),
            (503, Disposition::Release),
            (599, Disposition::Release),
            (101, Disposition::Release),
        ] {
            assert_eq!(disposition(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
    }
}
