//! Everything over real sockets, in one binary.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(all(feature = "testkit", feature = "client"))]
mod bad_input;
#[cfg(all(feature = "testkit", feature = "client"))]
mod cases;
#[cfg(all(feature = "testkit", feature = "client"))]
mod harness;
#[cfg(all(feature = "testkit", feature = "client"))]
mod herd;
#[cfg(all(feature = "testkit", feature = "client"))]
mod independent;
#[cfg(all(feature = "testkit", feature = "client"))]
mod journal;
mod layering;
#[cfg(all(feature = "testkit", feature = "client"))]
mod redaction;
#[cfg(all(feature = "testkit", feature = "client"))]
mod rows;
#[cfg(all(feature = "testkit", feature = "client"))]
mod stacks;
#[cfg(all(feature = "testkit", feature = "client"))]
mod testkit;
