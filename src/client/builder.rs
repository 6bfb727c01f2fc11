//! Building a client.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest_middleware::ClientWithMiddleware;

use super::{Client, Http};
use crate::engine::{Engine, JournalSettings, engine_settings};
use crate::error::Error;
use crate::refusal::Refusal;

/// The limit on connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A reqwest builder with what an operation needs of its HTTP client: no redirects, no hidden retries,
/// and a limit of 3 s on connecting, so that what was not sent is known.
///
/// Use it wherever you build the client yourself, for [`ClientBuilder::http`] or for a stack with
/// [`Idempotency`](crate::Idempotency). Set no total timeout on it: the policy's limit on each
/// attempt covers the body too, and reqwest's would go on ticking in an answer that was handed over.
pub fn reqwest_builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
}

/// Builds a [`Client`].
#[derive(Default)]
#[must_use = "a client does nothing until it is built"]
pub struct ClientBuilder {
    engine: Engine,
    journaling: JournalSettings,
    http: Option<Http>,
    connect_timeout: Option<Duration>,
}

impl ClientBuilder {
    engine_settings!();

    /// The HTTP client to send with, instead of one of our own. Best built with [`reqwest_builder`].
    pub fn http(mut self, client: reqwest::Client) -> Self {
        self.http = Some(Http::Plain(client));
        self
    }

    /// A whole stack of middleware to send through; all of it runs for each attempt.
    pub fn stack(mut self, stack: ClientWithMiddleware) -> Self {
        self.http = Some(Http::Stack(stack));
        self
    }

    /// The limit on connecting; 3 s by default. Of our own HTTP client only.
    pub fn connect_timeout(mut self, limit: Duration) -> Self {
        self.connect_timeout = Some(limit);
        self
    }

    /// An origin that [`Client::resume`] may send to, as a URL; its path does not matter. There is no
    /// default: a row that points elsewhere is parked, not sent with live credentials.
    pub fn resume_origin(mut self, url: &reqwest::Url) -> Self {
        self.journaling.origins.push(url.origin().ascii_serialization());
        self
    }

    /// Builds the client.
    ///
    /// # Errors
    /// When the HTTP client cannot be built, for instance because no TLS backend can be set up.
    pub fn build(self) -> Result<Client, Error> {
        let http = match self.http {
            Some(http) => http,
            None => {
                let limit = self.connect_timeout.unwrap_or(CONNECT_TIMEOUT);
                let client = reqwest_builder().connect_timeout(limit).build();
                Http::Plain(client.map_err(|error| Error::refused(Refusal::Client(error)))?)
            }
        };
        Ok(Client { engine: Arc::new(self.journaling.complete(self.engine)), http })
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("engine", &self.engine).finish_non_exhaustive()
    }
}
