//! Work that outlives its lease (O-20).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use post_once::journal::{Claim, Due, Held, Journal, MemoryJournal, State};
use post_once::resume::Resumer;
use post_once::testkit::{Fault, ManualClock, Server, refused_url};
use post_once::{Client, Effect};

use super::support::*;

async fn settle() {
    for _ in 0..4 {
        tokio::task::yield_now().await;
    }
}

// O-20.
#[tokio::test]
async fn a_heartbeat_keeps_the_claim_for_as_long_as_the_work_takes() {
    let server = scripted([Fault::hang(Duration::from_millis(300))]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).lease(SECOND).build().unwrap();
    let others = async {
        logged(&server, "c1 effect ch_1").await;
        for _ in 0..30 {
            clock.advance(Duration::from_millis(100));
            settle().await;
            let due = journal.claim_due(&Due::default(), SECOND).await.unwrap();
            assert!(due.is_empty(), "{due:?}");
            // Well before its end.
            let left = row(&journal).await.ages.lease_left.unwrap();
            assert!(left > SECOND / 2, "{left:?}");
        }
    };
    let (answer, ()) = tokio::join!(once(&client, &server).send(), others);
    assert_eq!(answer.unwrap().status(), 201);
    assert_eq!(states(&journal).await, [State::Completed]);
    assert_eq!(server.requests().len(), 1);
}

/// A client whose attempts have all the time there is: nothing but its claim ends them.
fn patient(clock: &ManualClock, journal: MemoryJournal) -> Client {
    let policy = policy().attempt_timeout(MINUTE * 10).build().unwrap();
    builder(clock, journal).policy(policy).build().unwrap()
}

/// Once the request is at the server its lease ends, and somebody else claims the row before its holder is
/// polled again.
async fn taken_over(server: &Server, clock: &ManualClock, journal: &MemoryJournal) -> Claim {
    logged(server, "c1 effect ch_1").await;
    clock.advance(LEASE_IS_OVER);
    journal.claim_due(&Due::default(), MINUTE).await.unwrap().remove(0).0
}

