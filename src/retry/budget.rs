//! The retry budget: retries must not be what keeps an overloaded server down.
//!
//! A limit on attempts alone multiplies the load exactly when the server is failing: five attempts
//! for everyone is five times the traffic. So all operations to one origin share a bucket of
//! tokens: a retry costs one, a success returns one. First sends and waits for "in progress" are
//! free. With the bucket empty an operation stops after its first attempt and says so.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use reqwest::Url;

/// The tokens of a full bucket.
const FULL: u32 = 100;

/// The buckets of all origins that are below full.
#[derive(Debug, Default)]
pub(crate) struct RetryBudgets {
    /// How many there are, so that a fault-free operation takes no lock.
    below_full: AtomicUsize,
    tokens: Mutex<HashMap<String, u32>>,
}

impl RetryBudgets {
    /// Takes the token of one retry. `false`: the bucket is empty.
    pub(crate) fn take(&self, url: &Url) -> bool {
        let mut tokens = self.lock();
        let left = tokens.entry(origin(url)).or_insert(FULL);
        let taken = *left > 0;
        *left = left.saturating_sub(1);
        self.below_full.store(tokens.len(), Ordering::Relaxed);
        taken
    }

    /// Returns the token of one success. Full buckets are forgotten.
    pub(crate) fn give_back(&self, url: &Url) {
        if self.below_full.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut tokens = self.lock();
        let origin = origin(url);
        if let Some(left) = tokens.get_mut(&origin) {
            *left += 1;
            if *left >= FULL {
                tokens.remove(&origin);
            }
        }
        self.below_full.store(tokens.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, u32>> {
        // A count is right whatever panicked while it was held.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
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
