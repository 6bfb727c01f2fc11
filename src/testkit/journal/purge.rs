//! Retention: what is closed and old goes, in batches; what is open stays.

use super::make::{answer, decided, draft, list, outcome};
use super::subject::{Subject, found, new, yes};
use crate::journal::{Claim, Decision, Draft, Held, Journal, Purge, Reason, RowId, State, To};

/// An operation that is completed, with an answer.
async fn completed<J: Journal>(subject: &Subject<J>, begun: &Draft) -> Claim {
    let claim = subject.begin(begun).await;
    let done = decided(To::Completed, answer(201, r#"{"id":"ch_1"}"#));
    yes(subject.journal().finish(&claim, &done).await.unwrap());
    claim
}

pub(super) async fn bodies_are_purged_in_batches_and_leave_a_tombstone<J: Journal>(
    subject: &Subject<J>,
) {
    let begun: Vec<_> =
        (0..5).map(|number| draft(Some(&format!("order-{number}")), "{}")).collect();
    for draft in &begun {
        completed(subject, draft).await;
    }
    subject.pass(1).await;
    let mut touched = Vec::new();
    for _ in 0..4 {
        touched.push(subject.other().purge(subject.unit(), Purge::Bodies, 2).await.unwrap());
    }
    assert_eq!(touched, [2, 2, 1, 0], "at most so many at a time, and each once");
    for draft in &begun {
        let row = found(subject.journal().insert(draft, subject.long()).await.unwrap());
        assert_eq!(row.state, State::Completed, "a late redelivery finds it");
        assert_eq!((&row.draft.key, &row.draft.scope), (&draft.key, &draft.scope));
        assert_eq!(row.draft.terms.fingerprint, draft.terms.fingerprint);
        assert!(row.draft.request.body.is_empty());
        let answer = row.answer.expect("the status stays");
        assert_eq!((answer.status, answer.body), (201, None));
    }
}

pub(super) async fn what_is_open_is_never_purged<J: Journal>(subject: &Subject<J>) {
    let mut open = vec![new(subject.journal().enqueue(&draft(None, "body")).await.unwrap()).row];
    for to in [To::Parked(Reason::Status), To::Unknown, To::Later(subject.unit())] {
        let claim = subject.begin(&draft(None, "body")).await;
        yes(subject.journal().finish(&claim, &outcome(to)).await.unwrap());
        open.push(claim.row);
    }
    open.push(subject.begin_for(&draft(None, "body"), subject.unit()).await.row);
    subject.pass(3).await;
    for what in [Purge::Bodies, Purge::Names] {
        let touched = subject.other().purge(subject.unit(), what, 100).await.unwrap();
        assert_eq!(touched, 0, "{what:?}");
    }
    for row in open {
        assert_eq!(&*subject.row(row).await.draft.request.body, b"body");
    }
}

pub(super) async fn what_is_young_is_not_purged<J: Journal>(subject: &Subject<J>) {
    let old = completed(subject, &draft(None, "old")).await;
    let given_up = subject.begin_for(&draft(None, "given up"), subject.unit()).await;
    subject.pass(4).await;
    let decision = Decision::Abandon;
    yes(subject.other().decide(given_up.row, given_up.token, decision).await.unwrap());
    let young = completed(subject, &draft(None, "young")).await;
    let age = subject.unit() * 4;
    assert_eq!(subject.other().purge(age, Purge::Bodies, 100).await.unwrap(), 1);
    assert!(subject.row(old.row).await.draft.request.body.is_empty());
    assert_eq!(&*subject.row(young.row).await.draft.request.body, b"young");
    assert_eq!(&*subject.row(given_up.row).await.draft.request.body, b"given up");
    subject.pass(4).await;
    assert_eq!(subject.other().purge(age, Purge::Bodies, 100).await.unwrap(), 2);
    assert!(subject.row(given_up.row).await.draft.request.body.is_empty());
}

pub(super) async fn names_are_purged_by_their_own_word<J: Journal>(subject: &Subject<J>) {
    let begun: Vec<_> =
        (0..3).map(|number| draft(Some(&format!("order-{number}")), "{}")).collect();
    for draft in &begun {
        completed(subject, draft).await;
    }
    subject.pass(1).await;
    assert_eq!(subject.other().purge(subject.unit(), Purge::Bodies, 1).await.unwrap(), 1);
    let mut touched = Vec::new();
    for _ in 0..3 {
        touched.push(subject.other().purge(subject.unit(), Purge::Names, 2).await.unwrap());
    }
    assert_eq!(touched, [2, 1, 0]);
    assert!(subject.other().list(&list([], None, None, 10)).await.unwrap().is_empty());
    assert_eq!(subject.other().gauges().await.unwrap().completed, 0);
    for draft in &begun {
        assert!(
            subject.other().by_name("", draft.name.as_deref().unwrap()).await.unwrap().is_none()
        );
        new(subject.journal().insert(draft, subject.long()).await.unwrap());
    }
}

/// A claim on a row that is gone must not fit another one.
pub(super) async fn a_row_is_never_mistaken_for_one_that_was_purged<J: Journal>(
    subject: &Subject<J>,
) {
    let mut last = RowId(0);
    for _ in 0..4 {
        let gone = completed(subject, &draft(Some("order-1"), "{}")).await;
        assert!(gone.row > last, "a row's number is not used again");
        last = gone.row;
        subject.pass(1).await;
        assert_eq!(subject.other().purge(subject.unit(), Purge::Names, 9).await.unwrap(), 1);
        let late = subject.journal().finish(&gone, &outcome(To::Completed)).await.unwrap();
        assert_eq!(late, Held::Lost);
    }
}
