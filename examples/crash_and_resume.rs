//! A process that is killed in the middle of a charge, and the next one that goes on with it: one key,
//! one charge.
//!
//! `cargo run --example crash_and_resume --features testkit,sqlite`
//!
//! It starts itself as a child, and kills it (SIGKILL) when the server has charged and not yet answered.

use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

use post_once::Client;
use post_once::clock::{Clock, SystemClock};
use post_once::journal::{Journal, List, SqliteJournal};
use post_once::testkit::{Fault, Server};
use serde_json::json;

/// Short, so that the example need not wait for long; 30 s by default.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let (Some(journal), Some(url)) = (arguments.next(), arguments.next()) {
        return charge(Path::new(&journal), &url).await;
    }
    let server = Server::builder().faults([Fault::hang(Duration::from_secs(60))]).start().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("orders.journal");
    let url = server.url("/v1/charges");

    let mut child = Command::new(std::env::current_exe()?).arg(&path).arg(&url).spawn()?;
    while server.charges().is_empty() {
        pause(&mut child).await?;
    }
    child.kill()?;
    println!("the process was killed: {}", child.wait()?);

    let journal = SqliteJournal::open(&path).await?;
    let rows = journal.list(&List::default()).await?;
    let row = rows.first().ok_or("it was written down before it was sent")?;
    println!("the journal says: {}, attempt {}, key {}", row.state, row.attempts, row.draft.key);

    let client = Client::builder().journal(journal.clone()).lease(LEASE).build()?;
    let mut completed = 0;
    while completed == 0 {
        // Until the lease of the dead process has ended, the row is its own.
        SystemClock.sleep(LEASE / 10).await;
        completed = client.resumer().origin(&url).once().await?.completed;
    }
    for request in server.requests() {
        let key = request.headers().get("idempotency-key").ok_or("a write has a key")?;
        println!("the server got: {} bytes, key {}", request.body().len(), key.to_str()?);
    }
    println!("charges at the server: {}", server.charges().len());
    Ok(())
}

/// The child: a charge as any other.
async fn charge(journal: &Path, url: &str) -> Result<(), Box<dyn std::error::Error>> {
    let journal = SqliteJournal::open(journal).await?;
    let client = Client::builder().journal(journal).lease(LEASE).build()?;
    client.post_once(url, &json!({ "amount": 1999, "currency": "eur" })).await?;
    Ok(())
}

/// A moment, in which the child should still be alive.
async fn pause(child: &mut Child) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(status) = child.try_wait()? {
        return Err(format!("the child ended by itself: {status}").into());
    }
    SystemClock.sleep(Duration::from_millis(5)).await;
    Ok(())
}
