//! A name stands for one operation, whoever calls it and how often.

use std::time::Duration;

use http::Method;
use post_once::journal::{Journal, List, MemoryJournal, State};
use post_once::report::Source;
use post_once::testkit::{Fault, Server};
use post_once::{Client, Effect, Report, RetryPolicy};

use super::support::dropped_at;

fn policy() -> RetryPolicy {
    let short = RetryPolicy::builder().base_delay(Duration::from_millis(1));
    short.max_attempts(2).build().unwrap()
}

fn client(journal: &MemoryJournal) -> Client {
    Client::builder().policy(policy()).journal(journal.clone()).build().unwrap()
}

async fn states(journal: &MemoryJournal) -> Vec<State> {
    let rows = journal.list(&List::default()).await.unwrap();
    rows.iter().map(|row| row.state).collect()
}

#[tokio::test]
async fn a_completed_name_returns_the_stored_answer_and_sends_nothing() {
    let (server, journal) = (Server::start().await.unwrap(), MemoryJournal::new());
    let call = async || {
        let client = client(&journal);
        let once = client.once(Method::POST, server.url("/v1/charges")).operation("order-42");
        once.json(&["a charge"]).send().await.unwrap()
    };
    let (first, again) = (call().await, call().await);
    let (first_report, report) =
        (Report::of(&first).unwrap().clone(), Report::of(&again).unwrap().clone());
    assert_eq!(first_report.source(), Source::Network);
    assert_eq!((report.source(), report.effect()), (Source::Journal, Effect::Answered));
    assert_eq!(report.key(), first_report.key());
    assert_eq!(report.operation(), Some("order-42"));
    assert_eq!(again.status(), 201);
    assert_eq!(again.headers()["location"], "/v1/charges/ch_1");
    assert_eq!(again.url().as_str(), server.url("/v1/charges"));
    assert_eq!(first.bytes().await.unwrap(), again.bytes().await.unwrap());
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 12B", "c1 effect ch_1", "c1 answer 201"]
    );
    assert_eq!(states(&journal).await, [State::Completed]);
}

#[tokio::test]
async fn a_parked_name_goes_on_under_the_same_key() {
    let faults = [Fault::close(), Fault::close()];
    let server = Server::builder().faults(faults).start().await.unwrap();
    let journal = MemoryJournal::new();
    let call = async || {
        let client = client(&journal);
        let once = client.once(Method::POST, server.url("/v1/charges")).operation("order-42");
        once.json(&["a charge"]).send().await
    };
    let error = call().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert!(matches!(states(&journal).await[..], [State::Parked(_)]));
    let answer = call().await.unwrap();
    assert!(Report::of(&answer).unwrap().is_replayed());
    assert_eq!(Report::of(&answer).unwrap().last_attempt().unwrap().number(), 3);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(states(&journal).await, [State::Completed]);
}

#[tokio::test]
async fn a_name_with_another_body_is_refused_before_it_is_sent() {
    let (server, journal) = (Server::start().await.unwrap(), MemoryJournal::new());
    let client = client(&journal);
    let call = |body: &'static str| {
        client.once(Method::POST, server.url("/v1/charges")).operation("order-42").json(body).send()
    };
    call("one").await.unwrap();
    let error = call("another").await.unwrap_err();
    assert!(error.is_mismatch(), "{error}");
    assert_eq!(error.effect(), Effect::NotSent);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_name_without_a_journal_is_refused() {
    let server = Server::start().await.unwrap();
    let client = Client::new().unwrap();
    let once = client.once(Method::POST, server.url("/")).operation("order-42").json("x");
    assert!(once.send().await.unwrap_err().is_refused());
    assert!(server.requests().is_empty());
}

// O-17.
#[tokio::test]
async fn a_dropped_call_leaves_a_pending_row() {
    let faults = [Fault::hang(Duration::from_secs(5))];
    let server = Server::builder().faults(faults).start().await.unwrap();
    let journal = MemoryJournal::new();
    let client = client(&journal);
    let call = client.once(Method::POST, server.url("/v1/charges")).json("x");
    dropped_at(&server, "c1 effect ch_1", call).await;
    assert_eq!(states(&journal).await, [State::Pending]);
    let rows = journal.list(&List::default()).await.unwrap();
    assert_eq!(rows[0].trail.attempts.len(), 1);
    assert!(rows[0].ages.first_send.is_some() && rows[0].ages.lease_left.is_none());
}

// O-17: a prepared operation that was dropped and is sent again is the same row.
#[tokio::test]
async fn a_prepared_operation_has_one_row_however_often_it_is_sent() {
    let faults = [Fault::hang(Duration::from_secs(5))];
    let server = Server::builder().faults(faults).start().await.unwrap();
    let journal = MemoryJournal::new();
    let client = client(&journal);
    let once = client.once(Method::POST, server.url("/v1/charges")).json("x");
    let mut operation = once.prepare().unwrap();
    let call = client.send(&mut operation);
    assert!(tokio::time::timeout(Duration::from_millis(200), call).await.is_err());
    let answer = client.send(&mut operation).await.unwrap();
    assert!(Report::of(&answer).unwrap().is_replayed());
    assert_eq!(states(&journal).await, [State::Completed]);
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn a_name_under_another_key_is_refused() {
    let (server, journal) = (Server::start().await.unwrap(), MemoryJournal::new());
    let client = client(&journal);
    let call = |key: &str| {
        let key = post_once::IdempotencyKey::parse(key).unwrap();
        let once = client.once(Method::POST, server.url("/v1/charges"));
        once.operation("order-42").key(key).json("x").send()
    };
    call("first").await.unwrap();
    assert!(call("second").await.unwrap_err().is_mismatch());
    assert_eq!(server.requests().len(), 1);
}

// What a caller was told is not sent is not sent after all.
#[tokio::test]
async fn a_row_whose_caller_was_told_not_sent_is_parked() {
    let journal = MemoryJournal::new();
    let client = client(&journal);
    let url = post_once::testkit::refused_url().unwrap();
    let error = client.post_once(&url, "x").await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotSent);
    assert!(matches!(states(&journal).await[..], [State::Parked(_)]));
    let summary = client.resumer().origin(&url).once().await.unwrap();
    assert_eq!(summary, post_once::resume::Summary::default());
}
