//! `check`, against servers that keep the contract and servers that do not.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::broken::{Broken, Habit};
use crate::serve::serve;
use crate::{Ran, SECRET, run, tool};

async fn check(url: &str, flags: &[&str]) -> Ran {
    run(tool([&["check", url, "--output", "json"], flags].concat())).await
}

/// Each trial's verdict by its name.
fn verdicts(ran: &Ran) -> BTreeMap<String, String> {
    let report = ran.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 10, "{report}");
    assert!(trials.iter().all(|trial| !text(&trial["seen"]).is_empty()), "{report}");
    trials.iter().map(|trial| (text(&trial["name"]), text(&trial["verdict"]))).collect()
}

#[track_caller]
fn assert_verdicts(ran: &Ran, expected: &[(&str, &str)]) {
    let found = verdicts(ran);
    for (name, verdict) in expected {
        assert_eq!(found[*name], *verdict, "{name}: {}", ran.text());
    }
}

#[tokio::test]
async fn a_server_that_keeps_the_contract_is_safe_with_and_without_a_count() {
    for delay in ["0s", "50ms"] {
        let (_server, url) = serve(&["--delay", delay]).await;
        let charges = format!("{url}/v1/charges");
        for flags in [&["--count", &*charges][..], &[]] {
            let ran = check(&charges, flags).await;
            let expected = [
                ("same request twice", "kept"),
                ("two at once", "kept"),
                ("changed body", "kept"),
                ("reordered JSON members", "kept"),
                ("quoted and raw key", "kept"),
                ("other path", "not tried"),
                ("retry after a 5xx", "not tried"),
                ("cut connection", "kept"),
                // It takes requests without a key too.
                ("missing key", "not offered"),
                ("malformed key", "kept"),
            ];
            assert_verdicts(&ran, &expected);
            assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.text());
            let report = ran.json();
            assert_eq!(report["url"], charges);
            assert_eq!((&report["safe"], &report["nearest"]), (&true.into(), &"ietf".into()));
        }
    }
}

