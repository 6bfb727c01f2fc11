//! What an answer, or none, makes of its row.

use post_once::journal::{Due, Journal, Reason, State};
use post_once::retry::Exhausted;
use post_once::testkit::Fault;
use post_once::{Effect, RetryPolicy};

use super::support::*;

// O-06.
#[tokio::test]
async fn a_row_is_not_closed_on_the_head_alone() {
    let server = scripted([Fault::cut()]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let call = || once(&client, &server).operation("order-42").policy(RetryPolicy::once());
    let error = call().send().await.unwrap_err();
    assert_eq!((error.effect(), error.status().unwrap().as_u16()), (Effect::Unknown, 201));
    assert_eq!(states(&journal).await, [State::Parked(Reason::NoAnswer)]);
    let answer = call().send().await.unwrap();
    assert!(report(&answer).is_replayed());
    assert_eq!(states(&journal).await, [State::Completed]);
    assert_eq!(server.charges().len(), 1);
}

// O-06: too large to keep.
#[tokio::test]
async fn an_answer_above_the_limit_closes_its_row_at_its_clean_end() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).response_limit(4).build().unwrap();
    let call = || once(&client, &server).operation("order-42");
    let answer = call().send().await.unwrap();
    assert_eq!(states(&journal).await, [State::Pending]);
    assert!(answer.bytes().await.unwrap().len() > 4);
    assert_eq!(states(&journal).await, [State::Completed]);

    let error = call().send().await.unwrap_err();
    assert!(error.is_answer_not_kept(), "{error}");
    assert_eq!(error.effect(), Effect::Answered);
    assert_eq!(server.requests().len(), 1);
}

// O-06: neither when its reader leaves, nor when it is cut short.
#[tokio::test]
async fn an_answer_above_the_limit_that_does_not_end_leaves_its_row_pending() {
    for fault in [Fault::endless(), Fault::cut()] {
        let server = scripted([fault]).await;
        let (clock, journal) = on_one_clock();
        let client = builder(&clock, journal.clone()).response_limit(4).build().unwrap();
        let mut answer = once(&client, &server).send().await.unwrap();
        while let Ok(Some(_)) = answer.chunk().await
            && server.transcript().len() < 3
        {}
        drop(answer);
        let row = row(&journal).await;
        assert_eq!((row.state, row.ages.lease_left), (State::Pending, None));
        let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
        assert_eq!(summary.completed, 1);
        assert_eq!(server.charges().len(), 1);
        assert_eq!(states(&journal).await, [State::Completed]);
    }
}

// O-08.
#[tokio::test]
async fn out_of_attempts_without_an_answer_is_parked_and_unknown() {
    let server = scripted([Fault::close(), Fault::close()]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let error = once(&client, &server).send().await.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Attempts)));
    let row = row(&journal).await;
    assert_eq!(row.state, State::Parked(Reason::NoAnswer));
    assert_eq!(known(&row), ["ambiguous", "ambiguous"]);
    // Its caller was told: the resumer leaves it alone.
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary, Default::default());
    assert_eq!(server.requests().len(), 2);
}

// O-14.
#[tokio::test]
async fn a_hint_beyond_what_is_allowed_parks_the_row_inside_its_window() {
    let server = scripted([Fault::status(429).retry_after(3600)]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let call = || once(&client, &server).operation("order-42").deadline(SECOND * 10);
    let answer = call().send().await.unwrap();
    assert_eq!(answer.status(), 429);
    assert_eq!(report(&answer).exhausted(), Some(Exhausted::Deadline));
    assert!(clock.waits().is_empty());
    let parked = row(&journal).await;
    assert_eq!(parked.state_now(), State::Parked(Reason::Status));
    assert!(parked.window_left().is_none_or(|left| left > SECOND * 3600));

    clock.advance(SECOND * 3600);
    assert_eq!(call().send().await.unwrap().status(), 201);
    assert_eq!(keys(&server)[0], keys(&server)[1]);
    assert_eq!(states(&journal).await, [State::Completed]);
}

// O-14: what goes on by itself waits for as long as it was told.
#[tokio::test]
async fn a_hint_beyond_what_is_allowed_holds_for_an_operation_that_is_kept_too() {
    let server = scripted([Fault::status(429).retry_after(3600)]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    assert_eq!(once(&client, &server).keep_trying().send().await.unwrap().status(), 429);
    let pass = async || client.resumer().origin(&server.url("/")).once().await.unwrap();
    clock.advance(SECOND * 3599);
    assert_eq!(pass().await, Default::default());
    assert_eq!(states(&journal).await, [State::Pending]);
    clock.advance(SECOND);
    assert_eq!(pass().await.completed, 1);
    assert_eq!(keys(&server)[0], keys(&server)[1]);
}

// O-17: a hint outlives the call that was given it.
#[tokio::test]
async fn a_call_that_is_dropped_while_it_waits_leaves_its_hint_behind() {
    let server = scripted([Fault::status(503).retry_after(50)]).await;
    let (clock, journal) = on_one_clock();
    dropped_in_its_backoff(&server, journal.clone()).await;
    let row = row(&journal).await;
    assert_eq!((row.state, known(&row).as_slice()), (State::Pending, &["unavailable"][..]));
    let due = async || journal.claim_due(&Due::default(), SECOND).await.unwrap().len();
    clock.advance(SECOND * 49);
    assert_eq!(due().await, 0);
    clock.advance(SECOND);
    assert_eq!(due().await, 1);
}
