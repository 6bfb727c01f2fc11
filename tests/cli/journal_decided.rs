//! `retry`, `abandon` and `purge`: what a person decides.

use std::time::Duration;

use http::Method;
use post_once::Client;
use post_once::journal::{Decision, Held, Journal as _, List, SqliteJournal};
use post_once::testkit::{Fault, Server};
use serde_json::json;

use crate::interrupt::charged;
use crate::{Journal, Ran, run, server};

/// An operation that is parked; its key is its name.
async fn parked(journal: &Journal, server: &Server, key: &str, window: &str) {
    server.push([Fault::close()]);
    let flags = ["--key", key, "--max-attempts", "1", "--window", window, "--margin", "1ms"];
    assert_eq!(run(journal.send(server, &flags)).await.code, 6);
}

fn assert_is(ran: &Ran, state: &str) {
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let expected = json!({
        "key": "K", "operation": "k", "state": state, "age_s": 0, "window_left_s": 1,
    });
    assert_eq!(ran.lines(), [expected]);
}

#[tokio::test]
async fn what_is_retried_is_due() {
    let (server, journal) = (server([]).await, Journal::new());
    parked(&journal, &server, "k", "1h").await;
    assert_eq!(journal.run(&["resume"]).await.text(), "", "parked, it is not due");
    assert_is(&journal.run(&["retry", "k", "--output", "json"]).await, "pending");
    assert_is(&journal.run(&["resume", "--output", "json"]).await, "completed");
    assert_eq!((server.charges().len(), server.requests().len()), (1, 2));
    for command in ["retry", "abandon"] {
        let ran = journal.run(&[command, "k"]).await;
        assert_eq!(ran.code, 2, "{command}");
        assert!(ran.stderr.contains("it is completed"), "{}", ran.stderr);
    }
    let ran = journal.run(&["retry", "another"]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("no operation with this key"), "{}", ran.stderr);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a window closes in real time")]
async fn nothing_is_retried_once_its_window_has_closed() {
    let (server, journal) = (server([]).await, Journal::new());
    parked(&journal, &server, "k", "300ms").await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let ran = journal.run(&["retry", "k"]).await;
    assert_eq!((ran.code, ran.text()), (6, ""));
    assert!(ran.stderr.contains("may have forgotten its key"), "{}", ran.stderr);
    assert_eq!(journal.run(&["resume"]).await.text(), "");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn what_is_given_up_is_not_sent_again() {
    let (server, journal) = (server([]).await, Journal::new());
    parked(&journal, &server, "k", "1h").await;
    for _ in 0..2 {
        assert_is(&journal.run(&["abandon", "k", "--output", "json"]).await, "abandoned");
    }
    assert_eq!(journal.run(&["retry", "k"]).await.code, 2);
    assert_eq!(journal.run(&["resume"]).await.text(), "");
    let ran = run(journal.send(&server, &["--key", "k"])).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(!ran.stderr.contains("go on with"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn nobody_decides_on_what_is_under_way() {
    let server = server([Fault::hang(Duration::from_secs(60))]).await;
    let journal = Journal::new();
    let _sender = journal.send(&server, &["--key", "k"]).spawn().unwrap();
    charged(&server, 1).await;
    for command in ["retry", "abandon"] {
        let ran = journal.run(&[command, "k"]).await;
        assert_eq!(ran.code, 6, "{command}");
        assert!(ran.stderr.contains("working on it"), "{}", ran.stderr);
    }
}

#[tokio::test]
async fn a_key_of_two_scopes_wants_a_scope() {
    let (server, journal) = (server([Fault::close(), Fault::close()]).await, Journal::new());
    for scope in ["a", "b"] {
        let flags = ["--key", "k", "--scope", scope, "--max-attempts", "1"];
        assert_eq!(run(journal.send(&server, &flags)).await.code, 6);
    }
    let ran = journal.run(&["abandon", "k"]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--scope"), "{}", ran.stderr);
    assert_eq!(journal.run(&["abandon", "k", "--scope", "b"]).await.code, 0);
    let open = journal.run(&["pending", "--output", "json"]).await;
    assert_eq!(open.lines().len(), 1);
}

/// O-21: the names stay until it is said otherwise, and what is open stays whole.
#[tokio::test]
async fn purging_deletes_bodies_and_only_then_names() {
    let (server, journal) = (server([]).await, Journal::new());
    parked(&journal, &server, "open", "1h").await;
    for name in ["a", "b"] {
        assert_eq!(run(journal.send(&server, &["--operation", name])).await.code, 0);
    }
    let purge = async |flags: &[&str]| {
        let ran = journal.run(&[&["purge", "--older-than"], flags].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.text().to_owned()
    };
    assert_eq!(purge(&["1h"]).await, "purged 0\n");
    assert_eq!(purge(&["0s", "--output", "json"]).await, "{\"purged\":2}\n");
    assert_eq!(purge(&["0s"]).await, "purged 0\n");
    let ran = run(journal.send(&server, &["--operation", "a"])).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("answer was not kept"), "{}", ran.stderr);
    assert_eq!(purge(&["0s", "--names"]).await, "purged 2\n");
    assert_eq!(run(journal.send(&server, &["--operation", "a"])).await.code, 0);
    assert_eq!(journal.run(&["retry", "open"]).await.code, 0);
    assert_eq!(journal.run(&["resume"]).await.code, 0);
    assert_eq!(server.charges().len(), 4);
}

/// More than are read, or purged, at once.
#[tokio::test]
async fn all_are_listed_and_purged_however_many_there_are() {
    let journal = Journal::new();
    let store = SqliteJournal::open(journal.path()).await.unwrap();
    let client = Client::builder().journal(store.clone()).build().unwrap();
    for _ in 0..501 {
        client.once(Method::POST, "http://a.test/").json("x").enqueue().await.unwrap();
    }
    let open = journal.run(&["pending"]).await;
    assert_eq!(open.text().lines().count(), 501, "{}", open.stderr);
    for row in store.list(&List::default()).await.unwrap() {
        let decided = store.decide(row.row, row.token, Decision::Abandon).await.unwrap();
        assert_eq!(decided, Held::Yes(()));
    }
    let ran = journal.run(&["purge", "--older-than", "0s"]).await;
    assert_eq!(ran.text(), "purged 501\n", "{}", ran.stderr);
}
