//! A file that a broken disk has changed.

use std::fs;
use std::time::Duration;

use post_once::server::claim::RecoveryPoint;
use post_once::server::store::{
    ClaimError, ClaimStore, Claimed, Decision, Holder, Name, SqliteClaims,
};
use post_once::testkit::claims::{answer, ask, name};

use super::{BODY, FRESH, LEASE, Place, RETENTION, YES, asked, claim, win};

const ROWS: usize = 40;

fn reached() -> RecoveryPoint {
    RecoveryPoint::reached("charged", Some("ch_1".to_owned()))
}

/// Live, answered, dead, at a checkpoint and in doubt, in turn; and what is claimed of each.
async fn filled() -> (Place, Vec<(Name, Claimed)>) {
    let place = Place::new();
    let store = place.open().await;
    let mut rows = Vec::new();
    for number in 0..ROWS {
        let name = name(&format!("order-{number}"));
        let done = answer(201, format!("{number} {}", "é".repeat(number * 7)));
        let holder = win(&store, &name).await;
        let point = match number % 5 {
            3 => Some(reached()),
            4 => Some(RecoveryPoint::unconfirmed("charging", None)),
            _ => None,
        };
        let claimed = match number % 5 {
            0 => Claimed::InProgress { lease_left: LEASE },
            1 => Claimed::Answered(done.clone()),
            4 => Claimed::Reconcile,
            _ => Claimed::Won { run: 2, point: point.clone() },
        };
        if let Some(point) = &point {
            assert_eq!(store.checkpoint(&holder, point, Duration::ZERO).await.unwrap(), YES);
        }
        match number % 5 {
            1 => assert_eq!(store.complete(&holder, &done, RETENTION).await.unwrap(), YES),
            2 => assert_eq!(store.renew(&holder, Duration::ZERO).await.unwrap(), YES),
            _ => {}
        }
        rows.push((name, claimed));
    }
    store.close().await;
    (place, rows)
}

/// The same, but for what is left of a lease.
fn is(one: &Claimed, other: &Claimed) -> bool {
    match (one, other) {
        (Claimed::InProgress { .. }, Claimed::InProgress { .. }) => true,
        _ => one == other,
    }
}

/// Nothing is run or given again by what is not what was written, and one bad byte takes little. A row
/// that is not found any more is told by a check of the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_byte_runs_nothing_and_changes_no_answer() {
    let (place, rows) = filled().await;
    let good = fs::read(&place.path).unwrap();
    let (mut told, mut whole, mut lost) = (0, 0, 0);
    for at in (0..good.len()).step_by(331) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x15;
        for suffix in ["-wal", "-shm"] {
            let (Ok(()) | Err(_)) = fs::remove_file(place.beside(suffix));
        }
        fs::write(&place.path, &bytes).unwrap();
        let store = match SqliteClaims::open(&place.path).await {
            Ok(store) => store,
            Err(ClaimError::Unusable(_) | ClaimError::Failed(_)) => {
                told += 1;
                continue;
            }
            Err(error) => panic!("byte {at}: {error}"),
        };
        let check = "PRAGMA integrity_check";
        let is_whole = place.plain().query_row(check, [], |row| row.get::<_, String>(0));
        let (mut right, mut errors) = (0, 0);
        // Together, so that they share a transaction.
        let claims = rows.iter().map(|(name, _)| {
            let (store, ask) = (store.clone(), asked(name));
            tokio::spawn(async move { store.claim(&ask).await })
        });
        let claims: Vec<_> = claims.collect();
        for ((name, expected), claim) in rows.iter().zip(claims) {
            match claim.await.unwrap() {
                Ok(claimed) if is(&claimed, expected) => right += 1,
                Ok(claimed) if claimed == FRESH => {
                    assert!(is_whole.as_deref() != Ok("ok"), "byte {at}: {name:?} was not found");
                    lost += 1;
                }
                Ok(claimed) => panic!("byte {at}: {name:?}: {claimed:?} for {expected:?}"),
                Err(ClaimError::Corrupt { key, .. }) => {
                    assert_eq!(key, name.key);
                    errors += 1;
                }
                Err(_) => errors += 1,
            }
        }
        told += usize::from(errors > 0);
        whole += usize::from(right >= ROWS - 1);
        let (Ok(_) | Err(_)) = store.list(None, 100).await;
        let (Ok(_) | Err(_)) = store.sweep(100).await;
        store.close().await;
    }
    assert!(told > 10, "what is damaged is told: {told}");
    assert!(whole > 30, "and most take no more than a row: {whole}");
    assert!(lost < 30, "few are not found: {lost}");
}

