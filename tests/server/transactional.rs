//! Handlers that complete their claim in their own transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::routing::post as route;
use post_once::server::store::{ClaimError, Held};
use post_once::server::{Claim, IdempotencyLayerBuilder};
use tokio::net::TcpListener;

use crate::api::{self, Framed, sleep};
use crate::client::{Answer, post};
use crate::orders::{End, Orders};
use crate::world::World;

/// A server whose orders end as the script says, and then with a commit.
struct Shop {
    orders: Orders,
    address: std::net::SocketAddr,
    lost: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    async fn open(world: &World, script: impl IntoIterator<Item = End>, delay: u64) -> Shop {
        Shop::open_with(world, script, delay, |layer| layer).await
    }

    async fn open_with(
        world: &World,
        script: impl IntoIterator<Item = End>,
        delay: u64,
        with: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> Shop {
        let orders = Orders::new(world).await;
        let script: Arc<Mutex<VecDeque<End>>> = Arc::new(Mutex::new(script.into_iter().collect()));
        let lost: Arc<Mutex<Vec<String>>> = Arc::default();
        let (to, told) = (orders.clone(), Arc::clone(&lost));
        let handler = move |claim: Claim, body: String| async move {
            sleep(delay).await;
            let end = script.lock().unwrap().pop_front().unwrap_or(End::Commit);
            let placed = to.place(&claim, &body, end).await.unwrap_or_else(|error| {
                told.lock().unwrap().push(error.to_string());
                assert!(matches!(error, ClaimError::Lost), "{error}");
                let mut response = Response::new(String::new());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            });
            if end == End::CommitAndLinger {
                sleep(1_500).await;
            }
            placed.map(|body| match end {
                End::CommitAndBreak => Framed::broken(),
                _ => Body::from(body),
            })
        };
        let lease = Duration::from_secs(2);
        let layer = with(api::layer(world.store().await).lease(lease)).build().unwrap();
        let app = Router::new().route("/charges", route(handler)).layer(layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Shop { orders, address, lost }
    }

    async fn order(&self, key: &str) -> Answer {
        post(key, "1").to(self.address).await
    }
}

pub(crate) async fn effect_and_answer_commit_together(world: &World) {
    let shop = Shop::open(world, [], 0).await;
    let (first, again) = (shop.order("k").await, shop.order("k").await);
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!((again.status, again.is_replay()), (201, true));
    assert_eq!(first.body, again.body);
    assert_eq!(shop.orders.count().await, 1);
    for (answer, cookie) in [(&first, Some("session=secret")), (&again, None)] {
        assert_eq!(answer.field("location"), Some("/orders/1"));
        assert_eq!(answer.field("set-cookie"), cookie, "what is kept is as without a transaction");
    }
}

pub(crate) async fn a_large_answer_is_given_once_and_its_key_closed(world: &World) {
    let shop = Shop::open_with(world, [], 0, |layer| layer.answer_limit(5)).await;
    let (first, again) = (shop.order("k").await, shop.order("k").await);
    assert_eq!((first.status, first.body), (201, b"order of run 1".to_vec()));
    assert_eq!((again.status, again.problem()), (410, "answer-not-kept".into()));
    assert_eq!(shop.orders.count().await, 1);
}

/// The lease of what is committed cannot be renewed, and that is no loss: its handler goes on, and answers.
pub(crate) async fn what_is_done_after_the_commit_may_take_its_time(world: &World) {
    let shop = Shop::open(world, [End::CommitAndLinger], 0).await;
    let first = shop.order("k").await;
    assert_eq!((first.status, first.is_replay()), (201, false), "{first:?}");
    sleep(1_000).await;
    assert!(shop.order("k").await.is_replay(), "it is kept for longer than the lease");
    assert_eq!(shop.orders.count().await, 1);
}

/// O-27
pub(crate) async fn what_failed_is_rolled_back_and_run_again(world: &World) {
    let shop = Shop::open(world, [End::RollBack, End::Panic], 0).await;
    let (failed, panicked) = (shop.order("k").await, shop.order("k").await);
    assert_eq!((failed.status, panicked.status), (503, 500));
    assert_eq!(shop.orders.count().await, 0);
    let done = shop.order("k").await;
    assert_eq!((done.status, done.is_replay()), (201, false));
    assert_eq!(shop.orders.count().await, 1, "exactly one row");
}

pub(crate) async fn a_commit_whose_word_was_lost_has_the_last_word(world: &World) {
    let ends = [End::CommitAndFail, End::CommitAndSayOther, End::CommitAndBreak];
    let shop = Shop::open(world, ends, 0).await;
    for (at, end) in ends.iter().enumerate() {
        for _ in 0..2 {
            let answer = shop.order(&format!("k{at}")).await;
            assert_eq!((answer.status, answer.is_replay()), (201, true), "{end:?}: {answer:?}");
            assert_eq!(answer.body, b"order of run 1");
        }
        assert_eq!(shop.orders.count().await, at as i64 + 1);
    }
}

/// The loser's transaction is refused where it would have committed.
pub(crate) async fn a_lost_claim_commits_nothing(world: &World) {
    let shop = Shop::open(world, [], 600).await;
    let slow = shop.order("k");
    let thief = async {
        sleep(200).await;
        // As a person does who takes the worker for dead: its lease is ended, and its key forgotten.
        let store = world.store().await;
        let key = post_once::IdempotencyKey::parse("k").unwrap();
        let name = post_once::server::store::Name::new("none", &key);
        let row = store.look(&name).await.unwrap().unwrap();
        assert_eq!(store.release(&row.holder).await.unwrap(), Held::Yes(()));
        store
    };
    let (slow, _) = tokio::join!(slow, thief);
    assert_eq!(slow.status, 503, "{slow:?}");
    assert_eq!(shop.orders.count().await, 0, "nothing was committed");
    let done = shop.order("k").await;
    assert_eq!((done.status, done.is_replay()), (201, false));
    assert_eq!(shop.orders.count().await, 1);
    assert!(shop.lost.lock().unwrap().iter().all(|why| why.contains("lost")));
}

pub(crate) async fn an_answer_that_was_not_committed_is_not_kept(world: &World) {
    let shop = Shop::open(world, [End::Lie], 0).await;
    assert_eq!(shop.order("k").await.status, 201, "the handler did not wait for its commit");
    assert_eq!(shop.orders.count().await, 0);
    let early = shop.order("k").await;
    assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()));
    sleep(2_200).await;
    let done = shop.order("k").await;
    assert_eq!((done.status, done.is_replay()), (201, false), "{done:?}");
    assert_eq!(shop.orders.count().await, 1);
}