// O-20: the first wakes, and learns it from the store.
#[tokio::test]
async fn a_claim_that_was_lost_cancels_the_work() {
    let server = scripted([Fault::hang(SECOND * 5)]).await;
    let (clock, journal) = on_one_clock();
    let client = patient(&clock, journal.clone());
    let call = once(&client, &server).operation("order-42").send();
    let (ended, claim) = tokio::join!(call, taken_over(&server, &clock, &journal));
    let error = ended.unwrap_err();
    assert!(error.is_in_flight(), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(error.report().attempts().count(), 0, "the one under way was cut off");
    assert_eq!((server.requests().len(), clock.waits()), (1, vec![]));
    let after = row(&journal).await;
    assert_eq!((after.token, after.attempts), (claim.token, 2));
    assert!(after.trail.attempts.is_empty(), "nothing of the first was written");
    assert_eq!(journal.renew(&claim, MINUTE).await.unwrap(), Held::Yes(()));
}

/// How often a resumer handed an outcome over, and how often it told of one.
#[derive(Clone, Default)]
struct Counted(Arc<[AtomicUsize; 2]>);

impl Counted {
    fn resumer(&self, client: &Client, server: &Server) -> Resumer {
        let count = |counted: &Counted, at: usize| {
            let counts = Arc::clone(&counted.0);
            move || {
                counts[at].fetch_add(1, Ordering::Relaxed);
            }
        };
        let (handed, told) = (count(self, 0), count(self, 1));
        let resumer = client.resumer().origin(&server.url("/")).on_outcome(move |_| told());
        resumer.handler(move |_| {
            handed();
            std::future::ready(Ok(()))
        })
    }

    fn counts(&self) -> [usize; 2] {
        [0, 1].map(|at| self.0[at].load(Ordering::Relaxed))
    }
}

// O-20: the same of a resumer, which hands nothing over then.
#[tokio::test]
async fn a_claim_that_was_lost_cancels_what_is_resumed() {
    let server = scripted([Fault::hang(SECOND * 5)]).await;
    let (clock, journal) = on_one_clock();
    let client = patient(&clock, journal.clone());
    once(&client, &server).enqueue().await.unwrap();
    let counted = Counted::default();
    let pass = counted.resumer(&client, &server).once();
    let (summary, claim) = tokio::join!(pass, taken_over(&server, &clock, &journal));
    assert_eq!((summary.unwrap().lost, counted.counts()), (1, [0, 0]));
    assert_eq!(server.requests().len(), 1);
    let after = row(&journal).await;
    assert_eq!((after.token, after.attempts), (claim.token, 2));
    assert!(after.trail.attempts.is_empty(), "nothing of the first was written");
    assert_eq!(journal.renew(&claim, MINUTE).await.unwrap(), Held::Yes(()));
}

// O-20: what was handed over before its end was found to be too late is not told as an outcome.
#[tokio::test]
async fn what_is_resumed_too_late_tells_nobody() {
    let server = scripted([Fault::hang(Duration::from_millis(100))]).await;
    let (clock, stores, journal) = paused();
    let client = client(&clock, journal.clone());
    once(&client, &server).enqueue().await.unwrap();
    let counted = Counted::default();
    let pass = counted.resumer(&client, &server).once();
    let (summary, claim) = tokio::join!(pass, taken_over(&server, &stores, &journal));
    assert_eq!((summary.unwrap().lost, counted.counts()), (1, [1, 0]));
    let after = row(&journal).await;
    assert_eq!((after.state, after.token), (State::Pending, claim.token));
    assert!(after.answer.is_none());
}

/// The first process stands still while the store's clock goes on.
fn paused() -> (ManualClock, ManualClock, MemoryJournal) {
    let stores = ManualClock::new();
    let journal = MemoryJournal::with_clock(stores.clone());
    (ManualClock::new(), stores, journal)
}

// O-20: the loser's late write.
#[tokio::test]
async fn a_late_finish_is_refused_and_the_caller_still_has_its_answer() {
    let server = scripted([Fault::hang(Duration::from_millis(100))]).await;
    let (clock, stores, journal) = paused();
    let client = client(&clock, journal.clone());
    let other = taken_over(&server, &stores, &journal);
    let (answer, claim) = tokio::join!(once(&client, &server).send(), other);
    assert_eq!(answer.unwrap().status(), 201);
    let after = row(&journal).await;
    assert_eq!((after.state, after.token), (State::Pending, claim.token));
    assert!(after.answer.is_none());
}

/// Takes the only row over, at once.
pub(super) fn steal(stores: &ManualClock, journal: &MemoryJournal) {
    stores.advance(LEASE_IS_OVER);
    let due = Due::default();
    let claim = std::pin::pin!(journal.claim_due(&due, MINUTE));
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(claimed) = claim.poll(context) else {
        panic!("the reference store never waits");
    };
    assert_eq!(claimed.unwrap().len(), 1);
}

// O-20: nor is anything sent under a claim that was lost while it waited. What its new holder does is not
// known, whatever was known before.
#[tokio::test]
async fn the_next_attempt_is_not_sent_without_a_claim() {
    let server = scripted([]).await;
    for (url, fault, attempts) in [
        (server.url("/v1/charges"), Some(Fault::status(503)), ["unavailable"]),
        (server.url("/v1/charges"), Some(Fault::status(429)), ["throttled"]),
        (refused_url().unwrap(), None, ["not_sent"]),
    ] {
        server.push(fault);
        let before = server.requests().len();
        let (clock, stores, journal) = paused();
        let robbed = journal.clone();
        let watch = Watch::at_wait(move || steal(&stores, &robbed));
        let client = builder(&clock, journal.clone()).observer(watch).build().unwrap();
        let call = client.once(Method::POST, &url).json(&charge()).send();
        let error = call.await.unwrap_err();
        assert!(error.is_in_flight(), "{error}");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        let known: Vec<_> = error.report().attempts().map(|a| a.known().as_str()).collect();
        assert_eq!(known, attempts);
        assert_eq!(server.requests().len() - before, usize::from(attempts != ["not_sent"]));
    }
}

// O-20: the database blocks during a renewal.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn a_holder_that_cannot_confirm_its_renewal_stops_in_time() {
    use post_once::journal::{SqliteJournal, rusqlite};

    let server = scripted([Fault::hang(MINUTE)]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let clock = ManualClock::new();
    let journal = SqliteJournal::builder(&path).clock(clock.clone()).open().await.unwrap();
    let client = client(&clock, journal.clone());
    let blocked = async {
        logged(&server, "c1 effect ch_1").await;
        let other = rusqlite::Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        clock.advance(SECOND * 10);
        settle().await;
        clock.advance(SECOND * 19);
        settle().await;
        clock.advance(SECOND);
        other
    };
    let (ended, other) = tokio::join!(once(&client, &server).send(), blocked);
    let error = ended.unwrap_err();
    assert!(error.is_in_flight(), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(server.requests().len(), 1);
    journal.close().await;
}

/// One name, twice at once: the second waits, and is given what the first was.
#[tokio::test]
async fn a_second_call_of_the_name_waits_for_the_answer_of_the_first() {
    let server = scripted([Fault::hang(Duration::from_millis(200))]).await;
    let journal = MemoryJournal::new();
    let client = Client::builder().http(crate::cases::support::http()).journal(journal.clone());
    let client = client.build().unwrap();
    let call = || {
        let once = client.once(Method::POST, server.url("/v1/charges"));
        once.operation("order-42").json(&charge()).send()
    };
    let (one, two) = tokio::join!(call(), call());
    let (one, two) = (one.unwrap(), two.unwrap());
    let sources = [report(&one).source(), report(&two).source()];
    assert!(sources.contains(&post_once::report::Source::Network));
    assert!(sources.contains(&post_once::report::Source::Journal));
    assert_eq!(report(&one).key(), report(&two).key());
    assert_eq!(one.bytes().await.unwrap(), two.bytes().await.unwrap());
    assert_eq!(server.requests().len(), 1);
}

/// And says so when it has no time to wait.
#[tokio::test]
async fn a_second_call_that_cannot_wait_is_told_who_is_at_it() {
    let server = scripted([Fault::hang(Duration::from_millis(200))]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let call = || once(&client, &server).operation("order-42");
    let second = async {
        logged(&server, "c1 effect ch_1").await;
        call().deadline(SECOND).send().await.unwrap_err()
    };
    let (first, error) = tokio::join!(call().send(), second);
    assert!(error.is_in_flight(), "{error}");
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(first.unwrap().status(), 201);
    assert_eq!(server.requests().len(), 1);
}
