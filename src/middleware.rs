//! The middleware for a `reqwest-middleware` stack that is already there.
//!
//! Everything *inside* it, later in the stack, runs again for each attempt: signing, auth, tracing.
//! Everything *outside* sees one request and one answer. A retry middleware outside keeps key and
//! window, one inside sends the same key; the best place for a retry middleware is none at all.
//!
//! ```
//! use post_once::{Contract, Idempotency};
//! use reqwest_middleware::ClientBuilder;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let http = post_once::reqwest_builder().build()?;
//! let client = ClientBuilder::new(http)
//!     .with(Idempotency::builder().contract(Contract::stripe()).build())
//!     .build();
//! # let _ = client;
//! # Ok(()) }
//! ```
//!
//! Options of one request go into its extensions, most easily by [`RequestBuilderExt`].
//!
//! # Guarantees
//! - Every attempt carries the same single key and the same bytes, also when a middleware outside
//!   repeats or drops the call, as long as it passes the same extensions.
//! - Each attempt gets its own copy of the extensions; the last one's copy becomes the caller's.
//!
//! # Not guaranteed
//! - In a client that [`reqwest_builder`](crate::reqwest_builder) did not build, redirects and hidden
//!   retries below us are seen only in part: key and body may already have followed a redirect, and
//!   one to the same URL cannot be seen.
//! - A middleware outside that makes new extensions for its retries starts a new operation each
//!   time.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next, RequestBuilder};

use crate::contract::Contract;
use crate::engine::{Active, Engine, JournalSettings, Transport, engine_settings};
use crate::error::Error;
use crate::key::IdempotencyKey;
use crate::operation::{OperationState, Options, seal_request};
use crate::refusal::Refusal;
use crate::retry::RetryPolicy;

/// The middleware: one key per operation, minted outside the loop.
#[derive(Clone, Debug)]
pub struct Idempotency {
    engine: Arc<Engine>,
}

impl Idempotency {
    /// With the generic contract and the default policy.
    #[must_use]
    pub fn new() -> Idempotency {
        Idempotency::builder().build()
    }

    /// Starts from the defaults.
    pub fn builder() -> IdempotencyBuilder {
        IdempotencyBuilder::default()
    }
}

impl Default for Idempotency {
    fn default() -> Self {
        Idempotency::new()
    }
}

#[async_trait]
impl Middleware for Idempotency {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        if extensions.get::<Active>().is_some() {
            return next.run(request, extensions).await;
        }
        let options = options_in(extensions);
        let mut state = match extensions.get::<OperationState>() {
            Some(state) if state.is_of(&request) => state.clone(),
            _ => self.engine.fingerprinted(OperationState::told_by(&request), &request),
        };
        if self.engine.journaling.is_none() && options.needs_journal() {
            return Err(Error::refused(Refusal::NoJournal).into());
        }
        seal_request(&mut request, &options, self.engine.contract(&options), &mut state)
            .map_err(Error::refused)?;
        let transport = Transport::Next(next);
        let request = &mut Some(request);
        Ok(self.engine.run(transport, request, &options, &mut state, extensions).await?)
    }
}

/// What the caller put into the request's extensions for us.
fn options_in(extensions: &Extensions) -> Options {
    if extensions.is_empty() {
        return Options::default();
    }
    let JournalOptions { name, scope, context, keep_trying } =
        extensions.get().cloned().unwrap_or_default();
    Options {
        key: extensions.get().cloned(),
        policy: extensions.get().cloned(),
        contract: extensions.get().cloned(),
        deadline: extensions.get().map(|Deadline(limit)| *limit),
        name,
        scope,
        context,
        keep_trying,
    }
}

/// Builds an [`Idempotency`].
#[derive(Debug, Default)]
#[must_use = "a middleware does nothing until it is built and put into a stack"]
pub struct IdempotencyBuilder {
    engine: Engine,
    journaling: JournalSettings,
}

impl IdempotencyBuilder {
    engine_settings!();

    /// Builds the middleware. Nothing can be wrong with it: policy and contract were checked when
    /// they were built.
    #[must_use]
    pub fn build(self) -> Idempotency {
        Idempotency { engine: Arc::new(self.journaling.complete(self.engine)) }
    }
}

/// The limit of one whole call, waits included; put into a request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline(pub Duration);

/// What the journal is told of one operation; put into a request's extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct JournalOptions {
    name: Option<String>,
    scope: Option<String>,
    context: Option<String>,
    keep_trying: bool,
}

impl JournalOptions {
    /// The operation's name, unique in its scope.
    pub fn operation(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The account that the operation belongs to.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scope = Some(scope.into());
        self
    }

    /// The caller's own JSON, as text, handed back with the outcome.
    pub fn context(mut self, json: impl Into<String>) -> Self {
        self.context = Some(json.into());
        self
    }

    /// The resumer goes on when the call ends without an answer that closes the operation.
    pub fn keep_trying(mut self) -> Self {
        self.keep_trying = true;
        self
    }
}

/// Sets the options of one operation on a `reqwest-middleware` request.
///
/// Each is also an extension of its own type ([`IdempotencyKey`], [`RetryPolicy`], [`Contract`],
/// [`Deadline`], [`JournalOptions`]), for code that builds its requests otherwise.
///
/// ```
/// use post_once::{IdempotencyKey, middleware::RequestBuilderExt};
///
/// # fn f(stack: reqwest_middleware::ClientWithMiddleware) -> Result<(), post_once::key::KeyError> {
/// let request = stack
///     .post("https://api.example.com/v1/charges")
///     .idempotency_key(IdempotencyKey::parse("order-42")?)
///     .deadline(std::time::Duration::from_secs(20));
/// # let _ = request;
/// # Ok(()) }
/// ```
pub trait RequestBuilderExt: Sized + sealed::Sealed {
    /// The operation's key, instead of a new one.
    #[must_use]
    fn idempotency_key(self, key: IdempotencyKey) -> Self;

    /// The policy of this operation, instead of the middleware's.
    #[must_use]
    fn retry_policy(self, policy: RetryPolicy) -> Self;

    /// The contract of the server that this operation goes to, instead of the middleware's.
    #[must_use]
    fn contract(self, contract: Contract) -> Self;

    /// The limit of the whole call, waits included, instead of the policy's. Above zero.
    #[must_use]
    fn deadline(self, limit: Duration) -> Self;

    /// What the journal is told: the operation's name, scope, context.
    #[must_use]
    fn journal(self, options: JournalOptions) -> Self;
}

impl RequestBuilderExt for RequestBuilder {
    fn idempotency_key(self, key: IdempotencyKey) -> Self {
        self.with_extension(key)
    }

    fn retry_policy(self, policy: RetryPolicy) -> Self {
        self.with_extension(policy)
    }

    fn contract(self, contract: Contract) -> Self {
        self.with_extension(contract)
    }

    fn deadline(self, limit: Duration) -> Self {
        self.with_extension(Deadline(limit))
    }

    fn journal(self, options: JournalOptions) -> Self {
        self.with_extension(options)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for reqwest_middleware::RequestBuilder {}
}
