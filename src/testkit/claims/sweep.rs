//! Sweeping: in bounded batches, and only what may be forgotten.

use super::make::{answer, name};
use super::replay::refuse_all;
use super::subject::{BODY, Subject, fresh, yes};
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimStore, Claimed};

pub(super) async fn what_may_be_forgotten_is_swept_in_batches<S: ClaimStore>(subject: &Subject<S>) {
    let (unit, long) = (subject.unit(), subject.long());
    let names: Vec<_> = (0..7).map(|number| name(&format!("order-{number}"))).collect();
    let kept = name("kept");
    for (number, name) in names.iter().enumerate() {
        let holder = subject.win_for(name, unit, unit).await;
        // Some are answered, some are dead; and one that was in doubt is answered.
        if number == 0 {
            let point = RecoveryPoint::unconfirmed("charging", None);
            yes(subject.store().checkpoint(&holder, &point, unit).await.unwrap());
        }
        if number < 4 {
            yes(subject.store().complete(&holder, &answer(201, "{}"), unit).await.unwrap());
        }
    }
    let holder = subject.win(&kept).await;
    yes(subject.store().complete(&holder, &answer(201, "kept"), long).await.unwrap());
    subject.pass(1).await;
    assert_eq!(subject.other().sweep(0).await.unwrap(), 0);
    let mut swept = Vec::new();
    for _ in 0..4 {
        swept.push(subject.other().sweep(3).await.unwrap());
    }
    assert_eq!(swept, [3, 3, 1, 0]);
    for name in &names {
        assert_eq!(subject.store().look(name).await.unwrap(), None);
        assert_eq!(subject.claim(name, "another").await, fresh());
    }
    assert_eq!(subject.other().sweep(u32::MAX).await.unwrap(), 0);
    assert_eq!(subject.claim(&kept, BODY).await, Claimed::Answered(answer(201, "kept")));
}

/// O-31
pub(super) async fn what_somebody_works_on_is_never_swept<S: ClaimStore>(subject: &Subject<S>) {
    let (unit, long) = (subject.unit(), subject.long());
    let live = name("live");
    let holder = subject.win_for(&live, long, unit).await;
    // Its worker was slow, and has come back.
    let renewed = name("renewed");
    let late = subject.win_for(&renewed, unit, unit).await;
    let checked = name("checked");
    let third = subject.win_for(&checked, unit, unit).await;
    subject.pass(2).await;
    yes(subject.store().renew(&late, long).await.unwrap());
    let point = RecoveryPoint::reached("charged", None);
    yes(subject.store().checkpoint(&third, &point, long).await.unwrap());
    // And this one is run once more.
    let again = name("again");
    subject.win_for(&again, unit, unit).await;
    subject.pass(2).await;
    assert_eq!(subject.claim(&again, BODY).await, fresh());
    for _ in 0..3 {
        assert_eq!(subject.other().sweep(100).await.unwrap(), 0);
    }
    for holder in [&holder, &late, &third] {
        yes(subject.store().complete(holder, &answer(201, "{}"), unit).await.unwrap());
    }
    subject.pass(1).await;
    assert_eq!(subject.other().sweep(100).await.unwrap(), 3);
    subject.row(&again).await;
}

pub(super) async fn what_may_not_be_forgotten_is_never_swept<S: ClaimStore>(subject: &Subject<S>) {
    let unit = subject.unit();
    let reached = RecoveryPoint::reached("charged", None);
    let in_doubt = RecoveryPoint::unconfirmed("charging", None);
    // More of these than a batch holds do not hide what may go.
    let mut held = Vec::new();
    for number in 0..6 {
        let name = name(&format!("a-{number}"));
        let holder = subject.win_for(&name, unit, unit).await;
        let point = if number % 2 == 0 { &reached } else { &in_doubt };
        yes(subject.store().checkpoint(&holder, point, unit).await.unwrap());
        held.push(name);
    }
    let gone = name("b");
    subject.win_for(&gone, unit * 2, unit * 2).await;
    subject.pass(2).await;
    assert_eq!(subject.other().sweep(3).await.unwrap(), 1);
    assert_eq!(subject.other().sweep(3).await.unwrap(), 0);
    assert_eq!(subject.store().look(&gone).await.unwrap(), None);
    for name in &held {
        subject.row(name).await;
    }
}

pub(super) async fn what_was_swept_is_no_longer_held<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let late = subject.win_for(&name, subject.unit(), subject.unit()).await;
    subject.pass(1).await;
    assert_eq!(subject.other().sweep(10).await.unwrap(), 1);
    refuse_all(subject, subject.store(), &late).await;
    assert_eq!(subject.store().look(&name).await.unwrap(), None, "nothing was written");
    assert_eq!(subject.claim_other(&name, "another").await, fresh());
    refuse_all(subject, subject.store(), &late).await;
}
