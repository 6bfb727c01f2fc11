//! `Retry-After` over a socket: a floor for the wait, or a reason to stop.

use std::time::Duration;

use post_once::retry::{Exhausted, RetryPolicyBuilder};
use post_once::testkit::{Fault, ManualClock};
use post_once::{Contract, Effect, RetryPolicy};

use super::support::{SECOND, charge, client, policy, report, scripted};

fn told(value: impl AsRef<[u8]>) -> Fault {
    Fault::status(429).header("Retry-After", value)
}

// O-13: the clock stands at 2026-01-01T00:00:00Z, and the server sends no Date.
#[tokio::test]
async fn the_wait_is_what_a_valid_value_says_and_no_other() {
    let table: [(Fault, u32); 17] = [
        (told("120"), 120),
        (told(" 120 "), 120),
        (told("0"), 0),
        (told("Thu, 01 Jan 2026 00:00:30 GMT"), 30),
        (told("Thursday, 01-Jan-26 00:00:30 GMT"), 30),
        (told("Thu Jan  1 00:00:30 2026"), 30),
        (told("Wed, 31 Dec 2025 23:59:59 GMT"), 0),
        (told("Thu, 01 Jan 2026 00:00:30 GMT").header("Date", "Wed, 31 Dec 2025 23:59:50 GMT"), 40),
        (told("-1"), 0),
        (told("1.5"), 0),
        (told("inf"), 0),
        (told("1e3"), 0),
        (told(""), 0),
        (told("\u{661}"), 0),
        (told(b"\xe9"), 0),
        (told("7").header("Retry-After", "9"), 0),
        (told("Thu, 01 Jan 2026 00:00:30 CET"), 0),
    ];
    for (fault, seconds) in table {
        let server = scripted([fault.clone()]).await;
        let clock = ManualClock::new();
        let client = client(&clock, policy().max_retry_after(200 * SECOND)).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(response.status(), 201, "{fault:?}");
        assert_eq!(clock.waits(), [seconds * SECOND], "{fault:?}");
        assert_eq!(report(&response).last_attempt().unwrap().waited(), seconds * SECOND);
    }
}

// O-13
#[tokio::test]
async fn the_hint_is_a_floor_under_the_jitter() {
    let server = scripted([told("3"), told("3"), told("3"), told("3")]).await;
    let clock = ManualClock::new();
    let jitter = RetryPolicy::builder().base_delay(SECOND).max_delay(SECOND);
    let client = client(&clock, jitter).build().unwrap();
    client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    let waits = clock.waits();
    assert_eq!(waits.len(), 4);
    assert!(waits.iter().all(|wait| (3 * SECOND..=4 * SECOND).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait > 3 * SECOND), "{waits:?}");
}

/// What a call with a deadline, and what one without does with a hint.
async fn stops(hint: &str, policy: RetryPolicyBuilder, window: Option<Duration>, by: Exhausted) {
    let server = scripted([told(hint).body("slow down")]).await;
    let clock = ManualClock::new();
    let contract = match window {
        Some(window) => Contract::builder("short").window(window).build().unwrap(),
        None => Contract::builder("for ever").no_window().build().unwrap(),
    };
    let client = client(&clock, policy).contract(contract).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();

    assert_eq!(response.status(), 429, "{hint}");
    let report = report(&response);
    assert_eq!(report.exhausted(), Some(by), "{hint}");
    assert_eq!(report.effect(), Effect::Answered, "{hint}");
    assert!(report.last_attempt().unwrap().retry_after().unwrap() >= 3_600 * SECOND, "{hint}");
    assert_eq!(response.headers()["retry-after"], hint);
    assert_eq!(response.text().await.unwrap(), "slow down");
    assert!(clock.waits().is_empty(), "{hint}");
    assert_eq!(server.transcript().len(), 3, "{hint}: {:?}", server.transcript());
}

// O-14
#[tokio::test]
async fn a_hint_beyond_a_limit_stops_at_once_and_is_reported() {
    let ten = || policy().deadline(10 * SECOND).max_retry_after(Duration::MAX);
    let patient = || policy().max_retry_after(Duration::MAX);
    for hint in
        ["3600", "1767225600", "123456789012345678901234567890", "Fri, 31 Dec 9999 23:59:59 GMT"]
    {
        stops(hint, ten(), None, Exhausted::Deadline).await;
        stops(hint, policy(), None, Exhausted::RetryAfter).await;
        stops(hint, policy().max_retry_after(3_599 * SECOND), None, Exhausted::RetryAfter).await;
        stops(hint, patient(), Some(10 * SECOND), Exhausted::Window).await;
        stops(hint, patient(), Some(3_600 * SECOND), Exhausted::Window).await;
        stops(hint, ten(), Some(5 * SECOND), Exhausted::Window).await;
    }
}

// O-14
#[tokio::test]
async fn a_hint_that_just_fits_is_waited_for() {
    let server = scripted([told("9")]).await;
    let clock = ManualClock::new();
    let jitter = RetryPolicy::builder().base_delay(8 * SECOND);
    let client = client(&clock, jitter.deadline(10 * SECOND)).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 201);
    let wait = clock.waits()[0];
    let latest = 10 * SECOND - Duration::from_millis(100);
    assert!((9 * SECOND..=latest).contains(&wait), "{wait:?}");
}
