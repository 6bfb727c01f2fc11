//! The retention window ends while the outcome is unknown.

use std::time::Duration;

use http::Method;
use post_once::retry::Exhausted;
use post_once::testkit::{Fault, ManualClock};
use post_once::{Client, Contract, Effect, Operation};

use super::support::{
    Dns, MINUTE, SECOND, Watch, advance_at, charge, client, policy, report, scripted,
};

const STALLED: [&str; 3] = ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 fault hang=60s"];

/// A window of 10 s, with a margin of 1 s; attempts of 2 s.
fn ten_seconds(clock: &ManualClock) -> post_once::ClientBuilder {
    let contract = Contract::builder("short").window(10 * SECOND).build().unwrap();
    client(clock, policy().attempt_timeout(2 * SECOND)).contract(contract)
}

fn prepared(client: &Client, url: String) -> Operation {
    client.once(Method::POST, url).json(&charge()).prepare().unwrap()
}

// O-18
#[tokio::test]
async fn no_attempt_starts_once_the_window_less_its_margin_is_over() {
    type Step = fn(&ManualClock, Duration);
    let steps: [(&str, Step); 2] = [
        ("a wait that took longer", ManualClock::advance),
        ("a machine that slept", ManualClock::step_wall_forward),
    ];
    for (rule, step) in steps {
        let server = scripted([Fault::hang(MINUTE)]).await;
        let clock = ManualClock::new();
        let stepped = clock.clone();
        let watch = Watch::at_wait(move || step(&stepped, 7 * SECOND));
        let client = ten_seconds(&clock).observer(watch).build().unwrap();
        let mut operation = prepared(&client, server.url("/v1/charges"));
        let key = operation.key().unwrap().clone();

        let sent = client.send(&mut operation);
        let stalled = advance_at(&server, "c1 fault hang=60s", &clock, 2 * SECOND);
        let (error, ()) = tokio::join!(sent, stalled);
        let error = error.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{rule}");
        assert_eq!(error.exhausted(), Some(Exhausted::Window), "{rule}");
        assert_eq!(error.key(), Some(&key), "{rule}");

        clock.advance(MINUTE);
        let later = client.send(&mut operation).await.unwrap_err();
        assert_eq!(later.effect(), Effect::Unknown, "{rule}");
        assert_eq!(later.exhausted(), Some(Exhausted::Window), "{rule}");
        assert_eq!((later.key(), later.report().attempts().len()), (Some(&key), 0), "{rule}");
        assert_eq!(operation.key(), Some(&key), "{rule}: no new key");
        assert_eq!(server.charges().len(), 1, "{rule}");
        assert_eq!(server.transcript(), STALLED, "{rule}");
    }
}

// O-18
#[tokio::test]
async fn an_attempt_gets_no_more_than_what_is_left_of_the_window() {
    let server = scripted([Fault::hang(MINUTE), Fault::hang(MINUTE)]).await;
    let clock = ManualClock::new();
    let late = clock.clone();
    let watch = Watch::at_wait(move || late.advance(6 * SECOND));
    let client = ten_seconds(&clock).observer(watch.clone()).build().unwrap();

    let body = charge();
    let sent = client.post_once(server.url("/v1/charges"), &body);
    let stalled = async {
        advance_at(&server, "c1 fault hang=60s", &clock, 2 * SECOND).await;
        advance_at(&server, "c2 fault hang=60s", &clock, SECOND).await;
    };
    let (error, ()) = tokio::join!(sent, stalled);
    let error = error.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Window)));
    assert_eq!(watch.limits(), [2 * SECOND, SECOND], "the second starts at 8 s of 9 s");
    assert_eq!(server.transcript()[..3], STALLED);
    assert_eq!(
        server.transcript()[3..],
        ["c2 POST /v1/charges k1 15B", "c2 replay 201", "c2 fault hang=60s"]
    );
}

// O-18
#[tokio::test]
async fn a_later_call_inside_the_window_goes_on_and_its_limit_counts_from_the_first_send() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let clock = ManualClock::new();
    let watch = Watch::at_wait(|| {});
    let client = ten_seconds(&clock).observer(watch.clone()).build().unwrap();
    let once = client.once(Method::POST, server.url("/v1/charges")).json(&charge());
    let one = policy().attempt_timeout(2 * SECOND).max_attempts(1).build().unwrap();
    let mut operation = once.policy(one).prepare().unwrap();

    let sent = client.send(&mut operation);
    let stalled = advance_at(&server, "c1 fault hang=60s", &clock, 2 * SECOND);
    let (error, ()) = tokio::join!(sent, stalled);
    assert_eq!(error.unwrap_err().exhausted(), Some(Exhausted::Attempts));
    clock.advance(6 * SECOND);
    let response = client.send(&mut operation).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(watch.limits(), [2 * SECOND, SECOND]);
    assert_eq!(
        server.transcript()[3..],
        ["c2 POST /v1/charges k1 15B", "c2 replay 201", "c2 answer 201"]
    );
}

// O-18: only if no attempt was ever sent may the operation start afresh.
#[tokio::test]
async fn attempts_that_were_not_sent_do_not_start_the_window() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let clock = ManualClock::new();
    let late = clock.clone();
    let watch = Watch::at_wait(move || late.advance(MINUTE));
    let dns = Dns::failing(&server, |look_up| look_up <= 7);
    let client = ten_seconds(&clock).http(dns.http()).observer(watch).build().unwrap();
    let mut operation = prepared(&client, dns.url());

    let error = client.send(&mut operation).await.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, Some(Exhausted::Attempts)));
    assert_eq!(error.report().attempts().len(), 5);

    let sent = client.send(&mut operation);
    let stalled = advance_at(&server, "c1 fault hang=60s", &clock, 2 * SECOND);
    let (error, ()) = tokio::join!(sent, stalled);
    let error = error.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Window)));
    assert_eq!(error.report().attempts().len(), 3, "two look-ups that fail, and one that is sent");
    assert_eq!(server.transcript(), STALLED);
}

// O-18: what is returned is the last answer, and nothing is sent after it.
#[tokio::test]
async fn an_answer_before_the_window_ended_is_returned() {
    let server = scripted([Fault::status(503).body("busy")]).await;
    let clock = ManualClock::new();
    let late = clock.clone();
    let watch = Watch::at_wait(move || late.advance(9 * SECOND));
    let client = ten_seconds(&clock).observer(watch).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 503);
    let report = report(&response);
    assert_eq!((report.effect(), report.exhausted()), (Effect::Unknown, Some(Exhausted::Window)));
    assert_eq!(response.text().await.unwrap(), "busy");
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 fault 503", "c1 answer 503"]
    );
}
