//! Without faults it keeps the contract.

use std::time::Duration;

use http::{Method, StatusCode};
use post_once::testkit::{EventKind, Fault, Server, refused_url};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{BODY, builder, lines, post};

async fn json_of(answer: reqwest::Response) -> Value {
    serde_json::from_slice(&answer.bytes().await.unwrap()).unwrap()
}

#[tokio::test]
async fn same_key_is_one_charge_and_a_marked_replay() {
    let server = Server::start().await.unwrap();

    let first = post(&server, "a").await.unwrap();
    assert_eq!(first.status(), 201);
    assert_eq!(first.headers()["location"], "/v1/charges/ch_1");
    assert_eq!(first.headers()["content-type"], "application/json");
    assert!(!first.headers().contains_key("idempotency-replayed"));
    let created = json!({ "id": "ch_1", "received": { "amount": 4200 } });
    assert_eq!(json_of(first).await, created);

    let second = post(&server, "\"a\"").await.unwrap();
    assert_eq!(second.status(), 201);
    assert_eq!(second.headers()["idempotency-replayed"], "true");
    assert_eq!(second.headers()["location"], "/v1/charges/ch_1");
    assert_eq!(json_of(second).await, created);

    let list = builder().build().unwrap().get(server.url("/v1/charges")).send().await.unwrap();
    assert_eq!(json_of(list).await, json!({ "count": 1, "charges": [created] }));

    let charges = server.charges();
    assert_eq!(charges.len(), 1);
    assert_eq!((charges[0].id(), charges[0].key()), ("ch_1", Some("a")));
    assert_eq!(charges[0].received(), BODY);
    let requests = server.requests();
    assert_eq!(requests[1].headers()["idempotency-key"], "\"a\"");
    assert_eq!((requests[1].connection(), requests[1].body().as_ref()), (2, BODY.as_bytes()));
    assert!(requests[0].at() < requests[1].at());
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 effect ch_1",
            "c1 answer 201",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 201",
            "c2 answer 201",
            "c3 GET /v1/charges - 0B",
            "c3 answer 200",
        ]
    );
    assert_eq!(*server.log()[1].kind(), EventKind::Effect("ch_1".to_owned()));
    server.stop().await;
}

#[tokio::test]
async fn other_bytes_under_a_key_are_422_and_no_charge() {
    let server = Server::start().await.unwrap();
    post(&server, "a").await.unwrap();
    let client = builder().build().unwrap();
    let other = client.post(server.url("/v1/charges")).header("idempotency-key", "a").body("{}");
    let answer = other.send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    assert_eq!(
        server.transcript()[3..],
        ["c2 POST /v1/charges k1 2B", "c2 mismatch", "c2 answer 422"]
    );
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn one_connection_serves_many_requests_and_every_unsafe_method_charges() {
    let server = Server::start().await.unwrap();
    for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE, Method::HEAD] {
        let client = builder().build().unwrap();
        let url = server.url("/any?path=1");
        let answer = client.request(method.clone(), url).send().await.unwrap();
        let expected = if method == Method::HEAD { 200 } else { 201 };
        assert_eq!(answer.status(), expected, "{method}");
    }
    assert_eq!(server.charges().len(), 4);

    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let requests = "GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n";
    socket.write_all(requests.as_bytes()).await.unwrap();
    let mut answers = String::new();
    socket.read_to_string(&mut answers).await.unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2);
    assert_eq!(answers.matches("connection: close\r\n").count(), 1);
    assert_eq!(
        server.transcript()[14..],
        ["c6 GET /a - 0B", "c6 answer 200", "c6 GET /b - 0B", "c6 answer 200"]
    );
}

#[tokio::test]
async fn pooled_client_stays_on_one_connection() {
    let server = Server::start().await.unwrap();
    let client = builder().build().unwrap();
    for number in 1..=20 {
        let answer = client.post(server.url("/")).body(BODY).send().await.unwrap();
        answer.bytes().await.unwrap();
        assert_eq!(server.requests()[number - 1].connection(), 1);
    }
}

