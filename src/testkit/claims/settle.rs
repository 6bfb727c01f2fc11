//! What a person decides, on what nobody works on.

use super::make::{answer, holder, name};
use super::person::names;
use super::replay::refuse_all;
use super::subject::{BODY, Subject, fresh, in_progress, yes};
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimStore, Claimed, Decision, Held, Holder};

fn in_doubt() -> RecoveryPoint {
    RecoveryPoint::unconfirmed("charging", Some("dk_1".to_owned()))
}

fn decisions<S: ClaimStore>(subject: &Subject<S>) -> [Decision; 3] {
    let answer = Decision::Answer(answer(500, "refused"), subject.long());
    [Decision::RunAgain, answer, Decision::Forget]
}

/// All decisions on what was seen so must be refused.
async fn refuse_decisions<S: ClaimStore>(subject: &Subject<S>, seen: &Holder) {
    for decision in decisions(subject) {
        let held = subject.other().settle(seen, &decision).await.unwrap();
        assert_eq!(held, Held::Lost, "{decision:?}");
    }
}

pub(super) async fn a_person_lets_it_run_again<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let late = subject.die_at(&name, in_doubt()).await;
    let row = subject.row(&name).await;
    yes(subject.other().settle(&row.holder, &Decision::RunAgain).await.unwrap());
    refuse_all(subject, subject.store(), &late).await;
    assert!(names(subject, None, 10).await.is_empty(), "it waits no longer");
    assert_eq!(subject.claim(&name, "another").await, Claimed::Mismatch);
    match subject.claim_other(&name, BODY).await {
        Claimed::Won { run: 1, point: Some(point) } => {
            assert_eq!((point.name, point.data), (in_doubt().name, in_doubt().data));
            assert!(!point.unconfirmed, "the person has confirmed it");
        }
        other => panic!("it is run again, from its point, and counted anew: {other:?}"),
    }
    in_progress(&subject.claim(&name, BODY).await);
}

pub(super) async fn a_person_gives_its_answer<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let late = subject.die_at(&name, in_doubt()).await;
    let row = subject.row(&name).await;
    let given = answer(201, "it had happened");
    let decision = Decision::Answer(given.clone(), subject.unit() * 10);
    yes(subject.other().settle(&row.holder, &decision).await.unwrap());
    refuse_all(subject, subject.store(), &late).await;
    assert!(names(subject, None, 10).await.is_empty(), "it waits no longer");
    assert_eq!(subject.claim(&name, BODY).await, Claimed::Answered(given));
    assert_eq!(subject.claim(&name, "another").await, Claimed::Mismatch);
    subject.pass(10).await;
    assert_eq!(subject.claim(&name, "another").await, fresh(), "after its retention");
}

pub(super) async fn a_person_forgets_it<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let late = subject.die_at(&name, in_doubt()).await;
    let row = subject.row(&name).await;
    yes(subject.other().settle(&row.holder, &Decision::Forget).await.unwrap());
    assert_eq!(subject.other().look(&name).await.unwrap(), None);
    refuse_all(subject, subject.store(), &late).await;
    assert_eq!(subject.claim(&name, "another").await, fresh());
    refuse_all(subject, subject.store(), &late).await;
    refuse_decisions(subject, &row.holder).await;
    in_progress(&subject.claim_other(&name, "another").await);
}

pub(super) async fn no_decision_while_somebody_works_on_it<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let holder = subject.win(&name).await;
    yes(subject.store().checkpoint(&holder, &in_doubt(), subject.long()).await.unwrap());
    let seen = subject.row(&name).await;
    assert_eq!(seen.holder, holder);
    refuse_decisions(subject, &seen.holder).await;
    let row = subject.row(&name).await;
    assert_eq!((row.holder, row.seen.point), (holder.clone(), Some(in_doubt())));
    yes(subject.store().complete(&holder, &answer(201, "{}"), subject.long()).await.unwrap());
}

pub(super) async fn no_decision_on_what_has_changed_since<S: ClaimStore>(subject: &Subject<S>) {
    let (taken, decided, absent) = (name("taken"), name("decided"), name("absent"));
    subject.win_for(&taken, subject.unit(), subject.long()).await;
    subject.pass(1).await;
    let old = subject.row(&taken).await.holder;
    let point = RecoveryPoint::reached("charged", None);
    let next = subject.take_over(&taken, 2).await;
    yes(subject.other().checkpoint(&next, &point, subject.unit()).await.unwrap());
    subject.pass(1).await;
    refuse_decisions(subject, &old).await;
    assert_eq!(subject.row(&taken).await.holder, next, "nothing was written");

    subject.die_at(&decided, in_doubt()).await;
    let seen = subject.row(&decided).await.holder;
    yes(subject.store().settle(&seen, &Decision::RunAgain).await.unwrap());
    refuse_decisions(subject, &seen).await;
    let now = subject.row(&decided).await.holder;
    yes(subject.store().settle(&now, &Decision::Forget).await.unwrap());

    refuse_decisions(subject, &holder(&absent)).await;
    assert_eq!(subject.other().look(&absent).await.unwrap(), None);
}

pub(super) async fn no_decision_on_what_was_answered<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let holder = subject.win(&name).await;
    yes(subject.store().complete(&holder, &answer(201, "{}"), subject.long()).await.unwrap());
    let seen = subject.row(&name).await.holder;
    refuse_decisions(subject, &seen).await;
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
}
