//! What is due, and how often it was claimed for nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use super::make::{draft, due, outcome, past, trail};
use super::subject::{Subject, new, yes};
use crate::journal::{Claim, Draft, Due, Journal, Outcome, Reason, RowId, State, To, Trail};

/// The rows that are claimed, in their order.
async fn claim<J: Journal>(subject: &Subject<J>, scopes: &[&str], limit: u32) -> Vec<RowId> {
    let claimed = subject.other().claim_due(&due(scopes, limit), subject.long()).await.unwrap();
    claimed.into_iter().map(|(claim, _)| claim.row).collect()
}

async fn enqueue<J: Journal>(subject: &Subject<J>, draft: &Draft) -> RowId {
    new(subject.journal().enqueue(draft).await.unwrap()).row
}

pub(super) async fn the_longest_due_is_claimed_first<J: Journal>(subject: &Subject<J>) {
    // Later(0) rows are due in the order of their ends, not of their insertion.
    let [one, two, three] = [
        subject.begin(&draft(None, "1")).await,
        subject.begin(&draft(None, "2")).await,
        subject.begin(&draft(None, "3")).await,
    ];
    for held in [&two, &three, &one] {
        let later = outcome(To::Later(Duration::ZERO));
        yes(subject.journal().finish(held, &later).await.unwrap());
        subject.pass(1).await;
    }
    assert_eq!(claim(subject, &[], 2).await, [two.row, three.row]);
    assert_eq!(claim(subject, &[], 2).await, [one.row]);
    assert!(claim(subject, &[], 2).await.is_empty());
}

pub(super) async fn only_pending_rows_are_claimed<J: Journal>(subject: &Subject<J>) {
    for to in [To::Completed, To::Parked(Reason::Status), To::Unknown] {
        let held = subject.begin(&draft(None, "{}")).await;
        yes(subject.journal().finish(&held, &outcome(to)).await.unwrap());
    }
    let live = subject.begin(&draft(None, "{}")).await;
    subject.pass(1).await;
    assert!(claim(subject, &[], 10).await.is_empty());
    yes(subject.journal().finish(&live, &outcome(To::Later(Duration::ZERO))).await.unwrap());
    assert_eq!(claim(subject, &[], 10).await, [live.row]);
}

pub(super) async fn claims_obey_their_limit_and_scopes<J: Journal>(subject: &Subject<J>) {
    let mut rows = Vec::new();
    for scope in ["a", "b", "c", "a", "b", "c"] {
        let mut queued = draft(None, "{}");
        queued.scope = scope.to_owned();
        rows.push(enqueue(subject, &queued).await);
        subject.pass(1).await;
    }
    assert!(claim(subject, &["d"], 10).await.is_empty());
    assert!(claim(subject, &[], 0).await.is_empty());
    assert_eq!(claim(subject, &["b"], 10).await, [rows[1], rows[4]]);
    assert_eq!(claim(subject, &["c", "a"], 3).await, [rows[0], rows[2], rows[3]]);
    assert_eq!(claim(subject, &[], 10).await, [rows[5]]);
}

