//! The behaviour cases: what a client does when something goes wrong, judged at the server.
//!
//! Each test has the number of its case. What was sent is compared as the server's whole log, and
//! effects are counted where they happen. Waits are those of a clock that is moved by hand.

mod bodies;
mod connecting;
mod credentials;
mod deadlines;
mod delays;
mod dropped;
mod herd;
mod in_progress;
mod keys;
mod lost;
mod outcomes;
mod retry_after;
pub(crate) mod support;
mod window;
