//! One test per row of the table "what happens after an attempt", over real sockets: what is known,
//! what is done, what reaches the server, and what the caller is told of the effect.

mod answers;
mod failures;
mod hidden;
#[cfg(feature = "http2")]
mod http2;
mod statuses;
#[cfg(feature = "rustls")]
mod tls;
