//! Each fault over HTTP/1.1.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use post_once::testkit::{Fault, Server};

use super::{BODY, builder, cause, lines, post};

async fn scripted(fault: Fault) -> Server {
    Server::builder().faults([fault]).start().await.unwrap()
}

/// The lines of a fault after the effect, and of the replay that the next request gets.
fn effect_then_replay(fault: &str) -> [String; 6] {
    [
        "c1 POST /v1/charges k1 15B".to_owned(),
        "c1 effect ch_1".to_owned(),
        format!("c1 fault {fault}"),
        "c2 POST /v1/charges k1 15B".to_owned(),
        "c2 replay 201".to_owned(),
        "c2 answer 201".to_owned(),
    ]
}

async fn replays(server: &Server) {
    let again = post(server, "a").await.unwrap();
    assert_eq!(again.headers()["idempotency-replayed"], "true");
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn status_has_no_effect() {
    let fault = Fault::status(429).retry_after(2).header("x-request-id", "r1").body("busy");
    let server = scripted(fault).await;
    let answer = post(&server, "a").await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(answer.headers()["retry-after"], "2");
    assert_eq!(answer.headers()["x-request-id"], "r1");
    assert_eq!(answer.text().await.unwrap(), "busy");
    assert!(server.charges().is_empty());
    assert_eq!(post(&server, "a").await.unwrap().status(), 201);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault 429:ra=2",
            "c1 answer 429",
            "c2 POST /v1/charges k1 15B",
            "c2 effect ch_1",
            "c2 answer 201",
        ]
    );
}

#[tokio::test]
async fn redirect_has_no_effect_and_names_its_target() {
    let server = scripted(Fault::redirect(307, "http://other.example/")).await;
    let answer = post(&server, "a").await.unwrap();
    assert_eq!(answer.status(), 307);
    assert_eq!(answer.headers()["location"], "http://other.example/");
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 fault 307", "c1 answer 307"]
    );
}

// O-10
#[tokio::test]
async fn replayed_status_is_marked_from_the_second_time_on() {
    let server = scripted(Fault::replayed_status(503)).await;
    let first = post(&server, "a").await.unwrap();
    assert_eq!(first.status(), 503);
    assert!(!first.headers().contains_key("idempotency-replayed"));
    let second = post(&server, "a").await.unwrap();
    assert_eq!(second.status(), 503);
    assert_eq!(second.headers()["idempotency-replayed"], "true");
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault replayed 503",
            "c1 answer 503",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 503",
            "c2 answer 503",
        ]
    );
    assert!(server.charges().is_empty());
}

#[tokio::test]
async fn close_before_reading_is_a_lost_connection_without_effect() {
    for fault in [Fault::close_before_reading(), Fault::refuse_stream(), Fault::goaway()] {
        let server = scripted(fault.clone()).await;
        let error = post(&server, "a").await.unwrap_err();
        assert!(error.is_request() && !error.is_connect(), "{error:?}");
        assert!(server.charges().is_empty());
        assert_eq!(server.requests()[0].body(), "");
        assert_eq!(
            server.transcript(),
            ["c1 POST /v1/charges k1 unread".to_owned(), format!("c1 fault {fault}")]
        );
    }
}

#[tokio::test]
async fn hang_before_serves_late() {
    let server = scripted(Fault::hang_before(Duration::from_secs(1))).await;
    let client = builder().timeout(Duration::from_millis(50)).build().unwrap();
    let request = client.post(server.url("/")).header("idempotency-key", "a").body(BODY);
    assert!(request.send().await.unwrap_err().is_timeout());
    assert!(server.charges().is_empty());
    lines(&server, 3).await;
    assert_eq!(
        server.transcript(),
        ["c1 POST / k1 15B", "c1 fault hang before=1s", "c1 effect ch_1"]
    );
}

// O-08
#[tokio::test]
async fn close_commits_and_says_nothing() {
    let server = scripted(Fault::close()).await;
    let error = post(&server, "a").await.unwrap_err();
    assert!(!error.is_connect() && !error.is_timeout());
    assert!(cause::<hyper::Error>(&error).unwrap().is_incomplete_message());
    replays(&server).await;
    assert_eq!(server.transcript(), effect_then_replay("close"));
}

#[tokio::test]
async fn reset_commits_and_resets_the_connection() {
    let server = scripted(Fault::reset()).await;
    let error = post(&server, "a").await.unwrap_err();
    let cause = cause::<std::io::Error>(&error).unwrap();
    assert_eq!(cause.kind(), ErrorKind::ConnectionReset);
    replays(&server).await;
    assert_eq!(server.transcript(), effect_then_replay("reset"));
}

