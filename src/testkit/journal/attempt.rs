//! Attempts: each counted before it is sent, with what is known of the ones before.

use super::make::{draft, past, trail};
use super::subject::{Subject, yes};
use crate::journal::{Journal, State, Trail};

pub(super) async fn the_trail_of_an_attempt_is_kept_and_the_next_is_counted<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = subject.begin(&draft(Some("order-1"), "{}")).await;
    let mut known = trail([past(1, Some(503))]);
    yes(subject.journal().attempt(&claim, &known).await.unwrap());
    let row = subject.row(claim.row).await;
    assert_eq!((row.state, row.attempts, row.lost), (State::Pending, 2, 1));
    assert_eq!(row.trail, known);
    assert_eq!(row.token, claim.token, "it is the same claim");
    assert!(row.ages.lease_left.is_some(), "and it is held");
    let mut last = past(2, None);
    last.error = Some("it's \"reset\" \u{1F980}".to_owned());
    last.behind_key = true;
    known.attempts.push(last);
    yes(subject.journal().attempt(&claim, &known).await.unwrap());
    let row = subject.row(claim.row).await;
    assert_eq!((row.attempts, row.trail), (3, known));
}

pub(super) async fn the_first_send_stays_when_something_was_sent<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin(&draft(None, "{}")).await;
    let first = subject.row(claim.row).await.ages.first_send_at;
    assert!(first.is_some());
    subject.pass(2).await;
    yes(subject.journal().attempt(&claim, &trail([past(1, None)])).await.unwrap());
    let row = subject.row(claim.row).await;
    assert!(row.ages.first_send >= Some(subject.unit() * 2), "{:?}", row.ages);
    assert_eq!(row.ages.first_send_at, first, "it is the same whenever it is read");
    assert!(row.trail.sent);
}

/// What never left does not open the window: the next attempt is the first send.
pub(super) async fn the_first_send_goes_when_nothing_was_sent<J: Journal>(subject: &Subject<J>) {
    let claim = subject.begin(&draft(None, "{}")).await;
    let first = subject.row(claim.row).await.ages.first_send_at;
    subject.pass(3).await;
    let refused = Trail { attempts: vec![past(1, None)], sent: false };
    yes(subject.journal().attempt(&claim, &refused).await.unwrap());
    let row = subject.row(claim.row).await;
    assert!(row.ages.first_send < Some(subject.unit() * 3), "it is this attempt: {:?}", row.ages);
    assert!(row.ages.first_send.is_some() && !row.trail.sent);
    assert!(row.ages.first_send_at >= first.map(|first| first + subject.unit() * 3));
    assert!(row.ages.created >= subject.unit() * 3);
}
