//! "In progress" is waited for; any other 409 is an answer.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use post_once::clock::{Clock, Sleep};
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{EventKind, Fault, ManualClock, Server};
use post_once::{Client, Effect};

use super::support::{SECOND, advance_at, charge, client, http, logged, policy, report, scripted};

/// A clock by hand that is not ahead of the server: a pause after "in progress" lasts until the
/// first request is done.
#[derive(Clone, Debug)]
struct InStep {
    clock: ManualClock,
    server: Arc<Server>,
}

impl Clock for InStep {
    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.clock.wall()
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        let InStep { clock, server } = self.clone();
        Sleep::new(async move {
            let told = server.log().iter().any(|event| *event.kind() == EventKind::InProgress);
            if told {
                logged(&server, "c1 effect ch_1").await;
            }
            clock.sleep(wait).await;
        })
    }

    fn timer(&self, limit: Duration) -> Sleep {
        self.clock.timer(limit)
    }
}

// O-09
#[tokio::test]
async fn a_server_that_still_works_on_the_first_attempt_is_asked_again_later() {
    let delay = Duration::from_millis(600);
    let server = Arc::new(scripted([Fault::delay(delay)]).await);
    let clock = ManualClock::new();
    let in_step = InStep { clock: clock.clone(), server: Arc::clone(&server) };
    let two = policy().max_attempts(2).attempt_timeout(2 * SECOND).build().unwrap();
    let client = Client::builder().http(http()).clock(in_step).policy(two).build().unwrap();

    let body = charge();
    let sent = client.post_once(server.url("/v1/charges"), &body);
    let stalled = advance_at(&server, "c1 fault delay=600ms", &clock, 2 * SECOND);
    let (response, ()) = tokio::join!(sent, stalled);
    let response = response.unwrap();

    assert_eq!(response.status(), 201);
    let known: Vec<_> = report(&response).attempts().map(|attempt| attempt.known()).collect();
    assert_eq!(known, [Known::Ambiguous, Known::InProgress, Known::Replayed]);
    assert_eq!(clock.waits(), [Duration::ZERO, SECOND], "Retry-After: 1");
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault delay=600ms",
            "c2 POST /v1/charges k1 15B",
            "c2 in progress",
            "c2 answer 409",
            "c1 effect ch_1",
            "c3 POST /v1/charges k1 15B",
            "c3 replay 201",
            "c3 answer 201",
        ]
    );
}

// O-09: what comes between has sent the request twice, and the 409 is for the first attempt.
#[tokio::test]
async fn a_duplicate_delivery_is_waited_for() {
    let server = scripted([Fault::duplicate()]).await;
    let clock = ManualClock::new();
    let client = client(&clock, policy().max_attempts(1)).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 201);
    assert!(report(&response).is_replayed());
    assert_eq!(clock.waits(), [SECOND]);
    assert_eq!(server.charges().len(), 1);
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

// O-09
#[tokio::test]
async fn in_progress_beyond_its_budget_is_an_error_that_carries_the_answer() {
    let still = || Fault::status(409).retry_after(2).body("still working");
    let server = scripted([still(), still(), still(), still()]).await;
    let clock = ManualClock::new();
    let five = policy().max_attempts(1).in_progress_budget(5 * SECOND);
    let client = client(&clock, five).build().unwrap();
    let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();

    assert!(error.is_in_progress());
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::InProgress)));
    let answer = error.response().unwrap();
    assert_eq!(
        (answer.status().as_u16(), answer.headers()["retry-after"].as_bytes()),
        (409, &b"2"[..])
    );
    assert_eq!(answer.body(), "still working");
    assert_eq!(clock.waits(), [2 * SECOND; 2], "a third would end at 6 s");
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault 409:ra=2",
            "c1 answer 409",
            "c2 POST /v1/charges k1 15B",
            "c2 fault 409:ra=2",
            "c2 answer 409",
            "c3 POST /v1/charges k1 15B",
            "c3 fault 409:ra=2",
            "c3 answer 409",
        ]
    );
}

// O-09
#[tokio::test]
async fn any_other_409_is_final_at_once() {
    let server = scripted([Fault::status(409).body("the order is closed")]).await;
    let clock = ManualClock::new();
    let client = client(&clock, policy()).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 409);
    let report = report(&response);
    assert_eq!((report.effect(), report.exhausted()), (Effect::Unknown, None));
    assert_eq!(report.last_attempt().unwrap().known(), Known::Final);
    assert_eq!(response.text().await.unwrap(), "the order is closed");
    assert!(clock.waits().is_empty());
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 fault 409", "c1 answer 409"]
    );
}
