//! A server that was away while many operations were written down, and a resumer that is stopped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use http::Method;
use libtest_mimic::Trial;
use post_once::Client;
use post_once::clock::{Clock, Sleep, SystemClock};
use post_once::journal::{Journal, SqliteJournal, State};
use post_once::observer::Event;
use post_once::testkit::journal::list;
use post_once::testkit::{Fault, Server, refused_url};

use crate::child::Role;
use crate::server::ServerProcess;
use crate::{how_many, runtime};

/// The time of this file runs so much faster than that of the sockets.
const HASTE: u32 = 60;
/// The tokens of the retry budget of an origin.
const BUDGET: u64 = 100;
const AT_ONCE: usize = 64;
const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("outage::many_rows_are_resumed_bounded_spread_and_within_the_budget", || {
            runtime().block_on(many_rows());
            Ok(())
        }),
        Trial::test(
            "outage::a_shutdown_with_256_in_flight_returns_at_once_and_loses_nothing",
            || {
                runtime().block_on(shutdown());
                Ok(())
            },
        ),
    ]
}

/// A clock that hurries.
#[derive(Clone, Copy, Debug)]
struct Hasty;

impl Clock for Hasty {
    fn monotonic(&self) -> Duration {
        SystemClock.monotonic() * HASTE
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.monotonic()
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        SystemClock.sleep(wait / HASTE)
    }
}

/// What went on, as an observer counts it.
#[derive(Debug, Default)]
struct Tally {
    in_flight: AtomicU64,
    most_in_flight: AtomicU64,
    firsts: AtomicU64,
    retries: AtomicU64,
    answers: AtomicU64,
    /// By how many more the retries were than the answers, at most.
    most_ahead: AtomicU64,
    /// When as many retries had been sent as the budget has tokens.
    spent: OnceLock<Duration>,
    /// When the server came back.
    back: OnceLock<Duration>,
    /// Sends in each second since.
    histogram: Mutex<Vec<u64>>,
}

impl Tally {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::AttemptStarted { number, .. } => {
                let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
                self.most_in_flight.fetch_max(in_flight, Ordering::Relaxed);
                if *number == 1 {
                    self.firsts.fetch_add(1, Ordering::Relaxed);
                } else {
                    let retries = self.retries.fetch_add(1, Ordering::Relaxed) + 1;
                    if retries >= BUDGET {
                        self.spent.get_or_init(|| Hasty.monotonic());
                    }
                    let answers = self.answers.load(Ordering::Relaxed);
                    self.most_ahead.fetch_max(retries.saturating_sub(answers), Ordering::Relaxed);
                }
                if let Some(back) = self.back.get() {
                    let second = (Hasty.monotonic() - *back).as_secs() as usize;
                    let mut histogram = self.histogram.lock().unwrap();
                    if histogram.len() <= second {
                        histogram.resize(second + 1, 0);
                    }
                    histogram[second] += 1;
                }
            }
            Event::AttemptEnded { attempt, .. } => {
                self.in_flight.fetch_sub(1, Ordering::Relaxed);
                if attempt.status().is_some_and(|status| status.is_success()) {
                    self.answers.fetch_add(1, Ordering::Relaxed);
                }
            }
            _ => {}
        }
    }

    /// A retry was the budget's, or paid by an answer, or the one of its second that probes.
    fn within_budget(&self) {
        let spent = self.spent.get().expect("the budget was used up");
        let probes = (Hasty.monotonic() - *spent).as_secs() + 1;
        let ahead = self.most_ahead.load(Ordering::Relaxed);
        assert!(ahead <= BUDGET + probes, "{ahead} more retries than answers, {probes} probes");
    }
}

/// Writes so many operations down.
async fn enqueue(client: &Client, url: &str, rows: u32) {
    let mut left = 0..rows;
    while !left.is_empty() {
        let batch: Vec<_> = left.by_ref().take(256).collect();
        let enqueued = batch.iter().map(|row| client.once(Method::POST, url).json(row).enqueue());
        crate::child::all(enqueued.map(async |enqueued| drop(enqueued.await.unwrap()))).await;
    }
}

