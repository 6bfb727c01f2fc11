//! Being interrupted is not failing: the row stays, and is resumed (O-17).

use std::time::{Duration, Instant};

use post_once::journal::{Due, Journal, State};
use post_once::testkit::{Fault, ManualClock};

use super::support::*;

// O-17.
#[tokio::test]
async fn a_call_dropped_during_its_backoff_sends_no_more_and_is_resumed() {
    let server = scripted([Fault::status(503)]).await;
    let (clock, journal) = on_one_clock();
    dropped_in_its_backoff(&server, journal.clone()).await;
    let dropped = row(&journal).await;
    assert_eq!((dropped.state, dropped.attempts), (State::Pending, 1));
    assert_eq!((known(&dropped), dropped.ages.lease_left), (vec!["unavailable"], None));
    assert_eq!(server.requests().len(), 1);

    let client = client(&clock, journal.clone());
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!((summary.completed, server.charges().len()), (1, 1));
    assert_eq!(keys(&server)[0], keys(&server)[1]);
}

// O-17, and O-21: what was only claimed is not charged.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "how long it takes for real is the question")]
async fn a_resumer_that_is_shut_down_returns_at_once_and_loses_nothing() {
    const ROWS: usize = 12;
    const AT_ONCE: usize = 4;
    let server = scripted((0..AT_ONCE).map(|_| Fault::hang(MINUTE))).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    for _ in 0..ROWS {
        once(&client, &server).enqueue().await.unwrap();
    }
    let resumer = client.resumer().origin(&server.url("/")).concurrency(ROWS).per_origin(AT_ONCE);
    let asked = std::cell::Cell::new(None);
    let shutdown = async {
        logged(&server, &format!("c{AT_ONCE} effect ch_{AT_ONCE}")).await;
        asked.set(Some(Instant::now()));
    };
    resumer.run(shutdown).await.unwrap();
    assert!(asked.get().unwrap().elapsed() < Duration::from_secs(1));

    let after = rows(&journal).await;
    let sent: Vec<_> = keys(&server).into_iter().flatten().collect();
    for row in &after {
        assert_eq!((row.state, row.ages.lease_left), (State::Pending, None));
        let was_sent = sent.contains(&row.draft.key);
        assert_eq!((row.attempts, row.lost), (u32::from(was_sent), 0));
        assert_eq!(row.ages.first_send.is_some(), was_sent);
    }
    assert_eq!(sent.len(), AT_ONCE);

    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.completed, ROWS as u64);
    assert_eq!(server.charges().len(), ROWS);
    let mut keys: Vec<_> = keys(&server).into_iter().flatten().collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), ROWS);
}

// O-17: a claim that waits for its origin is held, and renewed, for as long.
#[tokio::test]
async fn a_row_that_waits_for_its_turn_keeps_its_claim() {
    let server = scripted([Fault::hang(Duration::from_millis(300))]).await;
    let (clock, journal) = on_one_clock();
    let policy = policy().attempt_timeout(MINUTE * 2).build().unwrap();
    let client = builder(&clock, journal.clone()).policy(policy).build().unwrap();
    for _ in 0..2 {
        once(&client, &server).enqueue().await.unwrap();
    }
    let resumer = client.resumer().origin(&server.url("/")).per_origin(1);
    let watch = async {
        logged(&server, "c1 effect ch_1").await;
        for _ in 0..12 {
            clock.advance(SECOND * 5);
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        }
        let free = journal.claim_due(&Due::default(), SECOND).await.unwrap();
        assert!(free.is_empty(), "{free:?}");
    };
    let (summary, ()) = tokio::join!(resumer.once(), watch);
    assert_eq!(summary.unwrap().completed, 2);
}

// O-21.
#[tokio::test]
async fn a_clean_shutdown_does_not_reset_the_count_of_claims_that_were_lost() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    for _ in 0..2 {
        once(&client, &server).enqueue().await.unwrap();
    }
    for _ in 0..3 {
        assert_eq!(journal.claim_due(&Due::default(), SECOND).await.unwrap().len(), 2);
        clock.advance(SECOND);
    }
    let other = ManualClock::new();
    let shut = super::support::client(&other, journal.clone());
    let resumer = shut.resumer().origin(&server.url("/")).concurrency(2).per_origin(1);
    resumer.run(logged(&server, "c1 effect ch_1")).await.unwrap();
    let lost: Vec<_> = rows(&journal).await.iter().map(|row| row.lost).collect();
    // The first was sent, which is an outcome; the second only waited.
    assert_eq!(lost, [0, 3]);
}
