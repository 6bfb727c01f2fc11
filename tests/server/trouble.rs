//! A store that is down, slow or lost, and secrets of others.

use std::time::Duration;

use post_once::testkit::{FaultyClaims, Verb};

use crate::api::sleep;
use crate::client::post;
use crate::world::{World, until};

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
    until(|| async { world.runs.count() == 2 }).await;
    sleep(400).await;
    let late = post("left", "1").to(api.address).await;
    assert_eq!((late.is_replay(), late.run()), (true, 2));
}

pub(crate) async fn an_answer_is_tried_again_to_be_stored(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer).await;
    store.fail([Verb::Complete]);
    let sent = post("k", "1");
    let (answer, ()) = tokio::join!(sent.to(api.address), async {
        until(|| async { world.runs.count() == 1 }).await;
        sleep(300).await;
        store.fail([]);
    });
    assert_eq!((answer.status, answer.run(), answer.is_replay()), (201, 1, false));
    assert!(post("k", "1").to(api.address).await.is_replay());
    assert_eq!(world.runs.count(), 1);
}

pub(crate) async fn a_lost_claim_ends_its_handler(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let lease = Duration::from_millis(600);
    let api = world.serve_on(std::sync::Arc::new(store.clone()), |layer| layer.lease(lease)).await;
    store.fail([Verb::Renew, Verb::Complete, Verb::Look]);
    let sent = post("k", "1").told("sleep=3000@1");
    let lost = sent.to(api.address).await;
    assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()));
    assert_eq!(lost.field("retry-after"), Some("1"));
    assert_eq!(api.handle.running(), 0, "it was dropped");
    store.fail([]);
    sleep(700).await;
    let again = post("k", "1").to(api.address).await;
    assert_eq!((again.status, again.run()), (201, 2), "in lease mode it is run again");

    // A handler that takes longer than its lease is no dead worker.
    let long = post("long", "1").told("sleep=2000").to(api.address).await;
    assert_eq!((long.status, long.is_replay()), (201, false));
    assert_eq!(world.runs.count(), 3);
}

pub(crate) async fn nothing_of_one_principal_reaches_another(world: &World) {
    let api = world.serve().await;
    let secret = r#"{"card":"4242"}"#;
    let of = |account: &str, body: &str| post("k", body).field("X-Account", account);
    let first = of("a", secret).told("sleep=300");
    let (first, (same, different)) = tokio::join!(first.to(api.address), async {
        sleep(100).await;
        let same = of("b", secret).to(api.address).await;
        (same, of("c", "1").to(api.address).await)
    });
    assert_eq!((first.run(), same.run(), different.run()), (1, 2, 3));
    assert!(!String::from_utf8_lossy(&different.body).contains("4242"));
    let refused = of("a", "1").to(api.address).await;
    assert_eq!(refused.status, 422);
    assert!(!String::from_utf8_lossy(&refused.body).contains("4242"));
}
