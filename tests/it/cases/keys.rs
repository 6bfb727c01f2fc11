//! One key per operation, and one key field per request.

use std::collections::HashSet;

use http::Method;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Effect, Error, Idempotency, IdempotencyKey};

use super::support::{
    Dns, MINUTE, SECOND, advance_at, charge, client, http, keys, policy, report, scripted,
};

// O-01
#[tokio::test]
async fn every_cause_of_a_retry_keeps_the_key() {
    let server = scripted([
        Fault::status(429),
        Fault::status(502),
        Fault::status(503),
        Fault::status(504),
        Fault::close(),
        Fault::reset(),
        Fault::cut(),
        Fault::hang(MINUTE),
    ])
    .await;
    let clock = ManualClock::new();
    let dns = Dns::failing(&server, |look_up| look_up == 1);
    let ten = policy().max_attempts(10).attempt_timeout(SECOND);
    let client = client(&clock, ten).http(dns.http()).build().unwrap();

    let body = charge();
    let sent = client.post_once(dns.url(), &body);
    let stalled = advance_at(&server, "c8 fault hang=60s", &clock, SECOND);
    let (response, ()) = tokio::join!(sent, stalled);
    let response = response.unwrap();

    assert_eq!(response.status(), 201);
    let report = report(&response);
    assert_eq!((report.attempts().len(), report.effect()), (10, Effect::Answered));
    assert_eq!(keys(&server), vec![vec![report.key().unwrap().to_string()]; 9]);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault 429",
            "c1 answer 429",
            "c2 POST /v1/charges k1 15B",
            "c2 fault 502",
            "c2 answer 502",
            "c3 POST /v1/charges k1 15B",
            "c3 fault 503",
            "c3 answer 503",
            "c4 POST /v1/charges k1 15B",
            "c4 fault 504",
            "c4 answer 504",
            "c5 POST /v1/charges k1 15B",
            "c5 effect ch_1",
            "c5 fault close",
            "c6 POST /v1/charges k1 15B",
            "c6 replay 201",
            "c6 fault reset",
            "c7 POST /v1/charges k1 15B",
            "c7 replay 201",
            "c7 fault cut",
            "c8 POST /v1/charges k1 15B",
            "c8 replay 201",
            "c8 fault hang=60s",
            "c9 POST /v1/charges k1 15B",
            "c9 replay 201",
            "c9 answer 201",
        ]
    );
}

// O-01
#[tokio::test]
async fn no_two_operations_share_a_key() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new(), policy()).build().unwrap();
    let stack = reqwest_middleware::ClientBuilder::new(http()).with(Idempotency::new()).build();
    for _ in 0..20 {
        client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        client.patch_once(server.url("/v1/charges"), &charge()).await.unwrap();
        stack.post(server.url("/v1/charges")).body("{}").send().await.unwrap();
    }
    assert_eq!(keys(&server).into_iter().collect::<HashSet<_>>().len(), 60);
    assert_eq!(server.charges().len(), 60);
}

// O-02
#[tokio::test]
async fn the_callers_key_is_the_only_one_on_every_attempt() {
    let transcript = [
        "c1 POST /v1/charges k1 15B",
        "c1 fault 503",
        "c1 answer 503",
        "c2 POST /v1/charges k1 15B",
        "c2 fault 503",
        "c2 answer 503",
        "c3 POST /v1/charges k1 15B",
        "c3 effect ch_1",
        "c3 answer 201",
    ];
    for name in ["Idempotency-Key", "idempotency-key", "IDEMPOTENCY-KEY"] {
        let server = scripted([Fault::status(503), Fault::status(503)]).await;
        let client = client(&ManualClock::new(), policy()).build().unwrap();
        let once = client.once(Method::POST, server.url("/v1/charges")).header(name, "order-42");
        assert_eq!(once.json(&charge()).send().await.unwrap().status(), 201, "{name}");
        assert_eq!(keys(&server), [["order-42"]; 3], "{name}");
        assert_eq!(server.transcript(), transcript, "{name}");

        let server = scripted([Fault::status(503), Fault::status(503)]).await;
        let idempotency = Idempotency::builder()
            .clock(ManualClock::new())
            .policy(policy().build().unwrap())
            .build();
        let stack = reqwest_middleware::ClientBuilder::new(http()).with(idempotency).build();
        let request = stack.post(server.url("/v1/charges")).header(name, "order-42");
        let response = request.body(charge().to_string()).send().await.unwrap();
        assert_eq!(response.status(), 201, "{name}");
        assert_eq!(keys(&server), [["order-42"]; 3], "{name}");
        assert_eq!(server.transcript(), transcript, "{name}");
    }
}

// O-02
#[tokio::test]
async fn two_keys_are_refused_before_anything_is_sent() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new(), policy()).build().unwrap();
    let once = || client.once(Method::POST, server.url("/v1/charges")).json(&charge());
    let stack = reqwest_middleware::ClientBuilder::new(http()).with(Idempotency::new()).build();
    let post = || stack.post(server.url("/v1/charges")).header("Idempotency-Key", "a");
    let other = || IdempotencyKey::parse("b").unwrap();

    for twice in [
        once().header("Idempotency-Key", "a").header("idempotency-KEY", "b"),
        once().header("Idempotency-Key", "a").header("Idempotency-Key", "a"),
        once().header("Idempotency-Key", "a").key(other()),
    ] {
        let error = twice.send().await.unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert_eq!(error.effect(), Effect::NotSent);
    }
    for twice in [post().header("idempotency-KEY", "b"), post().with_extension(other())] {
        let error = twice.send().await.unwrap_err();
        let error = Error::find(&error).unwrap();
        assert!(error.is_refused(), "{error}");
        assert_eq!(error.effect(), Effect::NotSent);
    }
    assert_eq!(server.transcript(), [""; 0]);
}
