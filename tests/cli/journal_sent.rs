//! `send` with a journal.

use std::time::Duration;

use post_once::testkit::{Fault, Server};
use serde_json::json;

use crate::interrupt::{charged, signal};
use crate::{Journal, Ran, SECRET, in_time, keys, run, server, tool};

const CHARGE: [&str; 2] = ["--json", r#"{"amount":4200}"#];

/// Runs what was told as a shell does, with the tool in the path and without the variable.
async fn shell(line: &str) -> Ran {
    let tool = std::path::Path::new(env!("CARGO_BIN_EXE_post-once"));
    let path = format!("{}:{}", tool.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = tokio::process::Command::new("sh");
    command.args(["-c", line]).env("PATH", path).env_remove("POST_ONCE_JOURNAL");
    run(command).await
}

/// O-15: delivered twice, sent once.
#[tokio::test]
async fn a_name_that_was_answered_is_answered_from_the_journal() {
    let (server, journal) = (server([]).await, Journal::new());
    let flags = [&CHARGE[..], &["--operation", "order-42", "--output", "json"]].concat();
    let first = run(journal.send(&server, &flags)).await;
    assert_eq!(first.code, 0, "{}", first.stderr);
    let told = first.json();
    assert_eq!((&told["operation"], &told["source"]), (&"order-42".into(), &"network".into()));
    let second = run(journal.send(&server, &flags)).await;
    assert_eq!(second.code, 0, "{}", second.stderr);
    let expected = json!({
        "key": keys(&server, "idempotency-key")[0],
        "operation": "order-42",
        "status": 201,
        "effect": "answered",
        "replayed": false,
        "source": "journal",
        "exhausted": false,
        "exhausted_by": null,
        "attempts": [],
        "headers": { "content-type": ["application/json"], "location": ["/v1/charges/ch_1"] },
        "body": { "id": "ch_1", "received": { "amount": 4200 } },
    });
    assert_eq!(second.json(), expected);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_name_stands_for_one_request_in_its_scope() {
    let (server, journal) = (server([]).await, Journal::new());
    let send = async |body, scope| {
        let flags = ["--operation", "order-42", "--scope", scope, "-d", body];
        run(journal.send(&server, &flags)).await
    };
    assert_eq!(send("a", "acct_1").await.code, 0);
    let ran = send("b", "acct_1").await;
    assert_eq!((ran.code, ran.text()), (2, ""));
    assert!(ran.stderr.contains("another request"), "{}", ran.stderr);
    assert_eq!(send("b", "acct_2").await.code, 0);
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn a_name_without_a_key_is_refused() {
    let (server, journal) = (server([]).await, Journal::new());
    let ran = run(journal.send(&server, &["-X", "GET", "--operation", "a"])).await;
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("not written down"), "{}", ran.stderr);
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn what_is_in_flight_elsewhere_is_not_sent_twice() {
    let server = server([Fault::hang(Duration::from_secs(60))]).await;
    let journal = Journal::new();
    let flags = [&CHARGE[..], &["--operation", "order-42"]].concat();
    let _first = journal.send(&server, &flags).spawn().unwrap();
    charged(&server, 1).await;
    let ran = run(journal.send(&server, &[&flags[..], &["--deadline", "300ms"]].concat())).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("somebody else is working on"), "{}", ran.stderr);
    assert_eq!(ran.told("key: "), Some(&*keys(&server, "idempotency-key")[0]));
    assert_eq!(server.requests().len(), 1);
}

/// What cannot be written down is not sent.
#[tokio::test]
async fn a_journal_that_cannot_be_used_ends_it_before_sending() {
    let server = server([]).await;
    let journal = Journal::new();
    let path = journal.path();
    assert_eq!(run(journal.send(&server, &CHARGE)).await.code, 0);
    let text = journal.folder.path().join("text");
    std::fs::write(&text, "no database, but a text that is long enough to be read".repeat(100))
        .unwrap();
    let folder = journal.folder.path().join("no/such/a.journal");
    for (place, environment, says) in [
        (text.to_str().unwrap(), "", "cannot be used"),
        (folder.to_str().unwrap(), "", "cannot be created"),
        (&path, "staging", "belongs to environment \"default\""),
        ("postgres://app:s3cret@127.0.0.1:x/shop", "", "postgres://… cannot be used"),
        ("postgres://127.0.0.1:9/shop?password=s3cret", "", "postgres://127.0.0.1:9/shop?…"),
        ("postgres://app:s3cret@127.0.0.1:9/shop", "", "postgres://app:…@127.0.0.1:9/shop"),
    ] {
        let url = server.url("/v1/charges");
        let mut command = tool(["send", &url, "--journal", place, "--output", "json"]);
        command.env("POST_ONCE_ENVIRONMENT", environment);
        let ran = run(command).await;
        assert_eq!(ran.code, 8, "{place}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{place}: {}", ran.stderr);
        assert_eq!(ran.json()["effect"], "not_sent");
    }
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn interrupted_it_names_the_command_that_resumes_it() {
    let server = server([Fault::hang(Duration::from_secs(60))]).await;
    let journal = Journal::new();
    let child = journal.send(&server, &CHARGE).spawn().unwrap();
    charged(&server, 1).await;
    signal(&child, "-INT");
    let ran = Ran::of(in_time(child.wait_with_output()).await.unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    assert_eq!(ran.told("key: "), Some(&*keys(&server, "idempotency-key")[0]));
    let line = ran.told("go on with: ").unwrap();
    let expected =
        format!("post-once resume --journal={} --origin={}", journal.path(), server.url(""));
    assert_eq!(line, expected);
    let ran = shell(line).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.text().contains("  completed  "), "{}", ran.text());
    assert_eq!((server.charges().len(), server.requests().len()), (1, 2));
}

/// Whatever ended it, what is told goes on: with a name the same command, without one the resumer.
#[tokio::test]
async fn what_was_told_goes_on_under_the_same_key() {
    for (name, way_on) in [
        (&[][..], "post-once retry --journal="),
        (&["--operation", "order 42"], "post-once send http://"),
    ] {
        for (fault, code) in [(Fault::close(), 6), (Fault::status(503), 5)] {
            let (server, journal) = (server([fault]).await, Journal::new());
            let flags = [&["-d", "@/dev/null", "--max-attempts", "1"], name].concat();
            let ran = run(journal.send(&server, &flags)).await;
            assert_eq!(ran.code, code, "{}", ran.stderr);
            let line = ran.told("go on with: ").unwrap();
            assert!(line.starts_with(way_on), "{line}");
            assert!(line.contains(&format!("--journal={}", journal.path())), "{line}");
            let ran = shell(line).await;
            assert_eq!(ran.code, 0, "{line}: {}", ran.stderr);
            let keys = keys(&server, "idempotency-key");
            assert_eq!((keys.len(), server.charges().len()), (2, 1));
            assert_eq!(keys[0], keys[1]);
        }
    }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a window closes in real time")]
async fn nothing_goes_on_after_the_window() {
    let (server, journal) = (server([Fault::close()]).await, Journal::new());
    let flags = ["--operation", "a", "--max-attempts", "1", "--window", "500ms", "--margin", "1ms"];
    assert_eq!(run(journal.send(&server, &flags)).await.code, 6);
    tokio::time::sleep(Duration::from_millis(600)).await;
    let ran = run(journal.send(&server, &flags)).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.told("key: ").is_some() && ran.stderr.contains("look it up"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("go on with"), "{}", ran.stderr);
    assert_eq!(server.requests().len(), 1);
}

/// A header that may be stored is sent again without being given again; no other is kept.
#[tokio::test]
async fn only_a_header_that_may_be_stored_is_stored() {
    let (server, journal) = (Server::start().await.unwrap(), Journal::new());
    let secret = format!("Authorization: Bearer {SECRET}");
    let flags = ["--store-header", "Stripe-Account", "-H", "Stripe-Account: acct_1", "-H", &secret];
    journal.killed(&server, &[&flags[..], &CHARGE].concat()).await;
    for entry in std::fs::read_dir(journal.folder.path()).unwrap() {
        let written = std::fs::read(entry.unwrap().path()).unwrap();
        assert!(!written.windows(SECRET.len()).any(|part| part == SECRET.as_bytes()));
    }
    assert_eq!(journal.resume(&["-H", &secret]).await.code, 0);
    let requests = server.requests();
    assert_eq!(requests[1].headers()["stripe-account"], "acct_1");
    assert_eq!(requests[1].headers()["authorization"], &secret[15..]);
    assert_eq!(server.charges().len(), 1);
}
