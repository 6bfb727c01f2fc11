//! The stores of keys: one suite on each, and what is particular to each of them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod conformance;
#[cfg(feature = "sqlite")]
mod sqlite;
