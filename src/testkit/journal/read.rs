//! Reading: pages, keys, ages and gauges.

use std::time::Duration;

use super::make::{answer, decided, draft, list, outcome, past};
use super::subject::{Subject, new, yes};
use crate::journal::{Decision, Journal, Outcome, Reason, RowId, State, To, Trail};

async fn listed<J: Journal>(
    subject: &Subject<J>,
    states: &[State],
    scope: Option<&str>,
    after: Option<RowId>,
    limit: u32,
) -> Vec<RowId> {
    let filter = list(states.iter().copied(), scope, after, limit);
    let rows = subject.other().list(&filter).await.unwrap();
    rows.into_iter().map(|record| record.row).collect()
}

pub(super) async fn rows_are_listed_in_pages<J: Journal>(subject: &Subject<J>) {
    let mut rows = Vec::new();
    for _ in 0..5 {
        rows.push(subject.begin(&draft(None, "{}")).await.row);
    }
    assert_eq!(listed(subject, &[], None, None, 2).await, rows[..2]);
    assert_eq!(listed(subject, &[], None, Some(rows[1]), 2).await, rows[2..4]);
    assert_eq!(listed(subject, &[], None, Some(rows[3]), 2).await, rows[4..]);
    assert!(listed(subject, &[], None, Some(rows[4]), 2).await.is_empty());
    assert_eq!(listed(subject, &[], None, None, u32::MAX).await, rows);
}

pub(super) async fn rows_are_listed_by_state_and_scope<J: Journal>(subject: &Subject<J>) {
    let ends = [
        None,
        Some(To::Completed),
        Some(To::Parked(Reason::Status)),
        Some(To::Parked(Reason::Redirected)),
        Some(To::Unknown),
    ];
    let mut rows = Vec::new();
    for (end, scope) in ends.into_iter().zip(["a", "b", "a", "b", "a"]) {
        let mut begun = draft(None, "{}");
        begun.scope = scope.to_owned();
        let claim = subject.begin(&begun).await;
        rows.push(claim.row);
        if let Some(to) = end {
            yes(subject.journal().finish(&claim, &outcome(to)).await.unwrap());
        }
    }
    let parked = State::Parked(Reason::Attempts);
    let all = u32::MAX;
    assert_eq!(listed(subject, &[State::Pending], None, None, all).await, [rows[0]]);
    assert_eq!(listed(subject, &[parked], None, None, all).await, rows[2..4], "whatever reason");
    let open = [State::Pending, parked, State::Unknown];
    assert_eq!(listed(subject, &open, None, None, all).await, [rows[0], rows[2], rows[3], rows[4]]);
    assert_eq!(listed(subject, &open, Some("a"), None, all).await, [rows[0], rows[2], rows[4]]);
    assert_eq!(listed(subject, &open, Some("a"), Some(rows[0]), 1).await, [rows[2]]);
    assert_eq!(listed(subject, &[], Some("b"), None, all).await, [rows[1], rows[3]]);
    assert!(listed(subject, &[State::Abandoned], None, None, all).await.is_empty());
    assert!(listed(subject, &[], Some("c"), None, all).await.is_empty());
}

pub(super) async fn a_key_finds_all_its_rows<J: Journal>(subject: &Subject<J>) {
    let mut rows = Vec::new();
    for scope in ["a", "b"] {
        let mut begun = draft(Some("order-1"), "{}");
        begun.scope = scope.to_owned();
        rows.push(subject.begin(&begun).await.row);
    }
    subject.begin(&draft(Some("order-2"), "{}")).await;
    let found = subject.other().by_key("order-1").await.unwrap();
    assert_eq!(found.iter().map(|record| record.row).collect::<Vec<_>>(), rows);
    assert!(found.iter().all(|record| record.draft.key == "order-1"));
    assert!(subject.other().by_key("order-3").await.unwrap().is_empty());
}