#[tokio::test]
async fn a_strict_server_keeps_all_ten() {
    let server = Broken::start(Habit::Strict).await;
    let failing = server.url("/failing");
    let flags = ["--count", &server.url("/count"), "--other-path", "/other", "--failing", &failing];
    let ran = check(&server.url("/"), &flags).await;
    let found = verdicts(&ran);
    assert!(found.values().all(|verdict| verdict == "kept"), "{}", ran.text());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_server_that_ignores_keys_is_broken_throughout() {
    let server = Broken::start(Habit::IgnoresKeys).await;
    for flags in [&["--count", &*server.url("/count"), "--other-path", "/other"][..], &[]] {
        let ran = check(&server.url("/"), flags).await;
        let expected = [
            ("same request twice", "broken"),
            ("two at once", "broken"),
            ("changed body", "broken"),
            ("reordered JSON members", "broken"),
            ("quoted and raw key", "not offered"),
            ("other path", if flags.is_empty() { "not tried" } else { "not offered" }),
            ("cut connection", "broken"),
            ("missing key", "not offered"),
            ("malformed key", "not offered"),
        ];
        assert_verdicts(&ran, &expected);
        assert_eq!(ran.code, 9);
        assert_eq!(ran.json()["safe"], false);
    }
}

#[tokio::test]
async fn a_server_that_answers_every_key_alike_is_judged_by_its_count_only() {
    let server = Broken::start(Habit::IgnoresKeysAndSaysOk).await;
    let ran = check(&server.url("/"), &[]).await;
    assert_verdicts(&ran, &[("same request twice", "not tried"), ("cut connection", "not tried")]);
    assert_eq!(ran.code, 9, "what was not shown is not safe");
    let ran = check(&server.url("/"), &["--count", &server.url("/count")]).await;
    let broken = ["same request twice", "two at once", "changed body", "cut connection"];
    assert_verdicts(&ran, &broken.map(|name| (name, "broken")));
    assert_eq!(ran.code, 9);
}

#[tokio::test]
async fn each_broken_habit_is_seen_where_it_shows() {
    for (habit, counted, name, verdict) in [
        (Habit::RacesAtOnce, true, "two at once", "broken"),
        (Habit::RacesAtOnce, false, "two at once", "broken"),
        (Habit::BareConflict, true, "two at once", "not offered"),
        (Habit::ProcessesAnotherBody, true, "changed body", "broken"),
        (Habit::ForgetsWhoLeft, true, "cut connection", "broken"),
        (Habit::SticksWhenLeft, true, "cut connection", "broken"),
        (Habit::SticksWhenLeft, false, "cut connection", "broken"),
    ] {
        let server = Broken::start(habit).await;
        let count = server.url("/count");
        let flags = if counted { &["--count", &*count, "--timeout", "2s"][..] } else { &[] };
        let ran = check(&server.url("/"), flags).await;
        assert_verdicts(&ran, &[(name, verdict)]);
        let others = verdicts(&ran);
        let safe = ["same request twice", "two at once", "changed body", "cut connection"];
        for other in safe.into_iter().filter(|other| *other != name) {
            assert_eq!(others[other], "kept", "{habit:?}, {other}: {}", ran.text());
        }
        assert_eq!(ran.code, 9, "{habit:?}");
    }
}

#[tokio::test]
async fn a_server_that_replays_to_another_body_does_not_offer_that_and_is_safe() {
    let server = Broken::start(Habit::ReplaysToAnotherBody).await;
    let ran = check(&server.url("/"), &["--other-path", "/other"]).await;
    let expected = [
        ("changed body", "not offered"),
        ("reordered JSON members", "kept"),
        ("other path", "not offered"),
    ];
    assert_verdicts(&ran, &expected);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[tokio::test]
async fn a_failure_that_is_stored_or_blocks_the_key_is_seen() {
    for (habit, verdict) in
        [(Habit::StoresFailures, "not offered"), (Habit::SticksAfterFailure, "broken")]
    {
        let server = Broken::start(habit).await;
        let flags = ["--failing", &server.url("/failing"), "--timeout", "2s"];
        let ran = check(&server.url("/"), &flags).await;
        assert_verdicts(&ran, &[("retry after a 5xx", verdict)]);
    }
}

#[tokio::test]
async fn headers_are_sent_and_not_shown_and_the_table_says_what_was_seen() {
    let server = Broken::start(Habit::Strict).await;
    let token = format!("X-Token: {SECRET}");
    let url = server.url("/");
    let ran = run(tool(["check", &url, "-H", &token, "--key-header", "X-Key"])).await;
    // The server knows no such key: each request is one without a key to it.
    assert_eq!(ran.code, 4, "{}", ran.text());
    assert!(server.heads().iter().all(|head| head.contains(&format!("x-token: {SECRET}\r\n"))));
    assert!(server.heads().iter().any(|head| head.contains("x-key: ")));

    let ran = run(tool(["check", &url, "-H", &token])).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{}", ran.text());
    let seen = "the second got the first answer again (201), marked as a replay";
    assert!(ran.text().lines().any(|line| line.starts_with("1 ") && line.ends_with(seen)));
    assert!(ran.text().contains("\nnearest contract: ietf\nA client may retry safely"));
}

#[tokio::test]
async fn a_key_in_the_body_is_tried_there() {
    let server = Broken::start(Habit::KeyInBody).await;
    let ran = check(&server.url("/"), &["--contract", "plaid"]).await;
    let expected = [
        ("same request twice", "kept"),
        ("two at once", "kept"),
        ("changed body", "kept"),
        ("quoted and raw key", "not tried"),
        ("cut connection", "kept"),
        ("missing key", "kept"),
    ];
    assert_verdicts(&ran, &expected);
    assert_eq!((ran.code, &ran.json()["nearest"]), (0, &"plaid".into()));
}

#[tokio::test]
async fn what_cannot_be_tried_ends_before_the_trials() {
    let server = Broken::start(Habit::Strict).await;
    let (url, other) = (server.url("/"), server.url("/elsewhere"));
    let refused = post_once::testkit::refused_url().unwrap();
    for (url, flags, code, says) in [
        (&refused, &[][..], 7, "cannot be reached"),
        (&url, &["--count", &*refused], 7, "--count cannot be reached"),
        (&url, &["--count", &*other], 2, "number `count`"),
        (&other, &[], 4, "answered 404"),
        (&"nonsense".to_owned(), &[], 2, "URL"),
        (&"ftp://a.test/".to_owned(), &[], 2, "http or https"),
        (&"http://u:s3cret@a.test/".to_owned(), &[], 2, "with -H"),
        (&url, &["-H", "Idempotency-Key: s3cret"], 2, "leave it away"),
        (&url, &["--json", "{"], 2, "not JSON"),
        (&url, &["--contract", "plaid", "-d", "x"], 2, "cannot carry the key"),
        (&url, &["--other-path", "http://a.test/"], 2, "--other-path"),
        (&url, &["--failing", "http://a.test/"], 2, "--failing"),
        (&url, &["--timeout", "0s"], 2, "above zero"),
    ] {
        let ran = run(tool([&["check", url], flags].concat())).await;
        assert_eq!((ran.code, ran.text()), (code, ""), "{url} {flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(says), "{url} {flags:?}: {}", ran.stderr);
    }
    let ran = check(&refused, &[]).await;
    assert_eq!(ran.code, 7);
    assert_eq!((&ran.json()["safe"], &ran.json()["nearest"]), (&false.into(), &Value::Null));
}

#[tokio::test]
async fn a_count_that_counts_something_else_is_left_aside() {
    let server = Broken::start(Habit::Strict).await;
    let ran = check(&server.url("/"), &["--count", &server.url("/still")]).await;
    assert!(ran.stderr.contains("did not go up by one"), "{}", ran.stderr);
    assert_eq!(ran.code, 0, "{}", ran.text());
}

#[tokio::test]
async fn the_help_warns_and_has_the_exit_codes() {
    let ran = run(tool(["check", "-h"])).await;
    assert!(ran.text().contains("WARNING: real requests, real effects"), "{}", ran.text());
    let ran = run(tool(["check", "--help"])).await;
    assert_eq!(ran.code, 0);
    assert!(ran.text().contains("Use a test account"), "{}", ran.text());
    assert!(ran.text().contains("\n    9  the contract is not kept"), "{}", ran.text());
}
