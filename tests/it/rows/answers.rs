//! Rows of answers that mean more than their status: redirected, replayed, in progress, done before,
//! hinted.

use std::time::Duration;

use post_once::contract::{Meaning, Rule};
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Contract, Effect, RetryPolicy};

use crate::harness::{builder, client, client_under, keys, known, lines, post, report, settled};

const SECOND: Duration = Duration::from_secs(1);

async fn scripted(faults: impl IntoIterator<Item = Fault>) -> Server {
    Server::builder().faults(faults).start().await.unwrap()
}

// O-11
#[tokio::test]
async fn redirect_is_the_callers_and_is_never_followed() {
    let elsewhere = Server::start().await.unwrap();
    for status in [300, 301, 302, 303, 304, 307, 308] {
        let server = scripted([Fault::redirect(status, &elsewhere.url("/v1/charges"))]).await;
        let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Redirected], "{status}");
        assert_eq!(report(&sent).effect(), Effect::Unknown, "{status}");
        assert_eq!(report(&sent).exhausted(), None);
        let answer = sent.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.headers()["location"], elsewhere.url("/v1/charges"));
        let shown = [format!("fault {status}"), format!("answer {status}")];
        assert_eq!(settled(&server).await, lines(&[&[&shown[0], &shown[1]]]));
    }
    assert!(elsewhere.requests().is_empty());
}

// O-11: a client that we did not build may have followed already. An answer from elsewhere is never
// taken for the write's, whatever its status.
#[tokio::test]
async fn answer_from_another_url_is_redirected_and_tells_nothing_of_the_effect() {
    for (fault, status) in
        [(None, 201), (Some(Fault::status(404)), 404), (Some(Fault::status(503)), 503)]
    {
        let elsewhere = scripted(fault).await;
        let server = scripted([Fault::redirect(307, &elsewhere.url("/v1/charges"))]).await;
        let foreign = reqwest::Client::builder().no_proxy().build().unwrap();
        let sent = post(&Client::from(foreign), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Redirected], "{status}");
        assert_eq!(report(&sent).effect(), Effect::Unknown, "{status}");
        assert_eq!(sent.unwrap().status(), status);
        assert_eq!(settled(&server).await, lines(&[&["fault 307", "answer 307"]]));
        assert_eq!(elsewhere.requests().len(), 1);
    }
}

// O-10
#[tokio::test]
async fn marked_replay_is_final_whatever_its_status() {
    for (name, value) in [
        ("idempotent-replayed", "true"),
        ("idempotency-replayed", "TRUE"),
        ("idempotency-status", "replayed"),
    ] {
        for status in [200, 409, 500, 503] {
            let server = scripted([Fault::status(status).header(name, value)]).await;
            let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
            assert_eq!(known(&sent), [Known::Replayed], "{name}: {value} on {status}");
            assert_eq!(report(&sent).effect(), Effect::Answered);
            assert!(report(&sent).is_replayed());
            assert_eq!(sent.unwrap().status(), status);
            assert_eq!(server.requests().len(), 1);
        }
    }
}

// O-10: a stored 503 comes back marked after the retry that its first, unmarked copy caused.
#[tokio::test]
async fn stored_503_is_asked_for_again_once_and_then_final() {
    let server = scripted([Fault::replayed_status(503)]).await;
    let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Unavailable, Known::Replayed]);
    assert_eq!(report(&sent).effect(), Effect::Answered);
    assert_eq!(sent.unwrap().status(), 503);
    let expected = lines(&[&["fault replayed 503", "answer 503"], &["replay 503", "answer 503"]]);
    assert_eq!(settled(&server).await, expected);
    assert!(server.charges().is_empty());
}

