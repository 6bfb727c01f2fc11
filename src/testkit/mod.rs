//! A scripted server on real sockets that keeps an idempotency contract, and breaks connections.
//!
//! It is for the tests of code that sends writes, by this crate or by anything else. The rule:
//!
//! 1. Without a script it *behaves*. A `POST` to any path is an *effect*, a charge `ch_1`, `ch_2`, …,
//!    answered with 201, a `Location` and `{"id":"ch_1","received":<the body>}`. The same key gets the
//!    same answer again with `Idempotency-Replayed: true`, and no second effect; with another body
//!    422; while the first request is being worked on 409 with `Retry-After: 1`. Without a key each
//!    request is an effect. `PUT`, `PATCH` and `DELETE` are served like `POST`.
//! 2. `GET /v1/charges` lists the effects: `{"count":1,"charges":[{"id":"ch_1","received":…}]}`. Any
//!    other safe request gets 200 and `{}`.
//! 3. Each request that is not safe takes the next [`Fault`] of the script, if one is left, and goes
//!    wrong in that way. With [`close`](Fault::close) or [`cut`](Fault::cut) the effect has happened
//!    and the client cannot know.
//! 4. Everything is logged. Compare the [whole log](Server::transcript), and count the effects
//!    [at the server](Server::charges): what the client believes is not evidence.
//!
#![cfg_attr(feature = "client", doc = "```")]
#![cfg_attr(not(feature = "client"), doc = "```ignore")]
//! use post_once::testkit::{Fault, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::builder().faults([Fault::close()]).start().await?;
//! let client = reqwest::Client::new();
//! let post = || client.post(server.url("/v1/charges")).header("Idempotency-Key", "order-42");
//!
//! assert!(post().body("{}").send().await.is_err(), "the answer is lost");
//! let again = post().body("{}").send().await?;
//! assert_eq!(again.headers()["idempotency-replayed"], "true");
//!
//! assert_eq!(server.charges().len(), 1);
//! assert_eq!(
//!     server.transcript(),
//!     [
//!         "c1 POST /v1/charges k1 2B",
//!         "c1 effect ch_1",
//!         "c1 fault close",
//!         "c2 POST /v1/charges k1 2B",
//!         "c2 replay 201",
//!         "c2 answer 201",
//!     ]
//! );
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # The lines of the log
//!
//! | line | when |
//! |---|---|
//! | `c1 POST /v1/charges k1 17B` | a request was read: its connection, key (`-` if none) and size |
//! | `c1 POST /v1/charges k1 unread` | its head was read, and a fault left its body |
//! | `c1 effect ch_1` | the charge was made, and its answer stored under the key |
//! | `c1 replay 201`, `c1 in progress`, `c1 mismatch` | the key was known |
//! | `c1 fault close` | the fault was applied: after the effect where it acts after it |
//! | `c1 answer 201` | a whole answer goes out, and the client is still there |
//! | `c1 tls handshake failed` | the client gave up; sure to be there after [`stop`](Server::stop) |
//!
//! Connections are numbered as they are accepted and keys as they appear; a line holds neither times
//! nor ports. A line is written before the client can see what it tells.
//!
//! # What is promised
//!
//! - A client that sends one request after the other gets the same transcript in every run.
//! - An effect is never logged after the client could know of it, and never lost because the client
//!   left: [`hang_before`](Fault::hang_before) and [`delay`](Fault::delay) go on without it.
//! - A panic inside the server fails the test: [`stop`](Server::stop) and dropping raise it again.
//! - Bodies above 64 MiB and heads above 64 KiB are refused, not read.
//!
//! # What is not
//!
//! - Requests under way at the same time may be logged in either order; so may a connection that a
//!   client opens before it needs it, or does not use again.
//! - A key belongs to its body only: not to a method, a path or a caller, and it never expires.
//! - It has no clock to turn: faults take real time, and do not go with tokio's paused time.
//! - It is not hardened: it listens on 127.0.0.1 and is for tests and trials.
//!
//! It needs a tokio runtime with I/O and time enabled, and lives as long as that.

mod answer;
mod charges;
#[cfg(feature = "server")]
pub mod claims;
mod clock;
mod exchange;
mod fault;
#[cfg(feature = "server")]
mod faulty;
mod http1;
mod http1_read;
mod http2;
#[cfg(feature = "client")]
pub mod journal;
mod keys;
mod log;
mod server;
mod state;
mod tls;
mod wire;

pub use charges::Charge;
pub use clock::ManualClock;
pub use fault::{Fault, FaultError};
#[cfg(feature = "server")]
pub use faulty::{FaultyClaims, Verb};
pub use log::{Event, EventKind, Received};
pub use server::{Server, ServerBuilder, refused_url};
pub use tls::Tls;
