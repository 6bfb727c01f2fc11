//! A thousand operations that are told to come back at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Extensions, StatusCode};
use post_once::retry::{Exhausted, RetryBudget, RetryPolicyBuilder};
use post_once::testkit::ManualClock;
use post_once::{Client, RetryPolicy};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::support::{SECOND, charge, http, report};

const OPERATIONS: usize = 1_000;

/// A server in memory. It answers the first requests of all operations at one moment, with a 429
/// that says 5 s, and later ones with the other status.
struct Overloaded {
    later: StatusCode,
    seen: AtomicUsize,
    all_there: Barrier,
}

#[async_trait]
impl Middleware for Overloaded {
    async fn handle(
        &self,
        request: Request,
        _: &mut Extensions,
        _: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let answer = http::Response::builder();
        let answer = if self.seen.fetch_add(1, Ordering::Relaxed) < OPERATIONS {
            self.all_there.wait().await;
            answer.status(StatusCode::TOO_MANY_REQUESTS).header("retry-after", "5")
        } else {
            answer.status(self.later)
        };
        let url = reqwest::ResponseBuilderExt::url(answer, request.url().clone());
        Ok(url.body(Bytes::new()).unwrap().into())
    }
}

/// The waits of all operations, and what each response said: its status and what ended it.
async fn told_at_once(
    policy: RetryPolicyBuilder,
    later: StatusCode,
) -> (Vec<Duration>, Vec<(StatusCode, Option<Exhausted>)>) {
    let overloaded =
        Overloaded { later, seen: AtomicUsize::default(), all_there: Barrier::new(OPERATIONS) };
    let stack = reqwest_middleware::ClientBuilder::new(http()).with(overloaded).build();
    let clock = ManualClock::new();
    let client = Client::builder()
        .stack(stack)
        .clock(clock.clone())
        .policy(policy.build().unwrap())
        .build()
        .unwrap();
    let client = Arc::new(client);
    let mut operations = JoinSet::new();
    for _ in 0..OPERATIONS {
        let client = Arc::clone(&client);
        operations.spawn(async move {
            let sent = client.post_once("http://charges.test/v1/charges", &charge()).await;
            let response = sent.unwrap();
            (response.status(), report(&response).exhausted())
        });
    }
    let ended = operations.join_all().await;
    (clock.waits(), ended)
}

// O-15
#[tokio::test]
async fn nobody_comes_back_before_the_hint_and_they_come_spread_out() {
    let policy = RetryPolicy::builder().base_delay(SECOND).retry_budget(RetryBudget::Unlimited);
    let (waits, ended) = told_at_once(policy, StatusCode::CREATED).await;
    assert_eq!(ended, [(StatusCode::CREATED, None); OPERATIONS]);
    assert_eq!(waits.len(), OPERATIONS);
    let mut tenths = [0; 10];
    for wait in waits {
        let after = wait.checked_sub(5 * SECOND).expect("never less than the hint");
        assert!(after <= SECOND, "{wait:?}");
        tenths[usize::try_from(after.as_millis() / 100).unwrap().min(9)] += 1;
    }
    // 100 expected in each, standard deviation 9.5: six of them either way.
    assert!(tenths.iter().all(|n| (43..=157).contains(n)), "{tenths:?}");
}

// O-15: and where retries could be what keeps the server down, most do not come back at all.
#[tokio::test]
async fn no_more_come_back_than_the_budget_of_the_origin_allows() {
    let policy = RetryPolicy::builder().max_attempts(2);
    let (waits, ended) = told_at_once(policy, StatusCode::SERVICE_UNAVAILABLE).await;
    let count = |status, by| ended.iter().filter(|one| **one == (status, Some(by))).count();
    assert_eq!(count(StatusCode::SERVICE_UNAVAILABLE, Exhausted::Attempts), 100);
    assert_eq!(count(StatusCode::TOO_MANY_REQUESTS, Exhausted::Budget), 900);
    assert_eq!(waits.len(), 100);
}