// O-10
#[tokio::test]
async fn marker_that_says_false_is_none() {
    for (name, value) in [
        ("idempotent-replayed", "false"),
        ("idempotency-replayed", "false"),
        ("idempotency-status", "new"),
    ] {
        let server = scripted([Fault::status(503).header(name, value)]).await;
        let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Unavailable, Known::Final], "{name}: {value}");
        assert!(!report(&sent).is_replayed());
        let expected = lines(&[&["fault 503", "answer 503"], &["effect ch_1", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

// O-09: not a failure; the waits do not count as attempts.
#[tokio::test]
async fn in_progress_is_waited_for_with_the_same_key() {
    let busy = || Fault::status(409).retry_after(2);
    let server = scripted(std::iter::repeat_with(busy).take(6)).await;
    let clock = ManualClock::new();
    let sent = post(&client(&clock), server.url("/v1/charges")).await;
    let mut expected = vec![Known::InProgress; 6];
    expected.push(Known::Final);
    assert_eq!(known(&sent), expected);
    assert_eq!(report(&sent).effect(), Effect::Answered);
    assert!(clock.waits().iter().all(|wait| *wait >= 2 * SECOND), "{:?}", clock.waits());
    assert_eq!(keys(&server), vec![report(&sent).key().unwrap().to_string(); 7]);
    let busy: &[&str] = &["fault 409:ra=2", "answer 409"];
    let expected = lines(&[busy, busy, busy, busy, busy, busy, &["effect ch_1", "answer 201"]]);
    assert_eq!(settled(&server).await, expected);
}

// O-09: a proxy delivered the request twice, and the 409 answers the client's first attempt.
#[tokio::test]
async fn in_progress_at_the_first_attempt_ends_in_the_replay_of_the_other_delivery() {
    let server = scripted([Fault::duplicate()]).await;
    let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::InProgress, Known::Replayed]);
    let first: &[&str] = &["fault duplicate", "in progress", "effect ch_1", "answer 409"];
    assert_eq!(settled(&server).await, lines(&[first, &["replay 201", "answer 201"]]));
}

// O-09
#[tokio::test]
async fn in_progress_for_longer_than_its_budget_is_an_error_with_the_409() {
    let busy = || Fault::status(409).retry_after(25).body("still at it");
    let server = scripted(std::iter::repeat_with(busy).take(9)).await;
    let clock = ManualClock::new();
    let sent = post(&client(&clock), server.url("/v1/charges")).await;
    let error = sent.as_ref().unwrap_err();
    assert!(error.is_in_progress() && error.is_exhausted());
    assert_eq!(error.exhausted(), Some(Exhausted::InProgress));
    assert_eq!((error.effect(), error.status().unwrap().as_u16()), (Effect::Unknown, 409));
    assert_eq!(error.response().unwrap().body(), "still at it");
    let waited: Duration = clock.waits().iter().sum();
    assert!(waited <= 60 * SECOND && clock.waits().len() == 2, "{:?}", clock.waits());
    let busy: &[&str] = &["fault 409:ra=25", "answer 409"];
    assert_eq!(settled(&server).await, lines(&[busy, busy, busy]));
}

#[tokio::test]
async fn in_progress_without_a_budget_is_an_error_at_once() {
    let server = scripted([Fault::status(409).retry_after(0)]).await;
    let policy = RetryPolicy::builder().in_progress_budget(Duration::ZERO).build().unwrap();
    let client = builder().policy(policy).clock(ManualClock::new()).build().unwrap();
    let error = post(&client, server.url("/v1/charges")).await.unwrap_err();
    assert!(error.is_in_progress());
    assert_eq!(error.exhausted(), Some(Exhausted::InProgress));
    assert_eq!(settled(&server).await, lines(&[&["fault 409:ra=0", "answer 409"]]));
}

// O-09: a 409 without a signal may mean anything.
#[tokio::test]
async fn bare_409_is_the_callers_at_once_and_its_effect_unknown() {
    let server = scripted([Fault::status(409)]).await;
    let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Final]);
    assert_eq!(report(&sent).effect(), Effect::Unknown);
    assert_eq!(sent.unwrap().status(), 409);
    assert_eq!(settled(&server).await, lines(&[&["fault 409", "answer 409"]]));
}

