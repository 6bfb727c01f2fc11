//! Beginning, and beginning and ending, many at a time; and what sharing a transaction is worth.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use post_once::journal::rusqlite::{Connection, TransactionBehavior};
use post_once::journal::{Held, Journal, SqliteJournal, To};
use post_once::testkit::journal::{answer, decided};

use crate::log::Log;
use crate::{BODY, TASKS, median, operation, quantile};

const ROUNDS: usize = 5;
const LEASE: Duration = Duration::from_secs(30);
/// What is written beside the body: the head, and the columns.
const BESIDE: usize = 440;

/// Operations of one round: about half a second of them.
fn count(tasks: usize) -> usize {
    match tasks {
        1 => 1_500,
        16 => 10_000,
        64 => 25_000,
        _ => 50_000,
    }
}

pub(crate) async fn begin() {
    println!("begin: the store against a log of the same records (operations per second)");
    against_log(1, |journal| async move {
        crate::begin(&journal, LEASE).await;
    })
    .await;
}

pub(crate) async fn life() {
    println!("begin and finish: likewise, two records each");
    against_log(2, |journal| async move {
        let claim = crate::begin(&journal, LEASE).await;
        let done = decided(To::Completed, answer(201, r#"{"id":"ch_1"}"#));
        assert_eq!(journal.finish(&claim, &done).await.unwrap(), Held::Yes(()));
    })
    .await;
}

async fn against_log<F: Future<Output = ()> + Send + 'static>(
    records: usize,
    operate: impl Fn(SqliteJournal) -> F + Copy + Send + Sync + 'static,
) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for tasks in TASKS {
        let (mut logged, mut stored) = (Vec::new(), Vec::new());
        let (mut log_late, mut late) = (Vec::new(), Vec::new());
        let journal =
            SqliteJournal::open(folder.path().join(format!("journal-{tasks}"))).await.unwrap();
        for round in 0..ROUNDS {
            let log = Log::open(&folder.path().join(format!("log-{tasks}-{round}")));
            let append = move || {
                let log = log.clone();
                async move {
                    log.append(vec![b'x'; BODY + BESIDE]).await;
                    if records == 2 {
                        log.append(vec![b'x'; BESIDE / 2]).await;
                    }
                }
            };
            let (rate, mut waits) = run(tasks, count(tasks), append).await;
            logged.push(rate);
            log_late.push(quantile(&mut waits, 990).as_secs_f64() * 1e3);
            let journal = journal.clone();
            let (rate, mut waits) =
                run(tasks, count(tasks), move || operate(journal.clone())).await;
            stored.push(rate);
            late.push(quantile(&mut waits, 990).as_secs_f64() * 1e3);
        }
        let ratios = stored.iter().zip(&logged).map(|(stored, logged)| stored / logged).collect();
        println!(
            "  {tasks:>3} tasks: log {:>7.0}  store {:>7.0}  ratio {:.2}  p99 {:.1} ms, of the log {:.1}",
            median(logged),
            median(stored),
            median(ratios),
            median(late),
            median(log_late),
        );
        journal.close().await;
    }
}

/// One transaction for each operation, against many in one.
pub(crate) async fn group() {
    println!("grouped against one transaction per operation, 64 tasks");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("journal");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA synchronous = FULL").unwrap();
        let (begun, many) = (Instant::now(), 1_500);
        for _ in 0..many {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            journal.enqueue_in(&transaction, &operation()).unwrap();
            transaction.commit().unwrap();
        }
        alone.push(f64::from(many) / begun.elapsed().as_secs_f64());
        let journal = journal.clone();
        let insert = move || {
            let journal = journal.clone();
            async move {
                crate::begin(&journal, LEASE).await;
            }
        };
        together.push(run(64, count(64), insert).await.0);
    }
    let ratios = together.iter().zip(&alone).map(|(together, alone)| together / alone).collect();
    println!(
        "  alone {:.0}  grouped {:.0}  ratio {:.1}",
        median(alone),
        median(together),
        median(ratios)
    );
    journal.close().await;
}

/// Runs so many operations, so many at a time; how many in a second, and how long each took.
async fn run<F: Future<Output = ()> + Send + 'static>(
    tasks: usize,
    count: usize,
    operate: impl Fn() -> F + Clone + Send + 'static,
) -> (f64, Vec<Duration>) {
    let left = Arc::new(AtomicUsize::new(count));
    let begun = Instant::now();
    let workers: Vec<_> = (0..tasks)
        .map(|_| {
            let (left, operate) = (Arc::clone(&left), operate.clone());
            tokio::spawn(async move {
                let take = |left: usize| left.checked_sub(1);
                let mut waits = Vec::new();
                while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                    let begun = Instant::now();
                    operate().await;
                    waits.push(begun.elapsed());
                }
                waits
            })
        })
        .collect();
    let mut waits = Vec::with_capacity(count);
    for worker in workers {
        waits.extend(worker.await.unwrap());
    }
    (count as f64 / begun.elapsed().as_secs_f64(), waits)
}
