//! What others that keep keys cost an API, and ours beside them in the same run; see `../../README.md`.
//!
//! ```text
//! cargo run --release [-- memory same-key]
//! ```
//!
//! Each is set up as its documentation has it, and told to remember a key for a day. Requests are of many customers:
//! ours and ullun tell them apart by a token, axum-idempotent by the cookie of a session.
//!
//! | | claims a key before its handler runs | tells another body | where the keys are |
//! |---|---|---|---|
//! | post-once | yes | yes | memory, SQLite, PostgreSQL |
//! | axum-idempotent 0.6.0 | no: it looks for an answer, runs the handler, stores its answer | not by key; without keys it goes by a hash of the request | fields of a session of ruts: memory, Redis, PostgreSQL, ScyllaDB |
//! | ullun-api 0.4.13 | yes | yes | memory, Redis, or a trait |
//!
//! - axum-idempotent is a layer of axum. Where a request has no session it passes by. Its documentation says that it
//!   is no guarantee, and that equal requests at once may all reach the handler. The store in memory goes through all
//!   fields of a session at each write, so the load comes from many sessions; it is also shown with one.
//! - ullun is a web framework, and its keys are a middleware of its own kind: they are measured against ullun without
//!   keys. Its store in memory refuses new keys when it is full, at 10 000 unless told otherwise, as it is here. A
//!   claim lapses after 60 s unless told otherwise, also while its handler runs.
//! - Neither goes on with a handler whose client has left.
//!
//! `same-key` shows by runs of a slow handler what each does with 50 equal requests at once, with another body under a
//! key that was answered, and with a client that leaves and returns.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![allow(clippy::disallowed_methods, reason = "a measurement is of the real time")]

#[path = "../../server/api.rs"]
mod api;
#[path = "../../server/compare.rs"]
mod compare;
#[path = "../../server/load.rs"]
#[allow(dead_code, reason = "the bench of the server half sends no more fields")]
mod load;
mod memory;
mod peers;
mod same_key;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::{Builder, Handle};

use crate::load::{Fields, Keys, Load};

/// Where the APIs run: on threads of their own.
struct Bench {
    servers: Handle,
}

fn main() {
    let named: Vec<_> = std::env::args().skip(1).collect();
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let servers = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bench = Bench { servers: servers.handle().clone() };
    let client = Builder::new_current_thread().enable_all().build().unwrap();
    client.block_on(async {
        if wanted("memory") {
            memory::run(&bench).await;
        }
        if wanted("same-key") {
            same_key::run(&bench).await;
        }
    });
}

impl Bench {
    /// Runs on the threads of the APIs.
    async fn there<T: Send + 'static>(&self, what: impl Future<Output = T> + Send + 'static) -> T {
        self.servers.spawn(what).await.unwrap()
    }
}

async fn new_keys(address: SocketAddr, fields: &Fields) -> Load {
    Load::with_fields(address, Keys::New, Arc::clone(fields)).await
}

async fn replays(address: SocketAddr, fields: &Fields) -> Load {
    let answered = new_keys(address, fields).await.answered(1_000).await;
    Load::with_fields(address, answered, Arc::clone(fields)).await
}
