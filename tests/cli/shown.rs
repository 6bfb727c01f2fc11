//! What is shown on the way, and what never is.

use std::time::Duration;

use post_once::testkit::{Fault, refused_url};

use crate::{Ran, SECRET, run, send_to, server, tool};

/// A line without its times, which are words such as `312ms`.
fn timeless(line: &str) -> String {
    let is_time = |word: &&str| {
        let word = word.trim_end_matches([',', ':']);
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit());
        unit.len() < word.len() && matches!(unit, "s" | "ms")
    };
    line.split(' ').filter(|word| !is_time(word)).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn verbose_tells_of_each_attempt_on_one_line() {
    let unavailable = Fault::status(503).header("x-request-id", "req_7");
    let server = server([Fault::close(), unavailable, Fault::cut()]).await;
    let url = server.url("/v1/charges");
    let ran = run(tool(["send", &url, "-v", "--base-delay", "20ms"])).await;
    assert_eq!(ran.code, 0);
    let lines: Vec<_> = ran.stderr.lines().map(timeless).collect();
    assert_eq!(
        lines,
        [
            "attempt 1: connection_lost, ambiguous, took",
            "attempt 2 after 503, unavailable, took request req_7",
            "attempt 3 after 201, connection_lost, ambiguous, took",
            "attempt 4 after 201, replayed, took",
        ]
    );
    assert!(ran.stderr.contains("ms: 503, "), "the wait is told: {}", ran.stderr);
}

#[tokio::test]
async fn without_verbose_a_success_is_silent_whatever_is_to_be_traced() {
    let server = server([Fault::close()]).await;
    let mut command = send_to(&server.url("/v1/charges"), &[]);
    command.env("RUST_LOG", "trace");
    let ran = run(command).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn twice_verbose_traces_what_is_asked_for() {
    let server = server([]).await;
    let url = server.url("/v1/charges");
    let traced = run(send_to(&url, &["-vv"])).await;
    assert!(traced.stderr.contains("post_once.attempt"), "{}", traced.stderr);
    let mut command = send_to(&url, &["-vv"]);
    command.env("RUST_LOG", "off");
    let silenced = run(command).await;
    assert!(!silenced.stderr.contains("post_once.attempt"), "{}", silenced.stderr);
    assert!(silenced.stderr.starts_with("attempt 1: "), "{}", silenced.stderr);
}

/// [`Ran::of`] fails on every secret, in either stream.
#[tokio::test]
async fn no_secret_is_shown_however_it_ends() {
    let server = server([
        Fault::close(),
        Fault::status(503),
        Fault::status(401),
        Fault::redirect(302, "/x"),
        Fault::hang(Duration::from_secs(30)),
    ])
    .await;
    let query = format!("/v1/charges?token={SECRET}");
    let header = format!("Authorization: Bearer {SECRET}");
    let body = format!("\"{SECRET}\"");
    let mut codes = Vec::new();
    for url in
        [vec![server.url(&query); 5], vec![format!("{}{query}", refused_url().unwrap())]].concat()
    {
        let flags = ["-vv", "-H", &header, "--json", &body, "--max-attempts", "1"];
        let mut command = send_to(&url, &[&flags[..], &["--attempt-timeout", "1s"]].concat());
        command.env("RUST_LOG", "trace");
        codes.push(run(command).await.code);
    }
    assert_eq!(codes, [6, 5, 4, 3, 6, 7]);
    assert_eq!(server.requests()[0].headers()["authorization"], &header[15..]);
}

/// A reader that went away, as of `| head -1`, is neither a panic nor a failure.
#[tokio::test]
async fn a_reader_that_has_gone_is_no_failure() {
    let server = server([Fault::hang(Duration::from_millis(300))]).await;
    let sending = send_to(&server.url("/v1/charges"), &[]);
    for mut command in [tool(["completions", "bash"]), tool(["contracts"]), sending] {
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let ran = Ran::of(child.wait_with_output().await.unwrap());
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    }
}
