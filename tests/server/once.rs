//! Jobs and messages, delivered more than once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::Claim;
use post_once::server::once::{Once, OnceError, Ran};
use post_once::server::store::{ClaimStore, Held};
use post_once::testkit::{FaultyClaims, Verb};

use crate::api::sleep;
use crate::world::World;

fn message(id: &str, body: &str) -> (IdempotencyKey, Fingerprint) {
    let fingerprint = Fingerprint::new(&Method::POST, "invoices", None, body.as_bytes());
    (IdempotencyKey::parse(id).unwrap(), fingerprint)
}

pub(crate) async fn work_that_is_delivered_again_is_done_once(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    for delivery in 1..=3 {
        // Each by a worker of its own.
        let once = Once::shared(world.store().await);
        let work = async |claim: Claim| {
            assert_eq!((claim.run(), claim.principal()), (1, "billing"));
            Ok::<_, String>(vec![format!("sent at delivery {delivery}")])
        };
        let ran = once.run_leased("billing", &key, fingerprint, work).await.unwrap();
        assert_eq!(ran.is_replay(), delivery > 1);
        assert_eq!(ran.into_inner(), ["sent at delivery 1"]);
    }
    let once = Once::shared(world.store().await);
    let never = async |_: Claim| -> Result<(), String> { panic!("not run") };
    let (_, other) = message("m1", "invoice 43");
    let refused = once.run_leased("billing", &key, other, never).await;
    assert!(matches!(refused, Err(OnceError::Mismatch)), "{refused:?}");
    let unread = once.run_leased("billing", &key, fingerprint, never).await;
    assert!(matches!(unread, Err(OnceError::Value(_))), "another type: {unread:?}");
}

pub(crate) async fn work_that_fails_is_done_again(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let once = Once::shared(world.store().await);
    let mut tokens = Vec::new();
    let fails = async |claim: Claim| {
        tokens.push(claim.holder().token);
        Err::<u32, _>("no connection")
    };
    let failed = once.run_leased("billing", &key, fingerprint, fails).await;
    assert!(matches!(failed, Err(OnceError::Work("no connection"))), "{failed:?}");
    let works = async |claim: Claim| {
        tokens.push(claim.holder().token);
        assert!(!format!("{claim:?}").contains("billing"), "who it is may be a credential");
        Ok::<_, &str>(7)
    };
    let done = once.run_leased("billing", &key, fingerprint, works).await.unwrap();
    assert_eq!(done, Ran::Now(7));
    assert_ne!(tokens[0], tokens[1], "each run has its own, so that the former can write nothing");
}

pub(crate) async fn one_of_many_deliveries_at_once_does_the_work(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let done = AtomicU32::new(0);
    let lease = Duration::from_secs(7);
    let once = async || Once::shared(world.store().await).lease(lease);
    let workers = [once().await, once().await];
    let deliver = async |at: usize| {
        let work = async |_: Claim| {
            sleep(100).await;
            Ok::<_, String>(done.fetch_add(1, Ordering::SeqCst))
        };
        match workers[at % 2].run_leased("billing", &key, fingerprint, work).await {
            Ok(ran) => assert_eq!(ran.into_inner(), 0),
            Err(OnceError::InProgress(left)) => {
                assert!(!left.is_zero() && left < 2 * lease, "{left:?}")
            }
            Err(error) => panic!("{error}"),
        }
    };
    let (one, two, three, four) = (deliver(0), deliver(1), deliver(2), deliver(3));
    tokio::join!(one, two, three, four);
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

pub(crate) async fn a_job_past_its_retention_is_new(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let once = Once::shared(world.store().await).retention(Duration::from_millis(400));
    let work = async |_: Claim| Ok::<_, String>(());
    assert!(!once.run_leased("billing", &key, fingerprint, work).await.unwrap().is_replay());
    assert!(once.run_leased("billing", &key, fingerprint, work).await.unwrap().is_replay());
    sleep(600).await;
    assert!(!once.run_leased("billing", &key, fingerprint, work).await.unwrap().is_replay());
}

pub(crate) async fn a_job_that_stopped_at_an_unconfirmed_call_waits_for_a_person(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let once = Once::shared(world.store().await);
    let stops = async |claim: Claim| {
        claim.external_call("charge", "ch_1").await.unwrap();
        Err::<(), _>("no answer")
    };
    let stopped = once.run_leased("billing", &key, fingerprint, stops).await;
    assert!(matches!(stopped, Err(OnceError::Work("no answer"))), "{stopped:?}");
    let again = once.run_leased("billing", &key, fingerprint, stops).await;
    assert!(matches!(again, Err(OnceError::Reconcile)), "{again:?}");
}

/// The result is that of the worker that has the claim, or there is none.
pub(crate) async fn a_job_whose_claim_was_lost_has_no_result_of_its_own(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let store = FaultyClaims::new(world.store().await);
    let faulty: Arc<dyn ClaimStore> = Arc::new(store.clone());
    let once = Once::shared(faulty).lease(Duration::from_millis(400));
    let endless = async |_: Claim| {
        store.fail([Verb::Renew]);
        sleep(5_000).await;
        Ok::<_, String>(1)
    };
    let lost = once.run_leased("billing", &key, fingerprint, endless).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "without a renewal: {lost:?}");
    store.fail([]);
    sleep(600).await;

    let taken = async |claim: Claim| {
        assert_eq!(store.release(claim.holder()).await.unwrap(), Held::Yes(()));
        Ok::<_, String>(2)
    };
    let lost = once.run_leased("billing", &key, fingerprint, taken).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "taken for dead: {lost:?}");

    let followed = async |claim: Claim| {
        assert_eq!(store.release(claim.holder()).await.unwrap(), Held::Yes(()));
        let next = async |_: Claim| Ok::<_, String>(3);
        let next = once.run_leased("billing", &key, fingerprint, next).await.unwrap();
        assert_eq!(next, Ran::Now(3));
        Ok::<_, String>(4)
    };
    let ran = once.run_leased("billing", &key, fingerprint, followed).await.unwrap();
    assert_eq!(ran, Ran::Before(3), "the one that is kept");
}

/// The work's rows and its result: both, or neither.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) async fn what_a_job_writes_and_returns_commits_together(world: &World) {
    use crate::orders::{Job, Orders};
    let (key, fingerprint) = message("m1", "order 42");
    let orders = Orders::new(world).await;
    for (delivery, job) in [(1, Job::Fails), (2, Job::Works), (3, Job::Works)] {
        let ran = orders.once(world, &key, fingerprint, delivery, job).await;
        match (delivery, ran) {
            (1, Err(OnceError::Work(why))) => assert_eq!(why, "told to fail"),
            (2, Ok(Ran::Now(value))) | (3, Ok(Ran::Before(value))) => assert_eq!(value, 2),
            (_, ran) => panic!("delivery {delivery}: {ran:?}"),
        }
        assert_eq!(orders.count().await, i64::from(delivery > 1), "after delivery {delivery}");
    }
    let (key, fingerprint) = message("m2", "order 43");
    let lost = orders.once(world, &key, fingerprint, 1, Job::Loses).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "{lost:?}");
    assert_eq!(orders.count().await, 1, "nothing of it was committed");
}
