//! Several worker processes on one PostgreSQL: they share the rows out, and each row is sent once.
//!
//! `DATABASE_URL=postgres://… cargo run --example fleet --features testkit,postgres`
//!
//! It starts itself three times as workers, on a schema of its own that it drops at the end.

use std::process::Command;

use http::Method;
use post_once::Client;
use post_once::journal::PostgresJournal;
use post_once::testkit::Server;
use serde_json::json;
use sqlx::postgres::PgPool;

const WORKERS: usize = 3;
const ORDERS: u32 = 300;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Ok(database) = std::env::var("DATABASE_URL") else {
        println!("this example needs a PostgreSQL: set DATABASE_URL=postgres://user@host/database");
        return Ok(());
    };
    let pool = PgPool::connect(&database).await?;
    let mut arguments = std::env::args().skip(1);
    if let (Some(schema), Some(url)) = (arguments.next(), arguments.next()) {
        return work(pool, &schema, &url).await;
    }
    let schema = format!("post_once_fleet_{}", std::process::id());
    let ended = lead(pool.clone(), &schema).await;
    // The name is made of letters and digits just above.
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("DROP SCHEMA IF EXISTS {schema} CASCADE")))
        .execute(&pool)
        .await?;
    ended
}

/// Writes the orders down, and has the workers send them.
async fn lead(pool: PgPool, schema: &str) -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let url = server.url("/v1/charges");
    let journal = PostgresJournal::builder(pool).schema(schema).build().await?;
    let client = Client::builder().journal(journal).build()?;
    for order in 1..=ORDERS {
        let charge = client.once(Method::POST, &url).operation(format!("order-{order}"));
        charge.json(&json!({ "order": order })).enqueue().await?;
    }
    let program = std::env::current_exe()?;
    let worker = || Command::new(&program).arg(schema).arg(&url).spawn();
    let workers = (0..WORKERS).map(|_| worker()).collect::<Result<Vec<_>, _>>()?;
    for mut worker in workers {
        // The server is in this process, and goes on meanwhile.
        let ended = tokio::task::spawn_blocking(move || worker.wait()).await??;
        if !ended.success() {
            return Err(format!("a worker ended with {ended}").into());
        }
    }
    println!("requests at the server: {}", server.requests().len());
    println!("charges at the server: {}", server.charges().len());
    Ok(())
}

/// A worker: one pass over whatever is due. A service would go on, with `run(shutdown)`.
async fn work(pool: PgPool, schema: &str, url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let journal = PostgresJournal::builder(pool).schema(schema).build().await?;
    let client = Client::builder().journal(journal).build()?;
    let summary = client.resumer().origin(url).once().await?;
    println!("worker {}: {} completed", std::process::id(), summary.completed);
    Ok(())
}
