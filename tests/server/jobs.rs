//! Jobs whose result commits with what they write.

use std::time::Duration;

use post_once::server::once::{OnceError, Ran};

use crate::once::message;
use crate::orders::{By, Job, Orders};
use crate::world::{World, is_about, soon};

/// The work's rows and its result: both, or neither.
pub(crate) async fn what_a_job_writes_and_returns_commits_together(world: &World) {
    let (key, fingerprint) = message("m1", "order 42");
    let orders = Orders::new(world).await;
    for (delivery, job) in [(1, Job::Fails), (2, Job::Works), (3, Job::Works)] {
        let ran = orders.once(world, &key, fingerprint, delivery, job).await;
        match (delivery, ran) {
            (1, Err(OnceError::Work(why))) => assert_eq!(why, "told to fail"),
            (2, Ok(Ran::Now(by))) | (3, Ok(Ran::Before(by))) => assert_eq!(by, By(2)),
            (_, ran) => panic!("delivery {delivery}: {ran:?}"),
        }
        assert_eq!(orders.count().await, i64::from(delivery > 1), "after delivery {delivery}");
    }
    let row = world.store().await.look(&post_once::server::store::Name::new("shop", &key)).await;
    let left = row.unwrap().unwrap().seen.retention_left;
    assert!(is_about(left, Duration::from_secs(24 * 60 * 60)), "it is kept for so long: {left:?}");
    let (key, fingerprint) = message("m2", "order 43");
    let lost = orders.once(world, &key, fingerprint, 1, Job::Loses).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "{lost:?}");
    assert_eq!(orders.count().await, 1, "nothing of it was committed");
}

/// Whatever it was that failed: nothing of it is there, and the next delivery does it at once.
pub(crate) async fn a_job_that_cannot_be_committed_is_done_by_the_next_delivery(world: &World) {
    let orders = Orders::new(world).await;
    for (at, job) in [Job::Unspeakable, Job::Hides, Job::Orphans].into_iter().enumerate() {
        let (key, fingerprint) = message(&format!("m{at}"), "order 42");
        let failed = soon(orders.once(world, &key, fingerprint, 1, job)).await;
        match (job, failed) {
            (Job::Unspeakable, Err(OnceError::Value(_))) => {}
            (Job::Hides | Job::Orphans, Err(OnceError::Store(_))) => {}
            (_, failed) => panic!("{job:?}: {failed:?}"),
        }
        assert_eq!(orders.count().await, at as i64, "nothing of it was committed: {job:?}");
        let done = orders.once(world, &key, fingerprint, 2, Job::Works).await.unwrap();
        assert_eq!(done, Ran::Now(By(2)), "{job:?}");
        assert_eq!(orders.count().await, at as i64 + 1);
    }
}

/// Its worker is not dead: another delivery is told to come later.
#[cfg(feature = "postgres")]
pub(crate) async fn work_in_a_transaction_may_take_longer_than_its_lease(world: &World) {
    use post_once::server::once::Once;

    use crate::clock::Counted;
    use crate::world::{Store, look, shorten};

    let Store::Postgres(schema) = &world.store else { panic!("it awaits nothing elsewhere") };
    let (claims, clock) = (schema.claims().await, Counted::manual());
    let once = Once::new(claims.clone()).clock(clock.clone());
    let (key, fingerprint) = message("m1", "order 42");
    let work = async |_: &mut sqlx::PgConnection| {
        for renewal in 1..=4 {
            shorten(&claims, "m1", Duration::ZERO).await;
            clock.asked_for(2 * renewal - 1).await;
            clock.clock.advance(Duration::from_secs(10));
        }
        clock.asked_for(9).await;
        let left = look(&claims, "m1").await.seen.lease_left;
        assert!(is_about(left, Duration::from_secs(30)), "{left:?}");
        let other = Once::new(claims.clone());
        let never = async |_: &mut sqlx::PgConnection| -> Result<u32, String> { panic!("run") };
        let early = other.run("none", &key, fingerprint, never).await;
        assert!(matches!(early, Err(OnceError::InProgress(_))), "{early:?}");
        Ok::<_, String>(1)
    };
    assert_eq!(soon(once.run("none", &key, fingerprint, work)).await.unwrap(), Ran::Now(1));

    clock.count_anew();
    let (key, fingerprint) = message("m2", "order 43");
    let stopped = async |_: &mut sqlx::PgConnection| {
        clock.asked_for(1).await;
        clock.clock.advance(Duration::from_secs(30));
        std::future::pending::<Result<u32, String>>().await
    };
    let lost = soon(once.run("none", &key, fingerprint, stopped)).await;
    assert!(matches!(lost, Err(OnceError::Lost)), "{lost:?}");
}
