//! "Not sent" is said only when nobody goes on with the operation: neither before nor after its caller was
//! told.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use http::Method;
use post_once::journal::{Journal, MemoryJournal, Reason, SqliteJournal, State, rusqlite};
use post_once::observer::Event;
use post_once::testkit::{Fault, ManualClock, Server, refused_url};
use post_once::{Client, ClientBuilder, Effect, RetryPolicy};

use super::support::*;

/// A journal whose rows can be made unchangeable.
struct Place {
    clock: ManualClock,
    journal: SqliteJournal,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Place {
    async fn open() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("orders.journal"), ManualClock::new());
        let journal = SqliteJournal::builder(&path).clock(clock.clone()).open().await.unwrap();
        Place { clock, journal, path, _folder: folder }
    }

    fn execute(&self, sql: &str) {
        rusqlite::Connection::open(&self.path).unwrap().execute_batch(sql).unwrap();
    }

    /// New rows can still be added.
    fn freeze(&self) {
        self.execute(
            "CREATE TRIGGER frozen BEFORE UPDATE ON post_once_operations \
             BEGIN SELECT RAISE(FAIL, 'the disk is broken'); END",
        );
    }

    fn thaw(&self) {
        self.execute("DROP TRIGGER frozen");
    }
}

/// A client, and what those who watch it are told.
fn watched(client: ClientBuilder) -> (Client, Arc<Mutex<Vec<String>>>) {
    let told = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&told);
    let client = client.observer(move |event: &Event<'_>| {
        log.lock().unwrap().push(match event {
            Event::AttemptStarted { number, .. } => format!("{number} starts"),
            Event::AttemptEnded { attempt, .. } => {
                format!("{} ends, {}", attempt.number(), attempt.known())
            }
            Event::Finished { report, .. } => format!("finished, {}", report.effect()),
            other => format!("{other:?}"),
        });
    });
    (client.build().unwrap(), told)
}

/// `order-42` has had its effect; the process that sent it has ended before its answer.
async fn order_that_was_sent() -> (Server, Place, Client) {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let place = Place::open().await;
    let client = client(&place.clock, place.journal.clone());
    let call = once(&client, &server).operation("order-42");
    dropped_at(&server, "c1 effect ch_1", call).await;
    place.journal.flush().await;
    (server, place, client)
}

#[tokio::test]
async fn a_row_that_nobody_goes_on_with_was_not_sent() {
    let place = Place::open().await;
    let client = client(&place.clock, place.journal.clone());
    let call = client.once(Method::POST, refused_url().unwrap()).json(&charge()).send();
    let error = call.await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotSent, "{error}");
    assert_eq!(states(&place.journal).await, [State::Parked(Reason::NoAnswer)]);
}

/// Its end could not be written down: the resumer sends it after all.
#[tokio::test]
async fn a_row_that_stays_pending_may_be_sent_yet() {
    let place = Place::open().await;
    let (client, told) = watched(builder(&place.clock, place.journal.clone()));
    let url = refused_url().unwrap();
    place.freeze();
    let call = client.once(Method::POST, &url).json(&charge()).policy(RetryPolicy::once());
    let error = call.send().await.unwrap_err();
    assert!(error.is_connect(), "{error}");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert_eq!(*told.lock().unwrap(), ["1 starts", "1 ends, not_sent", "finished, unknown"]);
    place.thaw();
    place.clock.advance(LEASE_IS_OVER);
    let port = reqwest::Url::parse(&url).unwrap().port().unwrap();
    let server = Server::builder().port(port).start().await.unwrap();
    let summary = client.resumer().origin(&url).once().await.unwrap();
    assert_eq!((summary.completed, server.charges().len()), (1, 1));
    assert_eq!(keys(&server), [[error.key().unwrap().to_string()]]);
}

/// The same on purpose.
#[tokio::test]
async fn what_is_kept_trying_may_be_sent_yet() {
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let call = client.once(Method::POST, refused_url().unwrap()).json(&charge());
    let error = call.keep_trying().send().await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert_eq!(states(&journal).await, [State::Pending]);
}

/// The claim is found lost at its end only.
#[tokio::test]
async fn a_row_that_somebody_else_has_may_have_been_sent() {
    let (clock, stores) = (ManualClock::new(), ManualClock::new());
    let journal = MemoryJournal::with_clock(stores.clone());
    let robbed = journal.clone();
    let client = builder(&clock, journal.clone()).observer(move |event: &Event<'_>| {
        if let Event::AttemptEnded { attempt, .. } = event
            && attempt.number() == 2
        {
            super::leases::steal(&stores, &robbed);
        }
    });
    let client = client.build().unwrap();
    let call = client.once(Method::POST, refused_url().unwrap()).json(&charge()).send();
    let error = call.await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
}

/// It cannot be taken over: what an earlier call did is not undone by that.
#[tokio::test]
async fn a_row_that_was_sent_before_has_been_sent() {
    let (server, place, client) = order_that_was_sent().await;
    place.clock.advance(LEASE_IS_OVER);
    place.freeze();
    let error = once(&client, &server).operation("order-42").send().await.unwrap_err();
    assert!(error.is_journal(), "{error}");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert_eq!(keys(&server), [[error.key().unwrap().to_string()]]);
}

