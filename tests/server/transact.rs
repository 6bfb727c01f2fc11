//! Handlers that let the store of the file do their work, on its own connection.

use std::collections::HashSet;
use std::net::SocketAddr;

use axum::Router;
use axum::http::{Response, StatusCode};
use axum::routing::post as route;
use post_once::server::Claim;
use post_once::server::store::rusqlite::{self, Connection, Error};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::api;
use crate::client::{Answer, post};
use crate::orders::Orders;
use crate::world::World;

/// A server that writes an order, and then does as the order says.
async fn shop(world: &World) -> SocketAddr {
    let handler = async |claim: Claim, order: String| match claim.transact(work(order)).await {
        Ok(placed) => placed,
        Err(error) => {
            let mut refused = Response::new(error.to_string());
            *refused.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            refused
        }
    };
    let layer = api::layer(world.store().await).build().unwrap();
    let app = Router::new().route("/charges", route(handler)).layer(layer);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

fn work(order: String) -> impl FnMut(&Connection) -> rusqlite::Result<Response<String>> + Send {
    move |file| {
        file.execute("INSERT INTO orders (body) VALUES (?1)", [&order])?;
        let placed = file.last_insert_rowid();
        match &*order {
            "\"fails\"" => return Err(Error::QueryReturnedNoRows),
            "\"panics\"" => panic!("it was told to"),
            "\"rolls back\"" => file.execute_batch("ROLLBACK")?,
            "\"commits\"" => file.execute_batch("COMMIT")?,
            "\"begins anew\"" => file.execute_batch("ROLLBACK; BEGIN")?,
            "\"goes on\"" => {
                file.execute_batch("ROLLBACK; INSERT INTO orders (body) VALUES ('more')")?;
            }
            "\"loses\"" => {
                file.execute_batch("DELETE FROM post_once_claim WHERE key = 'lost'")?;
            }
            _ => {}
        }
        let mut response = Response::new(format!("order {placed}"));
        *response.status_mut() = StatusCode::CREATED;
        Ok(response)
    }
}

/// Many at once share transactions, and each is done or undone for itself.
pub(crate) async fn each_is_done_or_undone_for_itself(world: &World) {
    let orders = Orders::new(world).await;
    let address = shop(world).await;
    const TOLD: [&str; 7] =
        ["works", "fails", "panics", "rolls back", "commits", "begins anew", "goes on"];
    let told = |number: usize| TOLD[number % TOLD.len()];
    let all = async |told: fn(usize) -> &'static str| -> Vec<Answer> {
        let mut asked = JoinSet::new();
        for number in 0..70 {
            let body = format!("\"{}\"", told(number));
            let order = post(&format!("k{number}"), &body);
            asked.spawn(async move { (number, order.to(address).await) });
        }
        let mut answers = asked.join_all().await;
        answers.sort_by_key(|(number, _)| *number);
        answers.into_iter().map(|(_, answer)| answer).collect()
    };
    let first = all(told).await;
    for (number, answer) in first.iter().enumerate() {
        let (status, why) = match told(number) {
            "works" => (201, "order "),
            "fails" => (503, "the work failed, and was undone"),
            "panics" => (500, ""),
            "begins anew" => (503, "no such savepoint"),
            _ => (503, "the work ended the transaction that it ran in"),
        };
        assert_eq!((answer.status, answer.is_replay()), (status, false), "{answer:?}");
        assert!(String::from_utf8_lossy(&answer.body).contains(why), "{answer:?}");
    }
    assert_eq!(orders.count().await, 10, "what failed has left nothing");

    // What was done is answered, and what was undone has given its key back.
    let again = all(|_| "works").await;
    for (number, (first, again)) in first.iter().zip(&again).enumerate() {
        let is_replay = told(number) == "works";
        assert_eq!((again.status, again.is_replay()), (201, is_replay), "{again:?}");
        assert!(!is_replay || first.body == again.body);
    }
    let placed: HashSet<_> = again.iter().map(|answer| &answer.body).collect();
    assert_eq!((orders.count().await, placed.len()), (70, 70));
}

pub(crate) async fn what_lost_its_claim_is_undone(world: &World) {
    let orders = Orders::new(world).await;
    let address = shop(world).await;
    let lost = post("lost", "\"loses\"").to(address).await;
    assert_eq!(lost.status, 503, "{lost:?}");
    assert!(String::from_utf8_lossy(&lost.body).contains("lost"), "{lost:?}");
    assert_eq!(orders.count().await, 0);
    let done = post("lost", "\"works\"").to(address).await;
    assert_eq!((done.status, done.is_replay()), (201, false), "{done:?}");
    assert_eq!(orders.count().await, 1);
}

/// It is for the file of the keys, and says so.
pub(crate) async fn another_kind_of_store_refuses(world: &World) {
    let address = shop(world).await;
    for _ in 0..2 {
        let refused = post("k", "\"works\"").to(address).await;
        assert_eq!((refused.status, refused.is_replay()), (503, false));
        let why = String::from_utf8_lossy(&refused.body).into_owned();
        assert!(why.contains("SQLite"), "{why}");
    }
}
