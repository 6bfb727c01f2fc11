//! `--output json`: one object, compared whole.

use post_once::testkit::{Fault, refused_url};

use crate::{Ran, run, send, send_to, server};

/// The object as it was printed, with zeros for all times.
fn timeless(ran: &Ran) -> String {
    let mut text = ran.text();
    let mut out = String::new();
    while let Some(at) = text.find("_ms\":") {
        let (head, rest) = text.split_at(at + "_ms\":".len());
        out.push_str(head);
        out.push('0');
        text = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    out + text
}

#[tokio::test]
async fn an_answer_after_retries_is_told_whole() {
    let unavailable = Fault::status(503).header("x-request-id", "req_7");
    let server = server([Fault::close(), unavailable]).await;
    let flags = ["--json", r#"{"n":1}"#, "--key", "k 1", "--output", "json"];
    let ran = send(&server, &flags).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let expected = concat!(
        r#"{"key":"k 1","operation":null,"status":201,"effect":"answered","replayed":true,"#,
        r#""source":"network","exhausted":false,"exhausted_by":null,"attempts":["#,
        r#"{"number":1,"status":null,"error":"connection_lost","known":"ambiguous","#,
        r#""request_id":null,"waited_ms":0,"elapsed_ms":0},"#,
        r#"{"number":2,"status":503,"error":null,"known":"unavailable","#,
        r#""request_id":"req_7","waited_ms":0,"elapsed_ms":0},"#,
        r#"{"number":3,"status":201,"error":null,"known":"replayed","#,
        r#""request_id":null,"waited_ms":0,"elapsed_ms":0}],"#,
        r#""headers":{"content-type":["application/json"],"location":["/v1/charges/ch_1"],"#,
        r#""idempotency-replayed":["true"],"content-length":["32"]},"#,
        r#""body":{"id":"ch_1","received":{"n":1}}}"#,
        "\n"
    );
    assert_eq!(timeless(&ran), expected);
}

#[tokio::test]
async fn a_failure_is_told_whole() {
    let flags = ["--max-attempts", "1", "--key", "k", "--output", "json"];
    let ran = run(send_to(&refused_url().unwrap(), &flags)).await;
    assert_eq!(ran.code, 7);
    let expected = concat!(
        r#"{"key":"k","operation":null,"status":null,"effect":"not_sent","replayed":false,"#,
        r#""source":"network","exhausted":true,"exhausted_by":"attempts","attempts":["#,
        r#"{"number":1,"status":null,"error":"connect","known":"not_sent","request_id":null,"#,
        r#""waited_ms":0,"elapsed_ms":0}],"headers":{},"body":null}"#,
        "\n"
    );
    assert_eq!(timeless(&ran), expected);
    assert!(ran.stderr.starts_with("error: could not connect"), "{}", ran.stderr);
}

#[tokio::test]
async fn what_is_refused_before_sending_is_told_whole() {
    let ran = run(send_to("http://127.0.0.1:9/", &["--json", "{", "--output", "json"])).await;
    assert_eq!(ran.code, 2);
    let expected = concat!(
        r#"{"key":null,"operation":null,"status":null,"effect":"not_sent","replayed":false,"#,
        r#""source":"network","exhausted":false,"exhausted_by":null,"attempts":[],"#,
        r#""headers":{},"body":null}"#,
        "\n"
    );
    assert_eq!(ran.text(), expected);
    assert!(ran.stderr.contains("not JSON"), "{}", ran.stderr);
}

#[tokio::test]
async fn an_effect_that_is_open_is_unknown() {
    let server = server([Fault::close(), Fault::status(500)]).await;
    let flags = ["--max-attempts", "1", "--output", "json"];
    let lost = send(&server, &flags).await.json();
    assert_eq!((&lost["effect"], &lost["status"]), (&"unknown".into(), &().into()));
    let broken = send(&server, &flags).await.json();
    assert_eq!((&broken["effect"], &broken["status"]), (&"unknown".into(), &500.into()));
}

#[tokio::test]
async fn a_body_that_is_no_json_is_text_or_base64() {
    let server = server([Fault::status(400).body("oops"), Fault::status(400).body("\u{ff}")]).await;
    assert_eq!(send(&server, &["--output", "json"]).await.json()["body"], "oops");
    assert_eq!(send(&server, &["--output", "json"]).await.json()["body"], "\u{ff}");
    server.push([Fault::status(400).body(&b"\xff"[..])]);
    let body = &send(&server, &["--output", "json"]).await.json()["body"];
    assert_eq!(*body, serde_json::json!({ "base64": "/w==" }));
}