#[tokio::test]
async fn done_before_is_answered_and_its_resource_is_in_the_report() {
    const SPENT: Rule = Rule::new(Meaning::DoneBefore)
        .statuses(&[409])
        .body_value("/error/code", "already_done")
        .resource("/error/links/payment");
    let contract = Contract::builder("acme").rule(SPENT).build().unwrap();
    let told = r#"{"error":{"code":"already_done","links":{"payment":"PM1"}}}"#;
    let other = r#"{"error":{"code":"conflict","links":{"payment":"PM1"}}}"#;
    for (body, expected, effect, resource) in [
        (told, Known::DoneBefore, Effect::Answered, Some("PM1")),
        (other, Known::Final, Effect::Unknown, None),
    ] {
        let server = scripted([Fault::close(), Fault::status(409).body(body)]).await;
        let client = client_under(contract.clone(), &ManualClock::new());
        let sent = post(&client, server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Ambiguous, expected]);
        assert_eq!((report(&sent).effect(), report(&sent).resource()), (effect, resource));
        assert_eq!(sent.unwrap().text().await.unwrap(), body);
        let expected = lines(&[&["effect ch_1", "fault close"], &["fault 409", "answer 409"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

#[tokio::test]
async fn hint_is_obeyed_only_where_the_contract_names_it() {
    let acme = Contract::builder("acme").retry_hint("X-Should-Retry").build().unwrap();
    let (stripe, generic) = (Contract::stripe, Contract::generic);
    let name = "Stripe-Should-Retry";
    for (contract, status, header, value, first) in [
        (stripe(), 500, name, "true", Known::HintedRetry),
        (stripe(), 409, name, "true", Known::HintedRetry),
        (stripe(), 400, name, "True", Known::HintedRetry),
        (stripe(), 503, name, "false", Known::HintedStop),
        (stripe(), 429, name, "false", Known::HintedStop),
        (stripe(), 500, name, "maybe", Known::Final),
        (stripe(), 500, "X-Should-Retry", "true", Known::Final),
        (acme.clone(), 500, "X-Should-Retry", "true", Known::HintedRetry),
        (acme.clone(), 503, "X-Should-Retry", "false", Known::HintedStop),
        (acme, 500, name, "true", Known::Final),
        (generic(), 500, name, "true", Known::Final),
        (generic(), 503, name, "false", Known::Unavailable),
    ] {
        let says = format!("{} {status} {header}: {value}", contract.name());
        let server = scripted([Fault::status(status).header(header, value)]).await;
        let sent =
            post(&client_under(contract, &ManualClock::new()), server.url("/v1/charges")).await;
        let (fault, answer) = (format!("fault {status}"), format!("answer {status}"));
        let attempt: &[&str] = &[&fault, &answer];
        if matches!(first, Known::HintedRetry | Known::Unavailable) {
            assert_eq!(known(&sent), [first, Known::Final], "{says}");
            let expected = lines(&[attempt, &["effect ch_1", "answer 201"]]);
            assert_eq!(settled(&server).await, expected, "{says}");
        } else {
            assert_eq!(known(&sent), [first], "{says}");
            assert_eq!(sent.unwrap().status(), status, "{says}");
            assert_eq!(settled(&server).await, lines(&[attempt]), "{says}");
        }
    }
}

#[tokio::test]
async fn hint_to_retry_overrides_neither_a_replay_nor_a_success_nor_a_limit() {
    let hinted = |status| Fault::status(status).header("stripe-should-retry", "true");
    let clock = ManualClock::new();
    let client = client_under(Contract::stripe(), &clock);

    for (fault, expected) in [
        (hinted(500).header("idempotent-replayed", "true"), Known::Replayed),
        (hinted(200), Known::Final),
    ] {
        let server = scripted([fault]).await;
        let sent = post(&client, server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [expected]);
        assert_eq!(server.requests().len(), 1);
    }

    let server = scripted(std::iter::repeat_with(|| hinted(500)).take(9)).await;
    let sent = post(&client, server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::HintedRetry; 5]);
    assert_eq!(report(&sent).exhausted(), Some(Exhausted::Attempts));
    assert_eq!(sent.unwrap().status(), 500);

    let server = scripted([hinted(500).retry_after(61)]).await;
    let sent = post(&client, server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::HintedRetry]);
    assert_eq!(report(&sent).exhausted(), Some(Exhausted::RetryAfter));
}