/// Whatever column was changed: it is told, and nothing is done by it.
#[tokio::test]
async fn a_row_that_was_changed_is_told_and_others_go_on() {
    let place = Place::new();
    let store = place.open().await;
    let (bad, good) = (name("bad"), name("good"));
    win(&store, &good).await;
    let short = Duration::ZERO;
    for (column, values) in [
        ("fingerprint", "x'00', 'v1:00', ''"),
        ("token", "token + 1, 'x'"),
        ("locked_until", "locked_until + 1, 0.5"),
        ("expires_at", "0, expires_at - 1, x''"),
        ("created_at", "0"),
        ("runs", "0, 2, -1, 1 << 40"),
        ("point", "NULL, 'other', x'ff'"),
        ("point_data", "NULL, 'ch_2', 7"),
        ("point_unconfirmed", "1, 'x'"),
        ("status", "NULL, 200, 99, 'x'"),
        ("answer_sum", "NULL, 1"),
        ("sum", "0, 'x'"),
        ("header_lines", "NULL, x'00', 'text', CAST('x-a: b' || x'0a' AS BLOB)"),
        ("body", "NULL, x'', x'00', 'text'"),
    ] {
        for value in values.split(", ") {
            let what = format!("{column} = {value}");
            let ask = ask(&bad, BODY, LEASE, short);
            assert_eq!(store.claim(&ask).await.unwrap(), FRESH, "{what}");
            assert_eq!(store.checkpoint(&ask.holder, &reached(), LEASE).await.unwrap(), YES);
            let done = answer(201, "{}");
            assert_eq!(store.complete(&ask.holder, &done, RETENTION).await.unwrap(), YES);
            let set = format!("UPDATE post_once_claim SET {column} = {value} WHERE key = 'bad'");
            assert_eq!(place.plain().execute(&set, []).unwrap(), 1);

            let error = store.claim(&asked(&bad)).await.expect_err(&what);
            assert_corrupt(&error, &what);
            assert_corrupt(&store.look(&bad).await.expect_err(&what), &what);
            if !["header_lines", "body"].contains(&column) {
                refuse_verbs(&store, &ask.holder, &what).await;
            }
            let delete = "DELETE FROM post_once_claim WHERE key = 'bad'";
            assert_eq!(store.sweep(100).await.unwrap(), 0, "{what}");
            assert_eq!(place.plain().execute(delete, []).unwrap(), 1, "{what}");
            assert!(matches!(claim(&store, &good).await, Claimed::InProgress { .. }), "{what}");
        }
    }
}

fn assert_corrupt(error: &ClaimError, what: &str) {
    assert!(matches!(error, ClaimError::Corrupt { key, .. } if key == "bad"), "{what}: {error:?}");
}

async fn refuse_verbs(store: &SqliteClaims, holder: &Holder, what: &str) {
    let done = answer(500, "late");
    for held in [
        store.renew(holder, LEASE).await,
        store.checkpoint(holder, &reached(), LEASE).await,
        store.complete(holder, &done, RETENTION).await,
        store.release(holder).await,
        store.settle(holder, &Decision::Forget).await,
    ] {
        assert_corrupt(&held.expect_err(what), what);
    }
}

/// A page ends before what cannot be read, and the next one begins with it.
#[tokio::test]
async fn a_listing_tells_of_a_row_that_cannot_be_read() {
    let place = Place::new();
    let store = place.open().await;
    let names = ["a", "bad", "c"].map(name);
    let point = RecoveryPoint::unconfirmed("charging", None);
    for name in &names {
        let holder = win(&store, name).await;
        assert_eq!(store.checkpoint(&holder, &point, Duration::ZERO).await.unwrap(), YES);
    }
    let sql = "UPDATE post_once_claim SET point_data = 'x' WHERE key = 'bad'";
    assert_eq!(place.plain().execute(sql, []).unwrap(), 1);
    let page = |after: Option<Name>| {
        let store = store.clone();
        async move { store.list(after.as_ref(), 10).await }
    };
    let first = page(None).await.unwrap();
    assert_eq!(first.iter().map(|row| &row.holder.name).collect::<Vec<_>>(), [&names[0]]);
    assert_corrupt(&page(Some(names[0].clone())).await.unwrap_err(), "the page after");
    assert_eq!(page(Some(names[1].clone())).await.unwrap().len(), 1, "past it, it goes on");
}
