//! The client: `post_once`, and everything that one call can be told.
//!
//! ```
//! # #[cfg(feature = "testkit")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use post_once::testkit::{Fault, Server};
//! use post_once::{Client, Effect, Report};
//!
//! // A server that charges, and then loses its first answer.
//! let server = Server::builder().faults([Fault::close()]).start().await?;
//!
//! let client = Client::new()?;
//! let response = client.post_once(server.url("/v1/charges"), &["one charge"]).await?;
//!
//! let report = Report::of(&response).expect("every response of ours has one");
//! assert_eq!(report.attempts().count(), 2);
//! assert_eq!(report.effect(), Effect::Answered);
//! assert_eq!(server.charges().len(), 1);
//! # Ok(()) }
//! # #[cfg(not(feature = "testkit"))] fn main() {}
//! ```
//!
//! A client is always outermost: over a stack of middleware, all of it runs again for each attempt,
//! so that what signs a request signs each attempt anew. What a `RequestInitialiser` of the stack
//! sets is set once per operation.
//!
//! # Guarantees
//! - One key and one body for all attempts of a call.
//! - A client that [`Client::new`] or [`reqwest_builder`] built follows no redirect and repeats
//!   nothing behind our back.
//!
//! # Not guaranteed
//! - Exactly one effect, by ourselves. The server deduplicates: one that ignores keys runs a retry
//!   twice.
//! - That a dropped call was not sent. Use a deadline rather than a timeout around the call, and
//!   [`OperationBuilder::prepare`] where the key must be known whatever happens.

mod builder;
mod once;

use std::fmt;
use std::sync::Arc;

use http::{Extensions, Method};
use reqwest::{Request, Response, Url};
use reqwest_middleware::ClientWithMiddleware;
use serde::Serialize;

pub use builder::{ClientBuilder, reqwest_builder};
pub use once::OperationBuilder;

use crate::engine::{Engine, Transport};
use crate::error::Error;
use crate::operation::Operation;
use crate::refusal::Refusal;

/// Sends each operation once, over as many attempts as that takes. Cheap to clone; clones share
/// their connections and their retry budgets.
#[derive(Clone)]
pub struct Client {
    engine: Arc<Engine>,
    http: Http,
}

/// What a client sends through.
#[derive(Clone)]
enum Http {
    Plain(reqwest::Client),
    Stack(ClientWithMiddleware),
}

impl Client {
    /// A client with the defaults: generic contract, default policy, an HTTP client of our own.
    ///
    /// # Errors
    /// When the HTTP client cannot be built, for instance because no TLS backend can be set up.
    pub fn new() -> Result<Client, Error> {
        Client::builder().build()
    }

    /// Starts from the defaults.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Posts the body as JSON, once.
    ///
    /// Retries as the policy says; returns the server's answer, whatever its status.
    ///
    /// # Errors
    /// When no attempt ended in an answer, or the server still says "in progress".
    /// [`Error::effect`] says whether the write may have happened.
    pub async fn post_once<B>(&self, url: impl AsRef<str>, body: &B) -> Result<Response, Error>
    where
        B: Serialize + ?Sized,
    {
        self.once(Method::POST, url).json(body).send().await
    }

    /// Patches with the body as JSON, once. Otherwise as [`Client::post_once`].
    ///
    /// # Errors
    /// As [`Client::post_once`].
    pub async fn patch_once<B>(&self, url: impl AsRef<str>, body: &B) -> Result<Response, Error>
    where
        B: Serialize + ?Sized,
    {
        self.once(Method::PATCH, url).json(body).send().await
    }

    /// Starts an operation of any method, to be told more before it is sent.
    ///
    /// What is wrong with it (an unusable URL, a header that is none) is said when it is sent.
    pub fn once(&self, method: Method, url: impl AsRef<str>) -> OperationBuilder<'_> {
        OperationBuilder::new(self, self.request(method, url.as_ref()))
    }

    /// Sends a prepared operation, or sends it again. Sent again, it continues: same key, same bytes,
    /// and the window counts from the first send.
    ///
    /// # Errors
    /// As [`Client::post_once`]; and when its body is a stream that was sent before.
    pub async fn send(&self, operation: &mut Operation) -> Result<Response, Error> {
        let Operation { request, options, state, extensions } = operation;
        self.engine.run(self.transport(), request, options, state, extensions).await
    }

    /// What this client sends through.
    pub(crate) fn transport(&self) -> Transport<'_> {
        match &self.http {
            Http::Plain(client) => Transport::Client(client),
            Http::Stack(stack) => Transport::Stack(stack),
        }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A request of this client, with what the stack's initialisers set.
    fn request(&self, method: Method, url: &str) -> Result<(Request, Extensions), Refusal> {
        let url = Url::parse(url).map_err(|_| Refusal::Url("it does not parse"))?;
        match &self.http {
            Http::Plain(_) => Ok((Request::new(method, url), Extensions::new())),
            Http::Stack(stack) => {
                // Checked here too: the builder would turn a userinfo into a header.
                crate::operation::check_url(&url)?;
                let mut builder = stack.request(method, url);
                let extensions = std::mem::take(builder.extensions());
                Ok((builder.build().map_err(Refusal::Request)?, extensions))
            }
        }
    }
}

impl From<reqwest::Client> for Client {
    /// Over a client that is there already, with the defaults. See [`reqwest_builder`] for what it
    /// should not do.
    fn from(client: reqwest::Client) -> Client {
        Client { engine: Arc::default(), http: Http::Plain(client) }
    }
}

impl From<ClientWithMiddleware> for Client {
    /// Over a whole stack that is there already, with the defaults.
    fn from(stack: ClientWithMiddleware) -> Client {
        Client { engine: Arc::default(), http: Http::Stack(stack) }
    }
}

impl fmt::Debug for Client {
    /// Nothing of the HTTP client is shown: its default headers may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("engine", &self.engine).finish_non_exhaustive()
    }
}