pub(super) async fn ages_are_by_the_clock_of_the_store<J: Journal>(subject: &Subject<J>) {
    let unit = subject.unit();
    let queued = new(subject.journal().enqueue(&draft(Some("order-1"), "{}")).await.unwrap());
    subject.pass(2).await;
    yes(subject.journal().take(queued.row, queued.token, unit * 500).await.unwrap());
    subject.pass(2).await;
    let ages = subject.row(queued.row).await.ages;
    assert!(ages.created >= unit * 4, "{ages:?}");
    assert!(ages.updated >= unit * 2 && ages.updated < ages.created, "{ages:?}");
    assert_eq!(ages.first_send, Some(ages.updated), "{ages:?}");
    let left = ages.lease_left.expect("it is held");
    assert!(left <= unit * 498 && left > unit * 100, "{ages:?}");
    assert!(!ages.clock_went_back);
}

pub(super) async fn gauges_count_by_the_state_of_now<J: Journal>(subject: &Subject<J>) {
    let unit = subject.unit();
    let empty = subject.other().gauges().await.unwrap();
    assert_eq!((empty.pending, empty.completed, empty.oldest), (0, 0, None));
    assert_eq!(empty.closes_first, None);
    // The window of this one closes; it is unknown by age, not as stored.
    let mut begun = draft(None, "{}");
    begun.terms.window = Some((unit * 2, Duration::ZERO));
    let closed = subject.begin(&begun).await;
    yes(subject.journal().finish(&closed, &outcome(To::Parked(Reason::Status))).await.unwrap());
    subject.pass(2).await;
    new(subject.journal().enqueue(&begun).await.unwrap());
    subject.begin(&draft(None, "{}")).await;
    begun.terms.window = Some((unit * 200, unit * 50));
    let refused = subject.begin(&begun).await;
    let nothing = Trail { attempts: vec![past(1, None)], sent: false };
    let unsent = Outcome { to: To::Parked(Reason::NoAnswer), trail: nothing, answer: None };
    yes(subject.journal().finish(&refused, &unsent).await.unwrap());
    let sent = subject.begin(&begun).await;
    yes(subject.journal().finish(&sent, &outcome(To::Parked(Reason::NoAnswer))).await.unwrap());
    for to in [To::Unknown, To::Completed, To::Completed] {
        let claim = subject.begin(&begun).await;
        let done = decided(to, answer(201, "{}"));
        yes(subject.journal().finish(&claim, &done).await.unwrap());
    }
    let given_up = subject.row(refused.row).await.token;
    subject.pass(1).await;
    let gauges = subject.other().gauges().await.unwrap();
    assert_eq!((gauges.pending, gauges.parked), (2, 2), "{gauges:?}");
    assert_eq!((gauges.unknown, gauges.completed, gauges.abandoned), (2, 2, 0), "{gauges:?}");
    let oldest = gauges.oldest.expect("something is open");
    assert!(oldest >= unit && oldest < subject.row(closed.row).await.ages.created, "{gauges:?}");
    let closes = gauges.closes_first.expect("something may have been sent");
    assert!(closes <= unit * 149 && closes > unit * 20, "{gauges:?}");
    yes(subject.other().decide(refused.row, given_up, Decision::Abandon).await.unwrap());
    let gauges = subject.other().gauges().await.unwrap();
    assert_eq!((gauges.parked, gauges.abandoned), (1, 1), "{gauges:?}");
}

pub(super) async fn a_row_is_read_by_its_number<J: Journal>(subject: &Subject<J>) {
    let held = subject.begin(&draft(Some("order-42"), "{}")).await;
    let record = subject.other().by_row(held.row).await.unwrap().unwrap();
    assert_eq!((record.row, record.token), (held.row, held.token));
    assert_eq!(record.draft.name.as_deref(), Some("order-42"));
    assert!(subject.journal().by_row(RowId(held.row.0 + 1_000)).await.unwrap().is_none());
}
