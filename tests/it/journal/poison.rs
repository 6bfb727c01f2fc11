//! An operation that kills its process, every time (O-21).

use post_once::Effect;
use post_once::journal::{Due, Journal, Reason, State};

use super::support::*;

// O-21.
#[tokio::test]
async fn twenty_lost_claims_end_in_unknown_and_other_rows_proceed() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    once(&client, &server).enqueue().await.unwrap();
    // Twenty processes claim it and are killed.
    for lost in 1..=20 {
        assert_eq!(journal.claim_due(&Due::default(), SECOND).await.unwrap().len(), 1);
        clock.advance(SECOND);
        assert_eq!(row(&journal).await.lost, lost);
    }
    once(&client, &server).enqueue().await.unwrap();
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!((summary.unknown, summary.completed), (1, 1));
    assert_eq!(states(&journal).await, [State::Unknown, State::Completed]);
    assert_eq!(server.requests().len(), 1);
}

// O-21: the last that is allowed still goes out.
#[tokio::test]
async fn nineteen_lost_claims_are_gone_on_with() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    once(&client, &server).enqueue().await.unwrap();
    for _ in 0..19 {
        journal.claim_due(&Due::default(), SECOND).await.unwrap();
        clock.advance(SECOND);
    }
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!((summary.completed, server.charges().len()), (1, 1));
}

// O-21: killed attempts use up what the policy allows a caller.
#[tokio::test]
async fn killed_attempts_count_for_a_caller() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    once(&client, &server).operation("order-42").enqueue().await.unwrap();
    for _ in 0..2 {
        journal.claim_due(&Due::default(), SECOND).await.unwrap();
        clock.advance(SECOND);
    }
    for _ in 0..2 {
        let error = once(&client, &server).operation("order-42").send().await.unwrap_err();
        assert_eq!(error.journal_state(), Some(State::Parked(Reason::Attempts)), "{error}");
        assert_eq!(error.effect(), Effect::Unknown);
    }
    let parked = row(&journal).await;
    assert_eq!(parked.state, State::Parked(Reason::Attempts));
    assert!(server.requests().is_empty());

    // Until a person says otherwise.
    let retry = journal.decide(parked.row, parked.token, post_once::journal::Decision::Retry);
    assert_eq!(retry.await.unwrap(), post_once::journal::Held::Yes(()));
    once(&client, &server).operation("order-42").send().await.unwrap();
    assert_eq!(states(&journal).await, [State::Completed]);
}
