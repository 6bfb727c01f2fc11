//! Stopped from outside.

use std::process::Command;
use std::time::Duration;

use post_once::testkit::{Fault, Server, refused_url};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::{Ran, in_time, keys, send_to, server};

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

/// Waits until the server has made so many charges.
#[expect(clippy::disallowed_methods, reason = "a real server needs real time")]
pub(crate) async fn charged(server: &Server, count: usize) {
    for _ in 0..1000 {
        if server.charges().len() >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no charge came");
}

#[tokio::test]
async fn interrupted_on_the_way_it_names_the_key_and_how_to_go_on() {
    for name in ["-INT", "-TERM"] {
        let server = server([Fault::hang(Duration::from_secs(60))]).await;
        let flags = ["--output", "json"];
        let child = send_to(&server.url("/v1/charges"), &flags).spawn().unwrap();
        charged(&server, 1).await;
        signal(&child, name);
        let ran = Ran::of(in_time(child.wait_with_output()).await.unwrap());
        assert_eq!(ran.code, 130, "{}", ran.stderr);
        let key = &keys(&server, "idempotency-key")[0];
        assert!(ran.stderr.contains("the write may have happened"), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!("key: {key}\n")), "{}", ran.stderr);
        assert!(ran.stderr.contains(&format!(" --key={key}\n")), "{}", ran.stderr);
        let expected = serde_json::json!({
            "key": key,
            "operation": null,
            "status": null,
            "effect": "unknown",
            "replayed": false,
            "source": "network",
            "exhausted": false,
            "exhausted_by": null,
            "attempts": [],
            "headers": {},
            "body": null,
        });
        assert_eq!(ran.json(), expected);
    }
}

#[tokio::test]
async fn interrupted_in_a_wait_before_anything_was_sent_it_says_so() {
    let flags = ["-v", "--output", "json", "--base-delay", "24h", "--max-delay", "24h"];
    let url = refused_url().unwrap();
    let mut child = crate::tool([&["send", &url], &flags[..]].concat()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = in_time(lines.next_line()).await.unwrap().expect("it tells of its attempt");
    assert!(line.starts_with("attempt 1: connect, not_sent"), "{line}");
    signal(&child, "-INT");
    let line = in_time(lines.next_line()).await.unwrap().unwrap();
    assert_eq!(line, "error: interrupted; nothing was sent");
    let ran = Ran::of(in_time(child.wait_with_output()).await.unwrap());
    assert_eq!(ran.code, 130);
    let object = ran.json();
    assert_eq!(object["effect"], "not_sent");
    assert_eq!(object["attempts"][0]["error"], "connect");
}
