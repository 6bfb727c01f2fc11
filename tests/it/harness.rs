//! What the tests of the client share: every attempt has a connection of its own, so that the lines
//! of a transcript count attempts, and waits cost no time.

pub(crate) mod raw;
pub(crate) mod traced;

use http::Method;
use post_once::retry::Known;
use post_once::testkit::{ManualClock, Server};
use post_once::{Client, ClientBuilder, Contract, Error, Report, RetryPolicy};
use reqwest::Response;

pub(crate) const BODY: &str = r#"{"amount":4200}"#;

pub(crate) type Sent = Result<Response, Error>;

/// The HTTP client that we recommend, with a connection per request and no proxy.
pub(crate) fn http() -> reqwest::ClientBuilder {
    post_once::reqwest_builder().no_proxy().pool_max_idle_per_host(0)
}

/// A client over it, with the default policy.
pub(crate) fn builder() -> ClientBuilder {
    Client::builder().http(http().build().unwrap())
}

/// A client that waits on a clock that stands still otherwise.
pub(crate) fn client(clock: &ManualClock) -> Client {
    builder().clock(clock.clone()).build().unwrap()
}

/// The same under a contract.
pub(crate) fn client_under(contract: Contract, clock: &ManualClock) -> Client {
    builder().contract(contract).clock(clock.clone()).build().unwrap()
}

/// Attempts without waits between them, on the real clock.
pub(crate) fn at_once(attempts: u32) -> RetryPolicy {
    let policy = RetryPolicy::builder().max_attempts(attempts);
    policy.base_delay(std::time::Duration::ZERO).build().unwrap()
}

/// One operation.
pub(crate) async fn post(client: &Client, url: impl AsRef<str>) -> Sent {
    client.once(Method::POST, url).body(BODY).send().await
}

/// The report, whichever way it ended.
pub(crate) fn report(sent: &Sent) -> &Report {
    match sent {
        Ok(response) => Report::of(response).expect("every response of ours has one"),
        Err(error) => error.report(),
    }
}

/// What each attempt taught.
pub(crate) fn known(sent: &Sent) -> Vec<Known> {
    report(sent).attempts().map(|attempt| attempt.known()).collect()
}

/// The key of each request, as the server got it.
pub(crate) fn keys(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let keys = requests.iter().map(|request| {
        let mut values = request.headers().get_all("idempotency-key").iter();
        let key = values.next().expect("a write has a key");
        assert_eq!(values.next(), None, "a write has one key");
        key.to_str().unwrap().to_owned()
    });
    keys.collect()
}

/// The whole log of a server that has come to rest.
pub(crate) async fn settled(server: &Server) -> Vec<String> {
    server.stop().await;
    server.transcript()
}

/// The lines of requests to `/v1/charges` under one key, each on a connection of its own: what
/// follows each, as `["fault 503", "answer 503"]`.
pub(crate) fn lines(attempts: &[&[&str]]) -> Vec<String> {
    let mut lines = Vec::new();
    for (index, attempt) in attempts.iter().enumerate() {
        let connection = index + 1;
        lines.push(format!("c{connection} POST /v1/charges k1 {}B", BODY.len()));
        lines.extend(attempt.iter().map(|line| format!("c{connection} {line}")));
    }
    lines
}
