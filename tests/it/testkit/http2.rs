//! HTTP/2: the same API, and the faults that only it has.

use std::time::Duration;

use h2::Reason;
use post_once::testkit::{Fault, Server};
use reqwest::{Response, Version};

use super::{BODY, builder, cause};

async fn scripted(fault: Fault) -> Server {
    Server::builder().http2().faults([fault]).start().await.unwrap()
}

async fn post(server: &Server) -> reqwest::Result<Response> {
    let client = builder().http2_prior_knowledge().timeout(Duration::from_secs(5)).build().unwrap();
    client.post(server.url("/v1/charges")).header("idempotency-key", "a").body(BODY).send().await
}

const REPLAYED: [&str; 3] = ["c2 POST /v1/charges k1 15B", "c2 replay 201", "c2 answer 201"];

async fn effect_and_replay(server: &Server, fault: &str) {
    assert_eq!(post(server).await.unwrap().headers()["idempotency-replayed"], "true");
    let transcript = server.transcript();
    let first = ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", &format!("c1 fault {fault}")];
    assert_eq!(transcript[..3], first);
    assert_eq!(transcript[3..], REPLAYED);
    server.stop().await;
}

#[tokio::test]
async fn it_keeps_the_contract() {
    let server = Server::builder().http2().start().await.unwrap();
    let answer = post(&server).await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 201));
    assert_eq!(answer.headers()["content-length"], "40");
    assert_eq!(answer.text().await.unwrap(), r#"{"id":"ch_1","received":{"amount":4200}}"#);
    assert_eq!(server.requests()[0].body(), BODY);
    assert_eq!(post(&server).await.unwrap().headers()["idempotency-replayed"], "true");
    let first = ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 answer 201"];
    assert_eq!(server.transcript()[..3], first);
    assert_eq!(server.transcript()[3..], REPLAYED);
}

#[tokio::test]
async fn refused_stream_and_goaway_promise_that_nothing_was_done() {
    for (fault, reason) in
        [(Fault::refuse_stream(), Reason::REFUSED_STREAM), (Fault::goaway(), Reason::NO_ERROR)]
    {
        let server = scripted(fault.clone()).await;
        let error = post(&server).await.unwrap_err();
        let cause = cause::<h2::Error>(&error).unwrap();
        assert!(cause.is_remote(), "{error:?}");
        assert_eq!(cause.is_go_away(), fault == Fault::goaway());
        assert_eq!(cause.reason(), Some(reason));
        assert!(server.charges().is_empty());
        assert_eq!(post(&server).await.unwrap().status(), 201);
        assert_eq!(
            server.transcript(),
            [
                "c1 POST /v1/charges k1 unread",
                &format!("c1 fault {fault}"),
                "c2 POST /v1/charges k1 15B",
                "c2 effect ch_1",
                "c2 answer 201",
            ]
        );
    }
}

#[tokio::test]
async fn close_before_reading_is_a_lost_connection_without_effect() {
    let server = scripted(Fault::close_before_reading()).await;
    let error = post(&server).await.unwrap_err();
    assert!(error.is_request() && !error.is_connect() && !error.is_timeout(), "{error:?}");
    assert!(cause::<h2::Error>(&error).is_none_or(|error| !error.is_reset()));
    assert!(server.charges().is_empty());
    let expected = ["c1 POST /v1/charges k1 unread", "c1 fault close before reading"];
    assert_eq!(server.transcript(), expected);
}

#[tokio::test]
async fn reset_commits_and_resets_the_stream() {
    let server = scripted(Fault::reset()).await;
    let error = post(&server).await.unwrap_err();
    let reset = cause::<h2::Error>(&error).unwrap();
    assert!(reset.is_reset() && reset.is_remote());
    assert_eq!(reset.reason(), Some(Reason::INTERNAL_ERROR));
    effect_and_replay(&server, "reset").await;
}

#[tokio::test]
async fn close_and_garbage_commit_and_lose_the_connection() {
    for fault in [Fault::close(), Fault::garbage()] {
        let server = scripted(fault.clone()).await;
        let error = post(&server).await.unwrap_err();
        assert!(error.is_request() && !error.is_connect() && !error.is_timeout(), "{error:?}");
        effect_and_replay(&server, &fault.to_string()).await;
    }
}

#[tokio::test]
async fn cut_sends_the_whole_head_and_seven_bytes() {
    let server = scripted(Fault::cut()).await;
    let mut answer = post(&server).await.unwrap();
    assert_eq!(answer.content_length(), Some(40));
    assert_eq!(answer.chunk().await.unwrap().unwrap(), br#"{"id":""#[..]);
    let error = answer.chunk().await.unwrap_err();
    assert!(!error.is_timeout(), "{error:?}");
    effect_and_replay(&server, "cut").await;
}

#[tokio::test]
async fn drip_and_hang_answer_whole_and_endless_never() {
    for fault in [Fault::drip(Duration::from_millis(2)), Fault::hang(Duration::from_millis(20))] {
        let server = scripted(fault.clone()).await;
        assert_eq!(post(&server).await.unwrap().bytes().await.unwrap().len(), 40);
        assert_eq!(server.transcript()[2..], [format!("c1 fault {fault}"), "c1 answer 201".into()]);
    }
    let server = scripted(Fault::endless()).await;
    let mut answer = post(&server).await.unwrap();
    let mut length = 0;
    while length < 42 {
        length += answer.chunk().await.unwrap().expect("it never ends").len();
    }
    drop(answer);
    effect_and_replay(&server, "endless").await;
}

#[cfg(feature = "rustls")]
#[tokio::test]
async fn it_is_agreed_on_under_tls() {
    use post_once::testkit::Tls;

    let server = Server::builder().http2().tls(Tls::Trusted).start().await.unwrap();
    let ca = reqwest::Certificate::from_pem(server.ca_pem().unwrap().as_bytes()).unwrap();
    let client = builder().tls_certs_only([ca]).build().unwrap();
    let answer = client.post(server.url("/")).body(BODY).send().await.unwrap();
    assert_eq!((answer.version(), answer.status().as_u16()), (Version::HTTP_2, 201));
}
