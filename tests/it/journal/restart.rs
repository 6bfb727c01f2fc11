//! One process ends, and the next goes on (O-03). That it may be killed at any moment is proved elsewhere.

use std::path::{Path, PathBuf};

use http::Method;
use post_once::Effect;
use post_once::journal::{Journal, SqliteJournal, State};
use post_once::testkit::{Fault, ManualClock};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::support::*;

async fn open(path: &Path, clock: &ManualClock) -> SqliteJournal {
    SqliteJournal::builder(path).clock(clock.clone()).open().await.unwrap()
}

// O-03.
#[tokio::test]
async fn a_restart_goes_on_with_the_same_key_and_the_same_bytes() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let clock = ManualClock::new();
    let mut order = json!({ "b": 1.50, "a": ["x"] });
    let url = server.url("/v1/charges");
    {
        let journal = open(&path, &clock).await;
        let client = client(&clock, journal.clone());
        let call = client.once(Method::POST, &url).operation("order-42").json(&order);
        dropped_at(&server, "c1 effect ch_1", call).await;
        journal.close().await;
    }
    // What the request was built from changes.
    order["b"] = json!(2);
    let journal = open(&path, &clock).await;
    let client = client(&clock, journal.clone());
    let summary = client.resumer().origin(&url).once().await.unwrap();
    assert_eq!(summary.completed, 1);
    let requests = server.requests();
    assert_eq!(keys(&server)[0], keys(&server)[1]);
    assert_eq!(requests[0].body(), requests[1].body());
    assert_eq!(header(&server, "content-type"), ["application/json"; 2]);
    assert_eq!(server.charges().len(), 1);

    // Other content is another operation: refused under the old name, and under a new key without.
    let call = || client.once(Method::POST, &url).json(&order);
    let error = call().operation("order-42").send().await.unwrap_err();
    assert!(error.is_mismatch(), "{error}");
    assert_eq!((error.effect(), server.requests().len()), (Effect::NotSent, 2));
    call().send().await.unwrap();
    assert_ne!(keys(&server)[2], keys(&server)[1]);
}

/// Accepts one connection, looks at the journal's file through another handle before it reads a byte,
/// and answers once it has read.
async fn looking_at(path: PathBuf, listener: TcpListener) -> (State, u32, String) {
    let (mut socket, _) = listener.accept().await.unwrap();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let row = row(&journal).await;
    journal.close().await;
    let mut request = Vec::new();
    while !request.ends_with(charge().to_string().as_bytes()) {
        assert_ne!(socket.read_buf(&mut request).await.unwrap(), 0);
    }
    assert!(String::from_utf8(request).unwrap().contains(&row.draft.key));
    let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    socket.write_all(answer).await.unwrap();
    assert!(row.ages.first_send.is_some());
    (row.state, row.attempts, String::from_utf8(row.draft.request.body.to_vec()).unwrap())
}

// O-03.
#[tokio::test]
async fn the_row_is_in_the_file_before_the_first_byte_goes_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/charges", listener.local_addr().unwrap());
    let server = tokio::spawn(looking_at(path, listener));
    let client = client(&ManualClock::new(), journal.clone());
    client.post_once(&url, &charge()).await.unwrap();
    let (state, attempts, body) = server.await.unwrap();
    assert_eq!((state, attempts, body), (State::Pending, 1, charge().to_string()));
    assert_eq!(journal.gauges().await.unwrap().completed, 1);
}
