//! The retry budget: retries must not be what keeps an overloaded server down.
//!
//! A limit on attempts alone multiplies the load exactly when the server is failing: five attempts
//! for everyone is five times the traffic. So all operations to one origin share a bucket of
//! tokens: a retry costs one, a success returns one. First sends and waits for "in progress" are
//! free. With the bucket empty an operation stops after its first attempt and says so.
//!
//! A resumer that has nothing but retries to send would never see the success that fills an empty bucket
//! again. It may therefore probe: one retry in each second is free when the bucket is empty.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reqwest::Url;

/// The tokens of a full bucket.
const FULL: u32 = 100;
/// The least time between two probes of an origin whose bucket is empty.
const BETWEEN_PROBES: Duration = Duration::from_secs(1);

/// The buckets of all origins that are below full.
#[derive(Debug, Default)]
pub(crate) struct RetryBudgets {
    /// How many there are, so that a fault-free operation takes no lock.
    below_full: AtomicUsize,
    buckets: Mutex<HashMap<String, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    tokens: u32,
    /// When it was empty and probed last, by a monotonic clock.
    probed: Option<Duration>,
}

impl RetryBudgets {
    /// Takes the token of one retry. `false`: the bucket is empty.
    pub(crate) fn take(&self, url: &Url) -> bool {
        self.with_bucket(url, Bucket::take)
    }

    /// The same, but now and then also from an empty bucket: for a sender that has retries only.
    pub(crate) fn take_or_probe(&self, url: &Url, now: Duration) -> bool {
        self.with_bucket(url, |bucket| bucket.take() || bucket.probe(now))
    }

    /// Returns the token of one success. Full buckets are forgotten.
    pub(crate) fn give_back(&self, url: &Url) {
        if self.below_full.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut buckets = self.lock();
        let origin = origin(url);
        if let Some(bucket) = buckets.get_mut(&origin) {
            bucket.tokens += 1;
            if bucket.tokens >= FULL {
                buckets.remove(&origin);
            }
        }
        self.below_full.store(buckets.len(), Ordering::Relaxed);
    }

    fn with_bucket(&self, url: &Url, take: impl FnOnce(&mut Bucket) -> bool) -> bool {
        let mut buckets = self.lock();
        let full = || Bucket { tokens: FULL, probed: None };
        let taken = take(buckets.entry(origin(url)).or_insert_with(full));
        self.below_full.store(buckets.len(), Ordering::Relaxed);
        taken
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Bucket>> {
        // A count is right whatever panicked while it was held.
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    fn take(&mut self) -> bool {
        let taken = self.tokens > 0;
        self.tokens = self.tokens.saturating_sub(1);
        taken
    }

    fn probe(&mut self, now: Duration) -> bool {
        let due = self.probed.is_none_or(|probed| now.saturating_sub(probed) >= BETWEEN_PROBES);
        if due {
            self.probed = Some(now);
        }
        due
    }
}

/// Scheme, host and port (RFC 6454).
fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn a_hundred_retries_empty_the_bucket_and_a_success_returns_one() {
        let budgets = RetryBudgets::default();
        let a = url("http://a.test/charges");
        assert_eq!((0..150).filter(|_| budgets.take(&a)).count(), 100);
        budgets.give_back(&a);
        assert!(budgets.take(&url("http://a.test/other?path=1")), "one origin, one bucket");
        assert!(!budgets.take(&a));
    }

    #[test]
    fn an_empty_bucket_is_probed_once_a_second_and_a_success_fills_it_again() {
        let budgets = RetryBudgets::default();
        let a = url("http://a.test/");
        let at = |milliseconds| budgets.take_or_probe(&a, Duration::from_millis(milliseconds));
        assert_eq!((0..100).filter(|_| at(0)).count(), 100);
        let probes = [(5_000, true), (5_000, false), (5_999, false), (6_000, true), (6_001, false)];
        for (now, free) in probes {
            assert_eq!(at(now), free, "{now} ms");
        }
        assert!(!budgets.take(&a), "who has first sends to go by does not probe");
        budgets.give_back(&a);
        assert!(at(6_002));
        assert!(!at(6_003));
    }

    #[test]
    fn origins_do_not_share_a_bucket() {
        let budgets = RetryBudgets::default();
        let a = url("http://a.test/");
        while budgets.take(&a) {}
        for other in ["https://a.test/", "http://a.test:8080/", "http://b.test/"] {
            assert!(budgets.take(&url(other)), "{other}");
        }
    }

    #[test]
    fn successes_never_fill_a_bucket_above_full_and_full_ones_are_forgotten() {
        let budgets = RetryBudgets::default();
        let a = url("http://a.test/");
        budgets.give_back(&a);
        assert!(budgets.take(&a));
        for _ in 0..5 {
            budgets.give_back(&a);
        }
        assert!(budgets.lock().is_empty());
        assert_eq!(budgets.below_full.load(Ordering::Relaxed), 0);
        assert_eq!((0..150).filter(|_| budgets.take(&a)).count(), 100);
    }
}
