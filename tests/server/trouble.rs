//! A store that is down or slow, claims that are lost with it, and secrets of others.

use std::time::Duration;

use post_once::testkit::{FaultyClaims, ManualClock, Verb};

use crate::api::sleep;
use crate::client::post;
use crate::clock::Counted;
use crate::world::{World, look, shorten, soon, until};

pub(crate) async fn a_store_that_is_down_runs_nothing(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer).await;
    store.fail([Verb::Claim]);
    let refused = post("k", "1").to(api.address).await;
    assert_eq!((refused.status, refused.problem()), (503, "store-unavailable".into()));
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!(world.runs.count(), 0);
    store.fail([]);
    assert_eq!(post("k", "1").to(api.address).await.run(), 1);
}

pub(crate) async fn a_slow_store_is_waited_for(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer).await;
    store.delay(Duration::from_millis(150));
    assert_eq!(post("k", "1").to(api.address).await.run(), 1);
    assert!(post("k", "1").to(api.address).await.is_replay());

    // A client that leaves while its key is being claimed: it was claimed, so it is run.
    let socket = post("left", "1").leave_open(api.address).await;
    sleep(50).await;
    drop(socket);
    world.begun(2).await;
    until(|| async { post("left", "1").to(api.address).await.status != 409 }).await;
    let late = post("left", "1").to(api.address).await;
    assert_eq!((late.is_replay(), late.run()), (true, 2));
}

pub(crate) async fn an_answer_is_tried_again_to_be_stored(world: &World) {
    let (store, clock) = (FaultyClaims::new(world.store().await), Counted::system());
    let to = clock.clone();
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer.clock(to)).await;
    store.fail([Verb::Complete]);
    let sent = post("k", "1");
    let (answer, ()) = tokio::join!(sent.to(api.address), async {
        // It pauses between two tries.
        until(|| async { clock.pauses() >= 3 }).await;
        store.fail([]);
    });
    assert_eq!((answer.status, answer.run(), answer.is_replay()), (201, 1, false));
    assert!(post("k", "1").to(api.address).await.is_replay());
    assert_eq!(world.runs.count(), 1);
}

pub(crate) async fn a_lost_claim_ends_its_handler(world: &World) {
    let (store, clock) = (FaultyClaims::new(world.store().await), ManualClock::new());
    let (lease, to) = (Duration::from_millis(600), clock.clone());
    let with = |layer: post_once::server::IdempotencyLayerBuilder| layer.lease(lease).clock(to);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), with).await;
    store.fail([Verb::Renew, Verb::Complete, Verb::Look]);
    let sent = post("k", "1").told("held@1");
    let (lost, ()) = tokio::join!(soon(sent.to(api.address)), async {
        world.begun(1).await;
        // Each of its tries to renew it fails.
        until(|| async {
            clock.advance(lease / 10);
            api.handle.running() == 0
        })
        .await;
    });
    assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()));
    assert_eq!(lost.field("retry-after"), Some("1"));
    store.fail([]);
    let next = world.serve().await;
    until(|| async { post("k", "1").to(next.address).await.status != 409 }).await;
    assert_eq!(world.runs.count(), 2, "in lease mode it is run again");
    assert!(post("k", "1").to(next.address).await.is_replay());
}

/// Its client is told how it went, and its key is as that of a dead worker.
pub(crate) async fn a_key_that_cannot_be_given_back_ends_with_its_lease(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer).await;
    for (told, status) in [("status=429", 429), ("panic", 500), ("broken", 500)] {
        let run = world.runs.count() + 1;
        store.fail([Verb::Release]);
        let sent = post(told, "1").told(&format!("{told}@{run}"));
        let failed = soon(sent.to(api.address)).await;
        assert_eq!((failed.status, failed.is_replay()), (status, false));
        store.fail([]);
        let early = post(told, "1").to(api.address).await;
        assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()), "{told}");
        shorten(&store, told, Duration::ZERO).await;
        let again = post(told, "1").to(api.address).await;
        assert_eq!((again.status, again.run()), (201, run + 1), "{told}");
    }
}

/// A call that cannot be repeated is not made before that is written down.
pub(crate) async fn a_point_that_cannot_be_written_down_stops_its_handler(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer).await;
    for told in ["external=charge", "checkpoint=charged"] {
        store.fail([Verb::Checkpoint]);
        let run = world.runs.count() + 1;
        let sent = post(told, "1").told(&format!("{told}@{run},held@{run}"));
        let stopped = soon(sent.to(api.address)).await;
        assert_eq!((stopped.status, stopped.problem()), (500, "handler-failed".into()), "{told}");
        store.fail([]);
        let again = post(told, "1").to(api.address).await;
        assert_eq!((again.status, again.run()), (201, run + 1), "{told}");
        assert_eq!(look(&store, told).await.seen.point, None, "{told}");
    }
}

pub(crate) async fn nothing_of_one_principal_reaches_another(world: &World) {
    let api = world.serve().await;
    let secret = r#"{"card":"4242"}"#;
    let of = |account: &str, body: &str| post("k", body).field("X-Account", account);
    let first = of("a", secret).told("held");
    let (first, (same, different)) = tokio::join!(first.to(api.address), async {
        world.begun(1).await;
        let same = of("b", secret).to(api.address).await;
        let different = of("c", "1").to(api.address).await;
        world.runs.go_on();
        (same, different)
    });
    assert_eq!((first.run(), same.run(), different.run()), (1, 2, 3));
    assert!(!String::from_utf8_lossy(&different.body).contains("4242"));
    let refused = of("a", "1").to(api.address).await;
    assert_eq!(refused.status, 422);
    assert!(!String::from_utf8_lossy(&refused.body).contains("4242"));
}