/// One that was never sent, on the other hand.
#[tokio::test]
async fn a_row_that_waits_and_cannot_be_taken_over_was_not_sent() {
    let server = scripted([]).await;
    let place = Place::open().await;
    let client = client(&place.clock, place.journal.clone());
    let call = || once(&client, &server).operation("order-42");
    let key = call().enqueue().await.unwrap();
    place.freeze();
    let error = call().send().await.unwrap_err();
    assert!(error.is_journal(), "{error}");
    assert_eq!((error.effect(), error.key()), (Effect::NotSent, Some(&key)), "{error}");
}

/// Nobody knows what its name stands for while the journal is away; one that has no name is new.
#[tokio::test]
async fn what_cannot_be_looked_up_may_have_been_sent() {
    let (server, place, client) = order_that_was_sent().await;
    let call = || once(&client, &server).operation("order-42");
    place.execute("ALTER TABLE post_once_operations RENAME TO away");
    let named = [call().send().await.unwrap_err(), call().enqueue().await.unwrap_err()];
    for error in named {
        assert!(error.is_journal(), "{error}");
        assert_eq!(error.effect(), Effect::Unknown, "{error}");
        assert_eq!(error.report().operation(), Some("order-42"));
        // The one that was minted now is not the one to look it up by.
        assert_eq!(error.key(), None);
        assert!(error.to_string().contains("call it by this name again"), "{error}");
    }
    let nameless = || once(&client, &server);
    let new = [nameless().send().await.unwrap_err(), nameless().enqueue().await.unwrap_err()];
    for error in new {
        assert!(error.is_journal(), "{error}");
        assert_eq!(error.effect(), Effect::NotSent, "{error}");
        assert!(error.to_string().contains("safe to start again"), "{error}");
    }
    place.execute("ALTER TABLE away RENAME TO post_once_operations");
    place.clock.advance(LEASE_IS_OVER);
    assert_eq!(report(&call().send().await.unwrap()).effect(), Effect::Answered);
    assert_eq!((server.requests().len(), server.charges().len()), (2, 1));
    assert_eq!(keys(&server)[0], keys(&server)[1]);
}

/// A resumer that the journal fails says "not sent" only before it has sent anything.
#[tokio::test]
async fn a_pass_that_fails_halfway_does_not_say_that_nothing_was_sent() {
    let server = scripted([]).await;
    let place = Arc::new(Place::open().await);
    let client = client(&place.clock, place.journal.clone());
    for _ in 0..2 {
        once(&client, &server).enqueue().await.unwrap();
    }
    let freezes = Arc::clone(&place);
    let resumer = || client.resumer().origin(&server.url("/")).concurrency(1);
    let halfway = resumer().handler(move |_| {
        freezes.freeze();
        std::future::ready(Ok(()))
    });
    let error = halfway.once().await.unwrap_err();
    assert!(error.is_journal(), "{error}");
    assert_eq!((error.effect(), server.requests().len()), (Effect::Unknown, 1), "{error}");
    let error = resumer().once().await.unwrap_err();
    assert_eq!((error.effect(), server.requests().len()), (Effect::NotSent, 1), "{error}");
}

/// Who watches is told of a call that sends nothing, too: it had an answer, or is refused.
#[tokio::test]
async fn who_watches_is_told_how_a_call_ends_that_sends_nothing() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let (client, told) = watched(builder(&clock, journal));
    let call = || once(&client, &server).operation("order-42");
    call().send().await.unwrap();
    call().send().await.unwrap();
    call().body("another").send().await.unwrap_err();
    let sent = ["1 starts", "1 ends, final", "finished, answered"];
    let not_sent = ["finished, answered", "finished, not_sent"];
    assert_eq!(*told.lock().unwrap(), [&sent[..], &not_sent].concat());
    assert_eq!(server.requests().len(), 1);
}

/// Who watches is told of a resumed row what those are told who ask for outcomes, attempt by attempt.
#[tokio::test]
async fn who_watches_is_told_how_a_resumed_row_ends() {
    let server = scripted([Fault::close(), Fault::status(503)]).await;
    let (clock, journal) = on_one_clock();
    let (client, told) = watched(builder(&clock, journal.clone()));
    let resumer = || {
        let log = Arc::clone(&told);
        client.resumer().origin(&server.url("/")).on_outcome(move |resumed| {
            log.lock().unwrap().push(format!("outcome, {}", resumed.effect));
        })
    };
    once(&client, &server).enqueue().await.unwrap();
    for pass in 1..=3 {
        let summary = resumer().once().await.unwrap();
        assert_eq!((summary.later, summary.completed), if pass < 3 { (1, 0) } else { (0, 1) });
        clock.advance(MINUTE);
    }
    let expected = [
        ["1 starts", "1 ends, ambiguous", "finished, unknown", "outcome, unknown"],
        ["2 starts", "2 ends, unavailable", "finished, unknown", "outcome, unknown"],
        ["3 starts", "3 ends, replayed", "finished, answered", "outcome, answered"],
    ];
    assert_eq!(*told.lock().unwrap(), expected.concat());
}
