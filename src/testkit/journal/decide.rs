//! What a person decides.

use super::make::{draft, due, outcome};
use super::subject::{Subject, yes};
use crate::journal::{Decision, Held, Journal, Reason, State, To};

pub(super) async fn each_decision_has_its_state<J: Journal>(subject: &Subject<J>) {
    for (decision, state) in [
        (Decision::Retry, State::Pending),
        (Decision::Abandon, State::Abandoned),
        (Decision::Unknown, State::Unknown),
        (Decision::Completed, State::Completed),
    ] {
        let claim = subject.begin(&draft(None, "{}")).await;
        let parked = outcome(To::Parked(Reason::Status));
        yes(subject.journal().finish(&claim, &parked).await.unwrap());
        let seen = subject.row(claim.row).await;
        yes(subject.other().decide(claim.row, seen.token, decision).await.unwrap());
        let row = subject.row(claim.row).await;
        assert_eq!(row.state, state);
        assert!(row.token > seen.token, "{decision:?} is seen by whoever looked before");
        assert_eq!(row.trail, seen.trail, "{decision:?} forgets nothing");
        assert!(row.ages.first_send.is_some());
    }
    let claimed = subject.other().claim_due(&due(&[], 9), subject.long()).await.unwrap();
    assert_eq!(claimed.len(), 1, "what is to be sent again is due now");
}

pub(super) async fn a_decision_is_refused_while_the_row_is_held<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin_for(&draft(None, "{}"), subject.unit() * 4).await;
    for decision in [Decision::Retry, Decision::Abandon, Decision::Unknown, Decision::Completed] {
        let decided = subject.other().decide(claim.row, claim.token, decision).await.unwrap();
        assert_eq!(decided, Held::Lost, "{decision:?}");
    }
    assert_eq!(subject.row(claim.row).await.token, claim.token);
    subject.pass(4).await;
    yes(subject.other().decide(claim.row, claim.token, Decision::Abandon).await.unwrap());
    let late = subject.journal().finish(&claim, &outcome(To::Completed)).await.unwrap();
    assert_eq!(late, Held::Lost);
    let row = subject.row(claim.row).await;
    assert_eq!((row.state, row.ages.lease_left), (State::Abandoned, None));
}

pub(super) async fn a_decision_on_a_changed_row_is_refused<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin(&draft(None, "{}")).await;
    yes(subject.journal().finish(&claim, &outcome(To::Parked(Reason::Status))).await.unwrap());
    let seen = subject.row(claim.row).await.token;
    let again = yes(subject.journal().take(claim.row, seen, subject.long()).await.unwrap());
    yes(subject.journal().finish(&again, &outcome(To::Completed)).await.unwrap());
    let decided = subject.other().decide(claim.row, seen, Decision::Abandon).await.unwrap();
    assert_eq!(decided, Held::Lost);
    assert_eq!(subject.row(claim.row).await.state, State::Completed);
}

pub(super) async fn a_retry_starts_with_no_lost_claims<J: Journal>(subject: &Subject<J>) {
    let mut claim = subject.begin_for(&draft(None, "{}"), subject.unit()).await;
    for _ in 0..3 {
        subject.pass(1).await;
        let taken = subject.other().take(claim.row, claim.token, subject.unit()).await.unwrap();
        claim = yes(taken);
    }
    subject.pass(1).await;
    assert_eq!(subject.row(claim.row).await.lost, 4);
    yes(subject.other().decide(claim.row, claim.token, Decision::Retry).await.unwrap());
    let row = subject.row(claim.row).await;
    assert_eq!((row.lost, row.attempts), (0, 4));
}
