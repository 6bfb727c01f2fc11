//! Orders in a SQLite file: bare, with keys in the same file, and with keys in a file of their own.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::Response;
use axum::routing::post;
use post_once::server::Claim;
use post_once::server::store::SqliteClaims;
use rusqlite::{Connection, TransactionBehavior};

use crate::by_hand::in_sqlite;
use crate::compare::{compare, variant};
use crate::load::{Keys, Load};
use crate::{Bench, api, layer};

/// One connection that writes: more of them only wait for each other.
pub(crate) type Orders = Arc<Mutex<Connection>>;

pub(crate) async fn run(bench: &Bench) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // Files of their own, so that nobody waits for the log of another.
    let file = |name| folder.path().join(name);
    let claims = SqliteClaims::open(file("keyed.db")).await.unwrap();
    let apart = SqliteClaims::open(file("keys.db")).await.unwrap();
    let (bare, orders) = (open(&file("bare.db")), open(&file("keyed.db")));
    let beside = open(&file("orders.db"));
    let keyed = layer(claims.clone());
    let serve = |router: Router| bench.there(api::serve(router));
    let route = |router| Router::new().route("/orders", router);
    let inserted = serve(route(post(insert_one)).with_state(Arc::clone(&bare))).await;
    let transacted = serve(route(post(transact)).with_state(Arc::clone(&bare))).await;
    let by_hand = serve(route(post(in_sqlite)).with_state(bare)).await;
    let lease = route(post(insert_one)).layer(keyed.clone()).with_state(Arc::clone(&orders));
    let in_store = Router::new().route("/orders", post(transact_in_store)).layer(keyed.clone());
    let in_store = serve(in_store).await;
    let transactional = route(post(complete)).layer(keyed).with_state(orders);
    let (lease, transactional) = (serve(lease).await, serve(transactional).await);
    let apart_lease = route(post(insert_one)).layer(layer(apart.clone())).with_state(beside);
    let apart_lease = serve(apart_lease).await;
    let answered = Load::on(lease, Keys::New).await.answered(1_000).await;
    let variants = vec![
        variant("insert", Load::on(inserted, Keys::New).await),
        variant("transaction", Load::on(transacted, Keys::New).await),
        variant("keys by hand", Load::on(by_hand, Keys::New).await),
        variant("keys, transactional", Load::on(transactional, Keys::New).await),
        variant("keys, in the store", Load::on(in_store, Keys::New).await),
        variant("keys, lease", Load::on(lease, Keys::New).await),
        variant("keys apart, lease", Load::on(apart_lease, Keys::New).await),
        variant("keys, replays", Load::on(lease, answered).await),
    ];
    compare(
        "SQLite, one connection that writes",
        variants,
        &["insert", "transaction", "keys by hand"],
    )
    .await;
    claims.close().await;
    apart.close().await;
}

/// As durable as the store is.
fn open(path: &Path) -> Orders {
    let connection = Connection::open(path).unwrap();
    connection.busy_timeout(Duration::from_secs(10)).unwrap();
    let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
        CREATE TABLE orders (id INTEGER PRIMARY KEY, body TEXT NOT NULL); \
        CREATE TABLE by_hand (key TEXT PRIMARY KEY, answer TEXT)";
    connection.execute_batch(settings).unwrap();
    Arc::new(Mutex::new(connection))
}

pub(crate) const INSERT: &str = "INSERT INTO orders (body) VALUES (?1)";

fn insert(connection: &Connection, body: &str) {
    connection.prepare_cached(INSERT).unwrap().execute([body]).unwrap();
}

async fn insert_one(State(orders): State<Orders>, body: String) -> Response<String> {
    let insert = move || insert(&orders.lock().unwrap(), &body);
    tokio::task::spawn_blocking(insert).await.unwrap();
    api::ordered()
}

async fn transact(State(orders): State<Orders>, body: String) -> Response<String> {
    let transact = move || {
        let mut connection = orders.lock().unwrap();
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).unwrap();
        insert(&transaction, &body);
        transaction.commit().unwrap();
    };
    tokio::task::spawn_blocking(transact).await.unwrap();
    api::ordered()
}

async fn complete(State(orders): State<Orders>, claim: Claim, body: String) -> Response<String> {
    let complete = move || {
        let response = api::ordered();
        let mut connection = orders.lock().unwrap();
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).unwrap();
        insert(&transaction, &body);
        claim.complete_in(&transaction, &response).unwrap();
        transaction.commit().unwrap();
        response
    };
    tokio::task::spawn_blocking(complete).await.unwrap()
}

async fn transact_in_store(claim: Claim, body: String) -> Response<String> {
    let work = move |file: &Connection| -> rusqlite::Result<_> {
        file.prepare_cached(INSERT)?.execute([&body])?;
        Ok(api::ordered())
    };
    claim.transact(work).await.unwrap()
}
