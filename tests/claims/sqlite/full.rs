//! A disk without room.

use std::fs;
use std::process::{Command, Stdio};

use post_once::server::store::{ClaimError, ClaimStore, Claimed, SqliteClaims};
use post_once::testkit::claims::{answer, name};

use super::{FRESH, Place, RETENTION, YES, asked, claim, given, win};

/// Fills a small file system, and goes on when there is room again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the work of a process on a small file system"]
async fn until_it_is_full() {
    let path = given();
    let ballast = path.with_file_name("ballast");
    fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let store = SqliteClaims::open(&path).await.unwrap();
    let held = win(&store, &name("held")).await;
    let (mut answered, mut open, mut refused) = (Vec::new(), Vec::new(), 0);
    // Together, so that many share the transaction that does not fit.
    for round in 0..100 {
        let writing: Vec<_> = (0..8)
            .map(|number| {
                let store = store.clone();
                tokio::spawn(async move {
                    let ask = asked(&name(&format!("order-{round}-{number}")));
                    let claimed = store.claim(&ask).await;
                    let done = answer(201, vec![b'x'; 10_000]);
                    let held = match &claimed {
                        Ok(_) => Some(store.complete(&ask.holder, &done, RETENTION).await),
                        Err(_) => None,
                    };
                    (ask.holder.name, claimed, held)
                })
            })
            .collect();
        for task in writing {
            match task.await.unwrap() {
                (name, Ok(claimed), Some(Ok(held))) => {
                    assert_eq!((claimed, held), (FRESH, YES));
                    answered.push(name);
                }
                (name, Ok(_), Some(Err(ClaimError::Failed(_)))) => {
                    open.push(name);
                    refused += 1;
                }
                (_, Err(ClaimError::Failed(_)), None) => refused += 1,
                (_, claimed, held) => panic!("it fails, and nothing else: {claimed:?} {held:?}"),
            }
        }
        if refused > 20 {
            break;
        }
    }
    assert!(!answered.is_empty() && refused > 20, "{} and {refused}", answered.len());
    fs::remove_file(&ballast).unwrap();
    for name in answered {
        assert!(matches!(claim(&store, &name).await, Claimed::Answered(_)), "{name:?}");
    }
    for name in open {
        assert!(matches!(claim(&store, &name).await, Claimed::InProgress { .. }), "{name:?}");
    }
    assert_eq!(store.complete(&held, &answer(201, "{}"), RETENTION).await.unwrap(), YES);
    win(&store, &name("after")).await;
    store.close().await;
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
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&ended.stdout);
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(text.contains("went through"), "{text}{error}");
}
