//! The server: axum, the layer, and handlers that fail now and then.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use http::{Response, StatusCode};
use post_once::server::{Claim, IdempotencyLayer};

use crate::database::{Answer, Database, Desk, End};
use crate::sleep;

/// A worker that was killed is taken for dead after this.
const LEASE: Duration = Duration::from_secs(1);

pub(crate) async fn serve(database: Database, port: u16) {
    // The database may be about to come back.
    let mut opened = open(&database).await;
    for _ in 0..100 {
        if opened.is_ok() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
        opened = open(&database).await;
    }
    let store = opened.unwrap();
    let layer = IdempotencyLayer::shared(store).one_principal().lease(LEASE).build().unwrap();
    let app = Router::new()
        .route("/orders", post(order))
        .route("/upserts", post(upsert))
        .route("/v1/payment_intents", post(upsert))
        .layer(layer)
        .with_state(Desk::new(&database));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    axum::serve(listener, app).await.unwrap();
}

async fn open(
    database: &Database,
) -> Result<std::sync::Arc<dyn post_once::server::store::ClaimStore>, String> {
    database.prepare().await?;
    database.claims().await
}

/// In one transaction with its answer.
async fn order(State(desk): State<Desk>, claim: Claim, body: String) -> Answer {
    let (luck, operation) = (luck(), operation(&body));
    if luck < 40 {
        // Longer than the customer waits.
        sleep(Duration::from_millis(400)).await;
    }
    let end = match luck {
        940..970 => End::RollBack,
        970..990 => End::Panic,
        _ => End::Commit,
    };
    let answer = answered(StatusCode::CREATED, &operation);
    desk.order(claim, operation, answer, end).await.unwrap_or_else(|_| unavailable())
}

/// With a lease: the effect is one that a second run finds.
async fn upsert(State(desk): State<Desk>, claim: Claim, body: String) -> Answer {
    let operation = operation(&body);
    match desk.upsert(&claim, operation.clone()).await {
        Ok(()) if luck() < 50 => unavailable(),
        Ok(()) => answered(StatusCode::CREATED, &operation),
        Err(_) => unavailable(),
    }
}

/// What the customer is told is different each time: only a stored answer is the same.
fn answered(status: StatusCode, operation: &str) -> Answer {
    let body = serde_json::json!({ "operation": operation, "receipt": luck_of(u64::MAX) });
    let mut response = Response::new(body.to_string());
    *response.status_mut() = status;
    response
}

fn unavailable() -> Answer {
    let mut response = Response::new(String::new());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

/// The operation that a body names: JSON, or the form of a payment.
fn operation(body: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(body) {
        Ok(body) => body["operation"].as_str().unwrap().to_owned(),
        Err(_) => {
            let mut members = body.split('&').filter_map(|member| member.split_once('='));
            let described = members.find(|(name, _)| *name == "description");
            described.map_or("nothing", |(_, value)| value).replace('+', " ").replace("%20", " ")
        }
    }
}

/// A number below a thousand.
fn luck() -> u64 {
    luck_of(1_000)
}

fn luck_of(below: u64) -> u64 {
    RandomState::new().build_hasher().finish() % below
}
