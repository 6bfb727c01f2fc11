//! Claims: who runs, who does not, and what is left of those who die.

use std::time::Duration;

use post_once::IdempotencyKey;
use post_once::server::answer::StoredAnswer;
use post_once::server::claim::RecoveryPoint;
use post_once::server::store::{Decision, Held, Name};

use crate::api::sleep;
use crate::client::post;
use crate::world::{World, until};

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
    let api = world.serve().await;
    for (key, lease, waits) in [("short", 600, "1"), ("long", 1_700, "2")] {
        let runs = world.runs.count();
        let dead = world.killed_worker(key, "1", Duration::from_millis(lease)).await;
        let early = post(key, "1").to(api.address).await;
        assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()));
        assert_eq!(early.field("retry-after"), Some(waits), "what is left of {lease} ms");
        sleep(lease + 100).await;
        let late = post(key, "1").to(api.address).await;
        assert_eq!((late.status, late.is_replay()), (201, false), "{late:?}");
        assert_eq!(world.runs.count(), runs + 1);

        // It wakes up, and is too late.
        let answer = StoredAnswer::new(http::StatusCode::OK, http::HeaderMap::new(), None);
        let store = world.store().await;
        let written = store.complete(&dead, &answer, Duration::from_secs(60)).await.unwrap();
        assert_eq!(written, Held::Lost);
        let again = post(key, "1").to(api.address).await;
        assert_eq!((again.is_replay(), again.run()), (true, late.run()));
    }
}

/// O-25
pub(crate) async fn a_client_that_left_gets_its_answer_later(world: &World) {
    let api = world.serve().await;
    let socket = post("k", "1").told("sleep=700").leave_open(api.address).await;
    until(|| async { world.runs.count() == 1 }).await;
    drop(socket);
    let early = post("k", "1").to(api.address).await;
    assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()));
    sleep(1_000).await;
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
    let failing = post("f", "1").told("checkpoint=half@2,sleep=500@2,status=503@2");
    let (failed, ()) = tokio::join!(failing.to(api.address), async {
        until(|| async { world.runs.count() == 2 }).await;
        sleep(250).await;
        let name = Name::new("none", &IdempotencyKey::parse("f").unwrap());
        let seen = store.look(&name).await.unwrap().unwrap().seen;
        assert!(seen.point.is_some() && seen.is_live());
        assert!(seen.lease_left < Duration::from_secs(60), "{seen:?}: for its lease, if it dies");
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
    let name = Name::new("none", &IdempotencyKey::parse("k").unwrap());
    assert_eq!(waiting.iter().map(|row| &row.holder.name).collect::<Vec<_>>(), [&name]);
    let point = waiting[0].seen.point.as_ref().unwrap();
    assert_eq!((point.name.as_str(), point.unconfirmed), ("charge", true));
    let settled = store.settle(&waiting[0].holder, &Decision::RunAgain).await.unwrap();
    assert_eq!(settled, Held::Yes(()));
    let answer = post("k", "1").to(api.address).await;
    assert_eq!((answer.status, answer.run()), (201, 2));
}

/// O-25
pub(crate) async fn shutting_down_waits_for_handlers_whose_clients_have_left(world: &World) {
    let api = world.serve().await;
    let socket = post("k", "1").told("sleep=500").leave_open(api.address).await;
    until(|| async { world.runs.count() == 1 }).await;
    drop(socket);
    assert_eq!(api.handle.running(), 1);
    let shutdown = api.handle.shutdown();
    let refused = async {
        sleep(100).await;
        post("new", "1").to(api.address).await
    };
    let ((), refused) = tokio::join!(shutdown, refused);
    assert_eq!((refused.status, refused.problem()), (503, "shutting-down".into()));
    assert_eq!(refused.field("retry-after"), Some("1"));
    assert_eq!((api.handle.running(), world.runs.count()), (0, 1));

    let next = world.serve().await;
    let answer = post("k", "1").to(next.address).await;
    assert!(answer.is_replay(), "it was written down before: {answer:?}");
}

/// A worker that is taken for dead, and is not: its answer is nobody's, or that of whoever did the work instead.
pub(crate) async fn an_answer_whose_claim_was_lost_is_not_given(world: &World) {
    let api = world.serve().await;
    let store = world.store().await;
    for (key, then, followed) in [
        ("gone", "sleep=600", false),
        ("taken", "sleep=600", true),
        ("half", "sleep=600,checkpoint=late", false),
    ] {
        let run = world.runs.count() + 1;
        let words: Vec<_> = then.split(',').map(|word| format!("{word}@{run}")).collect();
        let slow = post(key, "1").told(&words.join(","));
        let (slow, next) = tokio::join!(slow.to(api.address), async {
            until(|| async { world.runs.count() == run }).await;
            let name = Name::new("none", &IdempotencyKey::parse(key).unwrap());
            let row = store.look(&name).await.unwrap().unwrap();
            assert_eq!(store.release(&row.holder).await.unwrap(), Held::Yes(()));
            if followed { Some(post(key, "1").to(api.address).await) } else { None }
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
