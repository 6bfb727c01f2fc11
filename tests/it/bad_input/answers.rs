//! Answers that never end, are longer than we keep, lie about their length, or ask for strange waits.

use std::time::Duration;

use post_once::Effect;
use post_once::clock::{Clock, SystemClock};
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};

use crate::harness::raw::RawServer;
use crate::harness::{at_once, builder, client, known, post, report};

#[tokio::test]
async fn answer_that_never_ends_is_bounded_by_the_attempt() {
    let server = Server::builder().faults([Fault::endless(), Fault::endless()]);
    let server = server.start().await.unwrap();
    let policy = at_once(2).to_builder().attempt_timeout(Duration::from_millis(300));
    let client = builder().policy(policy.build().unwrap()).build().unwrap();
    let sent = post(&client, server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Ambiguous; 2]);
    let error = sent.unwrap_err();
    assert!(error.is_timeout() && error.status().is_some_and(|status| status == 201));
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Attempts)));
    assert_eq!(server.charges().len(), 1);
}

/// The head was an answer; the rest is the caller's to read, for as long as it likes.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "the real limit of an attempt must have passed")]
async fn answer_above_the_limit_is_handed_over_unbuffered_and_untimed() {
    let server = Server::builder().faults([Fault::endless()]).start().await.unwrap();
    let policy = at_once(2).to_builder().attempt_timeout(Duration::from_millis(300));
    let client = builder().policy(policy.build().unwrap()).response_limit(20).build().unwrap();
    let sent = post(&client, server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Final]);
    assert!(!report(&sent).is_buffered());
    assert_eq!(report(&sent).effect(), Effect::Answered);
    tokio::time::sleep(Duration::from_millis(400)).await;
    let mut answer = sent.unwrap();
    let mut body = Vec::new();
    while body.len() < 42 {
        body.extend_from_slice(&answer.chunk().await.unwrap().expect("it never ends"));
    }
    assert!(body.starts_with(br#"{"id":"ch_1","received":{"amount":4200}}  "#));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn limit_is_the_last_length_that_is_buffered() {
    for (limit, buffered) in [(39, false), (40, true), (0, false), (usize::MAX, true)] {
        let server = Server::start().await.unwrap();
        let client = builder().response_limit(limit).build().unwrap();
        let sent = post(&client, server.url("/v1/charges")).await;
        assert_eq!(report(&sent).is_buffered(), buffered, "{limit}");
        assert_eq!(sent.unwrap().bytes().await.unwrap().len(), 40);
    }
}

const BUFFERED: bool = true;

#[tokio::test]
async fn length_that_is_a_lie_is_never_believed() {
    for (head, body, expected, status) in [
        // Shorter than the body: the rest is no part of it.
        ("content-length: 2", "{}{}", Ok((BUFFERED, Some("{}"))), 201),
        // Longer than anyone keeps: handed over, and cut in the caller's hands.
        ("content-length: 5000000000", "{}", Ok((!BUFFERED, None)), 201),
        ("content-length: 9223372036854775807", "{}", Ok((!BUFFERED, None)), 201),
        // No length at all.
        ("content-length: 99999999999999999999", "{}", Err(Known::Unclassified), 0),
        ("content-length: -1", "{}", Err(Known::Unclassified), 0),
        ("content-length: two", "{}", Err(Known::Unclassified), 0),
        ("content-length: 2\r\ncontent-length: 3", "{}", Err(Known::Unclassified), 0),
        ("transfer-encoding: chunked", "zz\r\n{}", Err(Known::Unclassified), 201),
        ("transfer-encoding: chunked", "fffffffffffffffff\r\n{}", Err(Known::Unclassified), 201),
    ] {
        let answer = format!("HTTP/1.1 201 Created\r\n{head}\r\n\r\n{body}");
        let server = RawServer::start([answer.into_bytes()]).await;
        let client = builder().policy(at_once(1)).build().unwrap();
        let sent = post(&client, server.url()).await;
        let last = report(&sent).last_attempt().unwrap();
        assert_eq!(last.status().map_or(0, |status| status.as_u16()), status, "{head}");
        match (sent, expected) {
            (Ok(answer), Ok((buffered, text))) => {
                let report = post_once::Report::of(&answer).unwrap();
                assert_eq!(report.is_buffered(), buffered, "{head}");
                assert_eq!(answer.text().await.ok().as_deref(), text, "{head}");
            }
            (Err(error), Err(expected)) => {
                assert_eq!(error.report().last_attempt().unwrap().known(), expected, "{head}");
                assert_eq!(error.effect(), Effect::Unknown, "{head}");
            }
            (sent, _) => panic!("{head}: {sent:?}"),
        }
        assert_eq!(server.requests(), 1);
    }
}

// O-13. The clock stands on 2026-01-01T00:00:00Z; the server's answers have no Date.
#[tokio::test]
async fn retry_after_of_every_kind_is_a_floor_or_ignored() {
    for (values, floor) in [
        (&["3"][..], Some(3)),
        (&["0"], Some(0)),
        (&["Thu, 01 Jan 2026 00:00:07 GMT"], Some(7)),
        (&["Thursday, 01-Jan-26 00:00:07 GMT"], Some(7)),
        (&["Thu Jan  1 00:00:07 2026"], Some(7)),
        (&["Wed, 31 Dec 2025 23:00:00 GMT"], Some(0)),
        (&["-1"], None),
        (&["1.5"], None),
        (&["inf"], None),
        (&["1e3"], None),
        (&[""], None),
        (&["\u{e9}"], None),
        (&["soon"], None),
        (&["Thu, 01 Jan 2026 00:00:07 CET"], None),
        (&["3", "4"], None),
    ] {
        let fault =
            values.iter().fold(Fault::status(503), |f, value| f.header("retry-after", value));
        let server = Server::builder().faults([fault]).start().await.unwrap();
        let clock = ManualClock::new();
        let sent = post(&client(&clock), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Unavailable, Known::Final], "{values:?}");
        let first = report(&sent).attempts().next().unwrap();
        assert_eq!(first.retry_after(), floor.map(Duration::from_secs), "{values:?}");
        let [wait] = clock.waits()[..] else { panic!("{values:?}: {:?}", clock.waits()) };
        let floor = Duration::from_secs(floor.unwrap_or(0));
        assert!(
            wait >= floor && wait <= floor + Duration::from_millis(500),
            "{values:?}: {wait:?}"
        );
    }
}