pub(super) async fn an_expired_lease_is_due<J: Journal>(subject: &Subject<J>) {
    let begun = draft(Some("order-1"), r#"{"amount":1}"#);
    let dead = subject.begin_for(&begun, subject.unit() * 4).await;
    assert!(claim(subject, &[], 10).await.is_empty(), "not while it lives");
    subject.pass(4).await;
    let claimed = subject.other().claim_due(&due(&[], 10), subject.long()).await.unwrap();
    let [(held, record)] = &*claimed else { panic!("one is due: {claimed:?}") };
    assert_eq!(held.row, dead.row);
    assert!(held.token > dead.token);
    assert_eq!((record.row, record.token), (held.row, held.token), "the record is of this claim");
    assert_eq!((record.attempts, record.lost, record.state), (2, 2, State::Pending));
    assert_eq!(record.draft.request, begun.request);
    assert!(record.ages.first_send >= Some(subject.unit()));
    assert!(record.ages.lease_left.is_some());
    assert!(claim(subject, &[], 10).await.is_empty());
}

pub(super) async fn no_row_is_claimed_twice_at_once<J: Journal>(subject: &Subject<J>) {
    for _ in 0..60 {
        enqueue(subject, &draft(None, "{}")).await;
    }
    let (filter, lease) = (due(&[], 7), subject.long());
    let mut rows = Vec::new();
    loop {
        let (a, b, c, d) = tokio::join!(
            subject.journal().claim_due(&filter, lease),
            subject.other().claim_due(&filter, lease),
            subject.journal().claim_due(&filter, lease),
            subject.other().claim_due(&filter, lease),
        );
        let before = rows.len();
        for claimed in [a, b, c, d] {
            rows.extend(claimed.unwrap().into_iter().map(|(claim, _)| claim.row));
        }
        if rows.len() == before {
            break;
        }
    }
    assert_eq!(rows.len(), 60, "all are claimed");
    assert_eq!(rows.into_iter().collect::<BTreeSet<_>>().len(), 60, "each once");
}

pub(super) async fn what_is_put_off_is_not_due_before<J: Journal>(subject: &Subject<J>) {
    let held = subject.begin(&draft(None, "{}")).await;
    yes(subject.journal().finish(&held, &outcome(To::Later(subject.unit() * 4))).await.unwrap());
    assert!(claim(subject, &[], 1).await.is_empty());
    subject.pass(1).await;
    assert!(claim(subject, &[], 1).await.is_empty());
    let row = subject.row(held.row).await;
    assert_eq!((row.state, row.attempts, row.lost), (State::Pending, 1, 0));
    assert_eq!(row.ages.lease_left, None, "nobody holds it while it waits");
    subject.pass(3).await;
    assert_eq!(claim(subject, &[], 1).await, [held.row]);
}

/// O-21: a limit that a crash resets is no limit.
pub(super) async fn claims_that_end_without_an_outcome_are_counted<J: Journal>(
    subject: &Subject<J>,
) {
    let row = enqueue(subject, &draft(None, "{}")).await;
    for killed in 1..=25 {
        let claimed = subject.other().claim_due(&due(&[], 1), subject.unit()).await.unwrap();
        let [(claim, record)] = &*claimed else { panic!("due again: {claimed:?}") };
        assert_eq!((claim.row, record.lost, record.attempts), (row, killed, killed));
        subject.pass(1).await;
    }
    let row = subject.row(row).await;
    assert_eq!((row.state, row.lost, row.attempts), (State::Pending, 25, 25));
    let held = yes(subject.journal().take(row.row, row.token, subject.long()).await.unwrap());
    yes(subject.journal().attempt(&held, &trail([past(26, None)])).await.unwrap());
    assert_eq!(subject.row(held.row).await.lost, 1, "an outcome was recorded since");
    yes(subject.journal().finish(&held, &outcome(To::Later(subject.unit()))).await.unwrap());
    assert_eq!(subject.row(held.row).await.lost, 0);
}

/// O-21: twenty clean shutdowns before any send are no attempts.
pub(super) async fn a_release_before_sending_is_not_charged<J: Journal>(subject: &Subject<J>) {
    let row = enqueue(subject, &draft(None, "{}")).await;
    let nothing = Trail { attempts: Vec::new(), sent: false };
    let release = Outcome { to: To::Released, trail: nothing, answer: None };
    for _ in 0..20 {
        let claimed = subject.other().claim_due(&due(&[], 1), subject.long()).await.unwrap();
        let [(claim, record)] = &*claimed else { panic!("due at once: {claimed:?}") };
        assert_eq!((record.attempts, record.lost), (1, 1));
        yes(subject.other().finish(claim, &release).await.unwrap());
    }
    let record = subject.row(row).await;
    assert_eq!((record.state, record.attempts, record.lost), (State::Pending, 0, 0));
    assert_eq!(record.ages.first_send, None, "nothing was ever sent");
    let dead = subject.other().claim_due(&due(&[], 1), subject.unit()).await.unwrap();
    subject.pass(1).await;
    let claimed = subject.other().claim_due(&due(&[], 1), subject.long()).await.unwrap();
    let Claim { row, token } = claimed[0].0;
    assert!(row == dead[0].0.row && token > dead[0].0.token);
    let sent = Outcome { to: To::Released, trail: trail([past(1, None)]), answer: None };
    yes(subject.other().finish(&claimed[0].0, &sent).await.unwrap());
    let record = subject.row(row).await;
    assert_eq!((record.attempts, record.lost), (1, 1), "the killed claim before it stays counted");
    assert!(record.ages.first_send >= Some(subject.unit()), "and so does what it may have sent");
}

/// A pass that asks for what was due when it began does not meet again what it put off.
pub(super) async fn what_was_put_off_since_is_not_met_again<J: Journal>(subject: &Subject<J>) {
    let row = enqueue(subject, &draft(None, "{}")).await;
    subject.pass(1).await;
    let since = Due { since: subject.unit(), ..due(&[], 1) };
    let claimed = subject.journal().claim_due(&since, subject.long()).await.unwrap();
    let [(claim, _)] = &*claimed else { panic!("due for so long: {claimed:?}") };
    yes(subject.journal().finish(claim, &outcome(To::Later(Duration::ZERO))).await.unwrap());
    assert!(subject.journal().claim_due(&since, subject.long()).await.unwrap().is_empty());
    let again = subject.journal().claim_due(&due(&[], 1), subject.long()).await.unwrap();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].0.row, row);
}
