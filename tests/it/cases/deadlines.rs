//! The limit of an attempt, the limit of the call, and the clock that both go by.

use std::time::Duration;

use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock};
use post_once::{Client, Effect, RetryPolicy};

use super::support::{
    MINUTE, SECOND, Watch, advance_at, charge, client, http, policy, report, scripted,
};

const STALLED_ONCE: [&str; 6] = [
    "c1 POST /v1/charges k1 15B",
    "c1 effect ch_1",
    "c1 fault hang=60s",
    "c2 POST /v1/charges k1 15B",
    "c2 replay 201",
    "c2 answer 201",
];

// O-16
#[tokio::test]
async fn a_stall_leaves_time_for_a_retry_whatever_the_wall_clock_does() {
    let hour = Duration::from_secs(3_600);
    let forward: fn(&ManualClock, Duration) = ManualClock::step_wall_forward;
    let back: fn(&ManualClock, Duration) = ManualClock::step_wall_back;
    for step in [|_: &ManualClock, _| {}, forward, back] {
        let server = scripted([Fault::hang(MINUTE)]).await;
        let clock = ManualClock::new();
        let stepped = clock.clone();
        let watch = Watch::at_wait(move || step(&stepped, hour));
        let limits = policy().attempt_timeout(SECOND).deadline(5 * SECOND);
        let client = client(&clock, limits).observer(watch.clone()).build().unwrap();

        let body = charge();
        let sent = client.post_once(server.url("/v1/charges"), &body);
        let stalled = advance_at(&server, "c1 fault hang=60s", &clock, SECOND);
        let (response, ()) = tokio::join!(sent, stalled);
        let response = response.unwrap();

        assert_eq!(response.status(), 201);
        assert_eq!(report(&response).exhausted(), None);
        assert_eq!(watch.limits(), [SECOND, SECOND]);
        assert_eq!(server.charges().len(), 1);
        assert_eq!(server.transcript(), STALLED_ONCE);
    }
}

// O-16
#[tokio::test]
async fn each_attempt_gets_the_smaller_of_its_own_limit_and_what_is_left() {
    let server = scripted([Fault::hang(MINUTE), Fault::hang(MINUTE), Fault::hang(MINUTE)]).await;
    let clock = ManualClock::new();
    let watch = Watch::at_wait(|| {});
    let limits = policy().attempt_timeout(2 * SECOND).deadline(5 * SECOND);
    let client = client(&clock, limits).observer(watch.clone()).build().unwrap();

    let body = charge();
    let sent = client.post_once(server.url("/v1/charges"), &body);
    let stalled = async {
        advance_at(&server, "c1 fault hang=60s", &clock, 2 * SECOND).await;
        advance_at(&server, "c2 fault hang=60s", &clock, 2 * SECOND).await;
        advance_at(&server, "c3 fault hang=60s", &clock, SECOND).await;
    };
    let (error, ()) = tokio::join!(sent, stalled);
    let error = error.unwrap_err();

    assert!(error.is_timeout());
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Deadline)));
    assert_eq!(watch.limits(), [2 * SECOND, 2 * SECOND, SECOND]);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 effect ch_1",
            "c1 fault hang=60s",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 201",
            "c2 fault hang=60s",
            "c3 POST /v1/charges k1 15B",
            "c3 replay 201",
            "c3 fault hang=60s",
        ]
    );
}

// O-16: the deadline of one operation goes before the policy's.
#[tokio::test]
async fn a_wait_that_used_up_the_deadline_gives_the_last_answer_back() {
    let server = scripted([Fault::status(503).body("busy")]).await;
    let clock = ManualClock::new();
    let late = clock.clone();
    let watch = Watch::at_wait(move || late.advance(5 * SECOND));
    let client = client(&clock, policy()).observer(watch).build().unwrap();
    let once = client.once(http::Method::POST, server.url("/v1/charges")).json(&charge());
    let response = once.deadline(5 * SECOND).send().await.unwrap();
    assert_eq!(response.status(), 503);
    assert_eq!(report(&response).exhausted(), Some(Exhausted::Deadline));
    assert_eq!(response.text().await.unwrap(), "busy");
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 fault 503", "c1 answer 503"]
    );
}

// O-16: by the clock of the machine, before the head of an answer and inside its body.
#[tokio::test]
async fn the_limit_of_an_attempt_covers_the_whole_exchange() {
    let drip = Fault::drip(Duration::from_millis(20));
    for (fault, status) in [(Fault::hang(MINUTE), None), (drip, Some(201))] {
        let server = scripted([fault.clone()]).await;
        let limits = RetryPolicy::builder()
            .base_delay(Duration::ZERO)
            .attempt_timeout(Duration::from_millis(300))
            .build()
            .unwrap();
        let client = Client::builder().http(http()).policy(limits).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(response.status(), 201);
        let first = report(&response).attempts().next().unwrap();
        assert_eq!((first.known(), first.error()), (Known::Ambiguous, Some("timeout")));
        assert_eq!(first.status().map(|status| status.as_u16()), status);
        assert_eq!(server.charges().len(), 1);
        assert_eq!(
            server.transcript(),
            [
                "c1 POST /v1/charges k1 15B",
                "c1 effect ch_1",
                &format!("c1 fault {fault}"),
                "c2 POST /v1/charges k1 15B",
                "c2 replay 201",
                "c2 answer 201",
            ]
        );
    }
}
