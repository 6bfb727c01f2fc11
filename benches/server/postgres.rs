//! Orders in PostgreSQL: bare, and with keys in the same database.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::Response;
use axum::routing::post;
use post_once::server::Claim;
use post_once::server::store::PostgresClaims;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};

use crate::compare::{compare, variant};
use crate::load::{Keys, Load};
use crate::{Bench, api, by_hand, layer};

/// Connections of an API; the store takes its writers out of them.
const POOL: u32 = 16;

#[derive(Clone)]
struct Orders {
    pool: PgPool,
    insert: Arc<str>,
}

pub(crate) async fn run(bench: &Bench) {
    let options = bench.postgres.clone().unwrap();
    let pool = || PgPoolOptions::new().max_connections(POOL).min_connections(POOL);
    let schema = format!("post_once_bench_{}", std::process::id());
    let insert: Arc<str> = format!("INSERT INTO {schema}.orders (body) VALUES ($1)").into();
    let (bare, keyed) =
        (pool().connect_lazy_with(options.clone()), pool().connect_lazy_with(options));
    let made = schema.clone();
    let (bare, keyed, claims) = bench
        .there(async move {
            let claims =
                PostgresClaims::builder(keyed.clone()).schema(&made).build().await.unwrap();
            let orders = format!(
                "CREATE TABLE {made}.orders (id bigserial PRIMARY KEY, body text NOT NULL, \
                 at timestamptz NOT NULL DEFAULT now())"
            );
            sqlx::raw_sql(AssertSqlSafe(orders)).execute(&bare).await.unwrap();
            (bare, keyed, claims)
        })
        .await;
    let serve = |router: Router| bench.there(api::serve(router));
    let by_hand = {
        let (bare, schema, insert) = (bare.clone(), schema.clone(), Arc::clone(&insert));
        async move { by_hand::Postgres::new(bare, &schema, insert).await }
    };
    let by_hand = bench.there(by_hand).await;
    let bare = Orders { pool: bare, insert: Arc::clone(&insert) };
    let orders = Orders { pool: keyed, insert };
    let keyed = layer(claims);
    let route = |router| Router::new().route("/orders", router);
    let inserted = serve(route(post(insert_one)).with_state(bare.clone())).await;
    let transacted = serve(route(post(transact)).with_state(bare.clone())).await;
    let by_hand = post(by_hand::Postgres::order).with_state(by_hand);
    let by_hand = Router::new().route("/orders", by_hand);
    let by_hand = serve(by_hand).await;
    let lease = route(post(insert_one)).layer(keyed.clone()).with_state(orders.clone());
    let transactional = route(post(complete)).layer(keyed).with_state(orders);
    let (lease, transactional) = (serve(lease).await, serve(transactional).await);
    let answered = Load::on(lease, Keys::New).await.answered(1_000).await;
    let variants = vec![
        variant("insert", Load::on(inserted, Keys::New).await),
        variant("transaction", Load::on(transacted, Keys::New).await),
        variant("keys by hand", Load::on(by_hand, Keys::New).await),
        variant("keys, transactional", Load::on(transactional, Keys::New).await),
        variant("keys, lease", Load::on(lease, Keys::New).await),
        variant("keys, replays", Load::on(lease, answered).await),
    ];
    compare("PostgreSQL, a pool of 16", variants, &["insert", "transaction", "keys by hand"]).await;
    let clean = format!("DROP SCHEMA {schema} CASCADE");
    bench
        .there(
            async move { sqlx::raw_sql(AssertSqlSafe(clean)).execute(&bare.pool).await.unwrap() },
        )
        .await;
}

async fn insert_one(State(orders): State<Orders>, body: String) -> Response<String> {
    let insert = sqlx::query(AssertSqlSafe(orders.insert)).bind(body);
    insert.execute(&orders.pool).await.unwrap();
    api::ordered()
}

async fn transact(State(orders): State<Orders>, body: String) -> Response<String> {
    let mut transaction = orders.pool.begin().await.unwrap();
    let insert = sqlx::query(AssertSqlSafe(orders.insert)).bind(body);
    insert.execute(&mut *transaction).await.unwrap();
    transaction.commit().await.unwrap();
    api::ordered()
}

async fn complete(State(orders): State<Orders>, claim: Claim, body: String) -> Response<String> {
    let response = api::ordered();
    let mut transaction = orders.pool.begin().await.unwrap();
    let insert = sqlx::query(AssertSqlSafe(orders.insert)).bind(body);
    insert.execute(&mut *transaction).await.unwrap();
    claim.complete_in(&mut transaction, &response).await.unwrap();
    transaction.commit().await.unwrap();
    response
}
