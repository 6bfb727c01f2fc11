//! Keys as one writes them by hand: a row of the key, the order, and the answer in one transaction.
//!
//! It has no fingerprint and no lease, and never looks a key up: each of its requests has a new one.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, Response};
use rusqlite::TransactionBehavior;
use sqlx::{AssertSqlSafe, PgPool};

use crate::{api, sqlite};

#[derive(Clone)]
pub(crate) struct Postgres {
    pool: PgPool,
    claim: Arc<str>,
    order: Arc<str>,
    answer: Arc<str>,
}

impl Postgres {
    /// Beside the orders of this schema.
    pub(crate) async fn new(pool: PgPool, schema: &str, order: Arc<str>) -> Postgres {
        let table = format!("CREATE TABLE {schema}.by_hand (key text PRIMARY KEY, answer text)");
        sqlx::raw_sql(AssertSqlSafe(table)).execute(&pool).await.unwrap();
        let claim = format!("INSERT INTO {schema}.by_hand VALUES ($1) ON CONFLICT DO NOTHING");
        let answer = format!("UPDATE {schema}.by_hand SET answer = $2 WHERE key = $1");
        Postgres { pool, claim: claim.into(), order, answer: answer.into() }
    }

    pub(crate) async fn order(
        State(orders): State<Postgres>,
        headers: HeaderMap,
        body: String,
    ) -> Response<String> {
        let response = api::ordered();
        let mut transaction = orders.pool.begin().await.unwrap();
        let claim = sqlx::query(AssertSqlSafe(orders.claim)).bind(key(&headers));
        let claimed = claim.execute(&mut *transaction).await.unwrap();
        assert_eq!(claimed.rows_affected(), 1);
        let order = sqlx::query(AssertSqlSafe(orders.order)).bind(body);
        order.execute(&mut *transaction).await.unwrap();
        let answer = sqlx::query(AssertSqlSafe(orders.answer)).bind(key(&headers));
        answer.bind(response.body()).execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
        response
    }
}

pub(crate) async fn in_sqlite(
    State(orders): State<sqlite::Orders>,
    headers: HeaderMap,
    body: String,
) -> Response<String> {
    let order = move || {
        let response = api::ordered();
        let mut connection = orders.lock().unwrap();
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).unwrap();
        let run = |sql, values: &[&str]| {
            let mut statement = transaction.prepare_cached(sql).unwrap();
            statement.execute(rusqlite::params_from_iter(values)).unwrap()
        };
        let claim = "INSERT INTO by_hand (key) VALUES (?1) ON CONFLICT DO NOTHING";
        assert_eq!(run(claim, &[key(&headers)]), 1);
        run(sqlite::INSERT, &[&body]);
        let answer = "UPDATE by_hand SET answer = ?2 WHERE key = ?1";
        run(answer, &[key(&headers), response.body()]);
        transaction.commit().unwrap();
        response
    };
    tokio::task::spawn_blocking(order).await.unwrap()
}

fn key(headers: &HeaderMap) -> &str {
    headers["idempotency-key"].to_str().unwrap()
}
