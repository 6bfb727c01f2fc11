//! The resumer: goes on with what a journal says is not finished.
//!
//! It claims due rows in batches, sends each *once* per claim, under the key and with the bytes that are
//! written down, and writes back what came of it, or when to try again. The next time is spread with full
//! jitter (base 1 s, cap 5 min, on top of `Retry-After`), so that a million pending rows are neither
//! held in memory nor sent at once when a server comes back.
//!
//! ```
//! # #[cfg(feature = "testkit")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use post_once::journal::MemoryJournal;
//! use post_once::{Client, testkit::Server};
//!
//! let (server, journal) = (Server::start().await?, MemoryJournal::new());
//! let client = Client::builder().journal(journal).build()?;
//!
//! // Written down, and not sent.
//! client.once(http::Method::POST, server.url("/v1/charges")).json(&["a charge"]).enqueue().await?;
//! assert_eq!(server.charges().len(), 0);
//!
//! // This process, the next one, or another machine:
//! let summary = client.resumer().origin(&server.url("/")).once().await?;
//! assert_eq!((summary.completed, server.charges().len()), (1, 1));
//! # Ok(()) }
//! # #[cfg(not(feature = "testkit"))] fn main() {}
//! ```
//!
//! # Guarantees
//! - Rows are sent only to an origin that was allowed, by the client of their scope, with every header
//!   that is never stored supplied again. Any other row is parked, not sent with live credentials.
//! - In flight are at most so many as set, in all and per origin.
//! - Nothing is sent past the window. What may have been sent is then `Unknown`: a person's, or the
//!   reconcile hook's; it is never guessed.
//! - Shutting down releases the claims at once; nothing is lost by it.
//!
//! # Not guaranteed
//! - That a handler sees an outcome once: it is called before the outcome is written, so a crash between
//!   the two calls it again. It sees the same operation under the same key.

mod one;
mod pass;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use reqwest::Url;

use crate::client::Client;
use crate::error::Error;
use crate::journal::{Record, StoredAnswer, To};
use crate::refusal::Refusal;
use crate::report::Report;
use crate::retry::Effect;

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Handler = dyn Fn(Resumed) -> BoxFuture<Result<(), HandlerFailed>> + Send + Sync;
type Outcomes = dyn Fn(&Resumed) + Send + Sync;
type Reconcile = dyn Fn(Record) -> BoxFuture<Verdict> + Send + Sync;

/// Goes on with the operations of a client's journal.
#[must_use = "a resumer does nothing until it runs"]
pub struct Resumer {
    client: Client,
    scopes: HashMap<String, Scoped>,
    /// Only rows of these; of all when empty.
    only: Vec<String>,
    origins: Vec<Result<String, Refusal>>,
    window: Option<Duration>,
    concurrency: usize,
    per_origin: usize,
    idle: Duration,
    handler: Option<Arc<Handler>>,
    outcomes: Option<Arc<Outcomes>>,
    reconcile: Option<Arc<Reconcile>>,
}

/// What the rows of one scope are sent with.
#[derive(Clone)]
struct Scoped {
    client: Client,
    headers: HeaderMap,
}

impl Client {
    /// Goes on once with every operation of the journal that is due, to the origins that
    /// [`ClientBuilder::resume_origin`](crate::ClientBuilder::resume_origin) allowed.
    ///
    /// # Errors
    /// When the client has no journal or no origin is allowed, or when the journal fails.
    pub async fn resume(&self) -> Result<Summary, Error> {
        self.resumer().once().await
    }

    /// A resumer over this client's journal; its client serves the default scope.
    pub fn resumer(&self) -> Resumer {
        let scoped = Scoped { client: self.clone(), headers: HeaderMap::new() };
        Resumer {
            client: self.clone(),
            scopes: HashMap::from([(String::new(), scoped)]),
            only: Vec::new(),
            origins: Vec::new(),
            window: None,
            concurrency: 16,
            per_origin: 16,
            idle: Duration::from_secs(1),
            handler: None,
            outcomes: None,
            reconcile: None,
        }
    }
}

impl Resumer {
    /// An origin that rows may be sent to, as a URL; its path does not matter. There is no default.
    pub fn origin(mut self, url: &str) -> Self {
        let origin = Url::parse(url).map(|url| url.origin().ascii_serialization());
        self.origins
            .push(origin.map_err(|_| Refusal::Url("an origin of the resumer does not parse")));
        self
    }

