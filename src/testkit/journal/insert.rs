//! Beginning: one atomic insert or fetch.

use std::time::Duration;

use super::make::{draft, due, outcome};
use super::subject::{Subject, found, new, yes};
use crate::journal::{Inserted, Journal, State, To, Token};

pub(super) async fn a_new_name_is_inserted_claimed_and_counted<J: Journal>(subject: &Subject<J>) {
    let begun = draft(Some("order-1"), "{}");
    let claim = subject.begin(&begun).await;
    let row = subject.other().by_name("", "order-1").await.unwrap().unwrap();
    assert_eq!((row.row, row.token), (claim.row, claim.token));
    assert_eq!(row.state, State::Pending);
    assert_eq!((row.attempts, row.lost), (1, 1), "counted before it is sent");
    assert!(row.trail.attempts.is_empty() && !row.trail.sent && row.answer.is_none());
    assert!(row.ages.first_send.is_some(), "it may be on its way");
    // A store may have the lease end with the millisecond.
    let most = subject.long() + Duration::from_millis(1);
    assert!(row.ages.lease_left.is_some_and(|left| left <= most));
    assert!(subject.other().by_name("", "order-2").await.unwrap().is_none());
}

pub(super) async fn of_two_begins_of_one_name_exactly_one_inserts<J: Journal>(
    subject: &Subject<J>,
) {
    for number in 0..20 {
        let begun = draft(Some(&format!("order-{number}")), "{}");
        let (one, two) = tokio::join!(
            subject.journal().insert(&begun, subject.long()),
            subject.other().insert(&begun, subject.long()),
        );
        match (one.unwrap(), two.unwrap()) {
            (Inserted::New(claim), Inserted::Found(record))
            | (Inserted::Found(record), Inserted::New(claim)) => {
                assert_eq!((record.row, record.token), (claim.row, claim.token));
                assert!(record.ages.lease_left.is_some(), "the loser sees a live claim");
            }
            both => panic!("exactly one inserts: {both:?}"),
        }
    }
}

pub(super) async fn one_name_in_two_scopes_is_two_operations<J: Journal>(subject: &Subject<J>) {
    let mut rows = Vec::new();
    for scope in ["", "acct_1", "acct_2"] {
        let mut begun = draft(Some("order-1"), scope.to_owned());
        begun.scope = scope.to_owned();
        rows.push(subject.begin(&begun).await.row);
    }
    for (scope, row) in ["", "acct_1", "acct_2"].into_iter().zip(rows) {
        let record = subject.other().by_name(scope, "order-1").await.unwrap().unwrap();
        assert_eq!(record.row, row);
        assert_eq!((&*record.draft.scope, &*record.draft.request.body), (scope, scope.as_bytes()));
    }
    assert!(subject.other().by_name("acct_3", "order-1").await.unwrap().is_none());
}

pub(super) async fn without_a_name_nothing_collides<J: Journal>(subject: &Subject<J>) {
    let begun = draft(None, "{}");
    let one = subject.begin(&begun).await;
    let two = new(subject.other().insert(&begun, subject.long()).await.unwrap());
    let three = new(subject.journal().enqueue(&begun).await.unwrap());
    assert!(one.row < two.row && two.row < three.row, "rows ascend");
    assert!(
        subject.other().by_name("", "").await.unwrap().is_none(),
        "no name is not an empty one"
    );
    let empty = subject.begin(&draft(Some(""), "{}")).await;
    assert_eq!(subject.other().by_name("", "").await.unwrap().unwrap().row, empty.row);
}

