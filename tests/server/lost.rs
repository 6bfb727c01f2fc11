//! Claims and the time: those that are kept for as long as their work takes, and those that are lost meanwhile.
//!
//! The layer has a clock that is moved by hand; the store keeps its own time. A heartbeat asks for one limit until
//! its next renewal, and for another one while the store is at it: by their number it is known what it waits for.

use std::sync::Arc;
use std::time::Duration;

use post_once::server::store::ClaimStore;
use post_once::testkit::{FaultyClaims, ManualClock, Verb};

use crate::api::{Api, sleep};
use crate::client::{Answer, post};
use crate::clock::Counted;
use crate::world::{World, is_about, look, shorten, soon, take_away, until};

/// What a layer has unless told otherwise.
const LEASE: Duration = Duration::from_secs(30);
/// When it is renewed.
const THIRD: Duration = Duration::from_secs(10);
/// When a renewal that failed is tried again.
const NINTH: Duration = Duration::from_millis(3_334);
const MOMENT: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Its key is no dead worker's for anybody else either.
pub(crate) async fn work_may_take_longer_than_its_lease(world: &World) {
    let timed = Timed::start(world).await;
    let (long, ()) = timed
        .while_held("k", async || {
            let left = timed.lease_left("k").await;
            assert!(is_about(left, LEASE), "as it was claimed: {left:?}");
            for renewal in 1..=4 {
                shorten(&*timed.store, "k", Duration::from_millis(500)).await;
                timed.clock.clock.advance(THIRD - MOMENT);
                sleep(20).await;
                assert_eq!(timed.clock.limits(), 2 * renewal - 1, "after a third, not before");
                timed.clock.clock.advance(MOMENT);
                timed.clock.asked_for(2 * renewal + 1).await;
                let left = timed.lease_left("k").await;
                assert!(is_about(left, LEASE), "a whole lease, from now: {left:?}");
            }
            sleep(550).await;
            let other = post("k", "1").to(timed.api.address).await;
            assert_eq!((other.status, other.problem()), (409, "key-in-progress".into()));
            world.runs.go_on();
        })
        .await;
    assert_eq!((long.status, long.is_replay(), world.runs.count()), (201, false, 1));
}

/// Soon: it has as long again as a renewal takes to be due, twice.
pub(crate) async fn a_renewal_that_fails_is_tried_again(world: &World) {
    let timed = Timed::start(world).await;
    let (answer, ()) = timed
        .while_held("k", async || {
            shorten(&*timed.store, "k", Duration::from_millis(500)).await;
            timed.faulty.fail([Verb::Renew]);
            timed.clock.clock.advance(THIRD);
            timed.clock.asked_for(3).await;
            timed.clock.clock.advance(NINTH);
            timed.clock.asked_for(5).await;
            assert!(timed.lease_left("k").await < SECOND, "none of them was written");
            timed.faulty.fail([]);
            timed.clock.clock.advance(NINTH);
            timed.clock.asked_for(7).await;
            let left = timed.lease_left("k").await;
            assert!(is_about(left, LEASE), "{left:?}");
            // And it counts from then on.
            timed.clock.clock.advance(THIRD);
            timed.clock.asked_for(9).await;
            timed.clock.clock.advance(THIRD);
            timed.clock.asked_for(11).await;
            world.runs.go_on();
        })
        .await;
    assert_eq!((answer.status, answer.is_replay(), world.runs.count()), (201, false, 1));
}

/// Another has the key, or nobody: nothing that goes on is for anybody.
pub(crate) async fn a_renewal_that_is_refused_ends_the_work(world: &World) {
    let timed = Timed::start(world).await;
    for (key, followed) in [("gone", false), ("taken", true)] {
        let taken = async || {
            take_away(&*timed.store, key).await;
            if followed {
                assert_eq!(post(key, "1").to(timed.api.address).await.status, 201);
            }
            timed.clock.clock.advance(THIRD);
        };
        timed.loses(key, taken).await;
        assert_eq!(timed.api.handle.running(), 0, "{key}: it was dropped");
    }
}

