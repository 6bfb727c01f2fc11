//! A disk without room.

use std::fs;
use std::process::{Command, Stdio};

use post_once::journal::{Held, Inserted, Journal, JournalError, SqliteJournal, To};
use post_once::testkit::journal::{draft, outcome};

use super::{LEASE, Place, all, begin, given};

/// Fills a small file system, and goes on when there is room again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the work of a process on a small file system"]
async fn until_it_is_full() {
    let (path, _) = given();
    let ballast = path.with_file_name("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let journal = SqliteJournal::open(&path).await.unwrap();
    let held = begin(&journal, &draft(Some("held"), "{}")).await;
    let (mut written, mut refused) = (Vec::new(), 0);
    // Together, so that many share the transaction that does not fit.
    for round in 0..100 {
        let writing: Vec<_> = (0..8)
            .map(|number| {
                let journal = journal.clone();
                tokio::spawn(async move {
                    let name = format!("order-{round}-{number}");
                    let body = vec![b'x'; 10_000];
                    (journal.insert(&draft(Some(&name), body), LEASE).await, name)
                })
            })
            .collect();
        for task in writing {
            match task.await.unwrap() {
                (Ok(Inserted::New(_)), name) => written.push(name),
                (Err(JournalError::Failed(_)), _) => refused += 1,
                (other, _) => panic!("it fails, and nothing else: {other:?}"),
            }
        }
        if refused > 20 {
            break;
        }
    }
    assert!(!written.is_empty() && refused > 20, "{} and {refused}", written.len());
    let names: Vec<_> =
        all(&journal).await.into_iter().filter_map(|record| record.draft.name).collect();
    let expected: Vec<_> = std::iter::once("held".to_owned()).chain(written).collect();
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    assert_eq!(sorted(names), sorted(expected), "what was acknowledged is there, and no more");
    fs::remove_file(&ballast).unwrap();
    assert_eq!(journal.finish(&held, &outcome(To::Completed)).await.unwrap(), Held::Yes(()));
    begin(&journal, &draft(Some("after"), vec![b'x'; 10_000])).await;
    journal.close().await;
    let check = super::rusqlite::Connection::open(&path).unwrap();
    let whole: String = check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok");
    println!("went through");
}

/// A file system of 3 MiB, in a mount namespace of its own.
#[tokio::test]
async fn a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let place = Place::new();
    let script = "mount -t tmpfs -o size=3m tmpfs \"$1\" && shift && exec \"$@\"";
    let ended = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(place.folder.path())
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::full::until_it_is_full", "--ignored", "--nocapture"])
        .env("POST_ONCE_TEST_PATH", &place.path)
        .env("POST_ONCE_TEST_ARGUMENT", "")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(text.contains("went through"), "{text}{error}");
}
