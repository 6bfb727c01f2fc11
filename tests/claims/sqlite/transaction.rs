//! The user's own transaction: effect and answer, together or neither.

use std::time::Duration;

use post_once::IdempotencyKey;
use post_once::server::claim::RecoveryPoint;
use post_once::server::once::{Once, OnceError, Ran};
use post_once::server::store::{ClaimError, ClaimStore, Claimed, Held, SqliteClaims, rusqlite};
use post_once::testkit::ManualClock;
use post_once::testkit::claims::{answer, fingerprint, name};

use super::{Place, RETENTION, YES, asked, claim, win};

/// The user's rows in the same file.
fn charges(place: &Place) -> rusqlite::Connection {
    let mine = place.plain();
    mine.execute_batch("CREATE TABLE charges (id INTEGER PRIMARY KEY)").unwrap();
    mine
}

fn count(mine: &rusqlite::Connection) -> i64 {
    mine.query_row("SELECT count(*) FROM charges", [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn effect_and_answer_are_committed_together_or_neither() {
    let place = Place::new();
    let store = place.open().await;
    let mut mine = charges(&place);
    let name = name("order-1");
    let holder = win(&store, &name).await;
    let created = answer(201, r#"{"id":"ch_1"}"#);
    for keep in [false, true] {
        let transaction = mine.transaction().unwrap();
        transaction.execute("INSERT INTO charges DEFAULT VALUES", []).unwrap();
        let held = store.complete_in(&transaction, &holder, &created, RETENTION).unwrap();
        assert_eq!(held, YES);
        let again = store.complete_in(&transaction, &holder, &created, RETENTION).unwrap();
        assert_eq!(again, Held::Lost, "it is answered, for this transaction");
        let seen = store.look(&name).await.unwrap().unwrap();
        assert_eq!(seen.answer, None, "not before the commit");
        if keep {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
            assert_eq!(count(&mine), 0);
            assert!(matches!(claim(&store, &name).await, Claimed::InProgress { .. }));
        }
    }
    assert_eq!(count(&mine), 1);
    assert_eq!(claim(&store, &name).await, Claimed::Answered(created));
    store.close().await;
    assert!(matches!(claim(&place.open().await, &name).await, Claimed::Answered(_)));
}

/// O-22: who is late must not charge a second time, though it had begun.
#[tokio::test]
async fn who_lost_its_claim_is_told_so_and_has_no_effect() {
    let place = Place::new();
    let clock = ManualClock::new();
    let store = SqliteClaims::builder(&place.path).clock(clock.clone()).open().await.unwrap();
    let mut mine = charges(&place);
    let name = name("order-1");
    let late = win(&store, &name).await;
    clock.advance(super::LEASE);
    let next = asked(&name);
    let again = Claimed::Won { run: 2, point: None };
    assert_eq!(store.claim(&next).await.unwrap(), again);
    for (holder, expected) in [(&late, Held::Lost), (&next.holder, YES), (&late, Held::Lost)] {
        let transaction = mine.transaction().unwrap();
        transaction.execute("INSERT INTO charges DEFAULT VALUES", []).unwrap();
        let done = answer(201, "{}");
        let held = store.complete_in(&transaction, holder, &done, RETENTION).unwrap();
        assert_eq!(held, expected);
        match held {
            Held::Yes(()) => transaction.commit().unwrap(),
            Held::Lost => transaction.rollback().unwrap(),
        }
    }
    assert_eq!(count(&mine), 1);
    assert_eq!(claim(&store, &name).await, Claimed::Answered(answer(201, "{}")));
    clock.advance(RETENTION - Duration::from_secs(1));
    assert!(matches!(claim(&store, &name).await, Claimed::Answered(_)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(claim(&store, &name).await, super::FRESH, "kept from its answer on");
}

/// What was read before another process wrote cannot be written over.
#[tokio::test]
async fn a_transaction_that_read_something_old_is_refused() {
    let place = Place::new();
    let store = place.open().await;
    let mut mine = charges(&place);
    let name = name("order-1");
    let holder = win(&store, &name).await;
    let transaction = mine.transaction().unwrap();
    let rows = "SELECT count(*) FROM post_once_claim";
    let _: i64 = transaction.query_row(rows, [], |row| row.get(0)).unwrap();
    let point = RecoveryPoint::reached("charged", None);
    assert_eq!(store.checkpoint(&holder, &point, super::LEASE).await.unwrap(), YES);
    let refused = store.complete_in(&transaction, &holder, &answer(201, "{}"), RETENTION);
    assert!(matches!(refused, Err(ClaimError::Failed(_))), "{refused:?}");
    drop(transaction);
    let seen = store.look(&name).await.unwrap().unwrap();
    assert_eq!((seen.answer, seen.seen.point), (None, Some(point)));
}

#[tokio::test]
async fn a_transaction_on_another_file_is_refused() {
    let place = Place::new();
    let store = place.open().await;
    let holder = win(&store, &name("order-1")).await;
    let mut elsewhere = rusqlite::Connection::open_in_memory().unwrap();
    let transaction = elsewhere.transaction().unwrap();
    let refused = store.complete_in(&transaction, &holder, &answer(201, "{}"), RETENTION);
    assert!(matches!(refused, Err(ClaimError::Failed(_))), "{refused:?}");
}

/// It can be done by the next delivery, at once.
#[tokio::test]
async fn a_job_whose_transaction_cannot_begin_gives_its_key_back() {
    let place = Place::new();
    let once = Once::new(place.open().await);
    let mut mine = charges(&place);
    // Somebody else writes there.
    let elsewhere = || rusqlite::Connection::open(place.beside("-other")).unwrap();
    let (mut locked, other) = (elsewhere(), elsewhere());
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    locked.busy_timeout(Duration::ZERO).unwrap();
    let key = IdempotencyKey::parse("m1").unwrap();
    let work = |transaction: &rusqlite::Transaction<'_>| {
        transaction.execute("INSERT INTO charges DEFAULT VALUES", [])
    };
    let refused = once.run("shop", &key, fingerprint("m1"), &mut locked, work).await;
    assert!(matches!(refused, Err(OnceError::Store(_))), "{refused:?}");
    let done = once.run("shop", &key, fingerprint("m1"), &mut mine, work).await.unwrap();
    assert_eq!(done, Ran::Now(1));
    assert_eq!(count(&mine), 1);
}
