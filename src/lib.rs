//! An HTTP write that happens once: one idempotency key per operation, sent again only when that is
//! safe and can help, and an honest word on what is known when it cannot be finished.
//!
//! A charge, an order or a provisioning call that times out leaves its sender blind: it may or may
//! not have happened. Sending it again under a new key may do it twice; not sending it again may lose
//! it. This crate sends each *operation* under one key, minted once outside the retry loop, and stops
//! before the server forgets that key. With a [`journal`] the operation is on disk before its first byte
//! goes out, so that it is finished after a crash too: by the next process, or by another machine.
//!
#![cfg_attr(all(feature = "client", feature = "testkit"), doc = "```")]
#![cfg_attr(not(all(feature = "client", feature = "testkit")), doc = "```ignore")]
//! use post_once::testkit::{Fault, Server};
//! use post_once::{Client, Effect, Report};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A server that charges, and whose first answer is lost on the way back.
//! let server = Server::builder().faults([Fault::close()]).start().await?;
//!
//! let client = Client::new()?;
//! let response = client.post_once(server.url("/v1/charges"), &["one charge"]).await?;
//!
//! assert_eq!(response.status(), 201);
//! let report = Report::of(&response).expect("every response of ours has a report");
//! assert_eq!(report.attempts().count(), 2);
//! assert_eq!(report.effect(), Effect::Answered);
//! assert_eq!(server.charges().len(), 1, "one charge, counted at the server");
//! # Ok(()) }
//! ```
//!
//! # Where to start
//!
//! | you | look at |
//! |---|---|
//! | call an API yourself | [`Client::post_once`], and [`Client::once`] for more than a body |
//! | have a `reqwest-middleware` stack already | [`Idempotency`], and the [`middleware`] page |
//! | must know the key before anything is sent | [`client::OperationBuilder::prepare`] |
//! | must finish it whatever happens to the process | the [`journal`] page, and [`client::OperationBuilder::operation`] |
//! | want a row and a call to commit together | [`client::OperationBuilder::draft`], the transactional outbox |
//! | go on with what is pending | the [`resume`] page |
//! | know which provider you call | the presets of [`Contract`], and [`contract::providers`] |
//! | want other limits | [`RetryPolicy`] |
//! | got an error | [`Error::effect`] first, then the [`error`] page |
//! | count and measure | [`observer`], and the spans of `tracing` |
//! | test code that sends writes | the `testkit` feature: a server that fails on purpose |
//!
//! # What is promised
//!
//! - Every attempt of an operation carries the same single key and the same body bytes. Two
//!   operations never share a key.
//! - An operation is sent again only after a failed connection, a lost one, a timeout, 429, 502, 503
//!   or 504, and where the server's [`contract`] itself says "in progress" or "retry". Every other
//!   answer is the caller's, unchanged; so is the last 429 or 5xx when the attempts run out.
//! - Waits are full jitter: uniform in `[0, min(cap, base·2ⁿ)]`, on top of `Retry-After` where the
//!   server gives one. They end with the attempts, the deadline, or the retention window.
//! - No attempt starts that could still be under way after `first send + window − margin`. No new key
//!   is ever minted for an operation that may have been sent.
//! - Every response has a [`Report`] and every error says its [`Effect`]: *answered*, *not sent* or
//!   *unknown*. *Not sent* is said only when it is certain.
//! - With a journal, what was begun is durable before it is sent: `kill -9` or a power cut loses none.
//! - No credential reaches the journal, a log line, an error or a `Debug` output.
//!
//! # What is not
//!
//! - Exactly one effect, by ourselves. The *server* deduplicates. One that ignores the key runs a
//!   retry twice.
//! - That an operation without a journal survives its process: a call that is dropped or killed was
//!   perhaps sent. Give the client a journal where that matters.
//! - That a lease stops a paused process that is sending already. It sends under the same key.
//! - In a client or a stack that this crate did not build, redirects and hidden retries below us are
//!   seen only in part. Start from [`reqwest_builder`].
//!
//! # Features
//!
//! - **`client`** *(default)*: client, middleware and all they stand on. Plain HTTP by itself.
//! - **`rustls`** *(default)*: TLS by rustls, and telling an untrusted certificate, which is final, from
//!   a refused connection, which is not.
//! - **`http2`**: HTTP/2, and telling a request that the peer never processed from one that it may have.
//! - **`sqlite`**: the journal in a SQLite file, for the processes of one machine.
//! - **`postgres`**: the journal in PostgreSQL, for a fleet. Asks for Rust 1.94.
//! - **`server`**: the other half: keys, claims and stored answers for an API or a queue's consumer.
//! - **`axum`**: the claim of a request as an extractor of axum.
//! - **`testkit`**: a scripted server on real sockets that keeps the contract and fails on purpose, and a
//!   clock that is moved by hand.
//! - **`cli`**: the command-line tool.
//!
//! Without a feature there are keys, fingerprints and the clock. Features only ever add: none changes
//! what another does.

pub mod clock;
pub mod fingerprint;
pub mod key;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "client")]
pub mod contract;
#[cfg(feature = "client")]
pub mod error;
#[cfg(feature = "client")]
pub mod journal;
#[cfg(feature = "client")]
pub mod middleware;
#[cfg(feature = "client")]
pub mod observer;
#[cfg(feature = "client")]
pub mod operation;
#[cfg(feature = "client")]
pub mod report;
#[cfg(feature = "client")]
pub mod resume;
#[cfg(feature = "client")]
pub mod retry;
#[cfg(feature = "server")]
pub mod server;
#[cfg(feature = "testkit")]
pub mod testkit;

#[cfg(feature = "client")]
mod engine;
#[cfg(feature = "client")]
mod redact;
#[cfg(feature = "client")]
mod refusal;
#[cfg(feature = "client")]
mod telemetry;

#[cfg(all(
    any(feature = "client", feature = "server"),
    any(feature = "sqlite", feature = "postgres")
))]
mod store;

pub use key::IdempotencyKey;

#[cfg(feature = "client")]
pub use {
    client::{Client, ClientBuilder, reqwest_builder},
    contract::Contract,
    error::Error,
    middleware::Idempotency,
    operation::Operation,
    report::Report,
    retry::{Effect, RetryPolicy},
};

#[cfg(all(doctest, feature = "client", feature = "testkit"))]
#[doc = include_str!("../README.md")]
struct Readme;
