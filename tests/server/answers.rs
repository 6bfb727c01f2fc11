//! Which answers end a claim, and what of them is given again.

use std::time::Duration;

use post_once::server::answer::Fields;

use crate::api;
use crate::client::{Answer, post};
use crate::world::World;

/// O-27
pub(crate) async fn what_says_not_now_is_released(world: &World) {
    let api = world.serve().await;
    for status in ["500", "502", "503", "401", "403", "408", "425", "429"] {
        let failing = post(status, "1").told(&format!("status={status}"));
        let failed = failing.to(api.address).await;
        assert_eq!((failed.status.to_string().as_str(), failed.is_replay()), (status, false));
        let runs = world.runs.count();
        // Another body too: nothing is left of the key.
        let again = post(status, "2").to(api.address).await;
        assert_eq!((again.status, again.run()), (201, runs + 1), "after {status}");
    }
}

pub(crate) async fn what_would_be_the_same_is_stored(world: &World) {
    let api = world.serve().await;
    for status in ["200", "202", "204", "303", "400", "402", "404", "409", "422"] {
        let first = post(status, "1").told(&format!("status={status}")).to(api.address).await;
        let again = post(status, "1").to(api.address).await;
        assert_eq!(again.status, first.status);
        assert!(again.is_replay(), "{status}");
    }
    assert_eq!(world.runs.count(), 9);
}

/// O-28
pub(crate) async fn a_replay_is_the_same_answer(world: &World) {
    let api = world.serve().await;
    let first = post("k", "1").field("Accept-Encoding", "gzip").to(api.address).await;
    let again = post("k", "1").to(api.address).await;
    let lines = |answer: &Answer, name: &str| -> Vec<Vec<u8>> {
        let lines = answer.fields.iter().filter(|(given, _)| given == name);
        lines.map(|(_, value)| value.clone()).collect()
    };
    assert_eq!((again.status, &again.body), (first.status, &first.body));
    for (name, expected) in [
        ("location", vec![&b"/charges/1"[..]]),
        ("link", vec![b"<a>; rel=next, <b>", b"<c>"]),
        ("x-name", vec![b"caf\xe9"]),
        ("content-type", vec![b"application/json"]),
    ] {
        assert_eq!(lines(&first, name), expected);
        assert_eq!(lines(&again, name), expected, "{name}, byte for byte and line for line");
    }
    for name in ["set-cookie", "x-request-id"] {
        assert_eq!((lines(&first, name).len(), lines(&again, name).len()), (1, 0), "{name}");
    }
    let body: serde_json::Value = serde_json::from_slice(&first.body).unwrap();
    assert_eq!(body["encodings"], serde_json::Value::Null, "it is encoded for nobody");

    let only = Fields::Only(vec![http::header::LOCATION]);
    let strict = world.serve_with(|layer| layer.fields(only)).await;
    post("l", "1").to(strict.address).await;
    let again = post("l", "1").to(strict.address).await;
    let names: Vec<_> = again.fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["location", "idempotency-replayed"]);
}

pub(crate) async fn a_large_answer_is_given_once_and_its_key_closed(world: &World) {
    let kept_by_default = 1 << 20;
    let server = world.serve().await;
    for (size, status) in [(kept_by_default, 201), (kept_by_default + 1, 410)] {
        let told = format!("large={size}");
        let first = post(&told, "1").told(&told).to(server.address).await;
        assert!(first.status == 201 && first.body == api::large(size), "{size}");
        assert_eq!(post(&told, "1").to(server.address).await.status, status, "{size}");
    }

    let server = world.serve_with(|layer| layer.answer_limit(1_000)).await;
    let large = post("k", "1").told("large=200000").to(server.address).await;
    assert_eq!(large.status, 201);
    assert!(large.body == api::large(200_000), "whoever is there gets it whole");
    for _ in 0..2 {
        let again = post("k", "1").to(server.address).await;
        assert_eq!((again.status, again.problem()), (410, "answer-not-kept".into()));
        assert!(again.is_replay(), "it is final");
    }
    let exactly = post("e", "1").told("large=1000").to(server.address).await;
    assert!(exactly.body == api::large(1_000));
    assert!(post("e", "1").to(server.address).await.body == api::large(1_000));
    assert_eq!(world.runs.count(), 4);
}

/// O-27
pub(crate) async fn a_panic_gives_the_key_back(world: &World) {
    let api = world.serve_with(|layer| layer.lease(Duration::from_secs(60))).await;
    for (told, run) in [("panic", 1), ("torn", 3)] {
        let failed = post(told, "1").told(told).to(api.address).await;
        assert_eq!((failed.status, failed.problem()), (500, "handler-failed".into()), "{told}");
        let again = post(told, "1").to(api.address).await;
        assert_eq!((again.status, again.run()), (201, run + 1), "{told}");
    }
}

pub(crate) async fn an_answer_that_breaks_off_gives_the_key_back(world: &World) {
    let api = world.serve_with(|layer| layer.lease(Duration::from_secs(60))).await;
    let failed = post("k", "1").told("broken").to(api.address).await;
    assert_eq!((failed.status, failed.problem()), (500, "handler-failed".into()));
    let again = post("k", "1").to(api.address).await;
    assert_eq!((again.status, again.run()), (201, 2));
}
