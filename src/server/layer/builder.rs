//! The settings of a layer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Method, StatusCode};
use thiserror::Error;

use super::handle::Running;
use super::{
    Disposition, IdempotencyLayer, InProgress, Marker, Principal, Requirement, Rules, disposition,
};
use crate::clock::Clock;
use crate::server::answer::Fields;
use crate::server::service::Keeper;
use crate::server::store::ClaimStore;

const LONGEST_KEY: usize = 255;
const BODY_LIMIT: usize = 1 << 20;
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(2);

/// Makes an [`IdempotencyLayer`].
#[must_use = "a builder does nothing until it is built"]
pub struct IdempotencyLayerBuilder {
    principal: Option<Option<Principal>>,
    rules: Rules,
}

/// A layer that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayerError {
    /// Whose key it is was not said.
    #[error(
        "say whose a key is: `principal`, or `one_principal` if all callers may see each other's answers"
    )]
    NoPrincipal,
    /// A setting is out of range.
    #[error("{0}")]
    OutOfRange(&'static str),
}

impl IdempotencyLayerBuilder {
    pub(super) fn new(store: Arc<dyn ClaimStore>) -> IdempotencyLayerBuilder {
        IdempotencyLayerBuilder {
            principal: None,
            rules: Rules {
                keeper: Keeper::new(store),
                principal: None,
                requirement: Requirement::default(),
                key_field: HeaderName::from_static("idempotency-key"),
                longest_key: LONGEST_KEY,
                methods: vec![Method::POST, Method::PATCH],
                body_limit: BODY_LIMIT,
                in_progress: InProgress::default(),
                longest_retry_after: LONGEST_RETRY_AFTER,
                disposition: Arc::new(disposition),
                marker: Marker::default(),
                advertise: false,
                running: Running::new(),
            },
        }
    }

    /// Whose key it is: an account, a tenant, as authentication found it out and left it in the extensions. `None`
    /// is refused with 401.
    pub fn principal(
        mut self,
        of: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.principal = Some(Some(Arc::new(of)));
        self
    }

    /// Waives the principal: all callers share their keys, and whoever guesses a key and its body gets the
    /// answer of another.
    pub fn one_principal(mut self) -> Self {
        self.principal = Some(None);
        self
    }

    /// Whether a request must have a key; it must, unless told otherwise.
    pub fn requirement(mut self, requirement: Requirement) -> Self {
        self.rules.requirement = requirement;
        self
    }

    /// The field of the key, `Idempotency-Key` unless given.
    pub fn key_field(mut self, name: HeaderName) -> Self {
        self.rules.key_field = name;
        self
    }

    /// The longest key, in bytes, from 1 to 255; 255 unless given.
    pub fn longest_key(mut self, bytes: usize) -> Self {
        self.rules.longest_key = bytes;
        self
    }

    /// The methods whose requests have keys, POST and PATCH unless given.
    pub fn methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.rules.methods = methods.into_iter().collect();
        self
    }

    /// The longest body of a request, in bytes, 1 MiB unless given. It is held in memory.
    pub fn body_limit(mut self, bytes: usize) -> Self {
        self.rules.body_limit = bytes;
        self
    }

    /// The longest body of an answer that is kept, in bytes, 1 MiB unless given. The key of a longer one is closed:
    /// whoever asks again is told so, with 410.
    pub fn answer_limit(mut self, bytes: usize) -> Self {
        self.rules.keeper.answer_limit = bytes;
        self
    }

    /// How long a worker may be silent before it counts as dead, 30 s unless given. It is renewed at each third
    /// while the handler runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.rules.keeper.lease = lease;
        self
    }

    /// How long a key is remembered, from its answer on; 24 h unless given.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.rules.keeper.retention = retention;
        self
    }

    /// What a request gets whose key is being worked on.
    pub fn in_progress(mut self, in_progress: InProgress) -> Self {
        self.rules.in_progress = in_progress;
        self
    }

    /// The `Retry-After` of a 409 is what is left of the lease, but at most this; 2 s unless given.
    pub fn longest_retry_after(mut self, wait: Duration) -> Self {
        self.rules.longest_retry_after = wait;
        self
    }

    /// Which answers are stored, by their status; [`disposition`] unless given.
    ///
    /// To store 5xx blocks every retry; to release what may have had its effect repeats it.
    pub fn disposition(
        mut self,
        of: impl Fn(StatusCode) -> Disposition + Send + Sync + 'static,
    ) -> Self {
        self.rules.disposition = Arc::new(of);
        self
    }

    /// Which fields of an answer are given again.
    pub fn fields(mut self, fields: Fields) -> Self {
        self.rules.keeper.fields = fields;
        self
    }

    /// The field that marks a replay.
    pub fn marker(mut self, marker: Marker) -> Self {
        self.rules.marker = marker;
        self
    }

    /// Says the retention in each answer under a key: `Idempotency-Key-Lifetime`, in seconds.
    pub fn advertise_retention(mut self) -> Self {
        self.rules.advertise = true;
        self
    }

    /// Judges leases of our own work by another clock. A store judges by its own.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.rules.keeper.clock = Arc::new(clock);
        self
    }

    /// Makes it.
    ///
    /// # Errors
    /// When it was not said whose a key is, and on settings out of range.
    pub fn build(mut self) -> Result<IdempotencyLayer, LayerError> {
        self.rules.principal = self.principal.ok_or(LayerError::NoPrincipal)?;
        let rules = &self.rules;
        for (fits, why) in [
            ((1..=LONGEST_KEY).contains(&rules.longest_key), "a key has 1 to 255 bytes"),
            (!rules.keeper.lease.is_zero(), "a lease of no time cannot be held"),
            (!rules.keeper.retention.is_zero(), "a key that is not remembered is of no use"),
            (!rules.methods.is_empty(), "without a method the layer does nothing"),
        ] {
            if !fits {
                return Err(LayerError::OutOfRange(why));
            }
        }
        Ok(IdempotencyLayer(Arc::new(self.rules)))
    }
}

impl fmt::Debug for IdempotencyLayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayerBuilder")
            .field("keeper", &self.rules.keeper)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::store::MemoryClaims;

    fn builder() -> IdempotencyLayerBuilder {
        IdempotencyLayer::builder(MemoryClaims::new())
    }

    #[test]
    fn what_cannot_work_is_refused_when_it_is_built() {
        let of = |builder: IdempotencyLayerBuilder| builder.build().err();
        assert_eq!(of(builder()), Some(LayerError::NoPrincipal));
        assert_eq!(of(builder().one_principal()), None);
        assert_eq!(of(builder().principal(|_| None)), None);
        for wrong in [
            builder().longest_key(0),
            builder().longest_key(256),
            builder().lease(Duration::ZERO),
            builder().retention(Duration::ZERO),
            builder().methods([]),
        ] {
            assert!(matches!(of(wrong.one_principal()), Some(LayerError::OutOfRange(_))));
        }
    }
}
