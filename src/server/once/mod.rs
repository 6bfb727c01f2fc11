//! The same without HTTP: a job, or a message of a queue, that is delivered twice and done once.
//!
//! A queue delivers at least once: after a crash, a timeout, a lost acknowledgement the same message comes again.
//! [`Once`] claims its key before the work, and keeps what the work returned; delivered again, the message gets
//! that, and nothing is done.
//!
//! # The rule
//! 1. *In a transaction* (`Once<PostgresClaims>::run`, `Once<SqliteClaims>::run`): the work writes through the
//!    transaction that it is given, and its result commits with it. Killed at any point, it has happened once or
//!    not at all.
//! 2. *With a lease* ([`Once::run_leased`], on every store): the work may do anything, and its result is stored
//!    afterwards. Killed between the two, it is done again; see [choosing a mode](super::guide::mode).
//! 3. Work that fails gives its key back: the next delivery does it.
//! 4. The same key with another fingerprint is refused: two messages share an id.
//!
//! Acknowledge the message after [`Ran::Now`] and [`Ran::Before`]; leave it unacknowledged after
//! [`OnceError::InProgress`], to be delivered later.
//!
//! # Not guaranteed
//! - That work whose future is dropped gives its key back at once: its lease ends it.
//!
//! ```
//! use http::Method;
//! use post_once::IdempotencyKey;
//! use post_once::fingerprint::Fingerprint;
//! use post_once::server::once::{Once, OnceError, Ran};
//! use post_once::server::store::MemoryClaims;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let once = Once::new(MemoryClaims::new());
//! let key = IdempotencyKey::parse("message-42")?;
//! let message = br#"{"invoice":42}"#;
//! let fingerprint = Fingerprint::new(&Method::POST, "invoices", Some("application/json"), message);
//!
//! let mut sent = 0;
//! for delivery in 1..=2 {
//!     let ran = once
//!         .run_leased("billing", &key, fingerprint, async |_claim| {
//!             sent += 1;
//!             Ok::<_, std::io::Error>(format!("invoice sent at delivery {delivery}"))
//!         })
//!         .await?;
//!     assert_eq!(ran.is_replay(), delivery == 2);
//!     assert_eq!(ran.into_inner(), "invoice sent at delivery 1");
//! }
//! assert_eq!(sent, 1);
//! # Ok(()) }
//! ```

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::answer::StoredAnswer;
use super::service::{Claim, Ended, Keeper, Outcome, alive};
use super::store::{ClaimError, ClaimStore};
use crate::clock::Clock;
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;

/// Does the work behind a key once.
#[derive(Clone, Debug)]
#[must_use = "nothing is done before `run` is awaited"]
pub struct Once<S> {
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(dead_code, reason = "only a store with transactions is asked for more")
    )]
    store: S,
    keeper: Keeper,
}

/// What came of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran<T> {
    /// It was done now.
    Now(T),
    /// It was done before, and returned this.
    Before(T),
}

impl<T> Ran<T> {
    /// What the work returned, now or before.
    pub fn into_inner(self) -> T {
        match self {
            Ran::Now(value) | Ran::Before(value) => value,
        }
    }

    /// Whether it was done before.
    #[must_use]
    pub fn is_replay(&self) -> bool {
        matches!(self, Ran::Before(_))
    }
}

