//! A call that is dropped sends nothing more, and can be continued.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, Method};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Effect, Error, Idempotency, Operation};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use tokio::sync::Notify;

use super::support::{
    Dns, MINUTE, Watch, charge, client, http, keys, logged, policy, report, scripted,
};

const STALLED: [&str; 3] = ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 fault hang=60s"];

fn prepared(client: &Client, url: String) -> Operation {
    client.once(Method::POST, url).json(&charge()).prepare().unwrap()
}

/// Sends, and drops the call once the server has stalled it.
async fn dropped_in_the_attempt(client: &Client, operation: &mut Operation, server: &Server) {
    tokio::select! {
        ended = client.send(operation) => panic!("{ended:?}"),
        () = logged(server, "c1 fault hang=60s") => {}
    }
}

/// Long enough for a request that somebody sends behind our back.
#[expect(clippy::disallowed_methods, reason = "that nothing comes takes real time to see")]
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}

// O-17
#[tokio::test]
async fn a_call_that_is_dropped_in_an_attempt_sends_nothing_more_and_is_continued() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let client = client(&ManualClock::new(), policy()).build().unwrap();
    let mut operation = prepared(&client, server.url("/v1/charges"));
    let key = operation.key().unwrap().clone();
    dropped_in_the_attempt(&client, &mut operation, &server).await;
    a_while().await;
    assert_eq!(server.transcript(), STALLED);

    let response = client.send(&mut operation).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(operation.key(), Some(&key));
    assert_eq!(report(&response).last_attempt().unwrap().number(), 2);
    assert_eq!(keys(&server), [[key.to_string()], [key.to_string()]]);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript()[3..],
        ["c2 POST /v1/charges k1 15B", "c2 replay 201", "c2 answer 201"]
    );
}

// O-17
#[tokio::test]
async fn a_call_that_is_dropped_in_a_wait_sends_nothing_more_and_is_continued() {
    let server = scripted([Fault::status(503).retry_after(30)]).await;
    let waiting = Arc::new(Notify::new());
    let told = Arc::clone(&waiting);
    let client = Client::builder()
        .http(http())
        .observer(Watch::at_wait(move || told.notify_one()))
        .build()
        .unwrap();
    let mut operation = prepared(&client, server.url("/v1/charges"));
    tokio::select! {
        ended = client.send(&mut operation) => panic!("{ended:?}"),
        () = waiting.notified() => {}
    }
    a_while().await;
    assert_eq!(server.transcript().len(), 3);

    let response = client.send(&mut operation).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault 503:ra=30",
            "c1 answer 503",
            "c2 POST /v1/charges k1 15B",
            "c2 effect ch_1",
            "c2 answer 201",
        ]
    );
}

// O-17: being interrupted is "unknown", not "failed".
#[tokio::test]
async fn what_a_dropped_attempt_may_have_done_is_not_forgotten() {
    let server = scripted([Fault::hang(MINUTE), Fault::status(400)]).await;
    let dns = Dns::failing(&server, |look_up| look_up == 2);
    let one = policy().max_attempts(1);
    let client = client(&ManualClock::new(), one).http(dns.http()).build().unwrap();
    let mut operation = prepared(&client, dns.url());
    dropped_in_the_attempt(&client, &mut operation, &server).await;

    let error = client.send(&mut operation).await.unwrap_err();
    assert!(error.is_connect());
    assert_eq!(error.effect(), Effect::Unknown, "the first attempt was sent");
    let refused = client.send(&mut operation).await.unwrap();
    assert_eq!(refused.status(), 400);
    assert_eq!(report(&refused).effect(), Effect::Unknown, "a 400 may come before the key");
    assert_eq!(server.transcript().len(), 6);
}

/// A middleware outside that loses patience once, and repeats the call.
struct Impatient(Arc<Server>);

#[async_trait]
impl Middleware for Impatient {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let again = request.try_clone().unwrap();
        tokio::select! {
            ended = next.clone().run(request, extensions) => return ended,
            () = logged(&self.0, "c1 fault hang=60s") => {}
        }
        next.run(again, extensions).await
    }
}

fn impatient(
    server: &Arc<Server>,
    http: reqwest::Client,
) -> reqwest_middleware::ClientWithMiddleware {
    let idempotency = Idempotency::builder()
        .clock(ManualClock::new())
        .policy(policy().max_attempts(1).build().unwrap())
        .build();
    ClientBuilder::new(http).with(Impatient(Arc::clone(server))).with(idempotency).build()
}

// O-17
#[tokio::test]
async fn a_middleware_outside_that_drops_the_call_and_repeats_it_keeps_the_key() {
    let server = Arc::new(scripted([Fault::hang(MINUTE)]).await);
    let stack = impatient(&server, http());
    let request = stack.post(server.url("/v1/charges")).body(charge().to_string());
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(report(&response).last_attempt().unwrap().number(), 2);
    assert_eq!(server.charges().len(), 1);
    assert_eq!(server.transcript()[..3], STALLED);
    assert_eq!(
        server.transcript()[3..],
        ["c2 POST /v1/charges k1 15B", "c2 replay 201", "c2 answer 201"]
    );
}

// O-17
#[tokio::test]
async fn a_middleware_outside_that_drops_the_call_does_not_make_it_unsent() {
    let server = Arc::new(scripted([Fault::hang(MINUTE)]).await);
    let dns = Dns::failing(&server, |look_up| look_up == 2);
    let stack = impatient(&server, dns.http());
    let request = stack.post(dns.url()).body(charge().to_string());
    let error = request.send().await.unwrap_err();
    let error = Error::find(&error).unwrap();
    assert!(error.is_connect());
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(server.transcript(), STALLED);
}
