//! O-19: several processes on one file.

use std::collections::BTreeSet;

use post_once::server::store::{ClaimStore, Claimed, SqliteClaims};
use post_once::testkit::claims::{answer, name};

use super::{FRESH, Place, RETENTION, YES, asked, child, given};

const PROCESSES: usize = 3;
/// So many claims of one key at once, in each of them.
const TASKS: usize = 17;
const KEYS: usize = 30;

/// Claims the same keys as the other processes, and answers those that it wins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the work of another process"]
async fn one_of_several_processes() {
    let store = SqliteClaims::open(given()).await.unwrap();
    for number in 0..KEYS {
        let claiming: Vec<_> = (0..TASKS)
            .map(|_| {
                let store = store.clone();
                tokio::spawn(async move {
                    let ask = asked(&name(&format!("order-{number}")));
                    let done = answer(201, number.to_string());
                    match store.claim(&ask).await.unwrap() {
                        Claimed::InProgress { .. } => false,
                        Claimed::Answered(stored) => {
                            assert_eq!(stored, done);
                            false
                        }
                        won => {
                            assert_eq!(won, FRESH);
                            let held = store.complete(&ask.holder, &done, RETENTION).await;
                            assert_eq!(held.unwrap(), YES);
                            true
                        }
                    }
                })
            })
            .collect();
        for task in claiming {
            if task.await.unwrap() {
                println!("won order-{number}");
            }
        }
    }
    println!("ended");
}

#[tokio::test]
async fn of_several_processes_exactly_one_wins_each_key() {
    let place = Place::new();
    let test = "sqlite::processes::one_of_several_processes";
    let children: Vec<_> = (0..PROCESSES).map(|_| child(test, &place.path)).collect();
    let mut won = Vec::new();
    for process in children {
        let ended = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout);
        let error = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && text.contains("ended"), "{text}{error}");
        won.extend(text.lines().filter_map(|line| line.split("won ").nth(1).map(str::to_owned)));
    }
    let keys: BTreeSet<_> = won.iter().collect();
    assert_eq!((won.len(), keys.len()), (KEYS, KEYS), "each once: {won:?}");
    let store = place.open().await;
    for number in 0..KEYS {
        let row = store.look(&name(&format!("order-{number}"))).await.unwrap().unwrap();
        assert_eq!(row.answer, Some(answer(201, number.to_string())));
    }
}