/// Why a delivery came to nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OnceError<E> {
    /// The work failed; in a transaction it was rolled back. The key was given back: deliver it again.
    #[error("the work failed: {0}")]
    Work(E),
    /// Another worker is at it, or died at it: deliver it again after this time.
    #[error("another worker is at it, for {} ms at most unless it goes on", .0.as_millis())]
    InProgress(Duration),
    /// The key belongs to other work: two messages share it. Nothing was done.
    #[error("the key belongs to other work: nothing was done; give each message a key of its own")]
    Mismatch,
    /// A worker died where only a person can tell what happened. Nothing was done now.
    #[error(
        "a worker died where only a person can tell what happened: settle its claim in the store"
    )]
    Reconcile,
    /// The claim was lost to another worker while the work went on. In a transaction it was rolled back.
    #[error(
        "the claim was lost to another worker: what the work did in a transaction was rolled back"
    )]
    Lost,
    /// The store failed. The work may have been done, where it was not in a transaction.
    #[error(transparent)]
    Store(#[from] ClaimError),
    /// What the work returned cannot be stored, or what is stored cannot be read as it.
    #[error("what the work returned is not what is stored: {0}")]
    Value(#[source] serde_json::Error),
}

impl<S: ClaimStore + Clone> Once<S> {
    /// On this store, with a lease of 30 s and a retention of 24 h.
    pub fn new(store: S) -> Once<S> {
        let keeper = Keeper::new(Arc::new(store.clone()));
        Once { store, keeper }
    }
}

impl Once<Arc<dyn ClaimStore>> {
    /// On a store whose kind is known at run time only: without transactions.
    pub fn shared(store: Arc<dyn ClaimStore>) -> Once<Arc<dyn ClaimStore>> {
        let keeper = Keeper::new(Arc::clone(&store));
        Once { store, keeper }
    }
}

impl<S> Once<S> {
    /// How long a worker may be silent before another takes over, 30 s unless given. It is renewed while the work
    /// goes on.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.keeper.lease = lease;
        self
    }

    /// How long a key is remembered after its work, 24 h unless given: longer than any redelivery takes.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.keeper.retention = retention;
        self
    }

    /// Judges leases by another clock. A store judges by its own.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.keeper.clock = Arc::new(clock);
        self
    }

    /// Does work that may be anything, and stores what it returns.
    ///
    /// # Errors
    /// See [`OnceError`].
    pub async fn run_leased<T, E>(
        &self,
        principal: &str,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        work: impl AsyncFnOnce(Claim) -> Result<T, E>,
    ) -> Result<Ran<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let claim = match self.begin(principal, key, fingerprint).await? {
            Begun::Claim(claim) => claim,
            Begun::Before(value) => return Ok(Ran::Before(value)),
        };
        let working = async {
            match work(claim.clone()).await {
                Ok(value) => {
                    let ended = claim.complete(&stored(&value).map_err(OnceError::Value)?).await?;
                    now_or_lost(ended, value)
                }
                Err(error) => Err(self.give_back(&claim, OnceError::Work(error)).await),
            }
        };
        alive(&claim, working).await.unwrap_or(Err(OnceError::Lost))
    }

    async fn begin<T: DeserializeOwned, E>(
        &self,
        principal: &str,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
    ) -> Result<Begun<T>, OnceError<E>> {
        match self.keeper.claim(principal, key, fingerprint).await? {
            Outcome::Won(claim) => Ok(Begun::Claim(claim)),
            Outcome::Answered(answer) => read(&answer).map(Begun::Before).map_err(OnceError::Value),
            Outcome::InProgress(left) => Err(OnceError::InProgress(left)),
            Outcome::Mismatch => Err(OnceError::Mismatch),
            Outcome::Reconcile => Err(OnceError::Reconcile),
        }
    }

    /// Gives the claim back because of an error, which is the one to be told.
    async fn give_back<E>(&self, claim: &Claim, because: OnceError<E>) -> OnceError<E> {
        if let Err(error) = claim.release().await {
            tracing::warn!(key = %claim.key(), %error, "a claim was not given back, and ends with its lease");
        }
        because
    }
}

enum Begun<T> {
    Claim(Claim),
    Before(T),
}

/// What is stored of a value.
fn stored<T: Serialize>(value: &T) -> Result<StoredAnswer, serde_json::Error> {
    let body = Bytes::from(serde_json::to_vec(value)?);
    Ok(StoredAnswer::new(StatusCode::OK, HeaderMap::new(), Some(body)))
}

fn read<T: DeserializeOwned>(answer: &StoredAnswer) -> Result<T, serde_json::Error> {
    serde_json::from_slice(answer.body.as_deref().unwrap_or_default())
}

fn now_or_lost<T: DeserializeOwned, E>(ended: Ended, value: T) -> Result<Ran<T>, OnceError<E>> {
    match ended {
        Ended::Yes => Ok(Ran::Now(value)),
        // Another worker was faster, and its word counts.
        Ended::Answered(answer) => read(&answer).map(Ran::Before).map_err(OnceError::Value),
        Ended::Lost => Err(OnceError::Lost),
    }
}
