//! Opening and closing.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use post_once::server::store::{ClaimError, ClaimStore, Claimed, SqliteClaims};
use post_once::testkit::claims::{answer, name};

use super::{FRESH, Place, RETENTION, YES, asked, claim, refused, win};

#[tokio::test]
async fn what_is_no_file_of_ours_is_refused_and_left_alone() {
    let place = Place::new();
    assert!(refused(&place.folder.path().join("missing/claims")).await.contains("missing/claims"));
    assert!(refused(place.folder.path()).await.contains("folder"));
    for text in ["x", &"not a database ".repeat(1000)] {
        fs::write(&place.path, text).unwrap();
        assert!(refused(&place.path).await.contains("not a SQLite database"));
        assert_eq!(fs::read_to_string(&place.path).unwrap(), *text);
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let place = Place::new();
    let store = place.open().await;
    win(&store, &name("order-1")).await;
    store.close().await;
    let newer = "INSERT INTO post_once_migrations (component, version) VALUES ('claims', 99)";
    place.plain().execute_batch(newer).unwrap();
    let what = refused(&place.path).await;
    assert!(what.contains("99") && what.contains("update the program"), "{what}");
    place.plain().execute_batch("DELETE FROM post_once_migrations WHERE version = 99").unwrap();
    let claimed = claim(&place.open().await, &name("order-1")).await;
    assert!(matches!(claimed, Claimed::InProgress { .. }), "{claimed:?}");
}

/// A process that is running goes on when a newer one has added to the table.
#[tokio::test]
async fn a_process_of_an_older_version_goes_on() {
    let place = Place::new();
    let old = place.open().await;
    let before = win(&old, &name("before")).await;
    place
        .plain()
        .execute_batch(
            "BEGIN IMMEDIATE;
             ALTER TABLE post_once_claim ADD COLUMN added TEXT;
             CREATE TABLE post_once_added (x);
             INSERT INTO post_once_migrations (component, version) VALUES ('claims', 2);
             COMMIT",
        )
        .unwrap();
    let after = win(&old, &name("after")).await;
    for holder in [before, after] {
        assert_eq!(old.complete(&holder, &answer(201, "{}"), RETENTION).await.unwrap(), YES);
        let claimed = claim(&old, &holder.name).await;
        assert_eq!(claimed, Claimed::Answered(answer(201, "{}")));
    }
}

#[tokio::test]
async fn the_file_is_for_its_owner_alone() {
    let place = Place::new();
    let store = place.open().await;
    win(&store, &name("order-1")).await;
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(place.beside(suffix)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_create_it_at_once_and_one_wins() {
    let place = Place::new();
    let opening: Vec<_> = (0..16)
        .map(|_| {
            let path = place.path.clone();
            tokio::spawn(async move {
                let store = SqliteClaims::open(path).await.unwrap();
                claim(&store, &name("order-1")).await
            })
        })
        .collect();
    let mut won = 0;
    for opened in opening {
        match opened.await.unwrap() {
            claimed if claimed == FRESH => won += 1,
            Claimed::InProgress { .. } => {}
            other => panic!("won, or in progress: {other:?}"),
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn what_was_closed_refuses_and_says_so() {
    let place = Place::new();
    let store = place.open().await;
    let clone = store.clone();
    let holder = win(&store, &name("order-1")).await;
    store.close().await;
    clone.close().await;
    for error in [
        clone.claim(&asked(&name("order-2"))).await.unwrap_err(),
        clone.complete(&holder, &answer(201, "{}"), RETENTION).await.unwrap_err(),
        clone.look(&holder.name).await.unwrap_err(),
    ] {
        assert!(matches!(error, ClaimError::Unusable(_)), "{error:?}");
    }
}

#[tokio::test]
async fn rows_of_others_in_the_file_stay_as_they_are() {
    let place = Place::new();
    let mine = place.plain();
    mine.execute_batch("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (1)").unwrap();
    let store = place.open().await;
    win(&store, &name("order-1")).await;
    store.close().await;
    let tables = "SELECT group_concat(name) FROM (SELECT name FROM sqlite_schema \
                  WHERE type = 'table' ORDER BY name)";
    let tables: String = mine.query_row(tables, [], |row| row.get(0)).unwrap();
    assert_eq!(tables, "orders,post_once_claim,post_once_migrations");
    let orders: i64 = mine.query_row("SELECT sum(id) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
}

/// A service that is called, and calls others, may keep both halves in one file.
#[cfg(feature = "client")]
#[tokio::test]
async fn a_journal_may_be_in_the_same_file() {
    use post_once::journal::{Journal, SqliteJournal};

    let place = Place::new();
    let (store, journal) = tokio::join!(place.open(), SqliteJournal::open(&place.path));
    let journal = journal.unwrap();
    let holder = win(&store, &name("order-1")).await;
    assert_eq!(journal.gauges().await.unwrap().pending, 0);
    assert_eq!(store.complete(&holder, &answer(201, "{}"), RETENTION).await.unwrap(), YES);
    store.close().await;
    journal.close().await;
    SqliteJournal::open(&place.path).await.unwrap().close().await;
    assert!(matches!(claim(&place.open().await, &holder.name).await, Claimed::Answered(_)));
}
