//! An HTTP write that happens once: one idempotency key per operation, retries only when safe.

pub mod clock;
pub mod fingerprint;
pub mod key;

#[cfg(feature = "testkit")]
pub mod testkit;

pub use key::IdempotencyKey;