pub(super) async fn a_name_is_found_with_the_fingerprint_and_bytes_it_was_begun_with<J: Journal>(
    subject: &Subject<J>,
) {
    let first = draft(Some("order-1"), r#"{"amount":1}"#);
    let other = draft(Some("order-1"), r#"{"amount":2}"#);
    let claim = subject.begin(&first).await;
    let record = found(subject.other().insert(&other, subject.long()).await.unwrap());
    assert_eq!((record.row, record.token), (claim.row, claim.token), "nothing was written");
    assert_eq!(record.draft.terms.fingerprint, first.terms.fingerprint);
    assert_ne!(record.draft.terms.fingerprint, other.terms.fingerprint);
    assert_eq!(record.draft.request, first.request);
    yes(subject.journal().finish(&claim, &outcome(To::Completed)).await.unwrap());
    let record = found(subject.other().insert(&other, subject.long()).await.unwrap());
    assert_eq!(record.state, State::Completed);
    assert_eq!(record.draft.terms, first.terms);
}

pub(super) async fn what_is_enqueued_is_due_at_once_and_was_never_sent<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = new(subject.journal().enqueue(&draft(Some("order-1"), "{}")).await.unwrap());
    assert_eq!(claim.token, Token(0), "nobody holds it");
    let row = subject.row(claim.row).await;
    assert_eq!((row.state, row.attempts, row.lost), (State::Pending, 0, 0));
    assert_eq!((row.ages.first_send, row.ages.lease_left), (None, None));
    assert_eq!(row.ages.first_send_at, None);
    let claimed = subject.other().claim_due(&due(&[], 10), subject.long()).await.unwrap();
    let [(held, record)] = &*claimed else { panic!("due at once: {claimed:?}") };
    assert_eq!((held.row, record.attempts, record.lost), (claim.row, 1, 1));
    assert!(held.token > claim.token && record.ages.first_send.is_some());
}

pub(super) async fn enqueuing_a_known_name_finds_it<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin(&draft(Some("order-1"), "1")).await;
    let record = found(subject.other().enqueue(&draft(Some("order-1"), "2")).await.unwrap());
    assert_eq!((record.row, record.token), (claim.row, claim.token));
    assert_eq!(&*record.draft.request.body, b"1");
    yes(subject.journal().finish(&claim, &outcome(To::Completed)).await.unwrap());
}

pub(super) async fn every_byte_comes_back<J: Journal>(subject: &Subject<J>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let mut begun = draft(Some("naïve \"order\" ' 订单 \u{1F980}"), bytes.clone());
    begun.scope = "acct ; DROP TABLE x; --".to_owned();
    begun.key = "ключ".to_owned();
    begun.request.url = "https://api.example.com/v1/%00?q=a'b\"c".to_owned();
    begun.request.headers.push(("x-bytes".to_owned(), bytes[1..].to_vec()));
    begun.request.headers.push(("x-bytes".to_owned(), Vec::new()));
    let claim = subject.begin(&begun).await;
    let record = subject.row(claim.row).await;
    assert_eq!(record.draft.request, begun.request);
    assert_eq!((&record.draft.scope, &record.draft.name), (&begun.scope, &begun.name));
    assert_eq!((record.draft.key, record.draft.terms), (begun.key, begun.terms));
}

pub(super) async fn the_widest_terms_come_back<J: Journal>(subject: &Subject<J>) {
    let mut begun = draft(None, "");
    begun.terms.window = None;
    begun.terms.missing = vec!["authorization".to_owned(), "cookie".to_owned()];
    begun.terms.context = Some(r#"{"order":42,"note":"é\u0000"}"#.to_owned());
    begun.terms.keep_trying = true;
    let claim = subject.begin(&begun).await;
    let record = subject.row(claim.row).await;
    assert_eq!(record.draft.terms, begun.terms);
    assert_eq!(record.draft.request, begun.request, "an empty body is a body");
    assert_eq!(record.window_left(), None);
}

pub(super) async fn a_large_body_comes_back<J: Journal>(subject: &Subject<J>) {
    let body: Vec<u8> = (0..1_u32 << 20).map(|at| (at ^ (at >> 7)) as u8).collect();
    let claim = subject.begin(&draft(None, body.clone())).await;
    assert_eq!(subject.row(claim.row).await.draft.request.body, body);
}

pub(super) async fn no_duration_is_too_long<J: Journal>(subject: &Subject<J>) {
    let mut begun = draft(Some("order-1"), "{}");
    begun.terms.window = Some((Duration::from_millis(u64::MAX), Duration::ZERO));
    let claim = subject.begin_for(&begun, Duration::MAX).await;
    let record = subject.row(claim.row).await;
    assert_eq!(record.state_now(), State::Pending);
    assert!(record.ages.lease_left.is_some(), "held for ever");
    assert!(record.window_left().is_some_and(|left| left > subject.long()));
    yes(subject.journal().renew(&claim, Duration::MAX).await.unwrap());
    yes(subject.journal().finish(&claim, &outcome(To::Later(Duration::MAX))).await.unwrap());
    let claimed = subject.other().claim_due(&due(&[], u32::MAX), Duration::MAX).await.unwrap();
    assert!(claimed.is_empty(), "never due: {claimed:?}");
    let row = subject.row(claim.row).await;
    yes(subject.other().take(row.row, row.token, Duration::MAX).await.unwrap());
    let gauges = subject.other().gauges().await.unwrap();
    assert_eq!((gauges.pending, gauges.closes_first.is_some()), (1, true));
    subject.other().purge(Duration::MAX, crate::journal::Purge::Names, u32::MAX).await.unwrap();
}
