//! Answers: what was stored comes back, to the same request only.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::make::{answer, fields, holder, name};
use super::subject::{BODY, Subject, yes};
use crate::server::answer::StoredAnswer;
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimStore, Claimed, Held, Holder};

/// O-28
pub(super) async fn an_answer_comes_back_whole<S: ClaimStore>(subject: &Subject<S>) {
    let headers = fields(&[
        ("location", b"/v1/charges/ch_1"),
        ("link", b"<a>; rel=next, <b>"),
        ("link", b"<c>"),
        ("x-name", b"caf\xe9 \xff\x80"),
        ("x-tab", b"a\tb"),
        ("x-empty", b""),
        ("x-colon", b"a: b: c"),
        ("content-type", b"application/json"),
    ]);
    for (key, status, headers) in [
        ("order-1", 201, headers),
        ("order-2", 409, HeaderMap::new()),
        ("order-3", 999, HeaderMap::new()),
    ] {
        let name = name(key);
        let holder = subject.win(&name).await;
        let status = StatusCode::from_u16(status).unwrap();
        let whole = StoredAnswer::new(status, headers, Some(Bytes::from_static(b"{\"id\": 1}\n")));
        yes(subject.store().complete(&holder, &whole, subject.long()).await.unwrap());
        for _ in 0..2 {
            let claimed = subject.claim_other(&name, BODY).await;
            assert_eq!(claimed, Claimed::Answered(whole.clone()));
        }
        assert_eq!(subject.row(&name).await.answer, Some(whole));
    }
}

pub(super) async fn every_body_comes_back<S: ClaimStore>(subject: &Subject<S>) {
    let large: Bytes = (0..2 << 20).map(|at: u32| (at % 251) as u8).collect();
    let bodies = [
        ("none", None),
        ("empty", Some(Bytes::new())),
        ("bytes", Some(Bytes::from_static(b"\0\xff\x80'\\\"\r\n"))),
        ("large", Some(large)),
    ];
    for (key, body) in bodies {
        let name = name(key);
        let holder = subject.win(&name).await;
        let stored = StoredAnswer::new(StatusCode::OK, HeaderMap::new(), body.clone());
        yes(subject.store().complete(&holder, &stored, subject.long()).await.unwrap());
        match subject.claim_other(&name, BODY).await {
            Claimed::Answered(answer) => assert!(answer.body == body, "the body of {key}"),
            other => panic!("{key} is answered: {other:?}"),
        }
    }
}

pub(super) async fn an_answered_key_of_another_request_is_a_mismatch<S: ClaimStore>(
    subject: &Subject<S>,
) {
    let name = name("order-1");
    let holder = subject.win(&name).await;
    yes(subject.store().complete(&holder, &answer(201, "{}"), subject.long()).await.unwrap());
    assert_eq!(subject.claim_other(&name, "another").await, Claimed::Mismatch);
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(answer(201, "{}")));
}

/// What each verb of a worker says to this holder, who must have lost.
pub(super) async fn refuse_all<S: ClaimStore>(subject: &Subject<S>, store: &S, holder: &Holder) {
    let (long, late) = (subject.long(), answer(500, "late"));
    let point = RecoveryPoint::unconfirmed("late", Some("late".to_owned()));
    for (verb, held) in [
        ("renew", store.renew(holder, long).await),
        ("checkpoint", store.checkpoint(holder, &point, long).await),
        ("complete", store.complete(holder, &late, Duration::ZERO).await),
        ("release", store.release(holder).await),
    ] {
        assert_eq!(held.unwrap(), Held::Lost, "{verb}");
    }
}

pub(super) async fn an_answered_claim_is_no_longer_held<S: ClaimStore>(subject: &Subject<S>) {
    let name = name("order-1");
    let winner = subject.win(&name).await;
    let first = answer(201, "the first");
    yes(subject.store().complete(&winner, &first, subject.long()).await.unwrap());
    for store in [subject.store(), subject.other()] {
        refuse_all(subject, store, &winner).await;
        refuse_all(subject, store, &holder(&name)).await;
    }
    assert_eq!(subject.claim_other(&name, BODY).await, Claimed::Answered(first.clone()));
    let row = subject.row(&name).await;
    assert_eq!((row.answer, row.seen.point), (Some(first), None), "nothing was written");
    assert!(row.seen.retention_left > subject.unit());
}
