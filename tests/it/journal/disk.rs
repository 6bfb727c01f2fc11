//! One file, several who write to it, and a disk that fails (O-19).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use post_once::journal::{Journal, SqliteJournal, State, rusqlite};
use post_once::report::Source;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Effect};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::support::*;

async fn open(path: &Path, clock: &ManualClock) -> SqliteJournal {
    SqliteJournal::builder(path).clock(clock.clone()).open().await.unwrap()
}

/// Lets no new page into the file: its writes fail as on a full disk.
fn fill(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    let trigger = "CREATE TRIGGER full BEFORE INSERT ON post_once_operations \
                   BEGIN SELECT RAISE(FAIL, 'the disk is full'); END";
    connection.execute_batch(trigger).unwrap();
    connection
}

// O-19.
#[tokio::test]
async fn what_cannot_be_written_down_is_not_sent() {
    let server = scripted([]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let clock = ManualClock::new();
    let journal = open(&path, &clock).await;
    let client = client(&clock, journal.clone());
    let full = fill(&path);
    let error = once(&client, &server).send().await.unwrap_err();
    assert!(error.is_journal(), "{error}");
    assert_eq!(error.effect(), Effect::NotSent);
    // And goes on when there is room again.
    full.execute_batch("DROP TRIGGER full").unwrap();
    once(&client, &server).send().await.unwrap();
    journal.close().await;
    let error = once(&client, &server).send().await.unwrap_err();
    assert!(error.is_journal(), "{error}");
    assert_eq!(error.effect(), Effect::NotSent);
    assert_eq!(server.requests().len(), 1);
}

// O-19.
#[tokio::test]
async fn without_the_final_mark_the_caller_has_its_answer_and_the_row_is_resumed() {
    let server = scripted([Fault::hang(Duration::from_millis(200))]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let clock = ManualClock::new();
    let journal = open(&path, &clock).await;
    let first = client(&clock, journal.clone());
    let closes = async {
        logged(&server, "c1 effect ch_1").await;
        journal.close().await;
    };
    let (answer, ()) = tokio::join!(once(&first, &server).send(), closes);
    let answer = answer.unwrap();
    assert_eq!((answer.status().as_u16(), report(&answer).effect()), (201, Effect::Answered));

    let journal = open(&path, &clock).await;
    assert_eq!(states(&journal).await, [State::Pending]);
    clock.advance(LEASE_IS_OVER);
    let second = client(&clock, journal.clone());
    let summary = second.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.completed, 1);
    assert_eq!(keys(&server)[0], keys(&server)[1]);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(known(&row(&journal).await), ["ambiguous", "replayed"]);
}

// O-19: two who read and then write, on one file at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_handles_on_one_file_share_names_and_lose_nothing() {
    const NAMES: usize = 24;
    const ROWS: usize = 24;
    // Each answer is late: whoever is second at a name comes while the first is at it.
    let server = Server::builder().delay(Duration::from_millis(100)).start().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let mut clients = Vec::new();
    for _ in 0..2 {
        let client = Client::builder().http(crate::cases::support::http());
        let client = client.journal(SqliteJournal::open(&path).await.unwrap());
        clients.push(client.build().unwrap());
    }
    for _ in 0..ROWS {
        once(&clients[0], &server).enqueue().await.unwrap();
    }
    let begin = Arc::new(Barrier::new(2 * NAMES + 2));
    let (mut calls, mut resumers) = (JoinSet::new(), JoinSet::new());
    for client in &clients {
        // Few at a time, so that it claims in between the calls.
        let resumer = client.resumer().origin(&server.url("/")).concurrency(4);
        let begins = Arc::clone(&begin);
        resumers.spawn(async move {
            begins.wait().await;
            resumer.once().await.unwrap().completed
        });
        for name in 0..NAMES {
            let (client, url) = (client.clone(), server.url("/v1/charges"));
            let begins = Arc::clone(&begin);
            calls.spawn(async move {
                let once = client.once(Method::POST, url).operation(format!("order-{name}"));
                begins.wait().await;
                let answer = once.json(&name).send().await.unwrap();
                let (source, key) = (report(&answer).source(), report(&answer).key().cloned());
                assert_eq!(answer.status(), 201);
                (name, source, key.unwrap(), answer.bytes().await.unwrap())
            });
        }
    }
    let mut answers: Vec<_> = calls.join_all().await;
    assert_eq!(resumers.join_all().await.iter().sum::<u64>(), ROWS as u64);
    answers.sort_by_key(|(name, source, ..)| (*name, *source == Source::Journal));
    for pair in answers.chunks(2) {
        let [(name, first, key, answer), (_, second, same_key, same_answer)] = pair else {
            panic!("each name was called twice: {pair:?}")
        };
        assert_eq!((first, second), (&Source::Network, &Source::Journal), "{name}");
        assert_eq!((key, answer), (same_key, same_answer), "{name}");
    }
    assert_eq!((server.requests().len(), server.charges().len()), (NAMES + ROWS, NAMES + ROWS));
    drop(clients);
    let journal = SqliteJournal::open(&path).await.unwrap();
    for row in rows(&journal).await {
        assert_eq!((row.state, row.attempts), (State::Completed, 1), "{row:?}");
        assert!(row.answer.is_some_and(|answer| answer.body.is_some()));
    }
    assert_eq!(journal.gauges().await.unwrap().completed, (NAMES + ROWS) as u64);
}

/// Two resumers on one file share the rows out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_resumers_on_one_file_send_each_row_once() {
    const ROWS: usize = 60;
    let server = scripted([]).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let clock = ManualClock::new();
    let clients =
        [client(&clock, open(&path, &clock).await), client(&clock, open(&path, &clock).await)];
    for _ in 0..ROWS {
        once(&clients[0], &server).enqueue().await.unwrap();
    }
    let [one, two] = clients.map(|client| {
        let resumer = client.resumer().origin(&server.url("/")).concurrency(4);
        tokio::spawn(resumer.once())
    });
    let (one, two) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());
    assert_eq!(one.completed + two.completed, ROWS as u64);
    assert_eq!((server.requests().len(), server.charges().len()), (ROWS, ROWS));
}

/// A copy that was restored elsewhere.
#[tokio::test]
async fn a_journal_of_another_environment_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("orders.journal");
    let journal = SqliteJournal::builder(&path).environment("production").open().await.unwrap();
    journal.close().await;
    let error = SqliteJournal::builder(&path).environment("staging").open().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("production") && text.contains("staging"), "{text}");
}
