//! Claiming what is due.

use std::path::Path;
use std::time::{Duration, Instant};

use post_once::journal::rusqlite::{Connection, TransactionBehavior};
use post_once::journal::{Journal, SqliteJournal};
use post_once::testkit::journal::due;

use crate::{BODY, operation};

pub(crate) async fn claim() {
    println!("claims (rows per second), and those of the bare driver, one worker");
    for batch in [1, 32, 128] {
        let rows = if batch == 1 { 4_000 } else { 40_000 };
        let bare = bare(batch, rows);
        println!("  batch {batch:>3}, bare:      {bare:>7.0}");
        for workers in [1, 4] {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let path = folder.path().join("journal");
            let journal = SqliteJournal::open(&path).await.unwrap();
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
            println!(
                "  batch {batch:>3}, {workers} workers: {rate:>7.0}  ratio {:.2}",
                rate / bare
            );
            journal.close().await;
        }
    }
}

/// The least that a claim is: one statement that marks what is due and returns its bodies, as durably.
fn bare(batch: u32, rows: usize) -> f64 {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let connection = Connection::open(folder.path().join("bare")).unwrap();
    let settings = "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
        CREATE TABLE bare (id INTEGER PRIMARY KEY, due_at INTEGER, token INTEGER, body BLOB);
        CREATE INDEX bare_due ON bare (due_at) WHERE due_at IS NOT NULL;";
    connection.execute_batch(settings).unwrap();
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1) \
        INSERT INTO bare (due_at, token, body) SELECT 1, 0, randomblob(?2) FROM n";
    connection.execute(fill, (rows as i64, BODY as i64)).unwrap();
    connection.execute_batch("PRAGMA synchronous = FULL").unwrap();
    let claim = "UPDATE bare SET due_at = 2, token = token + 1 WHERE id IN \
        (SELECT id FROM bare WHERE due_at <= 1 ORDER BY due_at LIMIT ?1) RETURNING id, body";
    let mut claim = connection.prepare(claim).unwrap();
    let (begun, mut claimed) = (Instant::now(), 0);
    while claimed < rows {
        let due = claim.query_map([batch], |row| row.get::<_, Vec<u8>>(1)).unwrap();
        claimed += due.map(|body| assert_eq!(body.unwrap().len(), BODY)).count();
    }
    rows as f64 / begun.elapsed().as_secs_f64()
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
