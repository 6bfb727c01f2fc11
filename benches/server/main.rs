//! What a key costs an API, against the same API without keys; see `../README.md`.
//!
//! ```text
//! cargo bench --bench server --features server,axum,sqlite,postgres,testkit [-- PART… [LARGEST]]
//!     parts: memory calls sqlite postgres size-memory size-sqlite size-postgres
//!     those by size take 1 k, 100 k and 1 M keys, or none above LARGEST
//! ```
//!
//! Each part runs all its variants in turn, round by round, the turn going on by one with each round. What
//! counts is the median over the rounds of the ratio in a round: what slows a whole round slows both.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![allow(clippy::disallowed_methods, reason = "a measurement is of the real time")]

mod api;
mod by_hand;
mod calls;
#[path = "../../tests/postgres/cluster.rs"]
#[allow(dead_code, reason = "the tests stop and kill their servers, too")]
mod cluster;
mod compare;
mod load;
mod memory;
mod postgres;
mod size;
mod sqlite;

use std::sync::Arc;

use post_once::server::IdempotencyLayer;
use post_once::server::store::ClaimStore;
use sqlx::postgres::PgConnectOptions;
use tokio::runtime::{Builder, Handle};

use crate::cluster::Cluster;

/// Where things run: the API on threads of its own, and PostgreSQL if a part needs it.
struct Bench {
    servers: Handle,
    postgres: Option<PgConnectOptions>,
    largest: usize,
}

fn main() {
    let named = std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let (largest, named): (Vec<_>, Vec<_>) = named.partition(|arg| arg.parse::<usize>().is_ok());
    let largest = largest.first().map_or(usize::MAX, |largest| largest.parse().unwrap());
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let needs_postgres = wanted("postgres") || wanted("size-postgres");
    let cluster = match std::env::var("DATABASE_URL") {
        Ok(_) => None,
        Err(_) => needs_postgres.then(|| Cluster::start().unwrap()),
    };
    let options = || match &cluster {
        Some(cluster) => cluster.options(),
        None => std::env::var("DATABASE_URL").unwrap().parse().unwrap(),
    };
    let servers = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let bench = Bench {
        servers: servers.handle().clone(),
        postgres: needs_postgres.then(options),
        largest,
    };
    let client = Builder::new_current_thread().enable_all().build().unwrap();
    client.block_on(async {
        if wanted("memory") {
            memory::run(&bench).await;
        }
        if wanted("calls") {
            calls::run().await;
        }
        if wanted("sqlite") {
            sqlite::run(&bench).await;
        }
        if wanted("postgres") {
            postgres::run(&bench).await;
        }
        if wanted("size-memory") {
            size::memory(&bench).await;
        }
        if wanted("size-sqlite") {
            size::sqlite(&bench).await;
        }
        if wanted("size-postgres") {
            size::postgres(&bench).await;
        }
    });
    drop(servers);
    drop(cluster);
}

impl Bench {
    /// Runs on the threads of the API.
    async fn there<T: Send + 'static>(&self, what: impl Future<Output = T> + Send + 'static) -> T {
        self.servers.spawn(what).await.unwrap()
    }
}

/// The layer as it is by default.
fn layer(store: impl ClaimStore) -> IdempotencyLayer {
    IdempotencyLayer::shared(Arc::new(store)).one_principal().build().unwrap()
}
