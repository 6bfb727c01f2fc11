//! What a journal says is not finished is gone on with.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Method};
use post_once::journal::{Journal, List, MemoryJournal, Reason, State, To};
use post_once::testkit::{Fault, Server};
use post_once::{Client, RetryPolicy};

use super::support::dropped_at;

fn client(journal: &MemoryJournal) -> Client {
    let policy = RetryPolicy::builder().base_delay(Duration::from_millis(1)).build().unwrap();
    Client::builder().policy(policy).journal(journal.clone()).build().unwrap()
}

async fn states(journal: &MemoryJournal) -> Vec<State> {
    let rows = journal.list(&List::default()).await.unwrap();
    rows.iter().map(|row| row.state).collect()
}

// O-17.
#[tokio::test]
async fn a_dropped_call_is_resumed_under_its_key() {
    let faults = [Fault::hang(Duration::from_secs(5))];
    let server = Server::builder().faults(faults).start().await.unwrap();
    let journal = MemoryJournal::new();
    let caller = client(&journal);
    let call = caller.once(Method::POST, server.url("/v1/charges")).json("x");
    dropped_at(&server, "c1 effect ch_1", call).await;

    let resumer = client(&journal).resumer().origin(&server.url("/"));
    let summary = resumer.once().await.unwrap();
    assert_eq!(summary.completed, 1);
    assert_eq!(server.charges().len(), 1);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].headers()["idempotency-key"], requests[1].headers()["idempotency-key"]);
    assert_eq!(requests[0].body(), requests[1].body());
    let rows = journal.list(&List::default()).await.unwrap();
    assert_eq!(rows[0].state, State::Completed);
    let known: Vec<_> =
        rows[0].trail.attempts.iter().map(|a| (a.number, a.known.as_str())).collect();
    assert_eq!(known, [(1, "ambiguous"), (2, "replayed")]);
}

#[tokio::test]
async fn a_row_of_another_origin_or_scope_is_parked_not_sent() {
    let server = Server::start().await.unwrap();
    let journal = MemoryJournal::new();
    let caller = client(&journal);
    let once = || caller.once(Method::POST, server.url("/v1/charges")).json("x");
    once().enqueue().await.unwrap();
    let summary = caller.resumer().origin("http://elsewhere.test").once().await.unwrap();
    assert_eq!(summary.parked, 1);
    once().scope("acct_2").enqueue().await.unwrap();
    let summary = caller.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.parked, 1);
    let parked = [State::Parked(Reason::ForeignOrigin), State::Parked(Reason::NoClient)];
    assert_eq!(states(&journal).await, parked);
    assert!(server.requests().is_empty());
    let rows = journal.list(&List::default()).await.unwrap();
    assert!(rows.iter().all(|row| row.attempts == 0 && row.ages.first_send.is_none()));
}

/// Outcomes are told as they are written down, also of what is tried again; other scopes are left alone.
#[tokio::test]
async fn a_resumer_of_one_scope_tells_what_became_of_its_rows() {
    let server = Server::builder().faults([Fault::status(503)]).start().await.unwrap();
    let journal = MemoryJournal::new();
    let caller = Client::builder().shared_journal(Arc::new(journal.clone())).build().unwrap();
    let once = || caller.once(Method::POST, server.url("/v1/charges")).json("x");
    once().enqueue().await.unwrap();
    once().scope("acct_2").operation("a").enqueue().await.unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let pass = async || {
        let told = Arc::clone(&told);
        let resumer = caller.resumer().origin(&server.url("/")).only_scopes(["acct_2"]);
        let resumer = resumer.scope("acct_2", caller.clone(), HeaderMap::new());
        let resumer = resumer.on_outcome(move |resumed| {
            let name = resumed.record.draft.name.clone();
            told.lock().unwrap().push((name, matches!(resumed.to, To::Later(_))));
        });
        resumer.once_until(std::future::pending()).await.unwrap()
    };
    let later = pass().await;
    assert_eq!((later.later, later.parked, later.completed), (1, 0, 0));
    assert_eq!(*told.lock().unwrap(), [(Some("a".to_owned()), true)]);
    assert_eq!(states(&journal).await, [State::Pending, State::Pending]);
    assert_eq!(server.charges().len(), 0);
}

/// Cut short, a pass returns at once and leaves its row to the next one.
#[tokio::test]
async fn a_pass_that_is_cut_short_releases_its_claims() {
    let server =
        Server::builder().faults([Fault::hang(Duration::from_secs(60))]).start().await.unwrap();
    let journal = MemoryJournal::new();
    let caller = client(&journal);
    caller.once(Method::POST, server.url("/v1/charges")).json("x").enqueue().await.unwrap();
    let resumer = || caller.resumer().origin(&server.url("/"));
    let shutdown = async {
        while server.charges().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    resumer().once_until(shutdown).await.unwrap();
    let summary = resumer().once().await.unwrap();
    assert_eq!((summary.completed, server.charges().len()), (1, 1));
}
