//! What only a person can tell: it is not run, and it is listed.

use super::make::{answer, ask, name};
use super::subject::{BODY, Subject, in_progress, yes};
use crate::key::IdempotencyKey;
use crate::server::claim::{MOST_RUNS, RecoveryPoint};
use crate::server::store::{ClaimStore, Claimed, Name};

/// O-24
pub(super) async fn an_unconfirmed_call_is_not_repeated<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let point = RecoveryPoint::unconfirmed("charging", Some("dk_1".to_owned()));
    let holder = subject.win(&name).await;
    yes(subject.store().checkpoint(&holder, &point, subject.unit() * 10).await.unwrap());
    in_progress(&subject.claim_other(&name, BODY).await);
    subject.pass(10).await;
    for _ in 0..2 {
        assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Reconcile);
    }
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch);
    let row = subject.row(&name).await;
    assert_eq!((row.seen.point, row.seen.runs), (Some(point), 1));

    // Its worker was only slow: it knows what happened.
    yes(subject.store().complete(&holder, &answer(201, "{}"), subject.long()).await.unwrap());
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
}

pub(super) async fn a_call_that_was_confirmed_is_gone_on_from<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let (long, unit) = (subject.long(), subject.unit());
    let holder = subject.win(&name).await;
    let before = RecoveryPoint::unconfirmed("charging", None);
    yes(subject.store().checkpoint(&holder, &before, long).await.unwrap());
    let after = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    yes(subject.store().checkpoint(&holder, &after, unit).await.unwrap());
    subject.pass(1).await;
    let again = Claimed::Won { run: 2, point: Some(after) };
    assert_eq!(subject.claim_other(&name, BODY).await, again);
}

pub(super) async fn what_kills_its_workers_is_not_run_for_ever<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    for run in 1..=MOST_RUNS {
        let ask = ask(&name, BODY, std::time::Duration::ZERO, subject.long());
        let claimed = subject.store().claim(&ask).await.unwrap();
        assert_eq!(claimed, Claimed::Won { run, point: None });
    }
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Reconcile);
    assert_eq!(subject.row(&name).await.seen.runs, MOST_RUNS);
    assert_eq!(names(subject, None, 10).await, [name]);
}

/// The names of what waits.
pub(super) async fn names<S: ClaimStore>(
    subject: &Subject<S>,
    after: Option<&Name>,
    limit: u32,
) -> Vec<Name> {
    let rows = subject.other().list(after, limit).await.unwrap();
    for row in &rows {
        assert!(row.seen.waits_for_a_person(), "{row:?}");
    }
    rows.into_iter().map(|row| row.holder.name).collect()
}

pub(super) async fn only_what_waits_for_a_person_is_listed<S: ClaimStore>(subject: &Subject<S>) {
    let (unit, long) = (subject.unit(), subject.long());
    let reached = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    let unconfirmed = RecoveryPoint::unconfirmed("charging", None);
    // (key, lease, retention, point): dead, and its retention over, when they are 1.
    let short = unit;
    for (key, lease, retention, point) in [
        ("a live one", long, long, None),
        ("a dead one", short, long, None),
        ("a dead one to forget", short, short, None),
        ("at a checkpoint", short, long, Some(&reached)),
        ("left at a checkpoint", short, short, Some(&reached)),
        ("live at a checkpoint", long, short, Some(&reached)),
        ("live in doubt", long, long, Some(&unconfirmed)),
        ("in doubt", short, long, Some(&unconfirmed)),
        ("in doubt, and old", short, short, Some(&unconfirmed)),
    ] {
        let name = name(&key.replace([' ', ','], "-"));
        let holder = subject.win_for(&name, lease, retention).await;
        if let Some(point) = point {
            yes(subject.store().checkpoint(&holder, point, lease).await.unwrap());
        }
    }
    let answered = name("answered-in-doubt");
    let holder = subject.win_for(&answered, short, short).await;
    yes(subject.store().checkpoint(&holder, &unconfirmed, short).await.unwrap());
    yes(subject.store().complete(&holder, &answer(201, "{}"), short).await.unwrap());
    subject.pass(1).await;

    let expected = ["in-doubt", "in-doubt--and-old", "left-at-a-checkpoint"].map(name);
    assert_eq!(names(subject, None, 100).await, expected);
    let rows = subject.other().list(None, 100).await.unwrap();
    let points: Vec<_> = rows.iter().map(|row| row.seen.point.as_ref()).collect();
    assert_eq!(points, [Some(&unconfirmed), Some(&unconfirmed), Some(&reached)]);
    for row in rows {
        assert_eq!(
            subject.other().look(&row.holder.name).await.unwrap().unwrap().seen.point,
            row.seen.point
        );
    }
}

pub(super) async fn what_waits_is_listed_in_pages_and_in_order<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let names_of = [
        ("", "b"),
        ("B", "a"),
        ("a", "B"),
        ("a", "a"),
        ("a", "b"),
        ("a ", "a"),
        ("a!", "a"),
        ("ab", "a"),
        ("\u{e9}", "a"),
        ("\u{ffff}", "a"),
        ("\u{1f4b3}", "a"),
    ];
    let all: Vec<_> = names_of
        .map(|(principal, key)| Name::new(principal, &IdempotencyKey::parse(key).unwrap()))
        .into();
    assert!(all.is_sorted(), "the case is written in order");
    let point = RecoveryPoint::unconfirmed("charging", None);
    // Not begun in the order of their names.
    for name in all.iter().rev().step_by(2).chain(all.iter().rev().skip(1).step_by(2)) {
        let holder = subject.win(name).await;
        yes(subject.store().checkpoint(&holder, &point, subject.unit()).await.unwrap());
    }
    subject.pass(1).await;
    assert_eq!(names(subject, None, 100).await, all);
    assert_eq!(names(subject, None, u32::MAX).await, all);
    let mut paged: Vec<Name> = Vec::new();
    for _ in 0..all.len() {
        let page = names(subject, paged.last(), 3).await;
        assert!(page.len() <= 3);
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert!(names(subject, None, 0).await.is_empty());
}
