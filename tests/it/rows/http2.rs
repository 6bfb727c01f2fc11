//! Rows that only HTTP/2 has, and the lost connection again over it.

use std::time::Duration;

use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Effect, RetryPolicy};

use crate::harness::{Sent, http, known, lines, post, report, settled};

async fn scripted(fault: Fault) -> Server {
    Server::builder().http2().faults([fault]).start().await.unwrap()
}

async fn send(server: &Server, policy: RetryPolicy) -> Sent {
    let http = http().http2_prior_knowledge().build().unwrap();
    let client = Client::builder().http(http).clock(ManualClock::new()).policy(policy);
    post(&client.build().unwrap(), server.url("/v1/charges")).await
}

// O-08: the peer promises that it did not act (RFC 9113 §8.7).
#[tokio::test]
async fn refused_stream_and_goaway_are_retried_and_count_as_not_sent() {
    for fault in [Fault::refuse_stream(), Fault::goaway()] {
        let server = scripted(fault.clone()).await;
        let sent = send(&server, RetryPolicy::default()).await;
        assert_eq!(known(&sent), [Known::RefusedByProtocol, Known::Final], "{fault}");
        assert_eq!(report(&sent).effect(), Effect::Answered);
        let shown = format!("fault {fault}");
        let mut expected = lines(&[&[&shown], &["effect ch_1", "answer 201"]]);
        expected[0] = "c1 POST /v1/charges k1 unread".to_owned();
        assert_eq!(settled(&server).await, expected);

        let server = scripted(fault.clone()).await;
        let error = send(&server, RetryPolicy::once()).await.unwrap_err();
        assert_eq!((error.effect(), error.is_connect()), (Effect::NotSent, false), "{fault}");
        assert_eq!(error.report().last_attempt().unwrap().error(), Some("refused_by_protocol"));
        assert!(server.charges().is_empty());
    }
}

// O-08: every other way to lose the stream may come after the effect.
#[tokio::test]
async fn stream_or_connection_lost_after_the_effect_is_ambiguous() {
    for fault in [Fault::reset(), Fault::close(), Fault::cut(), Fault::garbage()] {
        let server = scripted(fault.clone()).await;
        let sent = send(&server, RetryPolicy::default()).await;
        assert_eq!(known(&sent), [Known::Ambiguous, Known::Replayed], "{fault}");
        let first = report(&sent).attempts().next().unwrap();
        assert_eq!(first.error(), Some("connection_lost"), "{fault}");
        assert_eq!(report(&sent).effect(), Effect::Answered);
        let shown = format!("fault {fault}");
        let expected = lines(&[&["effect ch_1", &shown], &["replay 201", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);

        let server = scripted(fault.clone()).await;
        let error = send(&server, RetryPolicy::once()).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{fault}");
        assert_eq!(error.exhausted(), Some(Exhausted::Attempts), "{fault}");
    }
}

#[tokio::test]
async fn connection_lost_before_the_body_was_read_is_ambiguous() {
    let server = scripted(Fault::close_before_reading()).await;
    let sent = send(&server, RetryPolicy::default()).await;
    assert_eq!(known(&sent), [Known::Ambiguous, Known::Final]);
    let mut expected = lines(&[&["fault close before reading"], &["effect ch_1", "answer 201"]]);
    expected[0] = "c1 POST /v1/charges k1 unread".to_owned();
    assert_eq!(settled(&server).await, expected);
}

#[tokio::test]
async fn statuses_and_timeouts_read_the_same() {
    let server = Server::builder()
        .http2()
        .faults([Fault::status(503).retry_after(2), Fault::hang(Duration::from_secs(5))])
        .start()
        .await
        .unwrap();
    let http = http().http2_prior_knowledge().timeout(Duration::from_millis(300)).build().unwrap();
    let client = Client::builder().http(http).clock(ManualClock::new()).build().unwrap();
    let sent = post(&client, server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Unavailable, Known::Ambiguous, Known::Replayed]);
    let expected = lines(&[
        &["fault 503:ra=2", "answer 503"],
        &["effect ch_1", "fault hang=5s"],
        &["replay 201", "answer 201"],
    ]);
    assert_eq!(settled(&server).await, expected);
}
