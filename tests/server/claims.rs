//! Claims: who runs, who does not, and what is left of those who die.

use std::time::Duration;

use post_once::server::answer::StoredAnswer;
use post_once::server::claim::RecoveryPoint;
use post_once::server::store::{Decision, Held};

use crate::api::sleep;
use crate::client::post;
use crate::world::{World, is_about, look, name, shorten, soon, take_away, until};

/// O-23
pub(crate) async fn of_50_equal_requests_on_two_servers_one_is_run(world: &World) {
    let servers = [world.serve().await, world.serve().await];
    let mut asked = tokio::task::JoinSet::new();
    for at in 0..50 {
        let address = servers[at % 2].address;
        asked.spawn(async move { post("k", "1").told("sleep=50").to(address).await });
    }
    let mut ran = 0;
    for answer in asked.join_all().await {
        match answer.status {
            201 if answer.is_replay() => assert_eq!(answer.run(), 1),
            201 => ran += 1,
            409 => assert_eq!(answer.problem(), "key-in-progress"),
            _ => panic!("{answer:?}"),
        }
    }
    assert_eq!((ran, world.runs.count()), (1, 1));
}

/// O-23
pub(crate) async fn of_50_different_requests_under_one_key_one_is_run(world: &World) {
    let servers = [world.serve().await, world.serve().await];
    let mut asked = tokio::task::JoinSet::new();
    for at in 0..50 {
        let address = servers[at % 2].address;
        asked.spawn(async move { post("k", &at.to_string()).told("sleep=50").to(address).await });
    }
    let answers = asked.join_all().await;
    let ran = answers.iter().filter(|answer| answer.status == 201).count();
    let refused = answers.iter().filter(|answer| answer.status == 422);
    assert!(refused.clone().all(|answer| answer.problem() == "key-reused"));
    assert_eq!((ran, refused.count(), world.runs.count()), (1, 49, 1));
}

/// O-24
pub(crate) async fn a_crash_does_not_lock_the_key_for_the_retention(world: &World) {
    let patient = Duration::from_secs(3_600);
    let api = world.serve_with(|layer| layer.longest_retry_after(patient)).await;
    let store = world.store().await;
    for (key, lease) in [("short", 60), ("long", 600)] {
        let runs = world.runs.count();
        let dead = world.killed_worker(key, "1", Duration::from_secs(lease)).await;
        let early = post(key, "1").to(api.address).await;
        assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()));
        let wait: u64 = early.field("retry-after").unwrap().parse().unwrap();
        assert!((lease - 20..=lease).contains(&wait), "what is left of {lease} s: {wait}");
        shorten(&*store, key, Duration::from_millis(200)).await;
        sleep(250).await;
        let late = post(key, "1").to(api.address).await;
        assert_eq!((late.status, late.is_replay()), (201, false), "{late:?}");
        assert_eq!(world.runs.count(), runs + 1);

        // It wakes up, and is too late.
        let answer = StoredAnswer::new(http::StatusCode::OK, http::HeaderMap::new(), None);
        let written = store.complete(&dead, &answer, Duration::from_secs(60)).await.unwrap();
        assert_eq!(written, Held::Lost);
        let again = post(key, "1").to(api.address).await;
        assert_eq!((again.is_replay(), again.run()), (true, late.run()));
    }
}

/// O-25
pub(crate) async fn a_client_that_left_gets_its_answer_later(world: &World) {
    let api = world.serve().await;
    let socket = post("k", "1").told("held").leave_open(api.address).await;
    world.begun(1).await;
    drop(socket);
    // Time in which the server hears of it.
    sleep(100).await;
    let early = post("k", "1").to(api.address).await;
    assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()));
    world.runs.go_on();
    until(|| async { post("k", "1").to(api.address).await.status != 409 }).await;
    let late = post("k", "1").to(api.address).await;
    assert_eq!((late.status, late.is_replay(), late.run()), (201, true, 1));
    assert_eq!(world.runs.count(), 1);
}

