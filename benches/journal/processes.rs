//! Four processes on one file: how long the slowest operations wait.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use post_once::journal::{Held, Journal, SqliteJournal, To};
use post_once::testkit::journal::outcome;

use crate::{begin, quantile};

const PROCESSES: usize = 4;
const TASKS: usize = 16;
const LASTS: Duration = Duration::from_secs(8);
const LEASE: Duration = Duration::from_secs(600);

/// The variable that makes this program one of the processes: the path of the journal.
pub(crate) const CHILD: &str = "POST_ONCE_BENCH_PROCESS";

pub(crate) async fn processes() {
    println!(
        "{PROCESSES} processes of {TASKS} tasks on one file: begin and finish, each its own wait"
    );
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("journal");
    SqliteJournal::open(&path).await.unwrap().close().await;
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .env(CHILD, &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let mut waits = Vec::new();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "a process failed");
        let micros = String::from_utf8(output.stdout).unwrap();
        let micros = micros.split_ascii_whitespace().map(|word| word.parse().unwrap());
        let of_child: Vec<Duration> = micros.map(Duration::from_micros).collect();
        println!("  one process: {} writes", of_child.len());
        waits.extend(of_child);
    }
    let rate = waits.len() as f64 / LASTS.as_secs_f64();
    let mut at = |thousandths| quantile(&mut waits, thousandths).as_secs_f64() * 1e3;
    let (half, most, nearly, longest) = (at(500), at(990), at(999), at(1000));
    println!(
        "  {rate:.0} writes per second: p50 {half:.1}, p99 {most:.1}, p99.9 {nearly:.1}, longest {longest:.1} ms"
    );
}

/// One of the processes: prints how many microseconds each write took.
pub(crate) async fn child(path: &Path) {
    let journal = SqliteJournal::open(path).await.unwrap();
    let waits = Arc::new(Mutex::new(Vec::new()));
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            let (journal, waits) = (journal.clone(), Arc::clone(&waits));
            tokio::spawn(async move {
                while begun.elapsed() < LASTS {
                    let started = Instant::now();
                    let claim = begin(&journal, LEASE).await;
                    let inserted = started.elapsed();
                    let held = journal.finish(&claim, &outcome(To::Completed)).await.unwrap();
                    assert_eq!(held, Held::Yes(()));
                    let finished = started.elapsed() - inserted;
                    waits.lock().unwrap().extend([inserted, finished]);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    journal.close().await;
    let waits = waits.lock().unwrap();
    let words: Vec<_> = waits.iter().map(|wait| wait.as_micros().to_string()).collect();
    println!("{}", words.join(" "));
}
