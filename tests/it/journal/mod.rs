//! Operations that are written down, over real sockets.

#![allow(clippy::disallowed_methods, reason = "real sockets get real, short time")]

mod answers;
#[cfg(feature = "sqlite")]
mod disk;
#[cfg(feature = "sqlite")]
mod effects;
mod herd;
mod leases;
mod named;
#[cfg(feature = "sqlite")]
mod outbox;
mod poison;
mod refused;
#[cfg(feature = "sqlite")]
mod restart;
mod resume;
#[cfg(feature = "sqlite")]
mod secrets;
mod shutdown;
mod support;
mod terms;
mod windows;