// O-14
#[tokio::test]
async fn retry_after_beyond_what_is_allowed_stops_at_once() {
    let minute = Duration::from_secs(60);
    for (value, deadline, by) in [
        ("61", None, Exhausted::RetryAfter),
        ("1767225661", None, Exhausted::Window),
        ("123456789012345678901234567890", None, Exhausted::Window),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None, Exhausted::Window),
        ("30", Some(minute / 2), Exhausted::Deadline),
    ] {
        let fault = Fault::status(429).header("retry-after", value).body("later");
        let server = Server::builder().faults([fault]).start().await.unwrap();
        let clock = ManualClock::new();
        let client = client(&clock);
        let mut builder = client.once(http::Method::POST, server.url("/v1/charges"));
        if let Some(deadline) = deadline {
            builder = builder.deadline(deadline);
        }
        let sent = builder.send().await;
        assert_eq!(known(&sent), [Known::Throttled], "{value}");
        assert_eq!(report(&sent).exhausted(), Some(by), "{value}");
        assert!(report(&sent).last_attempt().unwrap().retry_after().is_some(), "with the hint");
        assert_eq!(sent.unwrap().text().await.unwrap(), "later");
        assert!(clock.waits().is_empty() && server.requests().len() == 1, "{value}");
    }
}

/// An answer that is thrown away before a retry is read within bounds: 100 ms, were it never to end.
#[tokio::test]
async fn body_of_an_answer_that_is_retried_keeps_nobody() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 100\r\n\r\nbusy";
    let fine = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
    let answers = [busy.into(), fine.into()];
    for server in [RawServer::start(answers.clone()).await, RawServer::start_holding(answers).await]
    {
        let policy = at_once(2).to_builder().attempt_timeout(Duration::from_secs(600));
        let client = builder().policy(policy.build().unwrap()).build().unwrap();
        let started = SystemClock.monotonic();
        let sent = post(&client, server.url()).await;
        let took = SystemClock.monotonic() - started;
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert_eq!(known(&sent), [Known::Unavailable, Known::Final]);
        assert_eq!(report(&sent).effect(), Effect::Answered);
        assert_eq!(sent.unwrap().text().await.unwrap(), "{}");
    }
}
