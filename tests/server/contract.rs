//! The contract, row by row.

use std::time::Duration;

use http::{Method, StatusCode};
use post_once::server::layer::{Disposition, InProgress, Marker, Requirement};

use crate::api::sleep;
use crate::client::{Sent, post};
use crate::world::{World, is_about, look};

pub(crate) async fn each_row_of_the_table(world: &World) {
    let api = world.serve().await;
    let first = post("k", r#"{"amount":1}"#).told("held");
    let (first, running) = tokio::join!(first.to(api.address), async {
        world.begun(1).await;
        let running = post("k", r#"{"amount":1}"#).to(api.address).await;
        let other = post("k", r#"{"amount":2}"#).to(api.address).await;
        assert_eq!((other.status, other.problem()), (422, "key-reused".into()), "before it ends");
        world.runs.go_on();
        running
    });
    assert_eq!((first.status, first.run(), first.is_replay()), (201, 1, false), "new: processed");
    assert_eq!((running.status, running.problem()), (409, "key-in-progress".into()));
    assert_eq!(running.field("retry-after"), Some("2"), "the lease is longer than the cap");

    let again = post("k", r#"{"amount":1}"#).to(api.address).await;
    assert!(again.is_replay(), "same and finished: {again:?}");
    let first = first.fields.iter().filter(|(name, _)| name != "set-cookie");
    let first: Vec<_> = first.filter(|(name, _)| name != "x-request-id").cloned().collect();
    assert_eq!(again.unmarked().fields, first);

    let other = post("k", r#"{"amount":2}"#).to(api.address).await;
    assert_eq!((other.status, other.problem()), (422, "key-reused".into()), "different");
    assert_eq!(other.field("retry-after"), None);

    let missing = post("k", "{}").without("idempotency-key").to(api.address).await;
    assert_eq!((missing.status, missing.problem()), (400, "key-missing".into()));
    assert_eq!(api.runs(), 1);
}

pub(crate) async fn a_key_past_its_retention_is_new(world: &World) {
    let day = Duration::from_secs(24 * 60 * 60);
    let store = world.store().await;
    for (retention, api) in [
        (day, world.serve().await),
        (day * 2, world.serve_with(|layer| layer.retention(day * 2)).await),
    ] {
        let (key, run) = (format!("{retention:?}"), world.runs.count() + 1);
        let sent = post(&key, "1").told("held");
        let (first, ()) = tokio::join!(sent.to(api.address), async {
            world.begun(run).await;
            let left = look(&*store, &key).await.seen.retention_left;
            assert!(is_about(left, retention), "should it never be answered: {left:?}");
            world.runs.go_on();
        });
        assert_eq!(first.run(), run);
        let left = look(&*store, &key).await.seen.retention_left;
        assert!(is_about(left, retention), "{left:?}");
        assert!(post(&key, "1").to(api.address).await.is_replay());
    }

    let short = world.serve_with(|layer| layer.retention(Duration::from_millis(50))).await;
    assert_eq!(post("k", "1").to(short.address).await.run(), 3);
    sleep(100).await;
    let new = post("k", "2").to(short.address).await;
    assert_eq!((new.status, new.run(), new.is_replay()), (201, 4, false), "{new:?}");
}

pub(crate) async fn where_it_may_wait_it_gets_the_answer(world: &World) {
    let wait = |most| {
        move |layer: post_once::server::IdempotencyLayerBuilder| {
            layer.in_progress(InProgress::Wait(Duration::from_millis(most)))
        }
    };
    let (patient, hasty) = (world.serve_with(wait(10_000)).await, world.serve_with(wait(50)).await);
    let first = post("k", "1").told("held");
    let (first, waited, refused) = tokio::join!(
        first.to(patient.address),
        async {
            world.begun(1).await;
            post("k", "1").to(patient.address).await
        },
        async {
            world.begun(1).await;
            let refused = post("k", "1").to(hasty.address).await;
            world.runs.go_on();
            refused
        }
    );
    assert_eq!((first.status, first.run()), (201, 1));
    assert!(waited.is_replay(), "{waited:?}");
    assert_eq!(waited.body, first.body);
    assert_eq!((refused.status, refused.problem()), (409, "key-in-progress".into()));
    assert_eq!(world.runs.count(), 1);
}

pub(crate) async fn where_keys_are_optional_a_request_needs_none(world: &World) {
    let optional = |layer: post_once::server::IdempotencyLayerBuilder| {
        layer.requirement(Requirement::Optional)
    };
    let api = world.serve_with(optional).await;
    let without = post("k", "1").without("idempotency-key");
    assert_eq!(without.to(api.address).await.run(), 1);
    assert_eq!(without.to(api.address).await.run(), 2, "nothing recognises it");
    assert_eq!(post("k", "1").to(api.address).await.run(), 3);
    assert!(post("k", "1").to(api.address).await.is_replay());
    assert_eq!(post("", "1").to(api.address).await.problem(), "key-malformed");

    // A handler that cannot do without its claim.
    let claimed = Sent::new("POST", "/claimed", "1");
    assert_eq!(claimed.clone().field("Idempotency-Key", "c").to(api.address).await.body, b"c");
    assert_eq!(claimed.to(api.address).await.status, 500, "it is the server's fault");
}

pub(crate) async fn other_methods_are_left_alone(world: &World) {
    let api = world.serve().await;
    for run in 1..=2 {
        let put = Sent::new("PUT", "/charges", "{}").field("idempotency-key", "k");
        let put = put.field("accept-encoding", "gzip").to(api.address).await;
        assert_eq!((put.run(), put.is_replay()), (run, false));
        let body: serde_json::Value = serde_json::from_slice(&put.body).unwrap();
        assert_eq!(body["encodings"], "gzip", "its fields are as they came");
    }
    let patch = |body| Sent::new("PATCH", "/charges", body).field("idempotency-key", "p");
    assert_eq!(patch("{}").to(api.address).await.run(), 3);
    assert!(patch("{}").to(api.address).await.is_replay());
}

pub(crate) async fn what_is_said_by_option(world: &World) {
    let api = world
        .serve_with(|layer| {
            let name = http::HeaderName::from_static("x-idempotency");
            let layer = layer.marker(Marker::IdempotentReplayed).key_field(name);
            layer.advertise_retention().retention(Duration::from_secs(90)).longest_key(5)
        })
        .await;
    let post = |key: &str| post(key, "1").without("idempotency-key").field("X-Idempotency", key);
    let (first, again) = (post("k").to(api.address).await, post("k").to(api.address).await);
    assert_eq!((first.run(), again.run()), (1, 1));
    assert_eq!(first.field("idempotent-replayed"), None);
    assert_eq!(again.field("idempotent-replayed"), Some("true"));
    for answer in [first, again] {
        assert_eq!(answer.field("idempotency-key-lifetime"), Some("90"));
    }
    assert_eq!(post("sixsix").to(api.address).await.problem(), "key-malformed");
}

pub(crate) async fn what_is_done_by_option(world: &World) {
    let api = world
        .serve_with(|layer| {
            let layer = layer.methods([Method::PUT]).marker(Marker::Absent);
            let layer = layer.longest_retry_after(Duration::from_secs(1));
            layer.disposition(|status| match status {
                StatusCode::INTERNAL_SERVER_ERROR => Disposition::Store,
                _ => Disposition::Release,
            })
        })
        .await;
    assert_eq!(post("k", "1").to(api.address).await.run(), 1);
    assert_eq!(post("k", "1").to(api.address).await.run(), 2, "another method");
    let put = || Sent::new("PUT", "/charges", "1").field("Idempotency-Key", "k");
    let (done, running) = tokio::join!(async { put().told("held").to(api.address).await }, async {
        world.begun(3).await;
        let running = put().to(api.address).await;
        world.runs.go_on();
        running
    });
    assert_eq!((done.status, done.run()), (201, 3));
    assert_eq!((running.status, running.field("retry-after")), (409, Some("1")));
    let failed = put().told("status=500").to(api.address).await;
    assert_eq!((failed.status, failed.run()), (500, 4), "the former was not stored");
    let again = put().to(api.address).await;
    assert_eq!((again.status, again.run(), again.is_replay()), (500, 4, false), "nor marked");
}