// O-06
#[tokio::test]
async fn cut_sends_the_whole_head_and_seven_bytes() {
    let server = scripted(Fault::cut()).await;
    let mut answer = post(&server, "a").await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(answer.content_length(), Some(40));
    let mut received = Vec::new();
    let error = loop {
        match answer.chunk().await {
            Ok(chunk) => received.extend(chunk.expect("the body is cut")),
            Err(error) => break error,
        }
    };
    assert_eq!(received, br#"{"id":""#);
    assert!(error.is_body() || error.is_decode(), "{error:?}");
    replays(&server).await;
    assert_eq!(server.transcript(), effect_then_replay("cut"));
}

#[tokio::test]
async fn garbage_is_no_http() {
    let server = scripted(Fault::garbage()).await;
    let error = post(&server, "a").await.unwrap_err();
    assert!(cause::<hyper::Error>(&error).unwrap().is_parse());
    replays(&server).await;
    assert_eq!(server.transcript(), effect_then_replay("garbage"));
}

#[tokio::test]
async fn hang_outlasts_a_client_that_then_finds_a_replay() {
    let server = scripted(Fault::hang(Duration::from_secs(60))).await;
    let client = builder().timeout(Duration::from_millis(100)).build().unwrap();
    let request = client.post(server.url("/v1/charges")).header("idempotency-key", "a").body(BODY);
    assert!(request.send().await.unwrap_err().is_timeout());
    replays(&server).await;
    assert_eq!(server.transcript(), effect_then_replay("hang=60s"));
}

#[tokio::test]
async fn hang_answers_a_client_that_waits() {
    let server = scripted(Fault::hang(Duration::from_millis(50))).await;
    assert_eq!(post(&server, "a").await.unwrap().status(), 201);
    let expected =
        ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 fault hang=50ms", "c1 answer 201"];
    assert_eq!(server.transcript(), expected);
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "bytes that drip over a real socket take real time")]
async fn drip_sends_byte_by_byte_up_to_the_end() {
    let server = scripted(Fault::drip(Duration::from_millis(5))).await;
    let started = Instant::now();
    let answer = post(&server, "a").await.unwrap();
    let body = answer.text().await.unwrap();
    assert_eq!(body, r#"{"id":"ch_1","received":{"amount":4200}}"#);
    assert!(started.elapsed() >= Duration::from_millis(5 * 40));
    let expected =
        ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 fault drip=5ms", "c1 answer 201"];
    assert_eq!(server.transcript(), expected);
}

#[tokio::test]
async fn endless_goes_on_after_the_whole_answer() {
    let server = scripted(Fault::endless()).await;
    let mut answer = post(&server, "a").await.unwrap();
    assert_eq!(answer.content_length(), None);
    let mut received = Vec::new();
    while received.len() < 42 {
        received.extend(answer.chunk().await.unwrap().expect("it never ends"));
    }
    assert_eq!(received, br#"{"id":"ch_1","received":{"amount":4200}}  "#);
    drop(answer);
    replays(&server).await;
    assert_eq!(server.transcript(), effect_then_replay("endless"));
}

// O-09
#[tokio::test]
async fn duplicate_gives_the_409_of_the_second_delivery() {
    let server = scripted(Fault::duplicate()).await;
    let answer = post(&server, "a").await.unwrap();
    assert_eq!(answer.status(), 409);
    assert_eq!(answer.headers()["retry-after"], "1");
    replays(&server).await;
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault duplicate",
            "c1 in progress",
            "c1 effect ch_1",
            "c1 answer 409",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 201",
            "c2 answer 201",
        ]
    );
}

#[tokio::test]
async fn duplicate_without_a_key_is_two_charges() {
    let server = scripted(Fault::duplicate()).await;
    let client = builder().build().unwrap();
    let answer = client.post(server.url("/")).body(BODY).send().await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(server.charges().len(), 2);
}

#[tokio::test]
async fn duplicate_of_a_slow_request_stays_in_progress_for_the_delay() {
    let server = Server::builder()
        .faults([Fault::duplicate()])
        .delay(Duration::from_secs(1))
        .start()
        .await
        .unwrap();
    assert_eq!(post(&server, "a").await.unwrap().status(), 409);
    assert_eq!(post(&server, "a").await.unwrap().status(), 409);
    lines(&server, 8).await;
    replays(&server).await;
}

#[tokio::test]
async fn script_is_for_unsafe_requests_in_order_and_can_grow() {
    let server = Server::builder().faults([Fault::status(503)]).start().await.unwrap();
    server.push([Fault::status(502)]);
    let client = builder().build().unwrap();
    assert_eq!(client.get(server.url("/")).send().await.unwrap().status(), 200);
    for expected in [503, 502, 201] {
        assert_eq!(post(&server, "a").await.unwrap().status(), expected);
    }
}
