//! Claiming what is due.

use std::path::Path;
use std::time::{Duration, Instant};

use post_once::journal::rusqlite::{Connection, TransactionBehavior};
use post_once::journal::{Journal, SqliteJournal};
use post_once::testkit::journal::due;

use crate::operation;

pub(crate) async fn claim() {
    println!("claims (rows per second)");
    for batch in [1, 32, 128] {
        for workers in [1, 4] {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let path = folder.path().join("journal");
            let journal = SqliteJournal::open(&path).await.unwrap();
            let rows = if batch == 1 { 4_000 } else { 40_000 };
            fill(&journal, &path, rows);
            let begun = Instant::now();
            let claiming: Vec<_> = (0..workers)
                .map(|_| {
                    let journal = journal.clone();
                    tokio::spawn(async move {
                        let (filter, mut rows) = (due(&[], batch), 0);
                        loop {
                            let lease = Duration::from_secs(600);
                            match journal.claim_due(&filter, lease).await.unwrap().len() {
                                0 => return rows,
                                claimed => rows += claimed,
                            }
                        }
                    })
                })
                .collect();
            let mut claimed = 0;
            for worker in claiming {
                claimed += worker.await.unwrap();
            }
            assert_eq!(claimed, rows);
            let rate = rows as f64 / begun.elapsed().as_secs_f64();
            println!("  batch {batch:>3}, {workers} workers: {rate:>7.0}");
            journal.close().await;
        }
    }
}

/// Fills a journal with rows that are due.
pub(crate) fn fill(journal: &SqliteJournal, path: &Path, rows: usize) {
    let mut connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let draft = operation();
    for first in (0..rows).step_by(10_000) {
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
        for _ in first..rows.min(first + 10_000) {
            journal.enqueue_in(&transaction, &draft).unwrap();
        }
        transaction.commit().unwrap();
    }
}
