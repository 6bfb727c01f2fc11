//! Bodies, and what is bounded.

use std::time::Duration;

use post_once::server::Sweeper;

use crate::client::post;
use crate::world::{World, name, until};

/// O-22
pub(crate) async fn the_limit_is_on_the_bytes_that_are_read(world: &World) {
    let api = world.serve_with(|layer| layer.body_limit(5_000)).await;
    let fits = "0123456789".repeat(500);
    let over = "x".repeat(5_001);
    for sent in [post("a", &fits), post("b", &fits).chunked()] {
        let answer = sent.to(api.address).await;
        let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &body["received"]), (201, &fits.as_str().into()));
    }
    let runs = world.runs.count();
    for (what, sent) in [
        ("declared", post("c", &over)),
        ("chunked, declared by nobody", post("c", &over).chunked()),
        ("declared, and not even sent", post("c", "x").declared(1 << 40)),
    ] {
        let refused = match what {
            "declared, and not even sent" => sent.cut_to(api.address).await,
            _ => sent.to(api.address).await,
        };
        assert_eq!((refused.status, refused.problem()), (413, "body-too-large".into()), "{what}");
    }
    assert_eq!(world.runs.count(), runs, "before the handler");
    assert_eq!(post("c", &fits).to(api.address).await.status, 201, "the key is not used up");
}

pub(crate) async fn a_cut_body_is_never_run(world: &World) {
    let api = world.serve().await;
    for cut in [post("k", "12345").declared(6), post("k", "12345").declared(5_000)] {
        let refused = cut.cut_to(api.address).await;
        assert_eq!((refused.status, refused.problem()), (400, "body-incomplete".into()));
    }
    assert_eq!(world.runs.count(), 0);
    assert_eq!(post("k", "12345").to(api.address).await.run(), 1, "the key is not used up");
}

/// O-22
pub(crate) async fn what_is_over_goes_unasked(world: &World) {
    let retention = Duration::from_millis(300);
    let api = world.serve_with(|layer| layer.retention(retention)).await;
    let lasting = world.serve().await;
    for at in 0..25 {
        post(&format!("k{at}"), "1").to(api.address).await;
    }
    let kept = post("kept", "1").to(lasting.address).await;
    let running = post("running", "1").told("held").leave_open(api.address).await;
    world.begun(27).await;
    // Its retention is over after that of what is being worked on.
    post("k25", "1").to(api.address).await;
    let store = world.store().await;
    let sweeper = Sweeper::shared(store.clone()).batch(10).every(Duration::from_millis(50));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(sweeper.run(async { drop(stopped.await) }));
    for at in 0..=25 {
        let name = name(&format!("k{at}"));
        until(|| async { store.look(&name).await.unwrap().is_none() }).await;
    }
    drop(stop);
    assert!(task.await.unwrap() <= 26, "all that were over, and nothing else");
    drop(running);
    let again = post("kept", "1").to(lasting.address).await;
    assert_eq!((again.is_replay(), again.run()), (true, kept.run()));
    let busy = post("running", "1").to(api.address).await;
    assert_eq!(busy.problem(), "key-in-progress", "a live claim is never swept");
}

/// One that is still sending would not look at an answer before its connection breaks.
pub(crate) async fn a_refusal_is_heard_by_who_is_still_sending(world: &World) {
    let api = world.serve_with(|layer| layer.body_limit(1_000)).await;
    let megabytes = vec![b'x'; 8 << 20];
    for (what, sent, status) in [
        ("too large", post("k", "").body(megabytes.clone()), 413),
        ("too large and chunked", post("k", "").body(megabytes.clone()).chunked(), 413),
        ("without a key", post("k", "").without("idempotency-key").body(megabytes), 400),
    ] {
        assert_eq!(sent.to(api.address).await.status, status, "{what}");
    }
    assert_eq!(world.runs.count(), 0);
}
