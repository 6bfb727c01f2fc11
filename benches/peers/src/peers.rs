//! The APIs, each with its keys as its documentation has them: one route, and a handler that counts its runs.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::Response;
use axum::routing::post;
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use post_once::server::IdempotencyLayer;
use post_once::server::store::ClaimStore;
use ruts::store::{SessionStore, Ttl};
use ruts::{CookieOptions, Id, SessionLayer};
use tokio::net::TcpSocket;
use tower_cookies::CookieManagerLayer;
use ullun::idempotency::{Idempotency, MemoryStore};
use ullun::prelude::App;

use crate::api;
use crate::load::Fields;

/// As long as ours remembers a key unless told otherwise; the others are told.
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);

/// What the handlers of an API did.
#[derive(Clone, Default)]
pub(crate) struct Work(Arc<Counts>);

#[derive(Default)]
struct Counts {
    takes: Duration,
    begun: AtomicUsize,
    ended: AtomicUsize,
}

impl Work {
    pub(crate) fn taking(takes: Duration) -> Work {
        Work(Arc::new(Counts { takes, ..Counts::default() }))
    }

    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> usize {
        self.0.ended.load(Ordering::SeqCst)
    }

    async fn order(&self, body: &[u8]) -> Response<String> {
        assert!(!body.is_empty());
        self.0.begun.fetch_add(1, Ordering::SeqCst);
        if !self.0.takes.is_zero() {
            tokio::time::sleep(self.0.takes).await;
        }
        self.0.ended.fetch_add(1, Ordering::SeqCst);
        api::ordered()
    }
}

/// Whose requests are sent: a key belongs to one of them.
#[derive(Clone)]
pub(crate) struct Customers(Arc<[String]>);

impl Customers {
    pub(crate) fn new(count: usize) -> Customers {
        Customers((0..count).map(|_| Id::default().to_string()).collect())
    }

    fn of(&self, key: &str) -> &str {
        let number = usize::from_str_radix(&key[..8], 16).unwrap();
        &self.0[number % self.0.len()]
    }

    /// They are told apart by a token.
    pub(crate) fn by_token(&self) -> Fields {
        let customers = self.clone();
        Arc::new(move |key| format!("authorization: Bearer {}\r\n", customers.of(key)))
    }

    /// They are told apart by the cookie of their session.
    pub(crate) fn by_cookie(&self) -> Fields {
        let customers = self.clone();
        Arc::new(move |key| format!("cookie: session={}\r\n", customers.of(key)))
    }
}

/// axum without keys.
pub(crate) fn bare(work: Work) -> Router {
    let order = move |body: Bytes| async move { work.order(&body).await };
    Router::new().route("/orders", post(order))
}

pub(crate) fn ours(work: Work, store: impl ClaimStore) -> Router {
    let layer = IdempotencyLayer::builder(store).retention(RETENTION).principal(|parts| {
        let token = parts.headers.get("authorization")?;
        token.to_str().ok().map(str::to_owned)
    });
    bare(work).layer(layer.build().unwrap())
}

/// axum without keys, with the sessions that axum-idempotent stands on. No handler reads them.
pub(crate) fn sessions<S: SessionStore>(router: Router, store: Arc<S>) -> Router {
    let cookie = CookieOptions::build().name("session").max_age(RETENTION.as_secs());
    router
        .layer(SessionLayer::new(store).with_cookie_options(cookie))
        .layer(CookieManagerLayer::new())
}

pub(crate) fn axum_idempotent<S: SessionStore>(work: Work, store: Arc<S>) -> Router {
    let options = IdempotentOptions::default()
        .use_idempotency_key_header(Some("Idempotency-Key"), true)
        .expire_after(RETENTION.as_secs().try_into().unwrap());
    sessions(bare(work).layer(IdempotentLayer::<S>::new(options)), store)
}

/// Gives each a session, as an application does when they log in.
pub(crate) async fn log_in<S: SessionStore>(store: &S, customers: &Customers) {
    let time = Ttl::new(RETENTION.as_secs().try_into().unwrap()).unwrap();
    for session in &*customers.0 {
        store.set(&session.parse().unwrap(), "customer", session, time, None).await.unwrap();
    }
}

/// ullun without keys.
pub(crate) fn ullun_bare(work: Work) -> App {
    ullun_with(work, None)
}

/// Its store refuses new keys when it is full, at 10 000 unless told otherwise.
pub(crate) fn ullun(work: Work) -> App {
    let store = MemoryStore::new(usize::MAX);
    ullun_with(work, Some(Idempotency::with_store(store).ttl(RETENTION).required()))
}

fn ullun_with(work: Work, keys: Option<Idempotency>) -> App {
    let order = move |request: ullun::prelude::Request| {
        let work = work.clone();
        async move {
            let (parts, body) = work.order(&request.body).await.into_parts();
            let response = ullun::prelude::Response::new(parts.status).with_body(body);
            Ok(parts.headers.iter().fold(response, |response, (name, value)| {
                response.with_header(name.as_str(), value.to_str().unwrap())
            }))
        }
    };
    App::new().group("/orders", |group| {
        let group = match keys {
            Some(keys) => group.middleware(keys),
            None => group,
        };
        group.post("", order)
    })
}

/// Serves it until the process ends.
pub(crate) async fn serve_ullun(app: App) -> SocketAddr {
    let socket = TcpSocket::new_v4().unwrap();
    // What is accepted has it from the one that listens.
    socket.set_nodelay(true).unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let listener = socket.listen(1024).unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { app.serve(listener).await.unwrap() });
    address
}
