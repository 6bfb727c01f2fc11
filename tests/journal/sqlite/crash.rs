//! O-03: what was acknowledged survives its process, wherever that is killed.

use std::time::Duration;

use post_once::journal::{Decision, Held, Journal, Purge, Reason, Record, State, To};
use post_once::testkit::journal::{answer, decided, draft, due, outcome, past, trail};

use super::{LEASE, Place, all, begin, child, given};
use post_once::journal::SqliteJournal;

/// One verb after the other; the process ends right after the one of this number.
#[tokio::test]
#[ignore = "the work of another process"]
async fn verbs_until_the_process_is_killed() {
    let (path, last) = given();
    let journal = SqliteJournal::open(path).await.unwrap();
    let mut left: u32 = last.parse().unwrap();
    let mut done = || {
        left -= 1;
        if left == 0 {
            std::process::abort();
        }
    };
    let yes = |held| assert_eq!(held, Held::Yes(()));
    let claim = begin(&journal, &draft(Some("order-1"), r#"{"amount":1}"#)).await;
    done();
    yes(journal.attempt(&claim, &trail([past(1, Some(503))])).await.unwrap());
    done();
    yes(journal.renew(&claim, LEASE * 2).await.unwrap());
    done();
    yes(journal.finish(&claim, &decided(To::Completed, answer(201, "done"))).await.unwrap());
    done();
    journal.enqueue(&draft(Some("order-2"), "{}")).await.unwrap();
    done();
    let (claim, record) = journal.claim_due(&due(&[], 1), LEASE).await.unwrap().remove(0);
    assert_eq!(record.token, claim.token);
    done();
    yes(journal.finish(&claim, &outcome(To::Parked(Reason::NoAnswer))).await.unwrap());
    done();
    let seen = journal.by_name("", "order-2").await.unwrap().unwrap().token;
    yes(journal.decide(claim.row, seen, Decision::Retry).await.unwrap());
    done();
    assert_eq!(journal.purge(Duration::ZERO, Purge::Bodies, 9).await.unwrap(), 1);
    done();
    assert_eq!(journal.purge(Duration::ZERO, Purge::Names, 9).await.unwrap(), 1);
    done();
}

#[tokio::test]
async fn every_verb_that_was_acknowledged_survives() {
    let seen = |record: &Record| {
        let leased = record.ages.lease_left.is_some();
        (record.state, record.token.0, record.attempts, record.lost, leased)
    };
    let parked = State::Parked(Reason::NoAnswer);
    let one = [
        (State::Pending, 1, 1, 1, true),
        (State::Pending, 1, 2, 1, true),
        (State::Pending, 1, 2, 1, true),
        (State::Completed, 2, 1, 0, false),
    ];
    let two = [
        (State::Pending, 0, 0, 0, false),
        (State::Pending, 1, 1, 1, true),
        (parked, 2, 1, 0, false),
        (State::Pending, 3, 1, 0, false),
    ];
    for last in 1..=10 {
        let place = Place::new();
        let test = "sqlite::crash::verbs_until_the_process_is_killed";
        let ended = child(test, &place.path, last.to_string()).wait_with_output().unwrap();
        assert!(ended.status.code().is_none(), "it was killed: {ended:?}");
        assert!(place.beside("-wal").exists(), "nothing was tidied up");
        let journal = place.open().await;
        let rows = all(&journal).await;
        let mut expected = vec![one[last.min(4) - 1]];
        expected.extend(last.checked_sub(5).map(|at| two[at.min(3)]));
        if last == 10 {
            expected.remove(0);
        }
        assert_eq!(rows.iter().map(seen).collect::<Vec<_>>(), expected, "after verb {last}");
        let first = rows.iter().find(|record| record.draft.name.as_deref() == Some("order-1"));
        if let Some(first) = first {
            let body: &[u8] = if last >= 9 { b"" } else { br#"{"amount":1}"# };
            assert_eq!((&*first.draft.request.body, &*first.draft.key), (body, "order-1"));
            assert_eq!(first.trail.attempts.len(), usize::from(last >= 2), "after verb {last}");
            assert_eq!(first.answer.is_some(), last >= 4);
        }
        if last == 3 {
            assert!(rows[0].ages.lease_left > Some(LEASE), "the lease was extended");
        }
    }
}
