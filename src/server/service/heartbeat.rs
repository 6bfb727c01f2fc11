//! Keeping a claim alive while its work goes on.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use super::Claim;
use crate::server::store::Held;

/// A renewal is due after this part of the lease; one that failed is tried again after as much of a third.
const PART: u32 = 3;

/// The work's result, for as long as the claim is ours; `None` when it was lost, and the work was dropped.
pub(crate) async fn alive<T>(claim: &Claim, work: impl Future<Output = T>) -> Option<T> {
    let (work, heartbeat) = (pin!(work), pin!(until_lost(claim)));
    tokio::select! {
        biased;
        done = work => Some(done),
        () = heartbeat => None,
    }
}

/// Renews the lease; ends when the claim is lost, or cannot be confirmed in time.
async fn until_lost(claim: &Claim) {
    let keeper = claim.keeper();
    let (clock, lease) = (&keeper.clock, keeper.lease);
    let mut confirmed = claim.asked();
    let mut next = lease / PART;
    loop {
        clock.timer(next).await;
        let asked = clock.monotonic();
        let left = lease.saturating_sub(asked.saturating_sub(confirmed));
        if left.is_zero() {
            return;
        }
        let renewed = tokio::select! {
            biased;
            renewed = keeper.store.renew(claim.holder(), lease) => renewed,
            () = clock.timer(left) => return,
        };
        match renewed {
            Ok(Held::Yes(())) => {
                confirmed = asked;
                next = lease / PART;
            }
            Ok(Held::Lost) => match claim.is_answered_by_us().await {
                // It has ended in a transaction, and the work is about to.
                Ok(true) => pending().await,
                Ok(false) | Err(_) => return,
            },
            Err(error) => {
                tracing::warn!(key = %claim.key(), %error, "a claim could not be renewed");
                next = next_try(lease, clock.monotonic().saturating_sub(confirmed));
            }
        }
    }
}

/// When a renewal that failed is tried again: soon, and not after the lease.
fn next_try(lease: Duration, since: Duration) -> Duration {
    (lease / (PART * PART)).min(lease.saturating_sub(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renewal_that_failed_is_tried_again_before_the_lease_is_over() {
        let second = Duration::from_secs(1);
        assert_eq!(next_try(9 * second, 3 * second), second);
        assert_eq!(next_try(9 * second, Duration::from_millis(8_500)), second / 2);
        assert_eq!(next_try(9 * second, 10 * second), Duration::ZERO);
    }
}
