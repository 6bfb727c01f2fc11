//! What these tests share: clients with a journal, calls that are cut off, and looking at rows.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use post_once::client::OperationBuilder;
use post_once::journal::{Journal, List, MemoryJournal, Record, State};
use post_once::testkit::{ManualClock, Server};
use post_once::{Client, ClientBuilder};

pub(super) use crate::cases::support::{
    MINUTE, SECOND, Watch, charge, header, keys, logged, policy, report, scripted,
};

/// Longer than any claim lasts by default.
pub(super) const LEASE_IS_OVER: Duration = Duration::from_secs(31);

/// A clock, and a journal that goes by it.
pub(super) fn on_one_clock() -> (ManualClock, MemoryJournal) {
    let clock = ManualClock::new();
    let journal = MemoryJournal::with_clock(clock.clone());
    (clock, journal)
}

/// A client that writes down what it sends, with two attempts and no jitter.
pub(super) fn builder(clock: &ManualClock, journal: impl Journal) -> ClientBuilder {
    crate::cases::support::client(clock, policy().max_attempts(2)).journal(journal)
}

pub(super) fn client(clock: &ManualClock, journal: impl Journal) -> Client {
    builder(clock, journal).build().unwrap()
}

/// A charge that is about to be sent.
pub(super) fn once<'a>(client: &'a Client, server: &Server) -> OperationBuilder<'a> {
    client.once(Method::POST, server.url("/v1/charges")).json(&charge())
}

/// Sends it, and drops the call when the server's log has this line.
pub(super) async fn dropped_at(server: &Server, line: &str, call: OperationBuilder<'_>) {
    tokio::select! {
        ended = call.send() => panic!("it was to be dropped: {ended:?}"),
        () = logged(server, line) => {}
    }
}

/// Sends a charge, and drops the call as soon as it waits for its second attempt, on the real clock.
pub(super) async fn dropped_in_its_backoff(server: &Server, journal: impl Journal) {
    let waits = Arc::new(tokio::sync::Notify::new());
    let told = Arc::clone(&waits);
    let policy = policy().base_delay(MINUTE).max_delay(MINUTE).build().unwrap();
    let client = Client::builder().http(crate::cases::support::http()).policy(policy);
    let client = client.journal(journal).observer(Watch::at_wait(move || told.notify_one()));
    let client = client.build().unwrap();
    tokio::select! {
        ended = once(&client, server).send() => panic!("it was to wait: {ended:?}"),
        () = waits.notified() => {}
    }
}

pub(super) async fn rows(journal: &impl Journal) -> Vec<Record> {
    journal.list(&List::default()).await.unwrap()
}

/// The only row.
pub(super) async fn row(journal: &impl Journal) -> Record {
    let mut rows = rows(journal).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

pub(super) async fn states(journal: &impl Journal) -> Vec<State> {
    rows(journal).await.iter().map(|row| row.state).collect()
}

/// What each recorded attempt of a row taught.
pub(super) fn known(row: &Record) -> Vec<&str> {
    row.trail.attempts.iter().map(|attempt| attempt.known.as_str()).collect()
}
