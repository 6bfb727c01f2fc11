//! A few operations of each kind, for a tool that counts instructions.

use std::time::Duration;

use post_once::journal::{Held, Journal, SqliteJournal, To};
use post_once::testkit::journal::{due, outcome};

use crate::begin;
use crate::claim::fill;

/// Rows that are begun and ended, and rows that are claimed.
const ROWS: usize = 6_400;
const TASKS: usize = 64;
const BATCH: u32 = 32;
const LEASE: Duration = Duration::from_secs(600);

pub(crate) async fn count() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("journal");
    let journal = SqliteJournal::open(&path).await.unwrap();
    let working: Vec<_> = (0..TASKS)
        .map(|_| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for _ in 0..ROWS / TASKS {
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
    fill(&journal, &path, ROWS);
    let (filter, mut claimed) = (due(&[], BATCH), 0);
    while claimed < ROWS {
        claimed += journal.claim_due(&filter, LEASE).await.unwrap().len();
    }
    journal.close().await;
    println!("{ROWS} begun and ended, {ROWS} filled, {claimed} claimed");
}
