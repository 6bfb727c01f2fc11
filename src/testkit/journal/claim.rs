//! Claims: taken over when they expire, never while they live, and fenced for ever after.

use std::collections::BTreeSet;
use std::time::Duration;

use super::make::{answer, decided, draft, due, outcome, past, trail};
use super::subject::{Subject, yes};
use crate::journal::{Claim, Decision, Held, Journal, Reason, RowId, State, To, Token};

pub(super) async fn a_live_claim_is_not_taken<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin(&draft(Some("order-1"), "{}")).await;
    let row = subject.row(claim.row).await;
    let taken = subject.other().take(row.row, row.token, subject.long()).await.unwrap();
    assert_eq!(taken, Held::Lost);
    let row = subject.row(claim.row).await;
    assert_eq!((row.token, row.attempts), (claim.token, 1), "nothing was written");
}

pub(super) async fn an_expired_claim_is_taken_with_a_higher_token<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = subject.begin_for(&draft(Some("order-1"), "{}"), subject.unit()).await;
    subject.pass(1).await;
    let row = subject.row(claim.row).await;
    assert_eq!(row.ages.lease_left, None, "expired");
    let taken = yes(subject.other().take(row.row, row.token, subject.long()).await.unwrap());
    assert_eq!(taken.row, claim.row);
    assert!(taken.token > claim.token);
    let row = subject.row(claim.row).await;
    assert_eq!((row.token, row.state, row.attempts, row.lost), (taken.token, State::Pending, 2, 2));
    assert!(row.ages.first_send >= Some(subject.unit()), "the first send is the first one's");
    assert!(row.ages.lease_left.is_some());
}

/// O-20: the late write of whoever was paused is refused, and it is told so.
pub(super) async fn what_the_former_holder_writes_is_refused<J: Journal>(subject: &Subject<J>) {
    let late = subject.begin_for(&draft(Some("order-1"), "{}"), subject.unit()).await;
    subject.pass(1).await;
    let now = yes(subject.other().take(late.row, late.token, subject.long()).await.unwrap());
    let before = subject.row(late.row).await;
    let late_outcome = decided(To::Completed, answer(201, "late"));
    assert_eq!(
        subject.journal().attempt(&late, &trail([past(1, None)])).await.unwrap(),
        Held::Lost
    );
    assert_eq!(subject.journal().renew(&late, subject.long()).await.unwrap(), Held::Lost);
    assert_eq!(subject.journal().finish(&late, &late_outcome).await.unwrap(), Held::Lost);
    subject.journal().finish_soon(late, late_outcome);
    // Written after it by the same handle.
    let other = subject.begin(&draft(None, "{}")).await;
    yes(subject.journal().finish(&other, &outcome(To::Completed)).await.unwrap());
    let after = subject.row(late.row).await;
    assert_eq!((after.token, after.state), (now.token, State::Pending));
    assert_eq!((after.attempts, after.trail), (before.attempts, before.trail));
    assert!(after.answer.is_none());
    yes(subject.other().finish(&now, &decided(To::Completed, answer(201, "ours"))).await.unwrap());
    assert_eq!(&*subject.row(late.row).await.answer.unwrap().body.unwrap(), b"ours");
}

pub(super) async fn an_expired_claim_that_nobody_took_is_still_held<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = subject.begin_for(&draft(Some("order-1"), "{}"), subject.unit()).await;
    subject.pass(2).await;
    yes(subject.journal().attempt(&claim, &trail([past(1, None)])).await.unwrap());
    yes(subject.journal().finish(&claim, &outcome(To::Completed)).await.unwrap());
    assert_eq!(subject.row(claim.row).await.state, State::Completed);
}

pub(super) async fn a_row_that_ended_since_it_was_seen_is_not_taken<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = subject.begin(&draft(Some("order-1"), "{}")).await;
    let seen = subject.row(claim.row).await.token;
    yes(subject.journal().finish(&claim, &outcome(To::Parked(Reason::Status))).await.unwrap());
    let taken = subject.other().take(claim.row, seen, subject.long()).await.unwrap();
    assert_eq!(taken, Held::Lost, "its caller decided on what is no longer so");
    let seen = subject.row(claim.row).await.token;
    let taken = yes(subject.other().take(claim.row, seen, subject.long()).await.unwrap());
    assert_eq!(
        subject.journal().finish(&claim, &outcome(To::Completed)).await.unwrap(),
        Held::Lost
    );
    assert_eq!(subject.row(claim.row).await.token, taken.token);
}

