//! The layer around a service of tower that is no axum.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use http::{Request, Response};
use http_body::Frame;
use post_once::server::layer::{InProgress, LayerBody};
use post_once::testkit::ManualClock;
use tower::{Layer, Service, ServiceExt};

use crate::api;
use crate::clock::Counted;
use crate::world::{World, soon, until};

fn request(key: &str) -> Request<Body> {
    let request = Request::post("/charges").header("Content-Type", "application/json");
    request.header("Idempotency-Key", key).body(Body::from("1")).unwrap()
}

/// Wants to be asked whether it is ready before each call, and fails at the first.
struct Strict {
    ready: bool,
    calls: Arc<AtomicU32>,
}

impl Clone for Strict {
    /// That another one was asked counts for nothing.
    fn clone(&self) -> Strict {
        Strict { ready: false, calls: Arc::clone(&self.calls) }
    }
}

impl Service<Request<LayerBody<Body>>> for Strict {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = Ready<Result<Response<Body>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<LayerBody<Body>>) -> Self::Future {
        if !std::mem::take(&mut self.ready) {
            return ready(Err("it was not asked whether it is ready"));
        }
        match self.calls.fetch_add(1, Ordering::SeqCst) + 1 {
            1 => ready(Err("no connection")),
            call => ready(Ok(Response::new(Body::from(format!("call {call}"))))),
        }
    }
}

pub(crate) async fn an_error_of_the_service_gives_the_key_back(world: &World) {
    let strict = Strict { ready: false, calls: Arc::default() };
    let calls = Arc::clone(&strict.calls);
    let layer = api::layer(world.store().await).build().unwrap();
    let mut service = layer.layer(strict);
    let failed = service.ready().await.unwrap().call(request("k")).await;
    assert_eq!(failed.unwrap_err(), "no connection");
    for replayed in [false, true] {
        let answer = service.ready().await.unwrap().call(request("k")).await.unwrap();
        assert_eq!(answer.headers().contains_key("idempotency-replayed"), replayed);
        assert_eq!(HttpBody::size_hint(answer.body()).exact(), Some(6), "its length is known");
        let body = axum::body::to_bytes(Body::new(answer.into_body()), 100).await.unwrap();
        assert_eq!(body, "call 2");
    }
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

/// A body of frames of a mebibyte, that stops coming after so many.
struct Endless {
    left: u64,
    taken: Arc<AtomicU64>,
}

impl HttpBody for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.left {
            // Far beyond all bounds: so that whoever has none comes to an end.
            0 if self.taken.load(Ordering::SeqCst) > 100 => return Poll::Ready(None),
            0 => return Poll::Pending,
            _ => {}
        }
        self.left -= 1;
        self.taken.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; 1 << 20])))))
    }
}

/// Whoever sends for ever is cut off after 32 MiB, and whoever stops in the middle after 5 s.
pub(crate) async fn a_refused_body_is_read_within_bounds(world: &World) {
    let clock = Counted::manual();
    let layer = api::layer(world.store().await).clock(clock.clone()).build().unwrap();
    // Where there is a key the body was read before: the limit of 1 MiB, and what was above it.
    for (key, status, before) in [(None, 400, 0), (Some("k"), 413, 2)] {
        for (left, most) in [(200, 33 + before), (3, 3)] {
            let taken = Arc::new(AtomicU64::new(0));
            let body = Body::new(Endless { left, taken: Arc::clone(&taken) });
            let mut request = Request::post("/charges");
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            let strict = Strict { ready: false, calls: Arc::default() };
            let answer = layer.layer(strict).oneshot(request.body(body).unwrap());
            let mut answer = pin!(answer);
            clock.count_anew();
            if left == 3 {
                let early = tokio::select! {
                    biased;
                    answer = &mut answer => Some(answer),
                    () = async {
                        clock.asked_for(1).await;
                        until(|| async { taken.load(Ordering::SeqCst) == left }).await;
                        clock.clock.advance(Duration::from_millis(4_999));
                        api::sleep(20).await;
                    } => None,
                };
                assert!(early.is_none(), "it has 5 s");
                clock.clock.advance(Duration::from_millis(1));
            }
            assert_eq!(soon(answer).await.unwrap().status(), status);
            assert_eq!(taken.load(Ordering::SeqCst), most, "so many MiB were read for nothing");
        }
    }
}

/// Each look at the key is one at the store: they become rarer, and no two clients keep step.
pub(crate) async fn who_waits_looks_less_and_less_often_and_not_too_long(world: &World) {
    let strict = Strict { ready: false, calls: Arc::default() };
    let calls = Arc::clone(&strict.calls);
    let clock = ManualClock::new();
    let most = Duration::from_secs(4);
    let layer = api::layer(world.store().await).clock(clock.clone());
    let layer = layer.in_progress(InProgress::Wait(most)).build().unwrap();
    world.killed_worker("k", "1", Duration::from_secs(60)).await;
    let refused = layer.layer(strict.clone()).oneshot(request("k")).await.unwrap();
    assert_eq!(refused.status(), 409);
    assert_eq!(refused.headers()["retry-after"], "2");
    let waits = clock.waits();
    layer.layer(strict).oneshot(request("k")).await.unwrap();
    assert_ne!(clock.waits()[waits.len()..], waits, "each has a step of its own");
    assert_eq!(calls.load(Ordering::SeqCst), 0);

    assert_eq!(waits.iter().sum::<Duration>(), most);
    let mut ceiling = Duration::from_millis(20);
    for (at, wait) in waits.iter().enumerate() {
        let last = at + 1 == waits.len();
        assert!(*wait <= ceiling && (last || *wait >= ceiling / 2), "{waits:?}");
        ceiling = (ceiling * 2).min(Duration::from_millis(500));
    }
}
