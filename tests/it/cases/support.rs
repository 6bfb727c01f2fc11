//! What the cases share: clients that wait by hand, and looking at what they did.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use post_once::observer::{Event, Observer};
use post_once::retry::RetryPolicyBuilder;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Report, RetryPolicy};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use serde_json::{Value, json};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// For a server that does not answer while a test lasts.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// What is charged: 15 bytes.
pub(crate) fn charge() -> Value {
    json!({ "amount": 4200 })
}

pub(crate) async fn scripted(faults: impl IntoIterator<Item = Fault>) -> Server {
    Server::builder().faults(faults).start().await.unwrap()
}

/// For an HTTP client as ours, with a connection for each attempt, so that attempts can be told
/// apart.
pub(crate) fn http_builder() -> reqwest::ClientBuilder {
    post_once::reqwest_builder().no_proxy().pool_max_idle_per_host(0)
}

/// An HTTP client as ours. One for all tests: it keeps no connection, and to build one means to
/// read all certificates of the machine.
pub(crate) fn http() -> reqwest::Client {
    static HTTP: LazyLock<reqwest::Client> = LazyLock::new(|| http_builder().build().unwrap());
    HTTP.clone()
}

/// A policy without jitter: a wait is what the server asked for, or nothing.
pub(crate) fn policy() -> RetryPolicyBuilder {
    RetryPolicy::builder().base_delay(Duration::ZERO)
}

/// A client that waits by this clock.
pub(crate) fn client(clock: &ManualClock, policy: RetryPolicyBuilder) -> post_once::ClientBuilder {
    Client::builder().http(http()).clock(clock.clone()).policy(policy.build().unwrap())
}

pub(crate) fn report(response: &reqwest::Response) -> &Report {
    Report::of(response).expect("every response of ours has one")
}

/// The values of all key fields of each request, in order.
pub(crate) fn keys(server: &Server) -> Vec<Vec<String>> {
    let of_one = |request: &post_once::testkit::Received| {
        let fields = request.headers().get_all("idempotency-key").iter();
        fields.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    server.requests().iter().map(of_one).collect()
}

/// The values of one header in each request, in order.
pub(crate) fn header(server: &Server, name: &str) -> Vec<String> {
    let value = |request: &post_once::testkit::Received| {
        request.headers()[name].to_str().unwrap().to_owned()
    };
    server.requests().iter().map(value).collect()
}

/// Waits until the server's log has this line.
#[expect(clippy::disallowed_methods, reason = "a real server needs real time")]
pub(crate) async fn logged(server: &Server, line: &str) {
    for _ in 0..5_000 {
        if server.transcript().iter().any(|logged| logged == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the log never got `{line}`: {:#?}", server.transcript());
}

/// Moves the clock once the server's log has this line.
pub(crate) async fn advance_at(server: &Server, line: &str, clock: &ManualClock, by: Duration) {
    logged(server, line).await;
    clock.advance(by);
}

/// Notes the limits of all attempts, and does something at the beginning of each wait.
#[derive(Clone)]
pub(crate) struct Watch {
    limits: Arc<Mutex<Vec<Duration>>>,
    at_wait: Arc<dyn Fn() + Send + Sync>,
}

impl Watch {
    pub(crate) fn at_wait(at_wait: impl Fn() + Send + Sync + 'static) -> Watch {
        Watch { limits: Arc::default(), at_wait: Arc::new(at_wait) }
    }

    pub(crate) fn limits(&self) -> Vec<Duration> {
        self.limits.lock().unwrap().clone()
    }
}

impl Observer for Watch {
    fn observe(&self, event: &Event<'_>) {
        match event {
            Event::AttemptStarted { limit, .. } => self.limits.lock().unwrap().push(*limit),
            Event::Waiting { .. } => (self.at_wait)(),
            _ => {}
        }
    }
}

/// Name resolution that fails for some of the look-ups, counted from 1.
#[derive(Clone)]
pub(crate) struct Dns {
    server: SocketAddr,
    fails: fn(usize) -> bool,
    look_ups: Arc<AtomicUsize>,
}

impl Dns {
    pub(crate) fn failing(server: &Server, fails: fn(usize) -> bool) -> Dns {
        Dns { server: server.address(), fails, look_ups: Arc::default() }
    }

    /// A URL of the server by name.
    pub(crate) fn url(&self) -> String {
        format!("http://charges.test:{}/v1/charges", self.server.port())
    }

    pub(crate) fn http(&self) -> reqwest::Client {
        http_builder().dns_resolver(self.clone()).build().unwrap()
    }

    pub(crate) fn look_ups(&self) -> usize {
        self.look_ups.load(Ordering::Relaxed)
    }
}

impl Resolve for Dns {
    fn resolve(&self, _: Name) -> Resolving {
        let number = self.look_ups.fetch_add(1, Ordering::Relaxed) + 1;
        let resolved = if (self.fails)(number) {
            Err("the resolver does not answer".into())
        } else {
            Ok(Box::new([self.server].into_iter()) as Addrs)
        };
        Box::pin(std::future::ready(resolved))
    }
}
