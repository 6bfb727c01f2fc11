//! A consumer of a queue in PostgreSQL that delivers at least once: each message is delivered twice here, to
//! two workers, and done once.
//!
//! `DATABASE_URL=postgres://… cargo run --example queue_consumer --features server,postgres`
//!
//! What a worker writes and what it returns commit together with the key of the message. It works in a schema of
//! its own that it drops at the end.

use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::once::{Once, OnceError};
use post_once::server::store::PostgresClaims;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgConnection};

type Error = Box<dyn std::error::Error + Send + Sync>;

const MESSAGES: i64 = 20;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let Ok(database) = std::env::var("DATABASE_URL") else {
        println!("this example needs a PostgreSQL: set DATABASE_URL=postgres://user@host/database");
        return Ok(());
    };
    let pool = PgPoolOptions::new().max_connections(12).connect(&database).await?;
    let schema = format!("post_once_queue_{}", std::process::id());
    let ended = trial(&pool, &schema).await;
    let drop_all = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
    sqlx::raw_sql(AssertSqlSafe(drop_all)).execute(&pool).await?;
    ended
}

async fn trial(pool: &PgPool, schema: &str) -> Result<(), Error> {
    // The queue, as it might be there already; a message is delivered until it is acknowledged.
    let tables = format!(
        "CREATE SCHEMA {schema}; \
         CREATE TABLE {schema}.queue (id bigint PRIMARY KEY, body text, deliveries int DEFAULT 0); \
         CREATE TABLE {schema}.invoices (message bigint, body text); \
         INSERT INTO {schema}.queue SELECT n, 'invoice ' || n FROM generate_series(1, {MESSAGES}) n"
    );
    sqlx::raw_sql(AssertSqlSafe(tables)).execute(pool).await?;
    let store = PostgresClaims::builder(pool.clone()).schema(schema).build().await?;
    let once = Once::new(store);
    let workers = [work(pool, schema, &once), work(pool, schema, &once)];
    let [one, other] = workers;
    let (one, other) = tokio::try_join!(one, other)?;

    let count = format!("SELECT count(*) FROM {schema}.invoices");
    let invoices: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(pool).await?;
    println!("messages: {MESSAGES}, deliveries: {}", one + other);
    println!("invoices written: {invoices}");
    Ok(())
}

/// A worker: goes on until every message has been delivered twice. How many it got.
async fn work(pool: &PgPool, schema: &str, once: &Once<PostgresClaims>) -> Result<u32, Error> {
    // A queue forgets an acknowledgement now and then; this one forgets the first of each message.
    let next = format!(
        "UPDATE {schema}.queue SET deliveries = deliveries + 1 WHERE id = \
         (SELECT id FROM {schema}.queue WHERE deliveries < 2 ORDER BY random() \
          FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id, body"
    );
    let mut delivered = 0;
    loop {
        let message = sqlx::query_as(AssertSqlSafe(next.clone())).fetch_optional(pool).await?;
        let Some((id, body)): Option<(i64, String)> = message else { return Ok(delivered) };
        delivered += 1;
        let key = IdempotencyKey::parse(&format!("message-{id}"))?;
        let fingerprint = Fingerprint::new(&Method::POST, "invoices", None, body.as_bytes());
        let insert = format!("INSERT INTO {schema}.invoices VALUES ($1, $2)");
        let write = async |connection: &mut PgConnection| {
            let insert = sqlx::query(AssertSqlSafe(insert)).bind(id).bind(&body);
            insert.execute(connection).await.map(|_| ())
        };
        match once.run("billing", &key, fingerprint, write).await {
            Ok(ran) if ran.is_replay() => println!("message {id}: done before"),
            Ok(_) => println!("message {id}: done"),
            // The other worker is at it; a queue would deliver it once more.
            Err(OnceError::InProgress(_)) => println!("message {id}: in progress elsewhere"),
            Err(error) => return Err(error.into()),
        }
    }
}
