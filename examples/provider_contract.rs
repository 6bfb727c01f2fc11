//! Describing a provider: a preset changed where your account differs, and one of your own.
//!
//! `cargo run --example provider_contract --features testkit`

use std::time::Duration;

use post_once::contract::{Meaning, Rule};
use post_once::key::{KeyFormat, KeyRule};
use post_once::testkit::{Fault, Server};
use post_once::{Client, Contract, Error, IdempotencyKey, Report};
use serde_json::json;

/// "Still working on it", in the words of our provider.
const WORKING: Rule =
    Rule::new(Meaning::InProgress).statuses(&[409, 423]).body_value("/code", "in_progress");

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A preset, with the shorter window that was agreed on for this account.
    let stripe = Contract::stripe().to_builder().window(Duration::from_secs(6 * 3600)).build()?;
    println!("{}: {:?}", stripe.name(), stripe.window_for("/v1/charges"));

    // A provider of our own: the key in its own header, 32 hexadecimal digits, half an hour.
    let acme = Contract::builder("acme")
        .key_header("Acme-Request-Key")
        .format(KeyFormat::Simple)
        .keys(KeyRule::any().max_len(32))
        .window(Duration::from_secs(30 * 60))
        .rule(WORKING)
        .build()?;

    let working = Fault::status(423).body(r#"{"code":"in_progress"}"#);
    let server = Server::builder().key_header("acme-request-key").faults([working]).start().await?;
    let client = Client::builder().contract(acme).build()?;
    let response = client.post_once(server.url("/orders"), &json!({ "sku": "x-1" })).await?;
    let report = Report::of(&response).ok_or("every response of ours has a report")?;
    for attempt in report.attempts() {
        println!("attempt {}: {}", attempt.number(), attempt.known());
    }
    println!("key as sent: {:?}", server.charges()[0].key());

    // A key that the provider would not take is refused before anything is sent.
    let long = IdempotencyKey::parse("a-key-that-is-longer-than-32-characters")?;
    let refused = client.once(http::Method::POST, server.url("/orders")).key(long).json("x").send();
    let error: Error = refused.await.err().ok_or("a long key is refused")?;
    println!("{error}");
    println!("orders at the server: {}", server.charges().len());
    Ok(())
}
