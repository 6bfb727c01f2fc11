//! A charge whose first answers are lost: each attempt, the one key, and one charge at the server.
//!
//! `cargo run --example quickstart --features testkit`

use post_once::testkit::{Fault, Server};
use post_once::{Client, Contract, Report};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A server that charges three times out of three, but whose answers get lost: the connection
    // closes without an answer, the answer is cut in the middle, and then it is down.
    let faults = [Fault::close(), Fault::cut(), Fault::status(503).retry_after(1)];
    let server = Server::builder().faults(faults).start().await?;

    let client = Client::builder().contract(Contract::generic()).build()?;
    let charge = json!({ "amount": 1999, "currency": "eur", "order": 42 });
    let response = client.post_once(server.url("/v1/charges"), &charge).await?;

    let report = Report::of(&response).ok_or("every response of ours has a report")?;
    for attempt in report.attempts() {
        let answer = match (attempt.status(), attempt.error()) {
            (Some(status), Some(error)) => format!("{}, then {error}", status.as_u16()),
            (Some(status), None) => status.as_u16().to_string(),
            (None, error) => error.unwrap_or("no answer").to_owned(),
        };
        println!(
            "attempt {} after {:>4} ms: {answer} ({})",
            attempt.number(),
            attempt.waited().as_millis(),
            attempt.known(),
        );
    }
    if let Some(key) = report.key() {
        println!("one key: {key}");
    }
    println!("effect: {}, replayed: {}", report.effect(), report.is_replayed());
    println!("answer: {}", response.text().await?);
    println!("charges at the server: {}", server.charges().len());
    Ok(())
}