    /// The client that sends the rows of a scope, and the headers that are never stored and which it
    /// supplies again.
    pub fn scope(mut self, scope: impl Into<String>, client: Client, headers: HeaderMap) -> Self {
        self.scopes.insert(scope.into(), Scoped { client, headers });
        self
    }

    /// Only rows of these scopes; the others are left as they are. Of every scope unless given: then a row
    /// whose scope has no client is parked.
    pub fn only_scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.only = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// A header that is never stored, for the rows of the default scope.
    pub fn header(mut self, name: HeaderName, mut value: HeaderValue) -> Self {
        value.set_sensitive(true);
        if let Some(scoped) = self.scopes.get_mut("") {
            scoped.headers.append(name, value);
        }
        self
    }

    /// For how long the server remembers a key, counted from the first send. It can only shorten the window
    /// that a row was written down with.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = Some(window);
        self
    }

    /// The most that are in flight at once; 16 by default, at least 1.
    pub fn concurrency(mut self, most: usize) -> Self {
        self.concurrency = most.max(1);
        self
    }

    /// The most that are in flight to one origin; 16 by default, at least 1.
    pub fn per_origin(mut self, most: usize) -> Self {
        self.per_origin = most.max(1);
        self
    }

    /// How long it rests when nothing is due; 1 s by default.
    pub fn idle(mut self, rest: Duration) -> Self {
        self.idle = rest;
        self
    }

    /// Is given each outcome that nothing more is done about, before it is written down. When it fails,
    /// the row is tried again later, and the server replays its answer.
    pub fn handler<F, R>(mut self, handler: F) -> Self
    where
        F: Fn(Resumed) -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), HandlerFailed>> + Send + 'static,
    {
        self.handler = Some(Arc::new(move |resumed| Box::pin(handler(resumed))));
        self
    }

    /// Is told each outcome once it is written down, also of what is to be tried again later. It is called
    /// on the path of the row and should return at once.
    pub fn on_outcome(mut self, told: impl Fn(&Resumed) + Send + Sync + 'static) -> Self {
        self.outcomes = Some(Arc::new(told));
        self
    }

    /// Is asked about each row whose window has closed over an open end: it may look the operation up at
    /// the provider, by its key.
    pub fn reconcile<F, R>(mut self, reconcile: F) -> Self
    where
        F: Fn(Record) -> R + Send + Sync + 'static,
        R: Future<Output = Verdict> + Send + 'static,
    {
        self.reconcile = Some(Arc::new(move |record| Box::pin(reconcile(record))));
        self
    }

    /// One pass: every row that is due now, once.
    ///
    /// # Errors
    /// When the client has no journal or no origin is allowed, or when the journal fails.
    pub async fn once(self) -> Result<Summary, Error> {
        self.once_until(std::future::pending()).await
    }

    /// One pass that the shutdown cuts short: then it stops claiming, drops what is in flight, and releases
    /// its claims at once.
    ///
    /// # Errors
    /// As [`Resumer::once`].
    pub async fn once_until(self, shutdown: impl Future<Output = ()>) -> Result<Summary, Error> {
        let mut pass = pass::Pass::new(self)?;
        pass.once_until(shutdown).await
    }

    /// Goes on until the shutdown is there: then it stops claiming, drops what is in flight, and releases
    /// its claims at once.
    ///
    /// # Errors
    /// When the client has no journal or no origin is allowed. A journal that fails meanwhile is tried
    /// again.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<Summary, Error> {
        let mut pass = pass::Pass::new(self)?;
        pass.until(shutdown).await
    }
}

impl fmt::Debug for Resumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumer")
            .field("scopes", &self.scopes.keys())
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

/// How many rows ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Completed.
    pub completed: u64,
    /// To be tried again later.
    pub later: u64,
    /// Parked: they want a person.
    pub parked: u64,
    /// Unknown: they want to be reconciled.
    pub unknown: u64,
    /// Lost to another holder, or not written down.
    pub lost: u64,
}

/// The outcome of a resumed operation, as its handler gets it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The row as it was claimed: scope, name, key and the caller's context among it.
    pub record: Record,
    /// Where it goes.
    pub to: To,
    /// What is known of the write.
    pub effect: Effect,
    /// The answer, if one came and was small enough to keep.
    pub answer: Option<StoredAnswer>,
    /// What this attempt came to, if there was one.
    pub report: Option<Report>,
}

/// What a reconcile hook found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It happened: the row is completed.
    Happened,
    /// It cannot be told: the row stays for a person.
    Unknown,
}

/// A handler could not take an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the outcome could not be handled")]
pub struct HandlerFailed;