#[tokio::test]
async fn expectation_is_answered_before_the_body_is_sent() {
    let server = Server::start().await.unwrap();
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    socket.write_all(head.as_bytes()).await.unwrap();
    let mut interim = [0; 25];
    socket.read_exact(&mut interim).await.unwrap();
    assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"{}").await.unwrap();
    let mut status = [0; 12];
    socket.read_exact(&mut status).await.unwrap();
    assert_eq!(&status, b"HTTP/1.1 201");
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_two_keys_are_too() {
    let server = Server::start().await.unwrap();
    for (request, status) in [
        ("POST nowhere\r\n\r\n", "400"),
        ("POST / HTTP/1.1\r\nContent-Length: 67108865\r\n\r\n", "413"),
        ("POST / HTTP/1.1\r\nIdempotency-Key: a\r\nIdempotency-Key: a\r\n\r\n", "400"),
    ] {
        let mut socket = TcpStream::connect(server.address()).await.unwrap();
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        socket.read_exact(&mut answer).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.1 {status}").as_bytes());
    }
    assert_eq!(
        server.transcript(),
        ["c1 answer 400", "c2 answer 413", "c3 POST / - 0B", "c3 answer 400"]
    );
    assert!(server.charges().is_empty());
}

#[tokio::test]
async fn key_is_read_where_the_builder_says() {
    let server = Server::builder().key_header("X-Request-Token").start().await.unwrap();
    let client = builder().build().unwrap();
    let request = client.post(server.url("/")).header("x-request-token", "a");
    request.header("idempotency-key", "b").send().await.unwrap();
    assert_eq!(server.charges()[0].key(), Some("a"));

    let server = Server::builder().key_member("idempotency_key").start().await.unwrap();
    let request = client.post(server.url("/")).body(r#"{"idempotency_key":"c"}"#);
    request.header("idempotency-key", "b").send().await.unwrap();
    assert_eq!(server.charges()[0].key(), Some("c"));

    let error = Server::builder().key_header("no name").start().await.unwrap_err();
    assert_eq!(error.to_string(), "`no name` cannot be the name of a header field");
}

#[tokio::test]
async fn second_request_meets_the_first_in_progress() {
    let server = Server::builder()
        .faults([Fault::delay(Duration::from_secs(1))])
        .in_progress_retry_after(7)
        .start()
        .await
        .unwrap();
    let (first, second) = tokio::join!(post(&server, "a"), async {
        lines(&server, 2).await;
        post(&server, "a").await
    });
    assert_eq!(first.unwrap().status(), 201);
    let second = second.unwrap();
    assert_eq!(second.status(), 409);
    assert_eq!(second.headers()["retry-after"], "7");
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault delay=1s",
            "c2 POST /v1/charges k1 15B",
            "c2 in progress",
            "c2 answer 409",
            "c1 effect ch_1",
            "c1 answer 201",
        ]
    );
}

#[tokio::test]
async fn effect_happens_even_if_the_client_leaves_first() {
    let delay = Duration::from_secs(1);
    let server = Server::builder().delay(delay).start().await.unwrap();
    let client = builder().timeout(delay / 10).build().unwrap();
    let error = client.post(server.url("/")).body(BODY).send().await.unwrap_err();
    assert!(error.is_timeout());
    assert!(server.charges().is_empty());
    lines(&server, 2).await;
    assert_eq!(server.transcript(), ["c1 POST / - 15B", "c1 effect ch_1"]);
}

#[tokio::test]
async fn stopped_server_refuses_and_still_tells_what_happened() {
    let server = Server::builder().faults([Fault::endless()]).start().await.unwrap();
    let open = post(&server, "a").await.unwrap();
    server.stop().await;
    open.bytes().await.unwrap_err();
    assert!(post(&server, "a").await.unwrap_err().is_connect());
    assert_eq!(server.charges().len(), 1);
    let refused = builder().build().unwrap().get(refused_url().unwrap()).send().await;
    assert!(refused.unwrap_err().is_connect());
}