/// A store that hangs is as one that is down.
pub(crate) async fn a_renewal_that_hangs_loses_the_claim_with_its_lease(world: &World) {
    let timed = Timed::start(world).await;
    let hangs = async || {
        timed.faulty.delay(Duration::from_secs(60));
        timed.clock.clock.advance(THIRD);
        timed.clock.asked_for(2).await;
        timed.clock.clock.advance(LEASE - THIRD - MOMENT);
        sleep(20).await;
        assert_eq!(timed.api.handle.running(), 1, "it has until the lease is over");
        timed.clock.clock.advance(MOMENT);
    };
    timed.loses("k", hangs).await;
    assert_eq!(timed.api.handle.running(), 0, "it was dropped");
}

/// A lease counts from before it was asked for, and so does each renewal: a holder takes itself for lost before
/// the store does, never after.
pub(crate) async fn a_holder_counts_itself_as_lost_when_its_lease_may_be_over(world: &World) {
    let timed = Timed::start(world).await;
    let clock = &timed.clock;
    timed.loses("stopped for as long as its lease", async || clock.clock.advance(LEASE)).await;
    let renewed_first = async || {
        clock.clock.advance(THIRD);
        clock.asked_for(3).await;
        clock.clock.advance(LEASE);
    };
    timed.loses("renewed it, and then stopped for as long", renewed_first).await;
    let slow_renewal = async || {
        timed.faulty.delay(SLOW);
        clock.clock.advance(THIRD);
        clock.asked_for(2).await;
        clock.clock.advance(SECOND * 15);
        clock.asked_for(3).await;
        timed.faulty.delay(Duration::ZERO);
        clock.clock.advance(SECOND * 16);
    };
    timed.loses("renewed it, which took 15 s, and stopped for 16 s", slow_renewal).await;

    let (run, read) = (world.runs.count() + 1, clock.readings());
    timed.faulty.delay(SLOW);
    let sent = post("claimed in 20 s", "1").told("held");
    let (lost, ()) = tokio::join!(soon(sent.to(timed.api.address)), async {
        // By who waits for the answer, and by who claims.
        until(|| async { clock.readings() == read + 2 }).await;
        clock.clock.advance(SECOND * 20);
        world.begun(run).await;
        timed.faulty.delay(Duration::ZERO);
        clock.clock.advance(SECOND * 11);
    });
    assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()));
}

/// What a slow store takes for each verb: long enough to move the clock meanwhile.
const SLOW: Duration = Duration::from_millis(900);

/// A server by a clock that is moved.
struct Timed<'w> {
    world: &'w World,
    clock: Counted<ManualClock>,
    store: Arc<dyn ClaimStore>,
    /// The same one, as the server has it.
    faulty: FaultyClaims,
    api: Api,
}

impl Timed<'_> {
    async fn start(world: &World) -> Timed<'_> {
        let clock = Counted::manual();
        let store = world.store().await;
        let faulty = FaultyClaims::new(Arc::clone(&store));
        let to = clock.clone();
        let api = world.serve_on(Arc::new(faulty.clone()), |layer| layer.clock(to)).await;
        Timed { world, clock, store, faulty, api }
    }

    async fn lease_left(&self, key: &str) -> Duration {
        look(&*self.store, key).await.seen.lease_left
    }

    /// Does this while a handler is held, whose heartbeat has come to wait.
    async fn while_held(&self, key: &str, then: impl AsyncFnOnce()) -> (Answer, ()) {
        let run = self.world.runs.count() + 1;
        let sent = post(key, "1").told(&format!("held@{run}"));
        self.clock.count_anew();
        tokio::join!(soon(sent.to(self.api.address)), async {
            self.world.begun(run).await;
            self.clock.asked_for(1).await;
            then().await;
        })
    }

    /// And that loses it its claim.
    async fn loses(&self, how: &str, then: impl AsyncFnOnce()) {
        let (lost, ()) = self.while_held(how, then).await;
        assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()), "{how}");
    }
}
