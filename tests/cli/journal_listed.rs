//! `pending` and `show`.

use std::time::Duration;

use post_once::journal::SqliteJournal;
use post_once::testkit::Fault;
use serde_json::{Value, json};

use crate::interrupt::charged;
use crate::{Journal, SECRET, run, server};

fn listed(operation: Value, state: &str, window_left_s: Value) -> Value {
    json!({
        "key": "K",
        "operation": operation,
        "state": state,
        "age_s": 0,
        "window_left_s": window_left_s,
    })
}

/// A journal with one operation in each state.
async fn journal() -> Journal {
    let journal = Journal::new();
    let answers = [Fault::status(503), Fault::close(), Fault::status(200), Fault::status(503)];
    let server = server(answers).await;
    let flags = |name, window| ["--operation", name, "--max-attempts", "1", "--window", window];
    for (name, window) in
        [("parked", "1h"), ("unknown", "500ms"), ("completed", "1h"), ("abandoned", "1h")]
    {
        run(journal.send(&server, &flags(name, window))).await;
    }
    journal.killed(&server, &flags("pending", "24h")).await;
    let shown = journal.run(&["show", "--operation", "abandoned", "--output", "json"]).await;
    let key = shown.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(journal.run(&["abandon", &key]).await.code, 0);
    until_closed(&journal).await;
    journal
}

#[expect(clippy::disallowed_methods, reason = "a window closes in real time")]
async fn until_closed(journal: &Journal) {
    for _ in 0..100 {
        let shown = journal.run(&["show", "--operation", "unknown"]).await;
        if shown.text().contains("unknown\nrequest") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the window does not close");
}

#[tokio::test]
async fn what_is_open_is_listed_by_its_state_now() {
    let journal = journal().await;
    let parked = listed("parked".into(), "parked", 1.into());
    let unknown = listed("unknown".into(), "unknown", 1.into());
    let pending = listed("pending".into(), "pending", 1.into());
    let completed = listed("completed".into(), "completed", 1.into());
    let abandoned = listed("abandoned".into(), "abandoned", 1.into());
    for (flags, expected) in [
        (&[][..], vec![&parked, &unknown, &pending]),
        (&["--state", "parked"], vec![&parked]),
        (&["--state", "unknown"], vec![&unknown]),
        (&["--state", "pending"], vec![&pending]),
        (&["--state", "completed"], vec![&completed]),
        (&["--state", "abandoned"], vec![&abandoned]),
        (&["--expiring", "2h"], vec![&parked]),
        (&["--expiring", "25h"], vec![&parked, &pending]),
        (&["--expiring", "1s"], vec![]),
        (&["--scope", "acct"], vec![]),
    ] {
        let ran = journal.run(&[&["pending", "--output", "json"], flags].concat()).await;
        assert_eq!((ran.code, &*ran.stderr), (0, ""), "{flags:?}");
        assert_eq!(ran.lines().iter().collect::<Vec<_>>(), expected, "{flags:?}");
    }
    let text = journal.run(&["pending"]).await;
    let lines: Vec<_> = text.text().lines().map(|line| line.split("  ").collect()).collect();
    let states: Vec<_> = lines.iter().map(|line: &Vec<_>| (line[1], line[2])).collect();
    let expected = [("parked", "parked (status)"), ("unknown", "unknown"), ("pending", "pending")];
    assert_eq!(states, expected);
}

#[tokio::test]
async fn one_is_shown_with_its_attempts_and_without_secrets() {
    let journal = Journal::new();
    let unavailable = Fault::status(503).header("x-request-id", "req_7");
    let server = server([Fault::close(), unavailable]).await;
    let url = format!("{}?token={SECRET}", server.url("/v1/charges"));
    let header = format!("Authorization: Bearer {SECRET}");
    let body = format!("\"{SECRET}\"");
    let flags = ["--operation", "a", "--scope", "acct", "--max-attempts", "2"];
    let secrets = ["-H", &header, "--json", &body, "--base-delay", "1ms"];
    let ran = journal.run(&[&["send", &url], &flags[..], &secrets].concat()).await;
    assert_eq!(ran.code, 5, "{}", ran.stderr);
    let key = ran.told("key: ").unwrap();

    let by_name = ["show", "--operation", "a", "--scope", "acct"];
    let ran = journal.run(&[&by_name[..], &["--output", "json"]].concat()).await;
    let mut shown = ran.json();
    shown["age_s"] = 0.into();
    shown["window_left_s"] = 1.into();
    for attempt in shown["attempts"].as_array_mut().unwrap() {
        attempt["waited_ms"] = 0.into();
        attempt["elapsed_ms"] = 0.into();
    }
    let attempt = |number, status: Value, error: Value, known, request_id: Value| {
        json!({
            "number": number, "status": status, "error": error, "known": known,
            "request_id": request_id, "waited_ms": 0, "elapsed_ms": 0,
        })
    };
    let expected = json!({
        "key": key,
        "operation": "a",
        "scope": "acct",
        "state": "parked",
        "reason": "status",
        "age_s": 0,
        "window_left_s": 1,
        "claimed_for_s": null,
        "method": "POST",
        "url": server.url("/v1/charges"),
        "contract": "generic",
        "missing_headers": ["authorization"],
        "status": 503,
        "begun": 2,
        "attempts": [
            attempt(1, Value::Null, "connection_lost".into(), "ambiguous", Value::Null),
            attempt(2, 503.into(), Value::Null, "unavailable", "req_7".into()),
        ],
    });
    assert_eq!(shown, expected);

    for args in [&by_name[..], &["show", key], &["show", key, "--scope", "acct"]] {
        let ran = journal.run(args).await;
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.stderr);
        assert!(ran.text().contains("attempt 1: connection_lost, ambiguous, took "), "{args:?}");
        assert!(ran.text().contains("request req_7\n"), "{args:?}: {}", ran.text());
    }
    for args in [&["show", "x"][..], &["show", "--operation", "a"], &["show", key, "--scope", "x"]]
    {
        assert_eq!(journal.run(args).await.code, 2, "{args:?}");
    }
}

/// A service has it open, and one of its operations is under way.
#[tokio::test]
async fn a_journal_is_read_while_others_use_it() {
    let journal = Journal::new();
    let service = SqliteJournal::open(journal.path()).await.unwrap();
    let server = server([Fault::hang(Duration::from_secs(60))]).await;
    let _sender = journal.send(&server, &["--operation", "a"]).spawn().unwrap();
    charged(&server, 1).await;
    let ran = journal.run(&["pending", "--output", "json"]).await;
    assert_eq!(ran.lines(), [listed("a".into(), "pending", 1.into())]);
    let shown = journal.run(&["show", "--operation", "a"]).await;
    assert!(shown.text().contains("claimed for  2"), "{}", shown.text());
    assert!(shown.text().contains("1 begun without a recorded end"), "{}", shown.text());
    service.close().await;
}

#[tokio::test]
async fn a_journal_that_is_not_there_is_not_made() {
    let journal = Journal::new();
    let path = journal.path();
    for args in [
        &["pending"][..],
        &["show", "k"],
        &["retry", "k"],
        &["abandon", "k"],
        &["purge", "--older-than", "0s"],
        &["resume"],
    ] {
        let ran = journal.run(args).await;
        assert_eq!((ran.code, ran.text()), (8, ""), "{args:?}");
        let says =
            format!("error: the journal {path} cannot be used: there is no journal at {path}");
        assert_eq!(ran.stderr.trim_end(), says, "{args:?}");
    }
    assert_eq!(std::fs::read_dir(journal.folder.path()).unwrap().count(), 0);
}
