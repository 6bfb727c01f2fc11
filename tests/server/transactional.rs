//! Handlers that complete their claim in their own transaction.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use axum::routing::post as route;
use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::store::{ClaimError, MemoryClaims};
use post_once::server::{Claim, IdempotencyLayerBuilder, Once};
use tokio::net::TcpListener;

use crate::api::{self, Framed, Runs, sleep};
use crate::client::{Answer, post};
use crate::clock::Counted;
use crate::orders::{End, Orders};
use crate::world::{World, is_about, look, shorten, take_away, until};

/// A server whose orders end as the script says, and then with a commit.
struct Shop {
    orders: Orders,
    address: std::net::SocketAddr,
    runs: Runs,
    lost: Arc<Mutex<Vec<String>>>,
}

impl Shop {
    async fn open(world: &World, script: impl IntoIterator<Item = End>) -> Shop {
        Shop::open_with(world, script, |layer| layer).await
    }

    async fn open_with(
        world: &World,
        script: impl IntoIterator<Item = End>,
        with: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> Shop {
        let orders = Orders::new(world).await;
        let script: Arc<Mutex<VecDeque<End>>> = Arc::new(Mutex::new(script.into_iter().collect()));
        let lost: Arc<Mutex<Vec<String>>> = Arc::default();
        let (to, told, runs) = (orders.clone(), Arc::clone(&lost), world.runs.clone());
        let handler = move |claim: Claim, body: String| async move {
            runs.begin();
            let end = script.lock().unwrap().pop_front().unwrap_or(End::Commit);
            if end == End::LingerAndCommit {
                runs.held().await;
            }
            let placed = to.place(&claim, &body, end).await.unwrap_or_else(|error| {
                told.lock().unwrap().push(error.to_string());
                assert!(matches!(error, ClaimError::Lost), "{error}");
                let mut response = Response::new(String::new());
                *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                response
            });
            if end == End::CommitAndLinger {
                runs.held().await;
            }
            placed.map(|body| match end {
                End::CommitAndBreak => Framed::half(api::End::Error),
                _ => Body::from(body),
            })
        };
        let layer = with(api::layer(world.store().await)).build().unwrap();
        let app = Router::new().route("/charges", route(handler)).layer(layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Shop { orders, address, runs: world.runs.clone(), lost }
    }

    async fn order(&self, key: &str) -> Answer {
        post(key, "1").to(self.address).await
    }
}

pub(crate) async fn effect_and_answer_commit_together(world: &World) {
    let hour = Duration::from_secs(3_600);
    let shop = Shop::open_with(world, [], |layer| layer.retention(hour)).await;
    let (first, again) = (shop.order("k").await, shop.order("k").await);
    assert_eq!((first.status, first.is_replay()), (201, false));
    assert_eq!((again.status, again.is_replay()), (201, true));
    assert_eq!(first.body, again.body);
    assert_eq!(shop.orders.count().await, 1);
    for (answer, cookie) in [(&first, Some("session=secret")), (&again, None)] {
        assert_eq!(answer.field("location"), Some("/orders/1"));
        assert_eq!(answer.field("set-cookie"), cookie, "what is kept is as without a transaction");
    }
    let left = look(&*world.store().await, "k").await.seen.retention_left;
    assert!(is_about(left, hour), "and for as long: {left:?}");
}

pub(crate) async fn a_large_answer_is_given_once_and_its_key_closed(world: &World) {
    let exactly = Shop::open_with(world, [], |layer| layer.answer_limit(14)).await;
    assert_eq!(exactly.order("e").await.body, b"order of run 1");
    assert_eq!(exactly.order("e").await.body, b"order of run 1");

    let shop = Shop::open_with(world, [], |layer| layer.answer_limit(13)).await;
    let (first, again) = (shop.order("k").await, shop.order("k").await);
    assert_eq!((first.status, first.body), (201, b"order of run 1".to_vec()));
    assert_eq!((again.status, again.problem()), (410, "answer-not-kept".into()));
    assert_eq!(shop.orders.count().await, 2);
}

/// The lease of what is committed cannot be renewed, and that is no loss: its handler goes on, and answers.
pub(crate) async fn what_is_done_after_the_commit_may_take_its_time(world: &World) {
    let (clock, store) = (Counted::manual(), world.store().await);
    let to = clock.clone();
    let shop = Shop::open_with(world, [End::CommitAndLinger], |layer| layer.clock(to)).await;
    let (first, ()) = tokio::join!(shop.order("k"), async {
        world.begun(1).await;
        until(|| async { look(&*store, "k").await.seen.answered }).await;
        clock.asked_for(1).await;
        clock.clock.advance(Duration::from_secs(10));
        clock.asked_for(2).await;
        // The renewal is refused, and it looks why.
        sleep(200).await;
        shop.runs.go_on();
    });
    assert_eq!((first.status, first.is_replay()), (201, false), "{first:?}");
    assert!(shop.order("k").await.is_replay());
    assert_eq!(shop.orders.count().await, 1);
}

/// O-27
pub(crate) async fn what_failed_is_rolled_back_and_run_again(world: &World) {
    let shop = Shop::open(world, [End::RollBack, End::Panic]).await;
    let (failed, panicked) = (shop.order("k").await, shop.order("k").await);
    assert_eq!((failed.status, panicked.status), (503, 500));
    assert_eq!(shop.orders.count().await, 0);
    let done = shop.order("k").await;
    assert_eq!((done.status, done.is_replay()), (201, false));
    assert_eq!(shop.orders.count().await, 1, "exactly one row");
}

pub(crate) async fn a_commit_whose_word_was_lost_has_the_last_word(world: &World) {
    let ends = [End::CommitAndFail, End::CommitAndSayOther, End::CommitAndBreak];
    let shop = Shop::open(world, ends).await;
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
    let shop = Shop::open(world, [End::LingerAndCommit]).await;
    let store = world.store().await;
    let (slow, ()) = tokio::join!(shop.order("k"), async {
        world.begun(1).await;
        take_away(&*store, "k").await;
        shop.runs.go_on();
    });
    assert_eq!(slow.status, 503, "{slow:?}");
    assert_eq!(shop.orders.count().await, 0, "nothing was committed");
    let done = shop.order("k").await;
    assert_eq!((done.status, done.is_replay()), (201, false));
    assert_eq!(shop.orders.count().await, 1);
    let lost = shop.lost.lock().unwrap();
    assert!(lost.len() == 1 && lost[0].contains("lost"), "{lost:?}");
}

pub(crate) async fn an_answer_that_was_not_committed_is_not_kept(world: &World) {
    let shop = Shop::open(world, [End::Lie]).await;
    assert_eq!(shop.order("k").await.status, 201, "the handler did not wait for its commit");
    assert_eq!(shop.orders.count().await, 0);
    let early = shop.order("k").await;
    assert_eq!((early.status, early.problem()), (409, "key-in-progress".into()));
    shorten(&*world.store().await, "k", Duration::ZERO).await;
    let done = shop.order("k").await;
    assert_eq!((done.status, done.is_replay()), (201, false), "{done:?}");
    assert_eq!(shop.orders.count().await, 1);
}

/// The keys must be in the database that the transaction writes to.
pub(crate) async fn a_transaction_beside_the_keys_is_refused(world: &World) {
    let orders = Orders::new(world).await;
    let elsewhere = Once::new(MemoryClaims::new());
    let key = IdempotencyKey::parse("k").unwrap();
    let fingerprint = Fingerprint::new(&Method::POST, "/charges", None, b"1");
    let work = async |claim: Claim| match orders.place(&claim, "1", End::Commit).await {
        Err(ClaimError::Unusable(why)) => Ok::<_, String>(why),
        other => panic!("{other:?}"),
    };
    let why = elsewhere.run_leased("none", &key, fingerprint, work).await.unwrap().into_inner();
    assert!(why.contains("roll it back"), "{why}");
    assert_eq!(orders.count().await, 0);
}
