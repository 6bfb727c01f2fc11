//! When an operation is sent again, how long it waits, and when it stops.
//!
//! Everything here is a pure function or a small value: no I/O, no clock, no randomness of its
//! own. After each attempt the engine asks, in this order:
//!
//! 1. **What is known?** A [`Known`] is read from the response by the
//!    contract, or from the error by its *type*, never by its text.
//! 2. **What to do?** Stop, retry, or wait for an answer that is still being worked on.
//! 3. **How long?** Full jitter, on top of `Retry-After` as a floor, inside what is left of the
//!    deadline and of the retention [`window`].
//!
//! | known | what is done |
//! |---|---|
//! | connection refused, DNS, no route, connect timeout | retry |
//! | connection lost, timeout after connect, body cut short | retry with the same key |
//! | stream refused by the HTTP/2 peer | retry |
//! | 429, 502, 503, 504 | retry, not before `Retry-After` |
//! | in progress, by the contract's signal | wait with the same key, on its own budget |
//! | untrusted certificate, unusable URL | stop at once |
//! | marked replay, done before, redirect, every other status | stop: the caller's |
//! | anything not recognised | stop: the effect is unknown |
//!
//! # Guarantees
//! - A delay is uniform in `[hint, hint + min(cap, base·2ⁿ)]`, never above what is left.
//! - An attempt never starts that could outlast the window less its margin.
//! - A wait that no useful attempt could follow is not waited.
//!
//! # Not guaranteed
//! - That the server honours the key. A retry to a server that ignores keys runs twice.
//! - Errors of a TLS stack other than rustls are not told apart: an untrusted certificate is then
//!   retried within the budget like any failed connection.

mod backoff;
mod budget;
mod decide;
mod effect;
mod failure;
mod known;
mod policy;
pub(crate) mod retry_after;
pub mod window;

pub use backoff::{Delay, ceiling};
pub use effect::Effect;
pub use known::Known;
pub use policy::{PolicyError, RetryBudget, RetryPolicy, RetryPolicyBuilder};

pub(crate) use budget::RetryBudgets;
pub use decide::Exhausted;
pub(crate) use decide::{Decision, Left, Situation, attempt_limit, decide};
pub(crate) use effect::{Answer, History};
pub(crate) use failure::Failure;
