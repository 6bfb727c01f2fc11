//! What a worker gives up: run by the next request, at once.

use super::make::name;
use super::replay::refuse_all;
use super::subject::{BODY, Subject, fresh, in_progress, yes};
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimStore, Claimed};

pub(super) async fn what_is_given_up_is_run_afresh<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let holder = subject.win(&name).await;
    yes(subject.store().release(&holder).await.unwrap());
    assert_eq!(subject.other().look(&name).await.unwrap(), None);
    assert_eq!(subject.claim_other(&name, "another").await, fresh(), "another body is allowed");
    in_progress(&subject.claim(&name, "another").await);
    assert_eq!(subject.claim(&name, BODY).await, Claimed::Mismatch);
}

pub(super) async fn what_is_given_up_at_a_checkpoint_goes_on_from_it<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let point = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    let holder = subject.win(&name).await;
    yes(subject.store().checkpoint(&holder, &point, subject.long()).await.unwrap());
    yes(subject.store().release(&holder).await.unwrap());
    assert!(!subject.row(&name).await.seen.is_live());
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch);
    let again = Claimed::Won { run: 2, point: Some(point) };
    assert_eq!(subject.claim_other(&name, BODY).await, again);
    in_progress(&subject.claim(&name, BODY).await);
}

pub(super) async fn what_is_given_up_in_doubt_waits_for_a_person<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let point = RecoveryPoint::unconfirmed("charging", None);
    let holder = subject.win(&name).await;
    yes(subject.store().checkpoint(&holder, &point, subject.long()).await.unwrap());
    yes(subject.store().release(&holder).await.unwrap());
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Reconcile);
}

/// A heartbeat that comes after it must not keep the next request away.
pub(super) async fn what_was_given_up_is_no_longer_held<S: ClaimStore>(subject: &Subject<S>) {
    let (plain, checked) = (name("plain"), name("checked"));
    let point = RecoveryPoint::reached("charged", None);
    for name in [&plain, &checked] {
        let holder = subject.win(name).await;
        if *name == checked {
            yes(subject.store().checkpoint(&holder, &point, subject.long()).await.unwrap());
        }
        yes(subject.store().release(&holder).await.unwrap());
        refuse_all(subject, subject.store(), &holder).await;
        refuse_all(subject, subject.other(), &holder).await;
    }
    assert_eq!(subject.claim_other(&plain, BODY).await, fresh());
    let again = Claimed::Won { run: 2, point: Some(point) };
    assert_eq!(subject.claim_other(&checked, BODY).await, again);
}
