//! An order and the charge that goes with it, committed together in SQLite or not at all: the
//! transactional outbox.
//!
//! `cargo run --example outbox --features testkit,sqlite`

use http::Method;
use post_once::Client;
use post_once::journal::{SqliteJournal, rusqlite};
use post_once::testkit::{Fault, Server};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first answer is lost, so that the charge is delivered twice.
    let server = Server::builder().faults([Fault::close()]).start().await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("shop.db");

    // The journal's tables live beside the shop's own, in one file.
    let journal = SqliteJournal::open(&path).await?;
    let client = Client::builder().journal(journal.clone()).build()?;
    let mut shop = rusqlite::Connection::open(&path)?;
    shop.pragma_update(None, "synchronous", "FULL")?;
    shop.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")?;

    for (order, is_paid) in [(41, false), (42, true)] {
        let transaction = shop.transaction()?;
        transaction.execute("INSERT INTO orders VALUES (?1)", [order])?;
        let charge = client.once(Method::POST, server.url("/v1/charges"));
        let charge = charge.operation(format!("order-{order}")).json(&json!({ "order": order }));
        journal.enqueue_in(&transaction, &charge.context(&order).draft()?)?;
        if is_paid {
            transaction.commit()?;
            println!("order {order}: committed");
        } else {
            transaction.rollback()?;
            println!("order {order}: rolled back");
        }
    }
    println!("requests before the relay runs: {}", server.requests().len());

    // The relay; in a service it runs for as long as the service does, with `run(shutdown)`.
    let mut completed = 0;
    while completed == 0 {
        let relay = client.resumer().origin(&server.url("/")).handler(|resumed| async move {
            let order = resumed.record.draft.terms.context.unwrap_or_default();
            println!("order {order}: charged, key {}", resumed.record.draft.key);
            Ok(())
        });
        completed = relay.once().await?.completed;
    }
    println!("requests at the server: {}", server.requests().len());
    println!("charges at the server: {}", server.charges().len());
    Ok(())
}
