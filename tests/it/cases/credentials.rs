//! What signs a request signs each attempt.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use http::Extensions;
use post_once::clock::Clock;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Idempotency};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next};

use super::support::{charge, header, http, keys, policy, scripted};

/// Signs with another secret and another time whenever it is asked.
struct Signing {
    clock: ManualClock,
    signed: AtomicU32,
}

impl Signing {
    fn by(clock: &ManualClock) -> Signing {
        Signing { clock: clock.clone(), signed: AtomicU32::new(0) }
    }
}

#[async_trait]
impl Middleware for Signing {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let secret = self.signed.fetch_add(1, Ordering::Relaxed);
        let at = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let key = request.headers()["idempotency-key"].to_str().unwrap();
        let signature = format!("{key} at {at} by {secret}").parse().unwrap();
        request.headers_mut().append("x-signature", signature);
        next.run(request, extensions).await
    }
}

/// Two waits of 5 s, three attempts: a signature of its own each, all else the same.
fn assert_signed_anew(server: &Server) {
    let key = &keys(server)[0][0];
    assert_eq!(
        header(server, "x-signature"),
        [
            format!("{key} at 1767225600 by 0"),
            format!("{key} at 1767225605 by 1"),
            format!("{key} at 1767225610 by 2"),
        ]
    );
    let requests = server.requests();
    assert!(requests.iter().all(|one| one.headers().get_all("x-signature").iter().count() == 1));
    assert!(requests.iter().all(|one| *one.body() == charge().to_string()));
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 fault 503:ra=5",
            "c1 answer 503",
            "c2 POST /v1/charges k1 15B",
            "c2 fault 429:ra=5",
            "c2 answer 429",
            "c3 POST /v1/charges k1 15B",
            "c3 effect ch_1",
            "c3 answer 201",
        ]
    );
}

async fn twice_told_to_wait() -> Server {
    scripted([Fault::status(503).retry_after(5), Fault::status(429).retry_after(5)]).await
}

// O-05
#[tokio::test]
async fn a_client_over_a_stack_signs_each_attempt() {
    let server = twice_told_to_wait().await;
    let clock = ManualClock::new();
    let stack = ClientBuilder::new(http()).with(Signing::by(&clock)).build();
    let policy = policy().build().unwrap();
    let client = Client::builder().stack(stack).clock(clock).policy(policy).build().unwrap();
    let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_signed_anew(&server);
}

// O-05
#[tokio::test]
async fn what_stands_inside_the_middleware_signs_each_attempt() {
    let server = twice_told_to_wait().await;
    let clock = ManualClock::new();
    let policy = policy().build().unwrap();
    let idempotency = Idempotency::builder().clock(clock.clone()).policy(policy).build();
    let stack = ClientBuilder::new(http()).with(idempotency).with(Signing::by(&clock)).build();
    let request = stack.post(server.url("/v1/charges")).body(charge().to_string());
    assert_eq!(request.send().await.unwrap().status(), 201);
    assert_signed_anew(&server);
}
