//! Stacks of middleware: ours among others, inside and outside, and what passes between them.

mod extensions;
mod options;
mod retries;

use std::time::Duration;

use post_once::middleware::IdempotencyBuilder;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Idempotency, RetryPolicy};
use reqwest::Response;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Result};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

use crate::harness::{BODY, http};

fn plain() -> ClientBuilder {
    ClientBuilder::new(http().build().unwrap())
}

/// Ours, with so many attempts and without real waits.
fn ours(attempts: u32) -> IdempotencyBuilder {
    let policy = RetryPolicy::builder().max_attempts(attempts).build().unwrap();
    Idempotency::builder().policy(policy).clock(ManualClock::new())
}

/// A retry middleware that knows nothing of keys.
fn foreign(retries: u32) -> RetryTransientMiddleware<ExponentialBackoff> {
    let backoff = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(2))
        .build_with_max_retries(retries);
    RetryTransientMiddleware::new_with_policy(backoff)
}

async fn post(stack: &ClientWithMiddleware, server: &Server) -> Result<Response> {
    stack.post(server.url("/v1/charges")).body(BODY).send().await
}

async fn unavailable(times: usize) -> Server {
    let faults = std::iter::repeat_n(Fault::status(503), times);
    Server::builder().faults(faults).start().await.unwrap()
}
