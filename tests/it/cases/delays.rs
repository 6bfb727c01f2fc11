//! The waits of the engine. Their arithmetic is tested where it is done.

use std::collections::HashSet;
use std::time::Duration;

use post_once::retry::{RetryBudget, RetryPolicyBuilder, ceiling};
use post_once::testkit::{Fault, ManualClock};
use post_once::{Contract, RetryPolicy};

use super::support::{SECOND, charge, client, report, scripted};

const ATTEMPTS: u32 = 6;

/// The waits of so many operations that meet a 503 each time, operation by operation.
async fn waits(operations: usize, policy: RetryPolicyBuilder) -> Vec<Vec<Duration>> {
    let server = scripted([]).await;
    let unlimited = policy.max_attempts(ATTEMPTS).retry_budget(RetryBudget::Unlimited);
    let clock = ManualClock::new();
    let client = client(&clock, unlimited).build().unwrap();
    for _ in 0..operations {
        server.push((0..ATTEMPTS).map(|_| Fault::status(503)));
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(report(&response).attempts().len(), 6);
    }
    let waits = clock.waits();
    assert_eq!(waits.len(), operations * 5);
    waits.chunks(5).map(<[_]>::to_vec).collect()
}

// O-12
#[tokio::test]
async fn a_wait_is_at_most_its_ceiling_and_anywhere_below() {
    let (base, cap) = (SECOND, 4 * SECOND);
    let waits = waits(20, RetryPolicy::builder().base_delay(base).max_delay(cap)).await;
    for (n, limit) in [1, 2, 4, 4, 4].into_iter().enumerate() {
        let limit = limit * SECOND;
        assert_eq!(limit, ceiling(base, cap, u32::try_from(n).unwrap()));
        let nth = || waits.iter().map(|waits| waits[n]);
        assert!(nth().all(|wait| wait <= limit), "{n}: {waits:?}");
        // One in a million runs has no wait of twenty in one half.
        assert!(nth().any(|wait| wait < limit / 2), "{n}: {waits:?}");
        assert!(nth().any(|wait| wait > limit / 2), "{n}: {waits:?}");
    }
}

// O-12
#[tokio::test]
async fn a_cap_below_the_base_is_kept_and_still_spread_out() {
    let cap = Duration::from_millis(10);
    let waits = waits(10, RetryPolicy::builder().base_delay(SECOND).max_delay(cap)).await.concat();
    assert!(waits.iter().all(|wait| *wait <= cap), "{waits:?}");
    assert!(waits.iter().collect::<HashSet<_>>().len() > 40, "{waits:?}");
}

// O-12
#[tokio::test]
async fn the_largest_limits_do_not_overflow() {
    let largest = || RetryPolicy::builder().base_delay(Duration::MAX).max_delay(Duration::MAX);
    for policy in [
        largest(),
        largest().deadline(Duration::MAX),
        largest().deadline(Duration::MAX).attempt_timeout(Duration::MAX),
    ] {
        let server = scripted([Fault::status(503)]).await;
        let clock = ManualClock::new();
        let for_ever = Contract::builder("for ever").no_window().build().unwrap();
        let client = client(&clock, policy).contract(for_ever).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert!(matches!(response.status().as_u16(), 201 | 503));
        assert_eq!(clock.waits().len(), 1);
    }
}
