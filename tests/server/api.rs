//! The server that is tried: axum on a real socket, whose handler does what a request tells it to.
//!
//! The field `X-Do` holds words with commas between them, which count for nothing in the fingerprint:
//!
//! | word | the handler |
//! |---|---|
//! | `held` | goes on when it is [let go on](Runs::go_on) |
//! | `sleep=MS` | takes so long |
//! | `status=N` | answers with it; else 201 |
//! | `panic` | panics |
//! | `large=N` | answers with so many [bytes](large), in many frames |
//! | `broken` | ends its answer in an error |
//! | `torn` | panics while its answer is read |
//! | `checkpoint=NAME`, `external=NAME` | writes that down |
//! | `word@N` | does the word in its Nth run only |

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode};
use axum::routing::any;
use http_body::Frame;
use post_once::server::layer::Handle;
use post_once::server::store::ClaimStore;
use post_once::server::{Claim, IdempotencyLayer, IdempotencyLayerBuilder};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// A server, in this process or for another one's store.
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) handle: Handle,
    runs: Runs,
    task: JoinHandle<()>,
}

/// How often the handler was run, on all servers of a test, and what holds it.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    count: Arc<AtomicU64>,
    gate: Arc<Semaphore>,
}

impl Default for Runs {
    fn default() -> Runs {
        Runs { count: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }
}

impl Runs {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Lets one that is held go on.
    pub(crate) fn go_on(&self) {
        self.gate.add_permits(1);
    }

    /// Counts a run.
    pub(crate) fn begin(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits to be let go on.
    pub(crate) async fn held(&self) {
        self.gate.acquire().await.unwrap().forget();
    }
}

impl Api {
    pub(crate) async fn start(builder: IdempotencyLayerBuilder, runs: Runs) -> Api {
        let layer = builder.build().unwrap();
        let handle = layer.handle();
        let app = Router::new()
            .route("/charges", any(handler))
            .route("/refunds", any(handler))
            .route("/claimed", any(async |claim: Claim| claim.key().to_string()))
            .with_state(runs.clone())
            .layer(layer);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Api { address, handle, runs, task }
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.count()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A layer whose principal is the field `X-Account`.
pub(crate) fn layer(store: Arc<dyn ClaimStore>) -> IdempotencyLayerBuilder {
    IdempotencyLayer::shared(store).principal(|parts| {
        let account = parts.headers.get("x-account").map(|value| value.to_str());
        Some(account.unwrap_or(Ok("none")).unwrap().to_owned())
    })
}

async fn handler(
    State(runs): State<Runs>,
    claim: Option<Claim>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let run = runs.begin();
    let mut status = StatusCode::CREATED;
    let mut size = 0;
    let mut end = End::Whole;
    let words = headers.get("x-do").map_or("", |words| words.to_str().unwrap());
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (word, only) = word.split_once('@').map_or((word, None), |(word, n)| (word, Some(n)));
        if only.is_some_and(|only| only != run.to_string()) {
            continue;
        }
        let (verb, value) = word.split_once('=').unwrap_or((word, ""));
        match verb {
            "held" => runs.held().await,
            "sleep" => sleep(value.parse().unwrap()).await,
            "status" => status = value.parse().unwrap(),
            "panic" => panic!("the handler was told to panic"),
            "large" => size = value.parse().unwrap(),
            "broken" => end = End::Error,
            "torn" => end = End::Panic,
            "checkpoint" => claim.as_ref().unwrap().checkpoint(value, "data").await.unwrap(),
            "external" => claim.as_ref().unwrap().external_call(value, "data").await.unwrap(),
            word => panic!("no such word: {word}"),
        }
    }
    let point = claim.as_ref().and_then(Claim::point);
    let nth = claim.as_ref().map(Claim::run);
    let data = point.and_then(|point| point.data.clone());
    let point = point.map(|point| point.name.clone());
    let received = String::from_utf8_lossy(&body).into_owned();
    let encodings = headers.get("accept-encoding").map(|value| value.to_str().unwrap());
    let answer = serde_json::json!({
        "run": run, "nth": nth, "point": point, "data": data, "received": received, "encodings": encodings,
    });
    let body = match (size, end) {
        (0, End::Whole) => Body::from(answer.to_string()),
        (0, end) => Framed::half(end),
        (size, _) => Framed::whole(&large(size)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    for (name, value) in [
        ("location", &b"/charges/1"[..]),
        ("link", b"<a>; rel=next, <b>"),
        ("link", b"<c>"),
        ("x-name", b"caf\xe9"),
        ("set-cookie", b"session=secret"),
        ("x-request-id", b"req_1"),
        ("content-type", b"application/json"),
    ] {
        fields.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    response
}

/// So many bytes, each of them other than those beside it.
pub(crate) fn large(size: usize) -> Vec<u8> {
    (b'a'..=b'z').cycle().take(size).collect()
}

/// A body in frames, which may break off after them.
pub(crate) struct Framed {
    frames: VecDeque<Bytes>,
    end: End,
}

/// How a body ends.
#[derive(Clone, Copy)]
pub(crate) enum End {
    Whole,
    Error,
    Panic,
}

impl Framed {
    pub(crate) fn half(end: End) -> Body {
        Body::new(Framed { frames: [Bytes::from_static(b"half")].into(), end })
    }

    fn whole(bytes: &[u8]) -> Body {
        let frames = bytes.chunks(300).map(Bytes::copy_from_slice).collect();
        Body::new(Framed { frames, end: End::Whole })
    }
}

impl HttpBody for Framed {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        Poll::Ready(match (self.frames.pop_front(), self.end) {
            (Some(frame), _) => Some(Ok(Frame::data(frame))),
            (None, End::Whole) => None,
            (None, End::Error) => Some(Err(std::io::ErrorKind::UnexpectedEof.into())),
            (None, End::Panic) => panic!("the body was told to panic"),
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "handlers on real sockets take real time")]
pub(crate) async fn sleep(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
