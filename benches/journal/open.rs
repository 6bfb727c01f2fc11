//! Opening a journal of many rows, and the first claim.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use post_once::journal::rusqlite::Connection;
use post_once::journal::{Journal, SqliteJournal, To};
use post_once::testkit::journal::{due, outcome};

use crate::begin;
use crate::claim::fill;

const LEASE: Duration = Duration::from_secs(600);

pub(crate) async fn open() {
    println!("opening, and the first claim of 32 (ms)");
    for rows in [1_000, 100_000, 1_000_000] {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = folder.path().join("journal");
        let journal = SqliteJournal::open(&path).await.unwrap();
        fill(&journal, &path, rows);
        journal.close().await;
        first(&path, &format!("{rows} pending, clean stop")).await;
        let child = Command::new(std::env::current_exe().unwrap())
            .env("POST_ONCE_BENCH_CHILD", &path)
            .status()
            .unwrap();
        assert!(!child.success(), "it kills itself");
        first(&path, &format!("{rows} pending, killed")).await;
        if rows == 1_000_000 {
            resume(&path).await;
            let connection = Connection::open(&path).unwrap();
            let complete = "UPDATE post_once_operations SET state = 'completed', due_at = NULL, \
                            claimed = 0 WHERE id > 10";
            connection.execute_batch(complete).unwrap();
            let due = "UPDATE post_once_operations SET state = 'pending', due_at = 1, claimed = 0 \
                       WHERE id <= 10";
            connection.execute_batch(due).unwrap();
            drop(connection);
            first(&path, &format!("{rows} completed and 10 pending, clean stop")).await;
        }
    }
}

async fn first(path: &Path, what: &str) {
    let begun = Instant::now();
    let journal = SqliteJournal::open(path).await.unwrap();
    let opened = begun.elapsed();
    let claimed = journal.claim_due(&due(&[], 32), LEASE).await.unwrap();
    let claim = begun.elapsed() - opened;
    println!("  {what}: open {:.1}, first claim {:.1}", ms(opened), ms(claim));
    for (claim, _) in claimed {
        journal.finish_soon(claim, outcome(To::Released));
    }
    let begun = Instant::now();
    let gauges = journal.gauges().await.unwrap();
    println!("      gauges {:.1} ({} pending)", ms(begun.elapsed()), gauges.pending);
    journal.close().await;
}

/// What it takes in memory to go through all of them.
async fn resume(path: &Path) {
    let before = resident();
    let journal = SqliteJournal::open(path).await.unwrap();
    let (mut most, mut rows) = (0, 0_u64);
    loop {
        let claimed = journal.claim_due(&due(&[], 128), LEASE).await.unwrap();
        if claimed.is_empty() || rows > 300_000 {
            break;
        }
        rows += claimed.len() as u64;
        for (claim, _) in claimed {
            journal.finish_soon(claim, outcome(To::Completed));
        }
        most = most.max(resident());
    }
    journal.close().await;
    println!(
        "      resident while resuming {rows} rows: {} MiB above idle",
        (most - before) / 1024
    );
}

/// The other process: writes for a while, many at a time, and is killed in the middle.
pub(crate) fn child(path: &Path) -> ! {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let journal = SqliteJournal::open(path).await.unwrap();
        for _ in 0..256 {
            let journal = journal.clone();
            tokio::spawn(async move {
                loop {
                    begin(&journal, LEASE).await;
                }
            });
        }
        tokio::time::sleep(Duration::from_millis(700)).await;
        std::process::abort()
    })
}

/// KiB in memory now.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").trim().parse().ok()).unwrap_or(0)
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
