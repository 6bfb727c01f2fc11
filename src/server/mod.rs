//! The server half: what an API, or a consumer of a queue, needs so that a request that is sent again has one
//! effect.
//!
//! ```text
//! request + key ─► whose key ─► fingerprint ─► claim ─ won ──► handler, in its own task ─► answer stored
//!                                                │ another request's   422
//!                                                │ being worked on     409 with Retry-After, or waits
//!                                                └ answered            the same answer, marked as a replay
//! ```
//!
#![cfg_attr(feature = "axum", doc = "```")]
#![cfg_attr(not(feature = "axum"), doc = "```ignore")]
//! use axum::body::Body;
//! use axum::http::{Request, StatusCode};
//! use axum::{Router, routing::post};
//! use post_once::server::{Claim, IdempotencyLayer, store::MemoryClaims};
//! use tower::ServiceExt;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! async fn charge(claim: Claim) -> (StatusCode, String) {
//!     // The key of a call to somebody else: the same, however often this is run.
//!     (StatusCode::CREATED, claim.key().derive("charge").to_string())
//! }
//!
//! let layer = IdempotencyLayer::builder(MemoryClaims::new()).one_principal().build()?;
//! let app = Router::new().route("/charges", post(charge)).layer(layer);
//!
//! let request = |body: &'static str| {
//!     Request::post("/charges").header("idempotency-key", "order-42").body(Body::from(body))
//! };
//! let first = app.clone().oneshot(request("{}")?).await?;
//! let again = app.clone().oneshot(request("{}")?).await?;
//! let other = app.clone().oneshot(request("[]")?).await?;
//!
//! assert_eq!(first.status(), 201);
//! assert_eq!(again.status(), 201);
//! assert_eq!(again.headers()["idempotency-replayed"], "true");
//! assert_eq!(other.status(), 422, "the key belongs to another request");
//! # Ok(()) }
//! ```
//!
//! # Where to start
//!
//! | you | look at |
//! |---|---|
//! | have an API | [`IdempotencyLayer`], and [adding keys in five steps](guide::adding) |
//! | consume a queue, or run jobs | [`Once`] |
//! | want effect and answer to commit together | [`Claim::complete_in`], and [choosing a mode](guide::mode) |
//! | call somebody else in a handler | [`Claim::key`] and its `derive`, [`Claim::checkpoint`] |
//! | ask how long to keep keys | [choosing the window](guide::window) |
//! | run it | [`Sweeper`], and [operating it](guide::operating) |
//!
//! # Guarantees
//! - Of any number of equal requests at once, on any number of processes that share a store, one is run.
//! - The same key gets the same answer for the whole retention; another request under it is refused, not run.
//! - What is written in a transaction with [`Claim::complete_in`] happens once, whenever the process is killed.
//! - A worker that lost its claim can write nothing under it any more.
//!
//! # Not guaranteed
//! - One effect where effect and answer are *not* in one transaction, and the process dies between them: then the
//!   next request runs it again. Everything that says "exactly once" says it of one database.
//! - Anything after the retention: a key that comes back later is new.

pub mod answer;
pub mod claim;
pub mod layer;
pub mod once;
pub mod problem;
pub mod store;
pub mod sweep;

mod service;

/// Pages on using it.
pub mod guide {
    #[doc = include_str!("guide/adding.md")]
    pub mod adding {}
    #[doc = include_str!("guide/mode.md")]
    pub mod mode {}
    #[doc = include_str!("guide/operating.md")]
    pub mod operating {}
    #[doc = include_str!("guide/window.md")]
    pub mod window {}
}

pub use layer::{IdempotencyLayer, IdempotencyLayerBuilder};
pub use once::Once;
#[cfg(feature = "sqlite")]
pub use service::TransactError;
pub use service::{Claim, Transaction};
pub use sweep::Sweeper;
