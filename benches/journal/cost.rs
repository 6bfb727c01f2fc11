//! What one operation costs beside many rows, against what it costs beside few.

use std::fs::File;
use std::time::{Duration, Instant};

use post_once::journal::rusqlite::Connection;
use post_once::journal::{Held, Journal, SqliteJournal, To};
use post_once::testkit::journal::outcome;

use crate::claim::fill;
use crate::{begin, median};

const FEW: usize = 1_000;
const MANY: usize = 1_000_000;
const ROUNDS: usize = 15;
const LEASE: Duration = Duration::from_secs(600);

pub(crate) async fn cost() {
    println!("an operation (begin and finish) beside so many rows, one at a time, and 64 (ms)");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let open = async |rows: usize| {
        let path = folder.path().join(format!("journal-{rows}"));
        let journal = SqliteJournal::open(&path).await.unwrap();
        fill(&journal, &path, rows);
        // What was written without a sync is not to be written while we measure.
        let whole = "PRAGMA wal_checkpoint(TRUNCATE)";
        Connection::open(&path).unwrap().query_row(whole, [], |_| Ok(())).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        journal
    };
    let (few, many) = (open(FEW).await, open(MANY).await);
    for tasks in [1, 64] {
        let (mut beside_few, mut beside_many) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            beside_few.push(operate(&few, tasks).await);
            beside_many.push(operate(&many, tasks).await);
        }
        let ratios = beside_many.iter().zip(&beside_few).map(|(many, few)| many / few).collect();
        println!(
            "  {tasks:>2} tasks: {FEW} rows {:.3}  {MANY} rows {:.3}  ratio {:.2}",
            median(beside_few),
            median(beside_many),
            median(ratios),
        );
    }
    few.close().await;
    many.close().await;
}

/// The milliseconds of an operation, of a few hundred.
async fn operate(journal: &SqliteJournal, tasks: usize) -> f64 {
    let each = if tasks == 1 { 200 } else { 40 };
    let begun = Instant::now();
    let working: Vec<_> = (0..tasks)
        .map(|_| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for _ in 0..each {
                    let claim = begin(&journal, LEASE).await;
                    let held = journal.finish(&claim, &outcome(To::Completed)).await.unwrap();
                    assert_eq!(held, Held::Yes(()));
                }
            })
        })
        .collect();
    for task in working {
        task.await.unwrap();
    }
    begun.elapsed().as_secs_f64() * 1e3 / (each * tasks) as f64
}
