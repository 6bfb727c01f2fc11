//! `resume`.

use std::time::Duration;

use post_once::testkit::{Fault, Server};
use serde_json::json;

use crate::interrupt::{charged, signal};
use crate::{Journal, Ran, SECRET, in_time, keys, run, server};

fn line(state: &str) -> serde_json::Value {
    json!({ "key": "K", "operation": null, "state": state, "age_s": 0, "window_left_s": 1 })
}

/// O-17: killed in the middle, seen, resumed: one charge.
#[tokio::test]
async fn what_was_killed_is_pending_and_is_resumed_under_its_key() {
    let (server, journal) = (server([]).await, Journal::new());
    journal.killed(&server, &["--json", r#"{"amount":1}"#]).await;
    let open = journal.run(&["pending", "--output", "json"]).await;
    assert_eq!(open.lines(), [line("pending")]);
    let ran = journal.resume(&[]).await;
    assert_eq!((ran.code, &*ran.stderr), (0, ""));
    assert_eq!(ran.lines(), [line("completed")]);
    let keys = keys(&server, "idempotency-key");
    assert_eq!((keys.len(), server.charges().len()), (2, 1));
    assert_eq!(keys[0], keys[1]);
    assert_eq!(server.requests()[1].body(), &br#"{"amount":1}"#[..]);
    let open = journal.run(&["pending"]).await;
    assert_eq!((open.code, open.text()), (0, ""));
    let ran = journal.run(&["resume"]).await;
    assert_eq!((ran.code, ran.text(), &*ran.stderr), (0, "", ""));
}

/// O-20: a credential is supplied again, or nothing is sent.
#[tokio::test]
async fn without_its_credential_it_is_parked_and_with_it_it_is_completed() {
    let header = format!("Authorization: Bearer {SECRET}");
    for by_flag in [true, false] {
        let (server, journal) = (server([]).await, Journal::new());
        journal.killed(&server, &["-H", &header]).await;
        let ran = journal.resume(&[]).await;
        assert_eq!(ran.code, 6, "{}", ran.stderr);
        assert_eq!(ran.lines(), [line("parked")]);
        assert_eq!(server.requests().len(), 1);
        let key = &keys(&server, "idempotency-key")[0];
        assert!(ran.stderr.contains(&format!("key: {key} is parked (missing_header)\n")));
        let way_on = ran.told("go on with (fill in each …): ").unwrap();
        assert!(way_on.starts_with("post-once retry --journal="), "{way_on}");
        assert!(way_on.ends_with("--header='authorization:…'"), "{way_on}");

        assert_eq!(journal.run(&["retry", key]).await.code, 0);
        let mut command = journal.command(&["resume", "--output", "json"]);
        if by_flag {
            command.args(["-H", &header]).env("POST_ONCE_HEADER_AUTHORIZATION", "another");
        } else {
            command.env("POST_ONCE_HEADER_AUTHORIZATION", &header[15..]);
        }
        let ran = run(command).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(ran.lines(), [line("completed")]);
        assert_eq!(server.requests()[1].headers()["authorization"], &header[15..]);
        assert_eq!(server.charges().len(), 1);
    }
}

#[tokio::test]
async fn a_header_of_the_environment_is_refused_without_being_shown() {
    let (server, journal) = (server([]).await, Journal::new());
    journal.killed(&server, &[]).await;
    for (name, value) in
        [("POST_ONCE_HEADER_X_TOKEN", "s3cret\u{1}"), ("POST_ONCE_HEADER_", "s3cret")]
    {
        let mut command = journal.command(&["resume"]);
        command.env(name, value);
        let ran = run(command).await;
        assert_eq!(ran.code, 2, "{name}: {}", ran.stderr);
    }
    assert_eq!(server.requests().len(), 1);
}

/// Without an origin all must go to one; with one, what points elsewhere gets no credentials.
#[tokio::test]
async fn several_origins_are_named_and_not_guessed() {
    let (here, there, journal) = (server([]).await, server([]).await, Journal::new());
    journal.killed(&here, &[]).await;
    journal.killed(&there, &[]).await;
    lease_over().await;
    let ran = journal.run(&["resume"]).await;
    assert_eq!((ran.code, ran.text()), (2, ""));
    for server in [&here, &there] {
        assert!(ran.stderr.contains(&server.url("")), "{}", ran.stderr);
    }
    let ran = journal.resume(&["--origin", &here.url("/x")]).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    let mut states: Vec<_> = ran.lines().iter().map(|line| line["state"].to_string()).collect();
    states.sort();
    assert_eq!(states, ["\"completed\"", "\"parked\""]);
    assert_eq!((here.requests().len(), there.requests().len()), (2, 1));
}

/// Nobody's credentials reach another account.
#[tokio::test]
async fn only_operations_of_the_scope_are_resumed() {
    let (server, journal) = (server([]).await, Journal::new());
    journal.killed(&server, &["--scope", "acct"]).await;
    journal.killed(&server, &[]).await;
    assert_eq!(journal.resume(&[]).await.lines(), [line("completed")]);
    let open = journal.run(&["pending", "--scope", "acct", "--output", "json"]).await;
    assert_eq!(open.lines(), [line("pending")]);
    assert_eq!(journal.resume(&["--scope", "acct"]).await.lines(), [line("completed")]);
    assert_eq!(server.charges().len(), 2);
}

#[tokio::test]
async fn what_the_server_cannot_take_yet_stays_pending() {
    let (server, journal) = (server([]).await, Journal::new());
    journal.killed(&server, &[]).await;
    server.push([Fault::status(503).retry_after(60)]);
    let ran = journal.resume(&[]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.lines(), [line("pending")]);
    assert_eq!(ran.stderr, "note: 1 not finished yet, to be tried again later\n");
    assert_eq!(
        journal.run(&["resume"]).await.text(),
        "",
        "it is not due before the minute is over"
    );
}

/// The window that is given can only shorten.
#[tokio::test]
async fn past_a_window_that_is_given_nothing_is_sent() {
    for (window, state, code) in [("1ms", "unknown", 6), ("48h", "completed", 0)] {
        let (server, journal) = (server([]).await, Journal::new());
        journal.killed(&server, &[]).await;
        let ran = journal.resume(&["--window", window]).await;
        assert_eq!(ran.code, code, "{}", ran.stderr);
        assert_eq!(ran.lines()[0]["state"], state);
        assert_eq!(server.requests().len(), 2 - usize::from(code == 6));
        assert_eq!(ran.stderr.contains("post-once abandon --journal="), code == 6);
    }
}

#[tokio::test]
async fn watching_goes_on_until_it_is_stopped_and_releases_what_it_holds() {
    for (name, code) in [("-TERM", 0), ("-INT", 130)] {
        let (server, journal) = (Server::start().await.unwrap(), Journal::new());
        let origin = server.url("");
        // Made, and empty but for what is completed.
        assert_eq!(run(journal.send(&server, &[])).await.code, 0);
        let flags = ["resume", "--watch", "--origin", &origin, "--lease", "60s"];
        let child = journal.command(&flags).spawn().unwrap();
        journal.killed(&server, &[]).await;
        server.push([Fault::hang(Duration::from_secs(60))]);
        requested(&server, 3).await;
        signal(&child, name);
        let ran = Ran::of(in_time(child.wait_with_output()).await.unwrap());
        assert_eq!(ran.code, code, "{name}: {}", ran.stderr);
        let way_on = ran.told("go on with: ").unwrap_or_default();
        assert_eq!(way_on.contains(" --watch") && way_on.contains("--journal="), code == 130);
        // Due at once, and not after the minute of the lease.
        let ran = journal.run(&["resume", "--output", "json"]).await;
        assert_eq!(ran.lines(), [line("completed")], "{}", ran.stderr);
        assert_eq!(server.charges().len(), 2);
    }
}

#[tokio::test]
async fn a_pass_that_is_interrupted_says_how_to_go_on() {
    let (server, journal) = (server([]).await, Journal::new());
    journal.killed(&server, &[]).await;
    server.push([Fault::hang(Duration::from_secs(60))]);
    lease_over().await;
    let child = journal.command(&["resume"]).spawn().unwrap();
    requested(&server, 2).await;
    signal(&child, "-INT");
    let ran = Ran::of(in_time(child.wait_with_output()).await.unwrap());
    assert_eq!(ran.code, 130, "{}", ran.stderr);
    let way_on = format!("post-once resume --journal={}", journal.path());
    assert_eq!(ran.told("go on with: "), Some(&*way_on));
    assert_eq!(journal.run(&["resume", "--output", "json"]).await.lines(), [line("completed")]);
    assert_eq!(server.charges().len(), 1);
}

/// Until the lease of who was killed is over.
#[expect(clippy::disallowed_methods, reason = "a lease ends in real time")]
async fn lease_over() {
    tokio::time::sleep(Duration::from_millis(400)).await;
}

/// Waits until so many requests have come.
#[expect(clippy::disallowed_methods, reason = "a real process takes real time")]
async fn requested(server: &Server, count: usize) {
    for _ in 0..1000 {
        if server.requests().len() >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no request came");
}

#[tokio::test]
async fn nothing_to_watch_wants_an_origin() {
    let (server, journal) = (server([]).await, Journal::new());
    assert_eq!(run(journal.send(&server, &[])).await.code, 0);
    charged(&server, 1).await;
    let ran = journal.run(&["resume", "--watch"]).await;
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("--origin"), "{}", ran.stderr);
}
