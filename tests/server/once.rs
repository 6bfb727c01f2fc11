//! Jobs and messages, delivered more than once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::Claim;
use post_once::server::once::{Once, OnceError, Ran};
use post_once::server::store::ClaimStore;
use post_once::testkit::{FaultyClaims, Verb};

use crate::api::sleep;
use crate::clock::Counted;
use crate::world::{World, is_about, look, shorten, soon, take_away};

pub(crate) fn message(id: &str, body: &str) -> (IdempotencyKey, Fingerprint) {
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
    let (store, day) = (world.store().await, Duration::from_secs(24 * 60 * 60));
    let work = async |_: Claim| Ok::<_, String>(());
    for (id, once, retention) in [
        ("m1", Once::shared(Arc::clone(&store)), day),
        ("m2", Once::shared(Arc::clone(&store)).retention(day * 2), day * 2),
    ] {
        let (key, fingerprint) = message(id, "invoice 42");
        assert!(!once.run_leased("none", &key, fingerprint, work).await.unwrap().is_replay());
        assert!(once.run_leased("none", &key, fingerprint, work).await.unwrap().is_replay());
        let left = look(&*store, id).await.seen.retention_left;
        assert!(is_about(left, retention), "{left:?}");
    }
    let (key, fingerprint) = message("m3", "invoice 42");
    let once = Once::shared(store).retention(Duration::from_millis(50));
    assert!(!once.run_leased("none", &key, fingerprint, work).await.unwrap().is_replay());
    sleep(100).await;
    assert!(!once.run_leased("none", &key, fingerprint, work).await.unwrap().is_replay());
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
    let once = Once::shared(faulty);
    let taken = async |_: Claim| {
        take_away(&store, "m1").await;
        Ok::<_, String>(2)
    };
    let lost = once.run_leased("none", &key, fingerprint, taken).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "taken for dead: {lost:?}");

    let followed = async |_: Claim| {
        take_away(&store, "m1").await;
        let next = async |_: Claim| Ok::<_, String>(3);
        let next = once.run_leased("none", &key, fingerprint, next).await.unwrap();
        assert_eq!(next, Ran::Now(3));
        Ok::<_, String>(4)
    };
    let ran = once.run_leased("none", &key, fingerprint, followed).await.unwrap();
    assert_eq!(ran, Ran::Before(3), "the one that is kept");
}

/// By the clock that it was given, and for the lease that it was given.
pub(crate) async fn a_job_is_renewed_while_it_goes_on_and_dropped_when_it_cannot_be(world: &World) {
    let (store, clock) = (FaultyClaims::new(world.store().await), Counted::manual());
    let lease = Duration::from_secs(60);
    let faulty: Arc<dyn ClaimStore> = Arc::new(store.clone());
    let once = Once::shared(faulty).lease(lease).clock(clock.clone());
    let (key, fingerprint) = message("m1", "invoice 42");
    let long = async |_: Claim| {
        for renewal in 1..=4 {
            clock.asked_for(2 * renewal - 1).await;
            clock.clock.advance(lease / 3);
        }
        clock.asked_for(9).await;
        let left = look(&store, "m1").await.seen.lease_left;
        assert!(is_about(left, lease), "{left:?}");
        Ok::<_, String>(1)
    };
    let done = soon(once.run_leased("none", &key, fingerprint, long)).await;
    assert_eq!(done.unwrap(), Ran::Now(1));

    let (key, fingerprint) = message("m2", "invoice 43");
    clock.count_anew();
    let endless = async |_: Claim| {
        store.fail([Verb::Renew]);
        clock.asked_for(1).await;
        clock.clock.advance(lease);
        std::future::pending::<Result<u32, String>>().await
    };
    let lost = soon(once.run_leased("none", &key, fingerprint, endless)).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "without a renewal: {lost:?}");
}

/// The error that is told is the work's own.
pub(crate) async fn a_job_whose_key_cannot_be_given_back_is_done_after_its_lease(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let faulty: Arc<dyn ClaimStore> = Arc::new(store.clone());
    let once = Once::shared(faulty);
    let (key, fingerprint) = message("m1", "invoice 42");
    store.fail([Verb::Release]);
    let fails = async |_: Claim| Err::<u32, _>("no connection");
    let failed = once.run_leased("none", &key, fingerprint, fails).await;
    assert!(matches!(failed, Err(OnceError::Work("no connection"))), "{failed:?}");
    store.fail([]);
    let works = async |claim: Claim| Ok::<_, &str>(claim.run());
    let early = once.run_leased("none", &key, fingerprint, works).await;
    assert!(matches!(early, Err(OnceError::InProgress(_))), "{early:?}");
    shorten(&store, "m1", Duration::ZERO).await;
    let done = once.run_leased("none", &key, fingerprint, works).await.unwrap();
    assert_eq!(done, Ran::Now(2), "it is its second run");
}

/// It was done, and whether that is known is not: it is no failure of the work, and not done again at once.
pub(crate) async fn a_job_whose_result_cannot_be_stored_is_an_error_of_the_store(world: &World) {
    let store = FaultyClaims::new(world.store().await);
    let faulty: Arc<dyn ClaimStore> = Arc::new(store.clone());
    let once = Once::shared(faulty);
    let (key, fingerprint) = message("m1", "invoice 42");
    let works = async |_: Claim| {
        store.fail([Verb::Complete]);
        Ok::<_, String>(1)
    };
    let failed = once.run_leased("none", &key, fingerprint, works).await;
    assert!(matches!(failed, Err(OnceError::Store(_))), "{failed:?}");
    let early = once.run_leased("none", &key, fingerprint, works).await;
    assert!(matches!(early, Err(OnceError::InProgress(_))), "{early:?}");

    store.fail([Verb::Claim]);
    let (key, fingerprint) = message("m2", "invoice 43");
    let never = async |_: Claim| -> Result<u32, String> { panic!("it was not claimed") };
    let refused = once.run_leased("none", &key, fingerprint, never).await;
    assert!(matches!(refused, Err(OnceError::Store(_))), "{refused:?}");
}
