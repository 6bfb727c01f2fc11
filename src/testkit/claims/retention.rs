//! How long a key is remembered, and what is never forgotten.

use super::make::{answer, name};
use super::subject::{BODY, Subject, fresh, in_progress, yes};
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimStore, Claimed};

pub(super) async fn retention_is_counted_from_the_answer<S: ClaimStore>(subject: &Subject<S>) {
    let (name, unit) = (name("order-1"), subject.unit());
    let holder = subject.win_for(&name, subject.long(), unit * 4).await;
    subject.pass(3).await;
    yes(subject.store().complete(&holder, &answer(201, "{}"), unit * 10).await.unwrap());
    subject.pass(5).await;
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
    subject.pass(5).await;
    assert_eq!(subject.claim_other(&name, BODY).await, fresh());
}

/// O-30
pub(super) async fn past_its_retention_an_answer_is_forgotten<S: ClaimStore>(subject: &Subject<S>) {
    let (same, another) = (name("same"), name("another"));
    for name in [&same, &another] {
        let holder = subject.win(name).await;
        let point = RecoveryPoint::unconfirmed("charging", None);
        yes(subject.store().checkpoint(&holder, &point, subject.long()).await.unwrap());
        yes(subject.store().complete(&holder, &answer(201, "old"), subject.unit()).await.unwrap());
    }
    subject.pass(1).await;
    assert_eq!(subject.claim_other(&same, BODY).await, fresh());
    assert_eq!(subject.claim_other(&another, "another").await, fresh());
    // Nothing of the former one is left in the row.
    in_progress(&subject.claim(&another, "another").await);
    assert_eq!(subject.claim(&another, BODY).await, Claimed::Mismatch);
    let row = subject.row(&same).await;
    assert_eq!((row.answer, row.seen.point, row.seen.runs), (None, None, 1));
    assert!(row.age < subject.unit(), "it is a new one: {:?}", row.age);
    assert!(row.seen.retention_left > subject.unit());
}

pub(super) async fn past_its_retention_a_dead_claim_is_forgotten<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let late = subject.win_for(&name, subject.unit(), subject.unit()).await;
    subject.pass(1).await;
    assert_eq!(subject.claim_other(&name, "another").await, fresh());
    super::replay::refuse_all(subject, subject.store(), &late).await;
    in_progress(&subject.claim(&name, "another").await);
}

pub(super) async fn past_its_retention_a_checkpoint_is_not_forgotten<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let (name, unit) = (name("order-1"), subject.unit());
    let holder = subject.win_for(&name, unit, unit).await;
    let point = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    yes(subject.store().checkpoint(&holder, &point, unit).await.unwrap());
    subject.pass(2).await;
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch);
    let again = Claimed::Won { run: 2, point: Some(point) };
    assert_eq!(subject.claim_other(&name, BODY).await, again);
}

pub(super) async fn retention_may_be_shorter_than_the_lease<S: ClaimStore>(subject: &Subject<S>) {
    let (name, unit) = (name("order-1"), subject.unit());
    let holder = subject.win_for(&name, subject.long(), unit / 2).await;
    subject.pass(1).await;
    in_progress(&subject.claim_other(&name, BODY).await);
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch);
    assert_eq!(subject.other().sweep(10).await.unwrap(), 0);
    let short = unit * 3 / 4;
    yes(subject.store().complete(&holder, &answer(201, "{}"), short).await.unwrap());
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
    subject.pass_for(short).await;
    assert_eq!(subject.claim_other(&name, BODY).await, fresh());
}