pub(crate) async fn a_checkpoint_is_gone_on_from(world: &World) {
    let api = world.serve().await;
    let dead = world.killed_worker("k", "1", Duration::from_secs(60)).await;
    let point = RecoveryPoint::reached("charged", Some("ch_1".to_owned()));
    let store = world.store().await;
    assert_eq!(
        store.checkpoint(&dead, &point, Duration::from_millis(1)).await.unwrap(),
        Held::Yes(())
    );
    sleep(50).await;
    let answer = post("k", "1").to(api.address).await;
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &body["point"]), (201, &"charged".into()));
    assert_eq!((&body["data"], &body["nth"]), (&"ch_1".into(), &2.into()));

    // A handler that wrote one down and then failed is gone on from too, at once.
    let failing = post("f", "1").told("checkpoint=half@2,held@2,status=503@2");
    let (failed, ()) = tokio::join!(failing.to(api.address), async {
        world.begun(2).await;
        until(|| async { look(&*store, "f").await.seen.point.is_some() }).await;
        let left = look(&*store, "f").await.seen.lease_left;
        assert!(is_about(left, Duration::from_secs(30)), "{left:?}: for its lease, if it dies");
        world.runs.go_on();
    });
    assert_eq!((failed.status, failed.run()), (503, 2));
    let again = post("f", "1").to(api.address).await;
    let body: serde_json::Value = serde_json::from_slice(&again.body).unwrap();
    assert_eq!((again.status, &body["point"]), (201, &"half".into()));
    assert_eq!(body["data"], "data");
}

pub(crate) async fn an_unconfirmed_call_waits_for_a_person(world: &World) {
    let api = world.serve().await;
    let failed = post("k", "1").told("external=charge,status=503").to(api.address).await;
    assert_eq!(failed.status, 503);
    let refused = post("k", "1").to(api.address).await;
    assert_eq!((refused.status, refused.problem()), (409, "reconcile".into()));
    assert_eq!(refused.field("retry-after"), None, "it does not help to come again");

    let store = world.store().await;
    let waiting = store.list(None, 10).await.unwrap();
    assert_eq!(waiting.iter().map(|row| &row.holder.name).collect::<Vec<_>>(), [&name("k")]);
    let point = waiting[0].seen.point.as_ref().unwrap();
    assert_eq!((point.name.as_str(), point.unconfirmed), ("charge", true));
    assert_eq!(point.data.as_deref(), Some("data"), "what that person needs");
    let settled = store.settle(&waiting[0].holder, &Decision::RunAgain).await.unwrap();
    assert_eq!(settled, Held::Yes(()));
    let answer = post("k", "1").to(api.address).await;
    assert_eq!((answer.status, answer.run()), (201, 2));
}

/// O-25
pub(crate) async fn shutting_down_waits_for_handlers_whose_clients_have_left(world: &World) {
    let api = world.serve().await;
    let socket = post("k", "1").told("held").leave_open(api.address).await;
    world.begun(1).await;
    drop(socket);
    sleep(100).await;
    assert_eq!(api.handle.running(), 1);
    let handle = api.handle.clone();
    let shutdown = tokio::spawn(async move { handle.shutdown().await });
    let refused = async || post("new", "1").to(api.address).await;
    until(|| async { refused().await.status == 503 }).await;
    let refused = refused().await;
    assert_eq!((refused.status, refused.problem()), (503, "shutting-down".into()));
    assert_eq!(refused.field("retry-after"), Some("1"));
    sleep(50).await;
    assert!(!shutdown.is_finished(), "one of them runs");
    let runs = world.runs.count();
    world.runs.go_on();
    soon(shutdown).await.unwrap();
    assert_eq!((api.handle.running(), world.runs.count()), (0, runs));

    let next = world.serve().await;
    let answer = post("k", "1").to(next.address).await;
    assert!(answer.is_replay(), "it was written down before: {answer:?}");
}

/// A worker that is taken for dead, and is not: its answer is nobody's, or that of whoever did the work instead.
pub(crate) async fn an_answer_whose_claim_was_lost_is_not_given(world: &World) {
    let api = world.serve().await;
    let store = world.store().await;
    for (key, then, followed) in
        [("gone", "held", false), ("taken", "held", true), ("half", "held,checkpoint=late", false)]
    {
        let run = world.runs.count() + 1;
        let words: Vec<_> = then.split(',').map(|word| format!("{word}@{run}")).collect();
        let slow = post(key, "1").told(&words.join(","));
        let (slow, next) = tokio::join!(slow.to(api.address), async {
            world.begun(run).await;
            take_away(&*store, key).await;
            let next = if followed { Some(post(key, "1").to(api.address).await) } else { None };
            world.runs.go_on();
            next
        });
        match (key, next) {
            ("taken", Some(next)) => {
                assert_eq!((next.status, next.run()), (201, run + 1));
                assert_eq!((slow.is_replay(), slow.run()), (true, run + 1), "the one that is kept");
            }
            ("gone", None) => {
                assert_eq!((slow.status, slow.problem()), (503, "not-recorded".into()))
            }
            // It heard so from its checkpoint, and stopped.
            ("half", None) => assert_eq!(slow.problem(), "handler-failed"),
            (key, next) => panic!("{key}: {next:?}"),
        }
    }
}
