//! Leases: held while they live, taken over after, and fenced for ever.

use std::time::Duration;

use super::make::{answer, ask, holder, name};
use super::replay::refuse_all;
use super::subject::{BODY, Subject, fresh, in_progress, yes};
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimStore, Claimed};

pub(super) async fn a_live_lease_says_what_is_left<S: ClaimStore>(subject: &Subject<S>) {
    let (name, unit) = (name("order-1"), subject.unit());
    subject.win_for(&name, unit * 10, subject.long()).await;
    let left = in_progress(&subject.claim_other(&name, BODY).await);
    assert!((unit * 6..=unit * 10).contains(&left), "{left:?}");
    subject.pass(4).await;
    let left = in_progress(&subject.claim_other(&name, BODY).await);
    assert!((unit..=unit * 6).contains(&left), "{left:?}");
}

/// O-23
pub(super) async fn an_expired_lease_is_taken_over<S: ClaimStore>(subject: &Subject<S>) {
    let (name, unit) = (name("order-1"), subject.unit());
    subject.win_for(&name, unit, subject.long()).await;
    subject.pass(1).await;
    let ask = ask(&name, BODY, unit * 10, subject.long());
    let again = Claimed::Won { run: 2, point: None };
    assert_eq!(subject.other().claim(&ask).await.unwrap(), again);
    let left = in_progress(&subject.claim(&name, BODY).await);
    assert!((unit * 6..=unit * 10).contains(&left), "it has a lease of its own: {left:?}");
    let row = subject.row(&name).await;
    assert_eq!((row.holder, row.seen.runs), (ask.holder.clone(), 2));
    assert!(row.age >= unit, "its age is that of the first run");
    yes(subject.store().complete(&ask.holder, &answer(201, "{}"), subject.long()).await.unwrap());
    assert_eq!(subject.claim(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
}

pub(super) async fn a_checkpoint_is_handed_on<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let mut run = 1;
    let points = [
        RecoveryPoint::reached("reserved", None),
        RecoveryPoint::reached("charged", Some("ch_1 \u{1f4b3} '\"\\\n".to_owned())),
        RecoveryPoint::reached("", Some(String::new())),
    ];
    let mut holder = subject.win(&name).await;
    for point in points {
        yes(subject.store().checkpoint(&holder, &point, subject.unit()).await.unwrap());
        subject.pass(1).await;
        run += 1;
        let ask = ask(&name, BODY, subject.long(), subject.long());
        let claimed = subject.other().claim(&ask).await.unwrap();
        assert_eq!(claimed, Claimed::Won { run, point: Some(point.clone()) });
        assert_eq!(subject.row(&name).await.seen.point, Some(point));
        holder = ask.holder;
    }
}

pub(super) async fn a_checkpoint_extends_the_lease<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let holder = subject.win_for(&name, subject.unit(), subject.long()).await;
    let point = RecoveryPoint::reached("charged", None);
    yes(subject.store().checkpoint(&holder, &point, subject.long()).await.unwrap());
    subject.pass(2).await;
    in_progress(&subject.claim_other(&name, BODY).await);
}

pub(super) async fn a_renewed_lease_lives_on<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let holder = subject.win_for(&name, subject.unit() * 4, subject.long()).await;
    yes(subject.store().renew(&holder, subject.unit() * 20).await.unwrap());
    subject.pass(5).await;
    let left = in_progress(&subject.claim_other(&name, BODY).await);
    assert!(left <= subject.unit() * 15, "counted from when it was renewed: {left:?}");
    yes(subject.other().renew(&holder, subject.unit()).await.unwrap());
    subject.pass(1).await;
    subject.take_over(&name, 2).await;
}

/// O-23
pub(super) async fn what_the_former_holder_writes_is_refused<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let reached = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    let late = subject.die_at(&name, reached).await;
    let holder = subject.take_over(&name, 2).await;
    let before = subject.row(&name).await;
    for store in [subject.store(), subject.other()] {
        refuse_all(subject, store, &late).await;
    }
    let after = subject.row(&name).await;
    assert_eq!((&after.holder, after.answer), (&holder, None));
    assert_eq!((after.seen.point, after.seen.runs), (before.seen.point, 2));
    let first = answer(201, "of the second run");
    yes(subject.other().complete(&holder, &first, subject.long()).await.unwrap());
    refuse_all(subject, subject.store(), &late).await;
    assert_eq!(subject.claim(&name, BODY).await, Claimed::Answered(first));
}

pub(super) async fn an_expired_claim_that_nobody_took_is_still_held<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let holder = subject.win_for(&name, subject.unit(), subject.long()).await;
    subject.pass(1).await;
    yes(subject.store().renew(&holder, subject.unit()).await.unwrap());
    subject.pass(1).await;
    let point = RecoveryPoint::reached("charged", None);
    yes(subject.store().checkpoint(&holder, &point, subject.unit()).await.unwrap());
    subject.pass(1).await;
    yes(subject.store().complete(&holder, &answer(201, "{}"), subject.long()).await.unwrap());
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
}

pub(super) async fn a_claim_that_is_not_there_is_lost<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    refuse_all(subject, subject.store(), &holder(&name)).await;
    assert_eq!(subject.other().look(&name).await.unwrap(), None, "nothing was written");
    assert_eq!(subject.claim(&name, BODY).await, fresh());
}

pub(super) async fn a_lease_may_be_short<S: ClaimStore>(subject: &Subject<S>) {
    let (name, short) = (name("order-1"), subject.unit() * 3 / 4);
    subject.win_for(&name, short, subject.long()).await;
    let left = in_progress(&subject.claim_other(&name, BODY).await);
    assert!(left <= short + Duration::from_millis(1), "{left:?}");
    subject.pass_for(short).await;
    let ask = ask(&name, BODY, Duration::ZERO, subject.long());
    let again = Claimed::Won { run: 2, point: None };
    assert_eq!(subject.other().claim(&ask).await.unwrap(), again);
    subject.take_over(&name, 3).await;
}

pub(super) async fn no_duration_is_too_long<S: ClaimStore>(subject: &Subject<S>) {
    let (name, widest) = (name("order-1"), Duration::MAX);
    // A clock that stands at zero would add up to no more than the widest.
    subject.pass(1).await;
    let holder = subject.win_for(&name, widest, widest).await;
    let year = Duration::from_secs(365 * 86_400);
    let live = |left: Duration| assert!(left > year * 100, "{left:?}");
    live(in_progress(&subject.claim_other(&name, BODY).await));
    yes(subject.store().renew(&holder, widest).await.unwrap());
    let point = RecoveryPoint::reached("charged", None);
    yes(subject.store().checkpoint(&holder, &point, widest).await.unwrap());
    subject.pass(1).await;
    live(in_progress(&subject.claim_other(&name, BODY).await));
    live(subject.row(&name).await.seen.retention_left);
    yes(subject.store().complete(&holder, &answer(201, "{}"), widest).await.unwrap());
    subject.pass(1).await;
    assert_eq!(subject.other().sweep(10).await.unwrap(), 0);
    live(subject.row(&name).await.seen.retention_left);
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
}
