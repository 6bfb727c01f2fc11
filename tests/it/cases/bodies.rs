//! The request's body is there on every attempt, and an answer is one only with its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Method;
use http_body::Frame;
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Effect};
use reqwest::Body;

use super::support::{charge, client, header, keys, policy, report, scripted};

/// A body that can be read once only.
struct Stream(VecDeque<Bytes>);

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|chunk| Ok(Frame::data(chunk))))
    }
}

fn stream() -> Body {
    let chunks = [r#"{"amount":"#, "4200}"].map(|chunk| Bytes::from_static(chunk.as_bytes()));
    Body::wrap(Stream(chunks.into()))
}

fn by_hand() -> Client {
    client(&ManualClock::new(), policy()).build().unwrap()
}

// O-04 (a)
#[tokio::test]
async fn a_body_in_memory_is_the_same_on_every_attempt() {
    let large: Vec<u8> = (0..=u8::MAX).cycle().take(300_000).collect();
    for body in [b"0".to_vec(), b"{\"amount\": 4200.00}".to_vec(), large] {
        let server = scripted([Fault::status(503)]).await;
        let client = by_hand();
        let once = client.once(Method::POST, server.url("/v1/charges")).body(body.clone());
        assert_eq!(once.send().await.unwrap().status(), 201);

        let size = body.len();
        assert_eq!(header(&server, "content-length"), [size.to_string(), size.to_string()]);
        assert!(server.requests().iter().all(|request| *request.body() == body));
        assert_eq!(server.charges().len(), 1);
        assert_eq!(
            server.transcript(),
            [
                &format!("c1 POST /v1/charges k1 {size}B"),
                "c1 fault 503",
                "c1 answer 503",
                &format!("c2 POST /v1/charges k1 {size}B"),
                "c2 effect ch_1",
                "c2 answer 201",
            ]
        );
    }
}

// O-04 (b)
#[tokio::test]
async fn a_stream_that_meets_a_success_is_sent_once() {
    let server = Server::start().await.unwrap();
    let client = by_hand();
    let once = client.once(Method::POST, server.url("/v1/charges")).body(stream());
    let response = once.send().await.unwrap();
    assert_eq!(response.status(), 201);
    let report = report(&response);
    assert_eq!((report.effect(), report.exhausted()), (Effect::Answered, None));
    assert_eq!(*server.charges()[0].received(), charge().to_string());
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 answer 201"]
    );
}

// O-04 (c)
#[tokio::test]
async fn a_stream_that_meets_a_503_is_not_sent_again() {
    let server = scripted([Fault::status(503).body("later")]).await;
    let client = by_hand();
    let once = client.once(Method::POST, server.url("/v1/charges")).body(stream());
    let mut operation = once.prepare().unwrap();
    let response = client.send(&mut operation).await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(report(&response).exhausted(), Some(Exhausted::Body));
    assert_eq!(report(&response).effect(), Effect::Unknown);
    assert_eq!(response.text().await.unwrap(), "later");

    let error = client.send(&mut operation).await.unwrap_err();
    assert!(error.is_refused(), "{error}");
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 fault 503", "c1 answer 503"]
    );
}

// O-04 (c)
#[tokio::test]
async fn a_stream_whose_answer_is_lost_is_not_sent_again() {
    let server = scripted([Fault::close()]).await;
    let client = by_hand();
    let once = client.once(Method::POST, server.url("/v1/charges")).body(stream());
    let error = once.send().await.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Body)));
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 fault close"]
    );
}

// O-06
#[tokio::test]
async fn an_answer_that_is_cut_is_asked_for_again() {
    let server = scripted([Fault::cut()]).await;
    let response = by_hand().post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 201);
    let report = report(&response);
    let known: Vec<_> = report.attempts().map(|attempt| attempt.known()).collect();
    assert_eq!(known, [Known::Ambiguous, Known::Replayed]);
    assert!(report.is_replayed() && report.is_buffered());
    assert_eq!(response.text().await.unwrap(), r#"{"id":"ch_1","received":{"amount":4200}}"#);
    assert_eq!(keys(&server)[0], keys(&server)[1]);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 effect ch_1",
            "c1 fault cut",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 201",
            "c2 answer 201",
        ]
    );
}

// O-06
#[tokio::test]
async fn an_answer_that_is_always_cut_is_no_answer() {
    let server = scripted([Fault::cut(), Fault::cut()]).await;
    let client = client(&ManualClock::new(), policy().max_attempts(2)).build().unwrap();
    let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Attempts)));
    assert_eq!(error.status().unwrap(), 201, "its head had come");
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 effect ch_1",
            "c1 fault cut",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 201",
            "c2 fault cut",
        ]
    );
}
