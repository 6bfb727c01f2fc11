//! O-19: several processes on one file.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use post_once::journal::{Held, Inserted, Journal, SqliteJournal, To};
use post_once::testkit::journal::{draft, due, outcome};

use super::{LEASE, Place, begin, child, given};

const PROCESSES: usize = 3;
const TASKS: usize = 16;
const EACH: usize = 25;

/// Begins and ends operations, some of which the other processes begin too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the work of another process"]
#[expect(clippy::disallowed_methods, reason = "what several processes wait is real time")]
async fn one_of_several_processes() {
    let (path, process) = given();
    let journal = SqliteJournal::open(path).await.unwrap();
    let working: Vec<_> = (0..TASKS)
        .map(|task| {
            let (journal, process) = (journal.clone(), process.clone());
            tokio::spawn(async move {
                let (mut longest, mut won) = (Duration::ZERO, 0);
                for number in 0..EACH {
                    let own = format!("own-{process}-{task}-{number}");
                    let shared = format!("shared-{task}-{number}");
                    for name in [own, shared] {
                        let begun = Instant::now();
                        let inserted = journal.insert(&draft(Some(&name), "{}"), LEASE).await;
                        if let Inserted::New(claim) = inserted.unwrap() {
                            won += 1;
                            let done = outcome(To::Completed);
                            let held = journal.finish(&claim, &done).await.unwrap();
                            assert_eq!(held, Held::Yes(()));
                        }
                        longest = longest.max(begun.elapsed());
                    }
                }
                (longest, won)
            })
        })
        .collect();
    let mut won = 0;
    for task in working {
        let (longest, new) = task.await.unwrap();
        assert!(longest < Duration::from_secs(10), "nobody starves: {longest:?}");
        won += new;
    }
    println!("won {won}");
}

#[tokio::test]
async fn several_processes_share_a_file_and_begin_each_name_once() {
    let place = Place::new();
    let test = "sqlite::processes::one_of_several_processes";
    let children: Vec<_> =
        (0..PROCESSES).map(|number| child(test, &place.path, number.to_string())).collect();
    let mut won = 0;
    for process in children {
        let ended = process.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success(), "{text}{}", String::from_utf8_lossy(&ended.stderr));
        let count = text.lines().find_map(|line| line.split("won ").nth(1)).unwrap();
        won += count.trim().parse::<usize>().unwrap();
    }
    let names = PROCESSES * TASKS * EACH + TASKS * EACH;
    assert_eq!(won, names, "each name was begun by exactly one");
    let gauges = place.open().await.gauges().await.unwrap();
    assert_eq!((gauges.completed, gauges.pending), (names as u64, 0));
}

/// Whoever reads first and then writes cannot upgrade; a verb takes the write lock at its start.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "somebody holds the lock for a while")]
async fn a_verb_waits_for_whoever_holds_the_lock() {
    let place = Place::new();
    let journal = place.open().await;
    let claim = begin(&journal, &draft(None, "{}")).await;
    let other = place.plain();
    other.execute_batch("BEGIN IMMEDIATE; SELECT count(*) FROM post_once_operations").unwrap();
    let waiting = {
        let journal = journal.clone();
        tokio::spawn(async move { journal.finish(&claim, &outcome(To::Completed)).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    assert_eq!(journal.gauges().await.unwrap().pending, 1, "reading waits for nobody");
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), Held::Yes(()));
}

/// Claims from several handles at the same time, each a connection of its own.
#[tokio::test(flavor = "multi_thread")]
async fn several_claimers_share_what_is_due() {
    let place = Place::new();
    let journal = place.open().await;
    for _ in 0..300 {
        journal.enqueue(&draft(None, "{}")).await.unwrap();
    }
    let mut claiming = Vec::new();
    for _ in 0..4 {
        let journal = place.open().await;
        claiming.push(tokio::spawn(async move {
            let mut rows = Vec::new();
            loop {
                let claimed = journal.claim_due(&due(&[], 7), LEASE).await.unwrap();
                if claimed.is_empty() {
                    return rows;
                }
                rows.extend(claimed.into_iter().map(|(claim, _)| claim.row));
            }
        }));
    }
    let mut rows = Vec::new();
    for task in claiming {
        rows.extend(task.await.unwrap());
    }
    assert_eq!(rows.len(), 300);
    assert_eq!(rows.into_iter().collect::<BTreeSet<_>>().len(), 300, "each once");
}
