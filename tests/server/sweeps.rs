//! The sweeper, pass by pass.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use post_once::server::Sweeper;
use post_once::server::store::ClaimStore;
use post_once::testkit::{FaultyClaims, ManualClock, Verb};

use crate::api::sleep;
use crate::client::post;
use crate::clock::Counted;
use crate::world::{World, name, soon, until};

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
    let one_at_a_time = sweeper.clone().batch(0);
    assert_eq!(soon(one_at_a_time.once()).await.unwrap(), 3, "one at a time at least");
    assert_eq!(sweeper.once().await.unwrap(), 0);
}

/// Also where the store never waits.
pub(crate) async fn others_come_to_their_turn_between_two_batches(world: &World) {
    over(world, 2).await;
    let sweeper = Sweeper::shared(world.store().await).batch(1);
    let mut pass = pin!(sweeper.once());
    let mut context = Context::from_waker(Waker::noop());
    assert!(pass.as_mut().poll(&mut context).is_pending());
    assert_eq!(pass.await.unwrap(), 2);
}

pub(crate) async fn a_pass_that_fails_is_not_the_last(world: &World) {
    over(world, 3).await;
    let store = FaultyClaims::new(world.store().await);
    store.fail([Verb::Sweep]);
    let faulty: Arc<dyn ClaimStore> = Arc::new(store.clone());
    assert!(Sweeper::shared(Arc::clone(&faulty)).once().await.is_err());
    let clock = Counted::system();
    let sweeper = Sweeper::shared(faulty).clock(clock.clone()).every(Duration::from_millis(20));
    let passes = async |count| until(|| async { clock.pauses() >= count }).await;
    let stopped = async {
        passes(3).await;
        store.fail([]);
        until(|| async { store.look(&name("k2")).await.unwrap().is_none() }).await;
        // After each pass it is counted what it deleted.
        passes(clock.pauses() + 1).await;
    };
    assert_eq!(soon(sweeper.run(stopped)).await, 3);
}

/// So that the processes of a fleet do not sweep at the same time.
pub(crate) async fn passes_are_a_minute_apart_and_no_two_as_long(world: &World) {
    let clock = ManualClock::new();
    let sweeper = Sweeper::shared(world.store().await).clock(clock.clone());
    let enough = || if clock.waits().len() < 5 { Poll::Pending } else { Poll::Ready(()) };
    soon(sweeper.run(poll_fn(|_| enough()))).await;
    let waits = clock.waits();
    let (least, most) = (Duration::from_secs(54), Duration::from_secs(66));
    assert!(waits.iter().all(|wait| (least..=most).contains(wait)), "{waits:?}");
    assert!(waits.iter().any(|wait| *wait != waits[0]), "{waits:?}");
}

pub(crate) async fn a_shutdown_does_not_wait_for_the_next_pass(world: &World) {
    over(world, 3).await;
    let sweeper = Sweeper::shared(world.store().await).every(Duration::from_secs(3_600));
    let deleted = soon(sweeper.run(sleep(300))).await;
    assert_eq!(deleted, 3);
}

pub(crate) async fn a_shutdown_does_not_wait_for_a_pass(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    store.delay(Duration::from_secs(60));
    assert_eq!(soon(Sweeper::new(store).run(sleep(50))).await, 0);
}