async fn many_rows() {
    let rows = how_many("POST_ONCE_CRASH_ROWS", 20_000);
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::builder(folder.path().join("journal")).clock(Hasty);
    let journal = journal.open().await.unwrap();
    let tally = Arc::new(Tally::default());
    let observer = Arc::clone(&tally);
    let client = Client::builder()
        .journal(journal.clone())
        .clock(Hasty)
        .lease(Duration::from_secs(600))
        .observer(move |event: &Event<'_>| observer.observe(event))
        .build()
        .unwrap();
    let refused = refused_url().unwrap();
    let url = format!("{refused}v1/charges");
    enqueue(&client, &url, rows).await;
    let began = Hasty.monotonic();
    let idle = resident();
    let memory = AtomicU64::new(idle);
    let at_work = client.resumer().origin(&url).concurrency(AT_ONCE).per_origin(AT_ONCE);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let at_work = tokio::spawn(at_work.run(async { drop(stopped.await) }));

    // The worst case: every row was sent once, and the budget is used up.
    let long = Duration::from_secs(60 + u64::from(rows) / 100);
    let sent = |count: &AtomicU64| count.load(Ordering::Relaxed);
    until("every row is sent once", long, || async {
        memory.fetch_max(resident(), Ordering::Relaxed);
        sent(&tally.firsts) >= u64::from(rows) && tally.spent.get().is_some()
    })
    .await;
    Hasty.sleep(Duration::from_secs(60)).await;
    println!("away for {:?}: {} retries", Hasty.monotonic() - began, sent(&tally.retries));
    tally.within_budget();
    let port = url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap();
    let server = ServerProcess::start(&Role::Counter { port });
    tally.back.set(Hasty.monotonic()).unwrap();
    until("all rows are completed", long, || async {
        memory.fetch_max(resident(), Ordering::Relaxed);
        journal.gauges().await.unwrap().completed == u64::from(rows)
    })
    .await;
    stop.send(()).unwrap();
    let summary = at_work.await.unwrap().unwrap();

    let histogram = tally.histogram.lock().unwrap().clone();
    print(&histogram);
    let most = sent(&tally.most_in_flight);
    let more = sent(&memory) - idle;
    println!(
        "{rows} rows, {} retries, at most {most} in flight, {more} KiB above idle, {summary:?}",
        sent(&tally.retries)
    );
    assert_eq!(server.tells::<(u32, u32)>(), (rows, rows), "each happened once, under its own key");
    // Nothing is kept for each row: a million takes as much as a few.
    assert!(more < 64 * 1024, "{more} KiB above idle");
    assert!(most <= AT_ONCE as u64, "{most} in flight");
    tally.within_budget();
    let busiest = histogram.iter().max().unwrap();
    assert!(*busiest <= u64::from(rows) / 20, "{busiest} of {rows} in one second");
}

/// Waits until it is so.
async fn until<F: Future<Output = bool>>(what: &str, limit: Duration, so: impl Fn() -> F) {
    let began = SystemClock.monotonic();
    while !so().await {
        SystemClock.sleep(Duration::from_millis(20)).await;
        let waited = SystemClock.monotonic() - began;
        assert!(waited < limit, "it takes too long until {what}");
    }
}

/// KiB of this process in memory; nothing where that cannot be told.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0)
}

fn print(histogram: &[u64]) {
    let most = histogram.iter().max().copied().unwrap_or(1);
    let width = histogram.len().div_ceil(30).max(1);
    println!("sends per second since the server is back:");
    for (number, seconds) in histogram.chunks(width).enumerate() {
        let sends = seconds.iter().sum::<u64>() / seconds.len() as u64;
        let bar = "#".repeat((sends * 60 / most) as usize);
        println!("{:>5} s {sends:>7} {bar}", number * width);
    }
}

async fn shutdown() {
    const IN_FLIGHT: u32 = 256;
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("journal")).await.unwrap();
    let client = Client::builder().journal(journal.clone()).build().unwrap();
    let hanging = (0..IN_FLIGHT).map(|_| Fault::delay(Duration::from_secs(2)));
    let server = Server::builder().faults(hanging).start().await.unwrap();
    let url = server.url("/v1/charges");
    enqueue(&client, &url, IN_FLIGHT).await;
    let resumer = || client.resumer().origin(&url).idle(Duration::from_millis(50));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let at_work = resumer().concurrency(256).per_origin(256);
    let at_work = tokio::spawn(at_work.run(async { drop(stopped.await) }));
    until("all are in flight", MINUTE, || async { server.requests().len() == IN_FLIGHT as usize })
        .await;

    let began = SystemClock.monotonic();
    stop.send(()).unwrap();
    let summary = at_work.await.unwrap().unwrap();
    let took = SystemClock.monotonic() - began;
    println!("{summary:?} {took:?} after the shutdown");
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(summary.completed, 0);
    for row in journal.list(&list([], None, None, u32::MAX)).await.unwrap() {
        assert_eq!((row.state, row.ages.lease_left), (State::Pending, None), "{row:?}");
        assert!(row.trail.sent, "that it was sent is not forgotten");
    }

    let nothing_pending = until("all are completed", MINUTE, || async {
        journal.gauges().await.unwrap().pending == 0
    });
    resumer().run(nothing_pending).await.unwrap();
    assert_eq!(journal.gauges().await.unwrap().completed, u64::from(IN_FLIGHT));
    assert_eq!(server.charges().len(), IN_FLIGHT as usize);
    server.stop().await;
}
