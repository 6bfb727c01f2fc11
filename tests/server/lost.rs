//! Claims and the time: those that are kept for as long as their work takes, and those that are lost meanwhile.
//!
//! Where it matters who measures what from when, the layer has a clock that is moved by hand; the store keeps its
//! own time.

use std::sync::Arc;
use std::time::Duration;

use post_once::IdempotencyKey;
use post_once::server::store::{Held, Name};
use post_once::testkit::{FaultyClaims, ManualClock, Verb};

use crate::api::{Api, Runs, sleep};
use crate::client::post;
use crate::world::{World, until};

/// Its key is no dead worker's for anybody else either.
pub(crate) async fn work_may_take_longer_than_its_lease(world: &World) {
    let lease = Duration::from_millis(900);
    let api = world.serve_with(|layer| layer.lease(lease)).await;
    let long = post("k", "1").told("sleep=2500");
    let (long, ()) = tokio::join!(long.to(api.address), async {
        for _ in 0..3 {
            sleep(700).await;
            let other = post("k", "1").to(api.address).await;
            assert_eq!((other.status, other.problem()), (409, "key-in-progress".into()));
        }
    });
    assert_eq!((long.status, long.is_replay(), world.runs.count()), (201, false, 1));
}

pub(crate) async fn a_renewal_that_fails_is_tried_again(world: &World) {
    let (store, api) = faulty(world, Duration::from_millis(1_800)).await;
    let sent = post("k", "1").told("sleep=2500");
    let (answer, ()) = tokio::join!(sent.to(api.address), async {
        until(|| async { world.runs.count() == 1 }).await;
        store.fail([Verb::Renew]);
        sleep(1_000).await;
        store.fail([]);
    });
    assert_eq!((answer.status, answer.is_replay(), world.runs.count()), (201, false, 1));
}

/// Another has the key, or nobody: nothing that goes on is for anybody.
pub(crate) async fn a_renewal_that_is_refused_ends_the_work(world: &World) {
    let store = world.store().await;
    let api = world.serve_with(|layer| layer.lease(Duration::from_millis(900))).await;
    for (key, followed) in [("gone", false), ("taken", true)] {
        let run = world.runs.count() + 1;
        let sent = post(key, "1").told(&format!("sleep=30000@{run}"));
        let (lost, ()) = tokio::join!(soon(sent.to(api.address)), async {
            until(|| async { world.runs.count() == run }).await;
            let name = Name::new("none", &IdempotencyKey::parse(key).unwrap());
            let row = store.look(&name).await.unwrap().unwrap();
            assert_eq!(store.release(&row.holder).await.unwrap(), Held::Yes(()));
            if followed {
                assert_eq!(post(key, "1").to(api.address).await.status, 201);
            }
        });
        assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()), "{key}");
        assert_eq!(api.handle.running(), 0, "{key}: it was dropped");
    }
}

/// A store that hangs is as one that is down.
pub(crate) async fn a_renewal_that_hangs_loses_the_claim_with_its_lease(world: &World) {
    let (store, api) = faulty(world, Duration::from_millis(600)).await;
    let sent = post("k", "1").told("sleep=30000");
    let (lost, ()) = tokio::join!(soon(sent.to(api.address)), async {
        until(|| async { world.runs.count() == 1 }).await;
        store.delay(Duration::from_secs(60));
    });
    assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()));
    assert_eq!(api.handle.running(), 0, "it was dropped");
}

/// A lease counts from before it was asked for, and so does each renewal: a holder takes itself for lost before
/// the store does, never after.
pub(crate) async fn a_holder_counts_itself_as_lost_when_its_lease_may_be_over(world: &World) {
    let timed = Timed::start(world).await;
    timed.loses("stopped for longer than its lease", async || timed.advance(31).await).await;
    let renewed_first = async || {
        timed.advance(11).await;
        timed.advance(31).await;
    };
    timed.loses("renewed it, and then stopped for longer", renewed_first).await;
    let slow_renewal = async || {
        timed.store.delay(SLOW);
        timed.advance(11).await;
        timed.advance(15).await;
        sleep(500).await;
        timed.store.delay(Duration::ZERO);
        timed.advance(16).await;
    };
    timed.loses("renewed it, which took 15 s, and stopped for 16 s", slow_renewal).await;

    let run = world.runs.count() + 1;
    let sent = post("claimed in 20 s", "1").told("sleep=30000");
    timed.store.delay(SLOW);
    let (lost, ()) = tokio::join!(soon(sent.to(timed.api.address)), async {
        timed.advance(20).await;
        until(|| async { world.runs.count() == run }).await;
        timed.store.delay(Duration::ZERO);
        timed.advance(11).await;
    });
    assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()));

    let run = world.runs.count() + 1;
    let sent = post("kept", "1").told("sleep=1500");
    let (kept, ()) = tokio::join!(soon(sent.to(timed.api.address)), async {
        until(|| async { world.runs.count() == run }).await;
        for _ in 0..4 {
            timed.advance(11).await;
        }
    });
    assert_eq!((kept.status, kept.is_replay()), (201, false), "it was renewed each time");
}

/// What a slow store takes for each verb.
const SLOW: Duration = Duration::from_millis(400);

/// A server with a lease of 30 s, by a clock that is moved.
struct Timed {
    runs: Runs,
    clock: ManualClock,
    store: FaultyClaims,
    api: Api,
}

impl Timed {
    async fn start(world: &World) -> Timed {
        let clock = ManualClock::new();
        let store = FaultyClaims::new(world.store().await);
        let to = clock.clone();
        let api = world.serve_on(Arc::new(store.clone()), |layer| layer.clock(to)).await;
        Timed { runs: world.runs.clone(), clock, store, api }
    }

    /// Moves the clock when what is under way has come to wait for it, and lets go on what waited.
    async fn advance(&self, seconds: u64) {
        sleep(150).await;
        self.clock.advance(Duration::from_secs(seconds));
        sleep(150).await;
    }

    /// The clock is moved so while a handler runs, and that loses it its claim.
    async fn loses(&self, how: &str, moved: impl AsyncFnOnce()) {
        let run = self.runs.count() + 1;
        let sent = post(how, "1").told("sleep=30000");
        let (lost, ()) = tokio::join!(soon(sent.to(self.api.address)), async {
            until(|| async { self.runs.count() == run }).await;
            moved().await;
        });
        assert_eq!((lost.status, lost.problem()), (503, "not-recorded".into()), "{how}");
    }
}

async fn faulty(world: &World, lease: Duration) -> (FaultyClaims, Api) {
    let store = FaultyClaims::new(world.store().await);
    let api = world.serve_on(Arc::new(store.clone()), |layer| layer.lease(lease)).await;
    (store, api)
}

/// What does not come soon does not come.
async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        () = sleep(15_000) => panic!("it does not end"),
    }
}
