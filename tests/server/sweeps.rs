//! The sweeper, pass by pass.

use std::sync::Arc;
use std::time::Duration;

use post_once::IdempotencyKey;
use post_once::server::Sweeper;
use post_once::server::store::{ClaimStore, Name};
use post_once::testkit::{FaultyClaims, Verb};

use crate::api::sleep;
use crate::client::post;
use crate::world::{World, until};

/// So many keys whose retention is over.
async fn over(world: &World, keys: u32) {
    let api = world.serve_with(|layer| layer.retention(Duration::from_millis(100))).await;
    for at in 0..keys {
        assert_eq!(post(&format!("k{at}"), "1").to(api.address).await.status, 201);
    }
    sleep(200).await;
}

pub(crate) async fn a_pass_goes_on_until_nothing_is_over(world: &World) {
    over(world, 25).await;
    let sweeper = Sweeper::shared(world.store().await);
    assert_eq!(sweeper.clone().batch(10).once().await.unwrap(), 25);
    over(world, 3).await;
    assert_eq!(sweeper.clone().batch(0).once().await.unwrap(), 3, "one at a time at least");
    assert_eq!(sweeper.once().await.unwrap(), 0);
}

pub(crate) async fn a_pass_that_fails_is_not_the_last(world: &World) {
    over(world, 3).await;
    let store = FaultyClaims::new(world.store().await);
    store.fail([Verb::Sweep]);
    let faulty: Arc<dyn ClaimStore> = Arc::new(store.clone());
    assert!(Sweeper::shared(Arc::clone(&faulty)).once().await.is_err());
    let sweeper = Sweeper::shared(faulty).every(Duration::from_millis(20));
    let stopped = async {
        sleep(150).await;
        store.fail([]);
        let name = Name::new("none", &IdempotencyKey::parse("k2").unwrap());
        until(|| async { store.look(&name).await.unwrap().is_none() }).await;
        sleep(100).await;
    };
    assert_eq!(sweeper.run(stopped).await, 3);
}

pub(crate) async fn a_shutdown_does_not_wait_for_the_next_pass(world: &World) {
    over(world, 3).await;
    let sweeper = Sweeper::shared(world.store().await).every(Duration::from_secs(3_600));
    let deleted = tokio::select! {
        deleted = sweeper.run(sleep(300)) => deleted,
        () = sleep(10_000) => panic!("it sleeps"),
    };
    assert_eq!(deleted, 3);
}
