//! Jobs and messages, delivered more than once.

use std::sync::atomic::{AtomicU32, Ordering};

use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::once::{Once, OnceError, Ran};

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
        let work = async |claim: post_once::server::Claim| {
            assert_eq!((claim.run(), claim.principal()), (1, "billing"));
            Ok::<_, String>(vec![format!("sent at delivery {delivery}")])
        };
        let ran = once.run_leased("billing", &key, fingerprint, work).await.unwrap();
        assert_eq!(ran.is_replay(), delivery > 1);
        assert_eq!(ran.into_inner(), ["sent at delivery 1"]);
    }
    let once = Once::shared(world.store().await);
    let never = async |_: post_once::server::Claim| -> Result<(), String> { panic!("not run") };
    let (_, other) = message("m1", "invoice 43");
    let refused = once.run_leased("billing", &key, other, never).await;
    assert!(matches!(refused, Err(OnceError::Mismatch)), "{refused:?}");
    let unread = once.run_leased("billing", &key, fingerprint, never).await;
    assert!(matches!(unread, Err(OnceError::Value(_))), "another type: {unread:?}");
}

pub(crate) async fn work_that_fails_is_done_again(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let once = Once::shared(world.store().await);
    let fails = async |_: post_once::server::Claim| Err::<u32, _>("no connection");
    let failed = once.run_leased("billing", &key, fingerprint, fails).await;
    assert!(matches!(failed, Err(OnceError::Work("no connection"))), "{failed:?}");
    let works = async |_: post_once::server::Claim| Ok::<_, &str>(7);
    let done = once.run_leased("billing", &key, fingerprint, works).await.unwrap();
    assert_eq!(done, Ran::Now(7));
}

pub(crate) async fn one_of_many_deliveries_at_once_does_the_work(world: &World) {
    let (key, fingerprint) = message("m1", "invoice 42");
    let done = AtomicU32::new(0);
    let workers = [Once::shared(world.store().await), Once::shared(world.store().await)];
    let deliver = async |at: usize| {
        let work = async |_: post_once::server::Claim| {
            sleep(100).await;
            Ok::<_, String>(done.fetch_add(1, Ordering::SeqCst))
        };
        match workers[at % 2].run_leased("billing", &key, fingerprint, work).await {
            Ok(ran) => assert_eq!(ran.into_inner(), 0),
            Err(OnceError::InProgress(left)) => assert!(!left.is_zero()),
            Err(error) => panic!("{error}"),
        }
    };
    let (one, two, three, four) = (deliver(0), deliver(1), deliver(2), deliver(3));
    tokio::join!(one, two, three, four);
    assert_eq!(done.load(Ordering::SeqCst), 1);
}

/// The work's rows and its result: both, or neither.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) async fn what_a_job_writes_and_returns_commits_together(world: &World) {
    use crate::orders::Orders;
    let (key, fingerprint) = message("m1", "order 42");
    let orders = Orders::new(world).await;
    for (delivery, fails) in [(1, true), (2, false), (3, false)] {
        let ran = orders.once(world, &key, fingerprint, delivery, fails).await;
        match (delivery, ran) {
            (1, Err(OnceError::Work(why))) => assert_eq!(why, "told to fail"),
            (2, Ok(Ran::Now(value))) | (3, Ok(Ran::Before(value))) => assert_eq!(value, 2),
            (_, ran) => panic!("delivery {delivery}: {ran:?}"),
        }
        assert_eq!(orders.count().await, i64::from(delivery > 1), "after delivery {delivery}");
    }
}