pub(super) async fn of_two_takers_exactly_one_gets_it<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin(&draft(Some("order-1"), "{}")).await;
    yes(subject.journal().finish(&claim, &outcome(To::Parked(Reason::Status))).await.unwrap());
    for _ in 0..20 {
        let seen = subject.row(claim.row).await.token;
        let (one, two) = tokio::join!(
            subject.journal().take(claim.row, seen, subject.long()),
            subject.other().take(claim.row, seen, subject.long()),
        );
        let held = match (one.unwrap(), two.unwrap()) {
            (Held::Yes(claim), Held::Lost) | (Held::Lost, Held::Yes(claim)) => claim,
            both => panic!("exactly one gets it: {both:?}"),
        };
        let parked = outcome(To::Parked(Reason::Status));
        yes(subject.journal().finish(&held, &parked).await.unwrap());
    }
}

/// Whatever happens to a row, and whoever does it: no token comes twice.
pub(super) async fn a_token_only_grows<J: Journal>(subject: &Subject<J>) {
    let mut claim = subject.begin(&draft(Some("order-1"), "{}")).await;
    let mut held = BTreeSet::from([claim.token]);
    let mut last = claim.token;
    let steps = [To::Released, To::Later(Duration::ZERO), To::Parked(Reason::Status)];
    for (step, to) in steps.into_iter().cycle().take(12).enumerate() {
        yes(subject.journal().finish(&claim, &outcome(to)).await.unwrap());
        let mut row = subject.row(claim.row).await;
        assert!(row.token > last, "its end is seen: {to:?}");
        if step % 4 == 0 {
            yes(subject.other().decide(row.row, row.token, Decision::Retry).await.unwrap());
            row = subject.row(claim.row).await;
        }
        claim = match to {
            To::Parked(_) => {
                yes(subject.other().take(row.row, row.token, subject.long()).await.unwrap())
            }
            _ => {
                let claimed = subject.other().claim_due(&due(&[], 1), subject.long()).await;
                claimed.unwrap().pop().expect("due now").0
            }
        };
        assert!(claim.token > row.token && held.insert(claim.token));
        last = claim.token;
    }
    let writes = held.iter().take(held.len() - 1).map(|&token| Claim { token, ..claim });
    for late in writes {
        assert_eq!(subject.journal().renew(&late, subject.long()).await.unwrap(), Held::Lost);
    }
}

pub(super) async fn an_extended_lease_lives_on<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin_for(&draft(Some("order-1"), "{}"), subject.unit() * 2).await;
    subject.pass(1).await;
    yes(subject.journal().renew(&claim, subject.long()).await.unwrap());
    subject.pass(2).await;
    let taken = subject.other().take(claim.row, claim.token, subject.long()).await.unwrap();
    assert_eq!(taken, Held::Lost);
    assert!(subject.other().claim_due(&due(&[], 9), subject.long()).await.unwrap().is_empty());
    yes(subject.journal().renew(&claim, subject.unit()).await.unwrap());
    subject.pass(1).await;
    yes(subject.other().take(claim.row, claim.token, subject.long()).await.unwrap());
}

pub(super) async fn a_row_that_is_not_there_is_lost<J: Journal>(subject: &Subject<J>) {
    let (row, token) = (RowId(1_000_000), Token(1));
    let claim = Claim::new(row, token);
    assert_eq!(subject.journal().take(row, token, subject.long()).await.unwrap(), Held::Lost);
    assert_eq!(subject.journal().renew(&claim, subject.long()).await.unwrap(), Held::Lost);
    assert_eq!(subject.journal().attempt(&claim, &trail([])).await.unwrap(), Held::Lost);
    let completed = outcome(To::Completed);
    assert_eq!(subject.journal().finish(&claim, &completed).await.unwrap(), Held::Lost);
    let decided = subject.journal().decide(row, token, Decision::Abandon).await.unwrap();
    assert_eq!(decided, Held::Lost);
}
