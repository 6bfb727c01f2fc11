//! Opening and closing.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use post_once::journal::{Completions, Held, Journal, JournalError, SqliteJournal, State, To};
use post_once::testkit::ManualClock;
use post_once::testkit::journal::{draft, outcome};

use super::{LEASE, Place, all, begin, refused};

#[tokio::test]
async fn a_file_that_cannot_be_created_is_refused() {
    let place = Place::new();
    let missing = place.folder.path().join("missing/journal");
    assert!(refused(&missing).await.contains("missing/journal"));
    fs::write(&place.path, "").unwrap();
    refused(&place.path.join("journal")).await;
    refused("/proc/journal".as_ref()).await;
}

#[tokio::test]
async fn a_folder_is_refused() {
    let place = Place::new();
    assert!(refused(place.folder.path()).await.contains("folder"));
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let place = Place::new();
    for text in ["x", &"not a database ".repeat(1000)] {
        fs::write(&place.path, text).unwrap();
        assert!(refused(&place.path).await.contains("not a SQLite database"));
        assert_eq!(fs::read_to_string(&place.path).unwrap(), *text);
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_journal() {
    let place = Place::new();
    fs::write(&place.path, "").unwrap();
    begin(&place.open().await, &draft(None, "{}")).await;
}

#[tokio::test]
async fn a_name_with_a_meaning_elsewhere_is_a_file() {
    let place = Place::new();
    for name in [":memory:", "file:x?mode=memory", "-journal", "a b%20c"] {
        let path = place.folder.path().join(name);
        let journal = SqliteJournal::open(&path).await.unwrap();
        begin(&journal, &draft(None, "{}")).await;
        journal.close().await;
        assert!(fs::metadata(&path).unwrap().len() > 0, "{name}");
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let place = Place::new();
    let journal = place.open().await;
    begin(&journal, &draft(Some("order-1"), "{}")).await;
    journal.close().await;
    let newer = "INSERT INTO post_once_migrations (component, version) VALUES ('journal', 99)";
    place.plain().execute_batch(newer).unwrap();
    let what = refused(&place.path).await;
    assert!(what.contains("99") && what.contains("update the program"), "{what}");
    place.plain().execute_batch("DELETE FROM post_once_migrations WHERE version = 99").unwrap();
    assert_eq!(all(&place.open().await).await.len(), 1);
}

/// A process that is running goes on when a newer one has added to the tables.
#[tokio::test]
async fn a_process_of_an_older_version_goes_on() {
    let place = Place::new();
    let old = place.open().await;
    let before = begin(&old, &draft(None, "before")).await;
    place
        .plain()
        .execute_batch(
            "BEGIN IMMEDIATE;
             ALTER TABLE post_once_operations ADD COLUMN added TEXT;
             CREATE TABLE post_once_added (x);
             INSERT INTO post_once_migrations (component, version) VALUES ('journal', 2);
             COMMIT",
        )
        .unwrap();
    let after = begin(&old, &draft(None, "after")).await;
    for claim in [before, after] {
        assert_eq!(old.finish(&claim, &outcome(To::Completed)).await.unwrap(), Held::Yes(()));
    }
    assert_eq!(all(&old).await.len(), 2);
}

#[tokio::test]
async fn another_environment_is_refused() {
    let place = Place::new();
    let open = |name: &str| SqliteJournal::builder(&place.path).environment(name).open();
    open("production").await.unwrap().close().await;
    let copy = open("staging").await;
    let Err(JournalError::Unusable(what)) = copy else { panic!("it must be refused") };
    assert!(what.contains("production") && what.contains("staging"), "{what}");
    refused(&place.path).await;
    open("production").await.unwrap();
}

#[tokio::test]
async fn the_file_is_for_its_owner_alone() {
    let place = Place::new();
    let journal = place.open().await;
    begin(&journal, &draft(None, "{}")).await;
    for suffix in ["", "-wal", "-shm"] {
        let mode = fs::metadata(place.beside(suffix)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{suffix}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_may_create_it_at_once() {
    let place = Place::new();
    let opening: Vec<_> = (0..16)
        .map(|_| {
            let path = place.path.clone();
            tokio::spawn(async move { SqliteJournal::open(path).await.unwrap() })
        })
        .collect();
    for opened in opening {
        begin(&opened.await.unwrap(), &draft(None, "{}")).await;
    }
    assert_eq!(all(&place.open().await).await.len(), 16);
}

#[tokio::test]
async fn what_was_queued_is_written_before_it_is_closed() {
    let place = Place::new();
    for close in [true, false] {
        let journal = place.open().await;
        let mut rows = Vec::new();
        for _ in 0..50 {
            rows.push(begin(&journal, &draft(None, "{}")).await);
        }
        for claim in rows {
            journal.finish_soon(claim, outcome(To::Completed));
        }
        let clone = journal.clone();
        if close {
            journal.close().await;
            let late = clone.insert(&draft(None, "{}"), LEASE).await;
            assert!(matches!(late, Err(JournalError::Unusable(_))), "{late:?}");
            assert!(matches!(clone.gauges().await, Err(JournalError::Unusable(_))));
            clone.close().await;
        }
        drop((journal, clone));
        assert!(!place.beside("-wal").exists(), "the log was moved into the file");
        let states = all(&place.open().await).await;
        assert!(states.iter().all(|record| record.state == State::Completed));
    }
}

#[tokio::test]
async fn a_completion_in_the_background_is_written_all_the_same() {
    let place = Place::new();
    let completions = Completions::Background;
    let journal =
        SqliteJournal::builder(&place.path).completions(completions).open().await.unwrap();
    for _ in 0..2_000 {
        let claim = begin(&journal, &draft(None, "{}")).await;
        assert_eq!(journal.finish(&claim, &outcome(To::Completed)).await.unwrap(), Held::Yes(()));
    }
    journal.close().await;
    let gauges = place.open().await.gauges().await.unwrap();
    assert_eq!((gauges.pending, gauges.completed), (0, 2_000));
}

#[tokio::test]
async fn a_first_send_in_the_future_is_told() {
    let (place, clock) = (Place::new(), ManualClock::new());
    let journal = SqliteJournal::builder(&place.path).clock(clock.clone()).open().await.unwrap();
    begin(&journal, &draft(Some("order-1"), "{}")).await;
    clock.step_wall_back(Duration::from_secs(60));
    let ages = journal.by_name("", "order-1").await.unwrap().unwrap().ages;
    assert!(ages.clock_went_back);
    assert_eq!((ages.first_send, ages.created), (Some(Duration::ZERO), Duration::ZERO));
    assert!(ages.lease_left > Some(LEASE));
}

/// The log does not grow for ever, though somebody writes all the time and somebody else reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_bounded_while_many_write() {
    let place = Place::new();
    let journal = place.open().await;
    let writing: Vec<_> = (0..32)
        .map(|_| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for _ in 0..40 {
                    begin(&journal, &draft(None, vec![0; 64 << 10])).await;
                }
            })
        })
        .collect();
    let (mut most, reading) = (0, place.plain());
    while !writing.iter().all(tokio::task::JoinHandle::is_finished) {
        let sql = "SELECT count(*) FROM post_once_operations";
        let _: i64 = reading.query_row(sql, [], |row| row.get(0)).unwrap();
        most = most.max(fs::metadata(place.beside("-wal")).unwrap().len());
        tokio::task::yield_now().await;
    }
    for task in writing {
        task.await.unwrap();
    }
    let written = fs::metadata(&place.path).unwrap().len();
    assert!(written > 64 << 20, "{written} bytes are in the file");
    assert!(most < 64 << 20, "the log had {most} bytes");
}
