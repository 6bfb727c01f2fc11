//! The end of a row's window (O-18).

use post_once::journal::{Journal, List, Reason, State};
use post_once::resume::Verdict;
use post_once::retry::Exhausted;
use post_once::testkit::Fault;
use post_once::{Contract, Effect};

use super::support::*;

/// A window of 10 s with a margin of 1 s.
fn short() -> Contract {
    let contract = Contract::generic().to_builder().name("short");
    contract.window(SECOND * 10).margin(SECOND).build().unwrap()
}

// O-18.
#[tokio::test]
async fn a_row_past_its_window_is_unknown_and_nothing_is_sent() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).contract(short()).build().unwrap();
    dropped_at(&server, "c1 effect ch_1", once(&client, &server).operation("order-42")).await;
    clock.advance(SECOND * 9);

    let row = row(&journal).await;
    assert_eq!((row.state, row.state_now()), (State::Pending, State::Unknown));
    let error = once(&client, &server).operation("order-42").send().await.unwrap_err();
    assert_eq!(error.journal_state(), Some(State::Unknown));
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Window)));
    assert_eq!(error.key().unwrap().to_string(), keys(&server)[0][0]);

    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.unknown, 1);
    assert_eq!(states(&journal).await, [State::Unknown]);
    assert_eq!(server.requests().len(), 1);
}

// O-18: a window that the client has lengthened since is no longer for what was sent before.
#[tokio::test]
async fn the_window_is_the_one_that_was_written_down() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let (clock, journal) = on_one_clock();
    let before = builder(&clock, journal.clone()).contract(short()).build().unwrap();
    dropped_at(&server, "c1 effect ch_1", once(&before, &server)).await;
    clock.advance(SECOND * 11);
    let after = client(&clock, journal.clone());
    let summary = after.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!((summary.unknown, server.requests().len()), (1, 1));
}

// O-18: only what was never sent may start so late.
#[tokio::test]
async fn a_row_that_was_never_sent_has_no_window_yet() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).contract(short()).build().unwrap();
    once(&client, &server).operation("order-42").enqueue().await.unwrap();
    clock.advance(MINUTE);
    assert_eq!(row(&journal).await.state_now(), State::Pending);
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!((summary.completed, server.charges().len()), (1, 1));
}

// O-18: the same in front of a caller: a connection that was refused has sent nothing.
#[tokio::test]
async fn a_parked_row_that_was_never_sent_may_start_afresh() {
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).contract(short()).build().unwrap();
    let url = post_once::testkit::refused_url().unwrap();
    let call = || client.once(http::Method::POST, &url).operation("order-42").json(&charge());
    assert_eq!(call().send().await.unwrap_err().effect(), Effect::NotSent);
    clock.advance(MINUTE);
    let parked = row(&journal).await;
    assert_eq!(parked.state_now(), State::Parked(Reason::NoAnswer));
    assert_eq!(parked.ages.first_send, None);
    let again = call().send().await.unwrap_err();
    assert_eq!((again.journal_state(), again.effect()), (None, Effect::NotSent));
}

// O-18: a hint that points outside.
#[tokio::test]
async fn a_hint_past_the_window_ends_in_unknown_not_in_an_early_attempt() {
    let server = scripted([Fault::close(), Fault::status(503).retry_after(60)]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).contract(short()).build().unwrap();
    once(&client, &server).enqueue().await.unwrap();
    let pass = async || client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(pass().await.later, 1);
    clock.advance(SECOND * 2);
    assert_eq!(pass().await.later, 1);
    for _ in 0..7 {
        let summary = pass().await;
        assert_eq!(summary, Default::default());
        clock.advance(SECOND);
    }
    assert_eq!(pass().await.unknown, 1);
    assert_eq!(server.requests().len(), 2);
}

// O-18: kept for reconciliation.
#[tokio::test]
async fn a_reconcile_hook_may_close_what_is_unknown() {
    for (verdict, state) in
        [(Verdict::Happened, State::Completed), (Verdict::Unknown, State::Unknown)]
    {
        let server = scripted([Fault::hang(MINUTE)]).await;
        let (clock, journal) = on_one_clock();
        let client = builder(&clock, journal.clone()).contract(short()).build().unwrap();
        dropped_at(&server, "c1 effect ch_1", once(&client, &server)).await;
        clock.advance(SECOND * 9);
        let key = keys(&server)[0][0].clone();
        let resumer = client.resumer().origin(&server.url("/")).reconcile(move |record| {
            assert_eq!(record.draft.key, key);
            async move { verdict }
        });
        resumer.once().await.unwrap();
        assert_eq!(states(&journal).await, [state]);
        assert_eq!(server.requests().len(), 1);
        // Unknown rows are listed for a person.
        let unknown = List::default();
        assert_eq!(journal.list(&unknown).await.unwrap()[0].state, state);
    }
}
