//! The whole circle: an order service on axum and PostgreSQL that is killed again and again, its customer, and
//! the payment provider that it calls. One order, one charge and one stored answer for each request.
//!
//! `DATABASE_URL=postgres://… cargo run --example order_service --features testkit,axum,postgres`
//!
//! One transaction writes the order, completes the request's key with its answer, and enqueues the charge under
//! a key derived from it. The service starts itself as a child, and kills it (SIGKILL) at random moments; it
//! works in a schema of its own that it drops at the end.

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use axum::routing::post;
use http::Method;
use post_once::clock::{Clock, SystemClock};
use post_once::journal::PostgresJournal;
use post_once::retry::RetryBudget;
use post_once::server::store::PostgresClaims;
use post_once::server::{Claim, IdempotencyLayer};
use post_once::testkit::Server;
use post_once::{Client, RetryPolicy};
use rand::RngExt;
use serde_json::json;
use sqlx::AssertSqlSafe;
use sqlx::postgres::{PgPool, PgPoolOptions};

type Error = Box<dyn std::error::Error + Send + Sync>;

const ORDERS: u32 = 30;
/// Short, so that the example need not wait for long; 30 s by default.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let Ok(database) = std::env::var("DATABASE_URL") else {
        println!("this example needs a PostgreSQL: set DATABASE_URL=postgres://user@host/database");
        return Ok(());
    };
    let pool = PgPoolOptions::new().max_connections(20).connect(&database).await?;
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [schema, port, provider] = &arguments[..] {
        return serve(pool, schema.clone(), port.parse()?, provider).await;
    }
    let schema = format!("post_once_orders_{}", std::process::id());
    let ended = trial(&pool, &schema).await;
    let drop_all = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
    sqlx::raw_sql(AssertSqlSafe(drop_all)).execute(&pool).await?;
    ended
}

/// What the service's handler needs.
struct Shop {
    pool: PgPool,
    journal: PostgresJournal,
    client: Client,
    schema: String,
    provider: String,
}

/// The service: the layer in front of one handler, and the relay of its outbox beside it.
async fn serve(pool: PgPool, schema: String, port: u16, provider: &str) -> Result<(), Error> {
    let journal = PostgresJournal::builder(pool.clone()).schema(&schema).build().await?;
    let claims = PostgresClaims::builder(pool.clone()).schema(&schema).build().await?;
    let client = Client::builder().journal(journal.clone()).lease(LEASE).build()?;
    let relay = client.resumer().origin(provider).run(std::future::pending());
    tokio::spawn(async move { relay.await.map(drop) });

    // Whose key it is comes from authentication; here there is one customer.
    let layer = IdempotencyLayer::builder(claims).one_principal().lease(LEASE).build()?;
    let shop = Arc::new(Shop { pool, journal, client, schema, provider: provider.to_owned() });
    let app = Router::new().route("/orders", post(place)).layer(layer).with_state(shop);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    Ok(axum::serve(listener, app).await?)
}

/// The handler. Whatever fails rolls all of it back, and the next request with the key starts afresh.
async fn place(State(shop): State<Arc<Shop>>, claim: Claim, body: String) -> Response<String> {
    shop.order(&claim, body).await.unwrap_or_else(|error| {
        eprintln!("an order was rolled back: {error}");
        let mut response = Response::new(String::new());
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        response
    })
}

impl Shop {
    async fn order(&self, claim: &Claim, body: String) -> Result<Response<String>, Error> {
        let mut transaction = self.pool.begin().await?;
        let insert = format!("INSERT INTO {}.orders (body) VALUES ($1) RETURNING id", self.schema);
        let insert = sqlx::query_scalar(AssertSqlSafe(insert)).bind(&body);
        let id: i64 = insert.fetch_one(&mut *transaction).await?;

        let charge = self.client.once(Method::POST, format!("{}v1/charges", self.provider));
        let charge = charge.key(claim.key().derive("charge")).json(&json!({ "order": id }));
        self.journal.enqueue_in(&mut transaction, &charge.draft()?).await?;

        let mut response = Response::new(json!({ "order": id }).to_string());
        *response.status_mut() = StatusCode::CREATED;
        claim.complete_in(&mut transaction, &response).await?;
        transaction.commit().await?;
        Ok(response)
    }
}

/// The customer, the provider, and whoever kills the service.
async fn trial(pool: &PgPool, schema: &str) -> Result<(), Error> {
    let tables = format!(
        "CREATE SCHEMA {schema}; \
         CREATE TABLE {schema}.orders (id bigserial PRIMARY KEY, body text NOT NULL)"
    );
    sqlx::raw_sql(AssertSqlSafe(tables)).execute(pool).await?;
    let provider = Server::start().await?;
    let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let program = std::env::current_exe()?;
    let start = || {
        let arguments = [schema, &free.to_string(), &provider.url("/")];
        Command::new(&program).args(arguments).spawn()
    };

    let policy = RetryPolicy::builder().max_attempts(200).base_delay(Duration::from_millis(20));
    let policy = policy.max_delay(Duration::from_millis(300)).retry_budget(RetryBudget::Unlimited);
    let policy = policy.build()?;
    let customer = Client::builder().policy(policy).build()?;
    let url = format!("http://127.0.0.1:{free}/orders");
    let orders = async {
        let mut answers = Vec::new();
        for order in 1..=ORDERS {
            let response = customer.post_once(&url, &json!({ "wanted": order })).await?;
            answers.push(response.text().await?);
        }
        Ok::<_, Error>(answers)
    };
    let mut service = start()?;
    let killer = async {
        let mut kills = 0;
        loop {
            let moment = rand::rng().random_range(100..1_500);
            SystemClock.sleep(Duration::from_millis(moment)).await;
            kill(&mut service)?;
            kills += 1;
            service = start()?;
            eprintln!("killed {kills} times");
        }
    };
    let answers = tokio::select! {
        answers = orders => answers?,
        stopped = killer => { let never: Result<(), Error> = stopped; return never; }
    };
    // The relay goes on with the charges of those that were killed.
    for _ in 0..300 {
        if provider.charges().len() >= answers.len() {
            break;
        }
        SystemClock.sleep(Duration::from_millis(100)).await;
    }
    kill(&mut service)?;
    let count = format!("SELECT count(*) FROM {schema}.orders");
    let placed: i64 = sqlx::query_scalar(AssertSqlSafe(count)).fetch_one(pool).await?;
    let different: std::collections::HashSet<_> = answers.iter().collect();
    println!("orders wanted: {ORDERS}, placed: {placed}, answers: {}", different.len());
    println!("charges at the provider: {}", provider.charges().len());
    Ok(())
}

fn kill(child: &mut Child) -> std::io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}
