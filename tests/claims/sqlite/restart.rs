//! What is there after a process ended, one way or another.

use std::io::{BufRead, BufReader};

use post_once::server::claim::RecoveryPoint;
use post_once::server::store::{ClaimStore, Claimed, SqliteClaims};
use post_once::testkit::ManualClock;
use post_once::testkit::claims::{answer, name};

use super::{LEASE, Place, RETENTION, YES, child, claim, given, win};

#[tokio::test]
async fn claims_answers_and_checkpoints_are_kept() {
    let (place, clock) = (Place::new(), ManualClock::new());
    let open = || SqliteClaims::builder(&place.path).clock(clock.clone()).open();
    let names = ["live", "answered", "checked", "in-doubt"].map(name);
    let [live, answered, checked, in_doubt] = &names;
    let store = open().await.unwrap();
    let holder = win(&store, live).await;
    let done = win(&store, answered).await;
    assert_eq!(store.complete(&done, &answer(201, "{}"), RETENTION).await.unwrap(), YES);
    let reached = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    let unconfirmed = RecoveryPoint::unconfirmed("charging", None);
    for (name, point) in [(checked, &reached), (in_doubt, &unconfirmed)] {
        let holder = win(&store, name).await;
        assert_eq!(store.checkpoint(&holder, point, LEASE).await.unwrap(), YES);
    }
    store.close().await;
    assert!(!place.beside("-wal").exists(), "the log was moved into the file");

    let store = open().await.unwrap();
    assert_eq!(claim(&store, live).await, Claimed::InProgress { lease_left: LEASE });
    assert_eq!(claim(&store, answered).await, Claimed::Answered(answer(201, "{}")));
    assert_eq!(store.renew(&holder, LEASE / 2).await.unwrap(), YES, "its worker may go on");
    drop(store);

    clock.advance(LEASE);
    let store = open().await.unwrap();
    assert_eq!(claim(&store, live).await, Claimed::Won { run: 2, point: None });
    assert_eq!(claim(&store, checked).await, Claimed::Won { run: 2, point: Some(reached) });
    assert_eq!(claim(&store, in_doubt).await, Claimed::Reconcile);
}

/// Wins keys and answers them until it is killed, and tells of each.
#[tokio::test]
#[ignore = "the work of a process that is killed"]
async fn until_it_is_killed() {
    let store = SqliteClaims::open(given()).await.unwrap();
    for number in 0.. {
        let name = name(&format!("order-{number}"));
        let holder = win(&store, &name).await;
        println!("won {number}");
        let done = answer(201, number.to_string());
        assert_eq!(store.complete(&holder, &done, RETENTION).await.unwrap(), YES);
        println!("done {number}");
    }
}

/// O-22
#[tokio::test]
async fn what_was_acknowledged_is_there_after_a_kill() {
    let place = Place::new();
    for round in 1..=3 {
        let mut process = child("sqlite::restart::until_it_is_killed", &place.path);
        let output = BufReader::new(process.stdout.take().unwrap());
        let (mut won, mut done) = (Vec::new(), Vec::new());
        for line in output.lines().map(|line| line.unwrap()) {
            let told = |what| line.split(what).nth(1).map(str::to_owned);
            won.extend(told("won "));
            done.extend(told("done "));
            // Not always after an answer.
            if done.len() > 20 && (won.len() > done.len() || round == 2) {
                process.kill().unwrap();
                break;
            }
        }
        process.wait().unwrap();
        assert!(done.len() > 20, "it was at work");
        let store = place.open().await;
        for number in won {
            let name = name(&format!("order-{number}"));
            match claim(&store, &name).await {
                Claimed::Answered(stored) => assert_eq!(stored, answer(201, number.clone())),
                Claimed::InProgress { .. } => assert!(!done.contains(&number), "{number}"),
                other => panic!("it was won and is there: {other:?}"),
            }
        }
        store.close().await;
        let whole: String =
            place.plain().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
        std::fs::remove_file(&place.path).unwrap();
    }
}
