//! Answers that are final although their status does not look like it: replays and redirects.

use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Effect};

use super::support::{charge, client, policy, report, scripted};

// O-10
#[tokio::test]
async fn a_marked_replay_of_a_failure_is_final() {
    let server = scripted([Fault::replayed_status(503)]).await;
    let client = client(&ManualClock::new(), policy().max_attempts(5)).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 503);
    let report = report(&response);
    assert!(report.is_replayed());
    assert_eq!((report.effect(), report.exhausted()), (Effect::Answered, None));
    assert!(server.charges().is_empty());
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault replayed 503",
            "c1 answer 503",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 503",
            "c2 answer 503",
        ]
    );
}

// O-10
#[tokio::test]
async fn a_failure_without_a_marker_is_retried_as_usual() {
    let says_no = Fault::status(503).header("Idempotency-Replayed", "false");
    let server = scripted([Fault::status(503), says_no, Fault::status(503)]).await;
    let client = client(&ManualClock::new(), policy().max_attempts(3)).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 503);
    let report = report(&response);
    assert!(!report.is_replayed());
    assert_eq!((report.effect(), report.exhausted()), (Effect::Unknown, Some(Exhausted::Attempts)));
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault 503",
            "c1 answer 503",
            "c2 POST /v1/charges k1 15B",
            "c2 fault 503",
            "c2 answer 503",
            "c3 POST /v1/charges k1 15B",
            "c3 fault 503",
            "c3 answer 503",
        ]
    );
}

// O-11
#[tokio::test]
async fn a_redirect_to_another_origin_is_returned_and_not_followed() {
    let other = Server::start().await.unwrap();
    for code in [307, 308, 301, 302, 303] {
        let server = scripted([Fault::redirect(code, &other.url("/v1/charges"))]).await;
        let client = client(&ManualClock::new(), policy()).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(response.status(), code);
        assert_eq!(response.headers()["location"], other.url("/v1/charges"));
        let report = report(&response);
        assert_eq!((report.effect(), report.exhausted()), (Effect::Unknown, None));
        assert_eq!(report.last_attempt().unwrap().known(), Known::Redirected);
        assert_eq!(
            server.transcript(),
            [
                "c1 POST /v1/charges k1 15B",
                &format!("c1 fault {code}"),
                &format!("c1 answer {code}"),
            ]
        );
    }
    assert_eq!(other.transcript(), [""; 0]);
}

// O-11: a client that we did not build may have followed it. What the other origin did is its
// answer; what became of the operation where it belongs nobody knows.
#[tokio::test]
async fn a_redirect_that_a_foreign_client_followed_is_never_done() {
    for code in [307, 308] {
        let other = Server::start().await.unwrap();
        let server = scripted([Fault::redirect(code, &other.url("/v1/charges"))]).await;
        let foreign = reqwest::Client::builder().no_proxy().build().unwrap();
        let client: Client = client(&ManualClock::new(), policy()).http(foreign).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(response.url().as_str(), other.url("/v1/charges"));
        let report = report(&response);
        assert_eq!(report.last_attempt().unwrap().known(), Known::Redirected);
        assert_eq!((report.effect(), report.exhausted()), (Effect::Unknown, None));
        assert!(server.charges().is_empty());
        assert_eq!(other.charges().len(), 1);
    }
}

// O-11: that it once was refused elsewhere proves nothing for the origin it belongs to either.
#[tokio::test]
async fn a_refusal_after_a_followed_redirect_does_not_tell_what_happened() {
    let other = scripted([Fault::status(404)]).await;
    let redirect = Fault::redirect(307, &other.url("/v1/charges"));
    let server = scripted([redirect, Fault::status(400)]).await;
    let foreign = reqwest::Client::builder().no_proxy().build().unwrap();
    let client = client(&ManualClock::new(), policy()).http(foreign).build().unwrap();
    let once = client.once(http::Method::POST, server.url("/v1/charges")).json(&charge());
    let mut operation = once.prepare().unwrap();

    let redirected = client.send(&mut operation).await.unwrap();
    assert_eq!(
        (redirected.status().as_u16(), report(&redirected).effect()),
        (404, Effect::Unknown)
    );
    let refused = client.send(&mut operation).await.unwrap();
    assert_eq!((refused.status().as_u16(), report(&refused).effect()), (400, Effect::Unknown));
}
