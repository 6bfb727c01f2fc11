//! An answer: what was sent for it, what is printed of it, and the exit code.

use post_once::testkit::Fault;

use crate::{keys, run, run_with_stdin, send, send_to, server};

/// An answer on the last attempt decides.
#[tokio::test]
async fn the_status_decides_the_exit_code() {
    for (fault, code) in [
        (None, 0),
        (Some(Fault::status(204)), 0),
        (Some(Fault::redirect(307, "/elsewhere")), 3),
        (Some(Fault::status(401)), 4),
        (Some(Fault::status(409)), 4),
        (Some(Fault::status(429)), 4),
        (Some(Fault::status(500)), 5),
        (Some(Fault::status(503)), 5),
    ] {
        let name = format!("{fault:?}");
        let server = server(fault).await;
        let ran = send(&server, &["--json", "{}", "--max-attempts", "1"]).await;
        assert_eq!(ran.code, code, "{name}: {}", ran.stderr);
        assert_eq!(server.requests().len(), 1, "{name}");
    }
}

/// O-01, O-06, O-08: the first answers are lost, and there is one charge.
#[tokio::test]
async fn lost_answers_make_one_charge() {
    let server = server([Fault::close(), Fault::cut(), Fault::reset(), Fault::status(503)]).await;
    let ran = send(&server, &["--json", r#"{"amount":4200}"#]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.text(), r#"{"id":"ch_1","received":{"amount":4200}}"#);
    assert_eq!(ran.stderr, "");
    assert_eq!(server.charges().len(), 1);
    let keys = keys(&server, "idempotency-key");
    assert_eq!(keys.len(), 5);
    assert!(keys.iter().all(|key| *key == keys[0]), "{keys:?}");
}

#[tokio::test]
async fn the_body_of_the_answer_is_printed_unchanged() {
    let body: &[u8] = b"\xff\x00\r\n no text \xfe";
    let server = server([Fault::status(400).body(body)]).await;
    let ran = send(&server, &[]).await;
    assert_eq!((ran.code, ran.stdout.as_slice()), (4, body));
}

/// Above what the library reads inside an attempt by default, so that a cut is tried again.
#[tokio::test]
async fn a_long_answer_that_is_cut_is_not_printed_by_half() {
    let server = server([Fault::cut()]).await;
    let body = format!("\"{}\"", "x".repeat(2 * 1024 * 1024));
    let command = send_to(&server.url("/v1/charges"), &["-d", "@-"]);
    let ran = run_with_stdin(command, body.as_bytes()).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.text(), format!(r#"{{"id":"ch_1","received":{body}}}"#));
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn the_body_is_sent_byte_for_byte_with_the_type_that_was_asked_for() {
    let directory = std::env::temp_dir();
    let file = directory.join(format!("post-once-{}.bin", std::process::id()));
    std::fs::write(&file, b"\x00\xff@").unwrap();
    let at_file = format!("@{}", file.display());
    let json = "{ \"a\" : 1.50,\n \"a\":2 }";
    let typed = ["--json", json, "-H", "content-type: application/vnd.x+json"];
    let table: [(&[&str], &[u8], Option<&str>); 7] = [
        (&["--json", json], json.as_bytes(), Some("application/json")),
        (&typed, json.as_bytes(), Some("application/vnd.x+json")),
        (&["--json", "-5"], b"-5", Some("application/json")),
        (&["-d", "a=b&c"], b"a=b&c", None),
        (&["-d", &at_file], b"\x00\xff@", None),
        (&["-d", "@-"], b"\x01from\xff", None),
        (&[], b"", None),
    ];
    let server = server([]).await;
    for (flags, body, content_type) in table {
        let command = send_to(&server.url("/v1/charges"), flags);
        let ran = run_with_stdin(command, b"\x01from\xff").await;
        assert_eq!(ran.code, 0, "{flags:?}: {}", ran.stderr);
        let requests = server.requests();
        let request = requests.last().unwrap();
        assert_eq!(request.body(), body, "{flags:?}");
        let sent: Vec<_> = request.headers().get_all("content-type").iter().collect();
        assert_eq!(sent, Vec::from_iter(content_type), "{flags:?}");
    }
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn method_and_headers_are_sent_as_given() {
    let server = server([]).await;
    let flags = ["-X", "PATCH", "-H", "X-A: 1", "--header", "x-a:2:3 ", "-H", "X-Empty:"];
    assert_eq!(send(&server, &flags).await.code, 0);
    let requests = server.requests();
    let request = &requests[0];
    assert_eq!(request.method(), "PATCH");
    assert_eq!(request.headers().get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2:3"]);
    assert_eq!(request.headers()["x-empty"], "");
}

#[tokio::test]
async fn the_key_is_written_as_contract_and_flags_say() {
    const UUID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
    const SIMPLE: &str = "0f0e0d0c0b0a49088706050403020100";
    let quoted = format!("\"{UUID}\"");
    for (flags, header, sent) in [
        (&["--key", UUID][..], "idempotency-key", UUID),
        (&["--key", "order 42"], "idempotency-key", "order 42"),
        (&["-H", "Idempotency-Key: order-42"], "idempotency-key", "order-42"),
        (&["--key", UUID, "--contract", "amazon_pay"], "x-amz-pay-idempotency-key", SIMPLE),
        (&["--key", UUID, "--contract", "ietf"], "idempotency-key", &quoted),
        (&["--key", UUID, "--key-header", "X-Key"], "x-key", UUID),
        (&["--key", UUID, "--key-format", "quoted"], "idempotency-key", &quoted),
        (&["--key", UUID, "--key-format", "simple"], "idempotency-key", SIMPLE),
        (
            &["--key", UUID, "--contract", "ietf", "--key-format", "hyphenated"],
            "idempotency-key",
            UUID,
        ),
    ] {
        let server = server([]).await;
        let ran = send(&server, flags).await;
        assert_eq!(ran.code, 0, "{flags:?}: {}", ran.stderr);
        assert_eq!(keys(&server, header), [sent], "{flags:?}");
    }
}

#[tokio::test]
async fn a_read_carries_no_key() {
    let server = server([]).await;
    let ran = send(&server, &["-X", "GET"]).await;
    assert_eq!((ran.code, ran.text()), (0, r#"{"charges":[],"count":0}"#));
    assert!(!server.requests()[0].headers().contains_key("idempotency-key"));
}

#[tokio::test]
async fn a_hint_above_the_longest_wait_ends_the_command() {
    let server = server([Fault::status(429).retry_after(2)]).await;
    let ran = send(&server, &["--max-retry-after", "1s"]).await;
    assert_eq!(ran.code, 4, "{}", ran.stderr);
    assert_eq!(server.requests().len(), 1);
}

/// Each limit reaches the attempt that it is for.
#[tokio::test]
async fn limits_on_time_end_what_hangs() {
    for limit in ["--attempt-timeout", "--deadline", "--window"] {
        let server = server([Fault::hang(std::time::Duration::from_secs(30))]).await;
        let flags = ["--max-attempts", "1", "--margin", "1ms", limit, "300ms"];
        let ran = run(send_to(&server.url("/v1/charges"), &flags)).await;
        assert_eq!(ran.code, 6, "{limit}: {}", ran.stderr);
        assert_eq!(server.charges().len(), 1);
    }
}
