//! A thousand rows after an outage (O-15).

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use post_once::journal::{Due, Journal, MemoryJournal};
use post_once::observer::Event;
use post_once::resume::Summary;
use post_once::retry::RetryBudget;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, ClientBuilder, IdempotencyKey};

use super::support::*;

const ROWS: usize = 1_000;
const AT_ONCE: usize = 6;
const PER_ORIGIN: usize = 3;

/// The keys that are in flight, and how many of a group there were at most.
#[derive(Clone, Default)]
struct InFlight(Arc<Mutex<Counts>>);

#[derive(Default)]
struct Counts {
    now: HashSet<IdempotencyKey>,
    /// Some of the keys.
    groups: Vec<HashSet<IdempotencyKey>>,
    /// The most of each group, and of all together.
    most: (Vec<usize>, usize),
}

impl InFlight {
    fn watched(&self, client: ClientBuilder) -> Client {
        let InFlight(counts) = self.clone();
        let observer = move |event: &Event<'_>| match event {
            Event::AttemptStarted { key: Some(key), .. } => {
                let Counts { now, groups, most } = &mut *counts.lock().unwrap();
                assert!(now.insert((*key).clone()), "it is in flight twice");
                let of_each = groups.iter().map(|group| now.intersection(group).count());
                most.0.resize(groups.len(), 0);
                most.0.iter_mut().zip(of_each).for_each(|(most, now)| *most = now.max(*most));
                most.1 = now.len().max(most.1);
            }
            Event::AttemptEnded { key: Some(key), .. } => {
                assert!(counts.lock().unwrap().now.remove(key), "it was not in flight");
            }
            _ => {}
        };
        client.observer(observer).build().unwrap()
    }

    /// Counts these keys by themselves.
    fn group(&self, keys: impl IntoIterator<Item = IdempotencyKey>) {
        self.0.lock().unwrap().groups.push(keys.into_iter().collect());
    }

    /// The most of each group, and of all together.
    fn most(&self) -> (Vec<usize>, usize) {
        self.0.lock().unwrap().most.clone()
    }
}

async fn enqueue(client: &Client, server: &Server, rows: usize) -> Vec<IdempotencyKey> {
    let mut keys = Vec::with_capacity(rows);
    for _ in 0..rows {
        keys.push(once(client, server).enqueue().await.unwrap());
    }
    keys
}

async fn pass(client: &Client, servers: &[&Server]) -> Summary {
    let mut resumer = client.resumer().concurrency(AT_ONCE).per_origin(PER_ORIGIN);
    for server in servers {
        resumer = resumer.origin(&server.url("/"));
    }
    resumer.once().await.unwrap()
}

/// How many rows come due in each tenth of a second.
async fn histogram(clock: &ManualClock, journal: &MemoryJournal, tenths: usize) -> Vec<usize> {
    let mut due = Vec::new();
    let mut filter = Due::default();
    filter.limit = u32::MAX;
    for _ in 0..tenths {
        clock.advance(Duration::from_millis(100));
        due.push(journal.claim_due(&filter, MINUTE * 60).await.unwrap().len());
    }
    due
}

// O-15.
#[tokio::test]
async fn a_thousand_rows_are_bounded_in_flight_and_spread_above_the_hint() {
    let limited = (0..ROWS).map(|_| Fault::status(429).retry_after(5));
    let server = scripted(limited).await;
    let (clock, journal) = on_one_clock();
    let in_flight = InFlight::default();
    let client = in_flight.watched(builder(&clock, journal.clone()));
    enqueue(&client, &server, ROWS).await;
    assert_eq!(pass(&client, &[&server]).await.later, ROWS as u64);
    assert_eq!(in_flight.most(), (vec![], PER_ORIGIN));

    // Nobody before the hint; then all, spread over the second that follows it.
    let due = histogram(&clock, &journal, 60).await;
    println!("due per tenth of a second: {due:?}");
    assert_eq!(due[..49].iter().sum::<usize>(), 0);
    assert_eq!(due.iter().sum::<usize>(), ROWS);
    assert!(due[50..].iter().all(|rows| (50..=200).contains(rows)), "{due:?}");
}

// O-15: the bound holds in all, and for each origin by itself.
#[tokio::test]
async fn each_origin_has_a_bound_of_its_own() {
    let (one, two) = (scripted([]).await, scripted([]).await);
    let (clock, journal) = on_one_clock();
    let in_flight = InFlight::default();
    let client = in_flight.watched(builder(&clock, journal.clone()));
    // Alternating, so that there is always work for both; then of one alone, as much as fits.
    let (mut ones, mut twos) = (Vec::new(), Vec::new());
    for _ in 0..25 {
        ones.extend(enqueue(&client, &one, 1).await);
        twos.extend(enqueue(&client, &two, 1).await);
    }
    ones.extend(enqueue(&client, &one, 25).await);
    twos.extend(enqueue(&client, &two, 25).await);
    in_flight.group(ones);
    in_flight.group(twos);
    assert_eq!(pass(&client, &[&one, &two]).await.completed, 100);
    assert_eq!(in_flight.most(), (vec![PER_ORIGIN; 2], AT_ONCE));
}

// O-15: the budget delays, and nothing else.
#[tokio::test]
async fn an_empty_budget_puts_rows_off_and_loses_none() {
    const OUTAGE: usize = ROWS + 101;
    let server = scripted((0..OUTAGE).map(|_| Fault::status(503))).await;
    let (clock, journal) = on_one_clock();
    let policy = policy().retry_budget(RetryBudget::PerOrigin).build().unwrap();
    let client = builder(&clock, journal.clone()).policy(policy).build().unwrap();
    enqueue(&client, &server, ROWS).await;
    // First sends are free; of the retries a full bucket allows a hundred, and an empty one a probe.
    assert_eq!(pass(&client, &[&server]).await.later, ROWS as u64);
    assert_eq!(server.requests().len(), ROWS);
    clock.advance(MINUTE);
    assert_eq!(pass(&client, &[&server]).await.later, ROWS as u64);
    assert_eq!(server.requests().len(), OUTAGE);
    assert_eq!(journal.gauges().await.unwrap().pending, ROWS as u64);
}
