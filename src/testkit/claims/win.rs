//! Claims: of any number at once exactly one wins.

use std::collections::BTreeSet;
use std::time::Duration;

use super::make::{answer, ask, fingerprint, name};
use super::subject::{BODY, Subject, fresh, in_progress, yes};
use crate::key::IdempotencyKey;
use crate::server::claim::{RecoveryPoint, Seen};
use crate::server::store::{ClaimStore, Claimed, Name};

const MANY: usize = 50;

pub(super) async fn a_new_key_is_won_once<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    assert_eq!(subject.claim(&name, BODY).await, fresh());
    in_progress(&subject.claim(&name, BODY).await);
    in_progress(&subject.claim_other(&name, BODY).await);
}

/// O-19
pub(super) async fn of_many_claims_at_once_exactly_one_wins<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let claims = subject.at_once(&name, vec![BODY.to_owned(); MANY]).await;
    let (won, others): (Vec<_>, Vec<_>) =
        claims.into_iter().partition(|(_, claimed)| *claimed == fresh());
    assert_eq!((won.len(), others.len()), (1, MANY - 1));
    for (_, other) in others {
        in_progress(&other);
    }
    yes(subject
        .other()
        .complete(&won[0].0.holder, &answer(201, "{}"), subject.long())
        .await
        .unwrap());
}

pub(super) async fn of_many_different_requests_at_once_exactly_one_wins<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let claims = subject.at_once(&name, (0..MANY).map(|number| number.to_string())).await;
    let won: Vec<_> = claims.iter().filter(|(_, claimed)| *claimed == fresh()).collect();
    let refused = claims.iter().filter(|(_, claimed)| *claimed == Claimed::Mismatch).count();
    assert_eq!((won.len(), refused), (1, MANY - 1));
    assert_eq!(subject.row(&name).await.seen.fingerprint, won[0].0.fingerprint);
}

pub(super) async fn of_many_who_take_over_at_once_exactly_one_wins<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    subject.win_for(&name, subject.unit(), subject.long()).await;
    subject.pass(1).await;
    let claims = subject.at_once(&name, vec![BODY.to_owned(); MANY]).await;
    let again = Claimed::Won { run: 2, point: None };
    let won: Vec<_> = claims.iter().filter(|(_, claimed)| *claimed == again).collect();
    assert_eq!(won.len(), 1);
    for (_, other) in claims.iter().filter(|(_, claimed)| *claimed != again) {
        in_progress(other);
    }
    assert_eq!(subject.row(&name).await.holder, won[0].0.holder);
}

/// O-20
pub(super) async fn another_request_is_a_mismatch_before_it_is_in_progress<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let holder = subject.win_for(&name, subject.unit(), subject.long()).await;
    let before = subject.row(&name).await;
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch, "it is live");
    subject.pass(1).await;
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch, "it is dead");
    let row = subject.row(&name).await;
    assert_eq!((row.holder, row.seen.runs), (holder, before.seen.runs), "nothing was written");
    assert_eq!(row.seen.fingerprint, fingerprint(BODY));
}

pub(super) async fn the_same_key_of_two_principals_is_two_keys<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let key = IdempotencyKey::parse("order-1").unwrap();
    let (one, two) = (Name::new("acct_1", &key), Name::new("acct_2", &key));
    let holder = subject.win(&one).await;
    assert_eq!(subject.claim_other(&two, "another").await, fresh());
    let answered = answer(201, "of the first");
    yes(subject.store().complete(&holder, &answered, subject.long()).await.unwrap());
    assert_eq!(subject.claim(&one, BODY).await, Claimed::Answered(answered));
    in_progress(&subject.claim(&two, "another").await);
}

pub(super) async fn names_are_told_apart_by_every_byte<S: ClaimStore>(subject: &Subject<S>) {
    let names = [
        ("", "ab"),
        ("a", "b"),
        ("a", "B"),
        ("A", "b"),
        ("a ", "b"),
        (" a", "b"),
        ("a%", "b"),
        ("a'", "b"),
        ("a:", "b"),
        ("\u{e9}", "b"),
        ("e\u{301}", "b"),
        ("\u{1f4b3}", "b"),
        ("a", "b%"),
        ("a", "b_"),
    ];
    let names = names.map(|(principal, key)| {
        Name::new(principal, &IdempotencyKey::parse(key).expect("it is a key"))
    });
    let longest = Name::new("p".repeat(255), &IdempotencyKey::parse(&"k".repeat(255)).unwrap());
    for name in names.iter().chain([&longest]) {
        subject.win(name).await;
    }
    for name in names.iter().chain([&longest]) {
        in_progress(&subject.claim_other(name, BODY).await);
        subject.row(name).await;
    }
    assert_eq!(BTreeSet::from(names).len(), 14);
}

pub(super) async fn a_row_is_looked_at_by_its_name<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    assert_eq!(subject.other().look(&name).await.unwrap(), None);
    let retention = subject.unit() * 100;
    let ask = ask(&name, BODY, subject.unit() * 10, retention);
    assert_eq!(subject.store().claim(&ask).await.unwrap(), fresh());
    let row = subject.row(&name).await;
    let expected = Seen {
        fingerprint: fingerprint(BODY),
        answered: false,
        lease_left: row.seen.lease_left,
        retention_left: row.seen.retention_left,
        point: None,
        runs: 1,
    };
    assert_eq!((row.holder, row.seen, row.answer), (ask.holder.clone(), expected, None));
    assert!(row.age <= subject.unit());

    let point = RecoveryPoint::reached("charged", None);
    let lease = subject.unit() * 10;
    yes(subject.store().checkpoint(&ask.holder, &point, lease).await.unwrap());
    subject.pass(4).await;
    let row = subject.row(&name).await;
    let between = |time: Duration, least: u32, most: u32| {
        assert!((subject.unit() * least..=subject.unit() * most).contains(&time), "{time:?}");
    };
    between(row.age, 4, 9);
    between(row.seen.lease_left, 1, 6);
    between(row.seen.retention_left, 91, 96);
    assert_eq!(row.seen.point, Some(point));
    assert!(row.seen.is_live());

    yes(subject.store().complete(&ask.holder, &answer(201, "{}"), retention).await.unwrap());
    let row = subject.row(&name).await;
    between(row.seen.retention_left, 95, 100);
    assert!(row.seen.answered && !row.seen.is_live());
    assert_eq!(row.answer, Some(answer(201, "{}")));
}
