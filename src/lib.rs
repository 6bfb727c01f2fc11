//! An HTTP write that happens once: one idempotency key per operation, retries only when safe.

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
pub mod middleware;
#[cfg(feature = "client")]
pub mod observer;
#[cfg(feature = "client")]
pub mod operation;
#[cfg(feature = "client")]
pub mod report;
#[cfg(feature = "client")]
pub mod retry;
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
