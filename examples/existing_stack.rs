//! The middleware in a stack that is already there: a retry middleware outside that repeats the
//! call, a signing middleware inside that signs each attempt, and one key at the server.
//!
//! `cargo run --example existing_stack --features testkit`

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use post_once::testkit::{Fault, Server};
use post_once::{Idempotency, RetryPolicy};
use reqwest::header::HeaderValue;
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next};
use reqwest_retry::{RetryTransientMiddleware, policies::ExponentialBackoff};

/// Signs each attempt anew. A real one would put the time and a digest of the body in.
struct Sign(AtomicU32);

#[async_trait]
impl Middleware for Sign {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut http::Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let signature = HeaderValue::from(self.0.fetch_add(1, Ordering::Relaxed));
        request.headers_mut().insert("x-signature", signature);
        next.run(request, extensions).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::builder()
        .faults([Fault::status(503), Fault::status(503), Fault::close()])
        .start()
        .await?;

    // Two attempts of ours for each of the retry middleware's, so that both have something to do.
    let policy =
        RetryPolicy::builder().max_attempts(2).base_delay(Duration::from_millis(10)).build()?;
    let outside = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(10), Duration::from_millis(50))
        .build_with_max_retries(3);

    let client = ClientBuilder::new(post_once::reqwest_builder().build()?)
        .with(RetryTransientMiddleware::new_with_policy(outside))
        .with(Idempotency::builder().policy(policy).build())
        .with(Sign(AtomicU32::new(1)))
        .build();
    let response = client.post(server.url("/v1/charges")).body("{}").send().await?;

    let seen = |name: &str| -> Vec<String> {
        let requests = server.requests();
        let values = requests.iter().filter_map(|request| request.headers().get(name));
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    println!("answer: {}", response.status());
    println!("signatures at the server: {}", seen("x-signature").join(", "));
    let keys: HashSet<String> = seen("idempotency-key").into_iter().collect();
    println!("requests: {}, keys: {}", server.requests().len(), keys.len());
    println!("charges at the server: {}", server.charges().len());
    Ok(())
}
