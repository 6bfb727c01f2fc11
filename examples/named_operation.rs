//! A job that a queue delivers twice: one name, one charge, and the second delivery is given the answer
//! of the first.
//!
//! `cargo run --example named_operation --features testkit`

use http::Method;
use post_once::journal::MemoryJournal;
use post_once::testkit::Server;
use post_once::{Client, Error, Report};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    // In memory here; in a file or in PostgreSQL a delivery to any other process finds it too.
    let client = Client::builder().journal(MemoryJournal::new()).build()?;

    for delivery in 1..=2 {
        let response = charge(&client, &server.url("/v1/charges"), 42).await?;
        let report = Report::of(&response).ok_or("every response of ours has a report")?;
        let key = report.key().ok_or("a write has a key")?;
        println!(
            "delivery {delivery}: {} from the {:?}, key {key}",
            response.status(),
            report.source()
        );
    }
    println!("requests at the server: {}", server.requests().len());
    println!("charges at the server: {}", server.charges().len());
    Ok(())
}

/// What a job worker does for each delivery of an order's job.
async fn charge(client: &Client, url: &str, order: u32) -> Result<reqwest::Response, Error> {
    let charge = json!({ "amount": 1999, "currency": "eur", "order": order });
    let name = format!("order-{order}");
    client.once(Method::POST, url).operation(name).json(&charge).send().await
}
