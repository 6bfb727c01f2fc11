//! How often, how fast and how long an operation is tried.

use std::time::Duration;

use thiserror::Error;

/// How often, how fast and how long an operation is tried.
///
/// | setting | default | unit and range |
/// |---|---|---|
/// | [`max_attempts`](RetryPolicyBuilder::max_attempts) | 5 | 1 and up; waits for "in progress" are not counted |
/// | [`base_delay`](RetryPolicyBuilder::base_delay) | 500 ms | the jitter's ceiling before the first retry |
/// | [`max_delay`](RetryPolicyBuilder::max_delay) | 8 s | the cap of that ceiling |
/// | [`attempt_timeout`](RetryPolicyBuilder::attempt_timeout) | 10 s | above zero; one attempt with its body |
/// | [`deadline`](RetryPolicyBuilder::deadline) | none | above zero; the whole call, waits included |
/// | [`max_retry_after`](RetryPolicyBuilder::max_retry_after) | 60 s | a longer hint stops the call |
/// | [`in_progress_budget`](RetryPolicyBuilder::in_progress_budget) | 60 s | waiting for another attempt's answer |
/// | [`retry_budget`](RetryPolicyBuilder::retry_budget) | on | 100 tokens per origin |
///
/// ```
/// use post_once::RetryPolicy;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), post_once::retry::PolicyError> {
/// let policy = RetryPolicy::builder().max_attempts(3).deadline(Duration::from_secs(20)).build()?;
/// assert_eq!(policy.max_attempts(), 3);
///
/// // A policy that allows no attempt is refused when it is built, not when money is at stake.
/// assert!(RetryPolicy::builder().max_attempts(0).build().is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    max_attempts: u32,
    base_delay: Duration,
    max_delay: Duration,
    attempt_timeout: Duration,
    deadline: Option<Duration>,
    max_retry_after: Duration,
    in_progress_budget: Duration,
    retry_budget: RetryBudget,
}

/// Whether retries draw on the budget that all operations to one origin share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RetryBudget {
    /// A bucket of 100 per origin: a retry costs 1, a success returns 1.
    PerOrigin,
    /// Retries are limited by attempts and time alone.
    Unlimited,
}

impl RetryPolicy {
    /// Starts from the defaults.
    pub fn builder() -> RetryPolicyBuilder {
        RetryPolicyBuilder { policy: RetryPolicy::default() }
    }

    /// One attempt, no retry; the other limits at their defaults.
    #[must_use]
    pub fn once() -> RetryPolicy {
        RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }
    }

    /// The same limits for one attempt alone: what follows is decided elsewhere.
    pub(crate) fn for_one_attempt(&self) -> RetryPolicy {
        let in_progress_budget = Duration::ZERO;
        RetryPolicy { max_attempts: 1, in_progress_budget, deadline: None, ..self.clone() }
    }

    /// The same settings, to be changed.
    pub fn to_builder(&self) -> RetryPolicyBuilder {
        RetryPolicyBuilder { policy: self.clone() }
    }

    /// The most attempts of one call, the first included.
    #[must_use]
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The jitter's ceiling before the first retry.
    #[must_use]
    pub fn base_delay(&self) -> Duration {
        self.base_delay
    }

    /// The cap of the jitter's ceiling.
    #[must_use]
    pub fn max_delay(&self) -> Duration {
        self.max_delay
    }

    /// The limit of one attempt.
    #[must_use]
    pub fn attempt_timeout(&self) -> Duration {
        self.attempt_timeout
    }

    /// The limit of the whole call, if it has one.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// The longest `Retry-After` that is waited for.
    #[must_use]
    pub fn max_retry_after(&self) -> Duration {
        self.max_retry_after
    }

    /// How long an "in progress" is waited for.
    #[must_use]
    pub fn in_progress_budget(&self) -> Duration {
        self.in_progress_budget
    }

    /// Whether retries draw on the budget of their origin.
    #[must_use]
    pub fn retry_budget(&self) -> RetryBudget {
        self.retry_budget
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            max_attempts: 5,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            attempt_timeout: Duration::from_secs(10),
            deadline: None,
            max_retry_after: Duration::from_secs(60),
            in_progress_budget: Duration::from_secs(60),
            retry_budget: RetryBudget::PerOrigin,
        }
    }
}

/// Builds a [`RetryPolicy`].
#[derive(Clone, Debug)]
#[must_use = "a policy does nothing until it is built and given to a client"]
pub struct RetryPolicyBuilder {
    policy: RetryPolicy,
}

impl RetryPolicyBuilder {
    /// The most attempts of one call, the first included: 1 means exactly one request.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts;
        self
    }

    /// The jitter's ceiling before the first retry; it doubles from there. Zero never waits.
    pub fn base_delay(mut self, delay: Duration) -> Self {
        self.policy.base_delay = delay;
        self
    }

    /// The cap of the jitter's ceiling.
    pub fn max_delay(mut self, delay: Duration) -> Self {
        self.policy.max_delay = delay;
        self
    }

    /// The limit of one attempt, from its start to the end of the answer's body. An attempt gets
    /// less when less is left of the deadline or of the window.
    pub fn attempt_timeout(mut self, limit: Duration) -> Self {
        self.policy.attempt_timeout = limit;
        self
    }

    /// The limit of the whole call, waits included. Prefer it to a timeout around the call: a
    /// dropped future can no longer say what became of the operation.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.policy.deadline = Some(limit);
        self
    }

    /// The longest `Retry-After` that is waited for; a longer one stops the call and says so.
    pub fn max_retry_after(mut self, limit: Duration) -> Self {
        self.policy.max_retry_after = limit;
        self
    }

    /// How long the call waits while the server says that an earlier attempt is in progress.
    /// Zero returns the first such answer as an error.
    pub fn in_progress_budget(mut self, limit: Duration) -> Self {
        self.policy.in_progress_budget = limit;
        self
    }

    /// Whether retries draw on the budget of their origin.
    pub fn retry_budget(mut self, budget: RetryBudget) -> Self {
        self.policy.retry_budget = budget;
        self
    }

    /// Checks the settings.
    ///
    /// # Errors
    /// When no attempt could ever be made: no attempts, or a limit of zero.
    pub fn build(self) -> Result<RetryPolicy, PolicyError> {
        let policy = self.policy;
        if policy.max_attempts == 0 {
            return Err(PolicyError::NoAttempt);
        }
        if policy.attempt_timeout.is_zero() {
            return Err(PolicyError::NoTime("attempt timeout"));
        }
        if policy.deadline.is_some_and(|limit| limit.is_zero()) {
            return Err(PolicyError::NoTime("deadline"));
        }
        Ok(policy)
    }
}

/// A policy that allows no attempt.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The number of attempts is zero.
    #[error("a policy of no attempts would never send; allow at least 1")]
    NoAttempt,
    /// A limit is zero.
    #[error("the {0} is zero, so nothing could ever be sent; give a time above zero")]
    NoTime(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_allows_no_attempt_is_refused() {
        let refused = |b: RetryPolicyBuilder| b.build().unwrap_err();
        assert_eq!(refused(RetryPolicy::builder().max_attempts(0)), PolicyError::NoAttempt);
        assert_eq!(
            refused(RetryPolicy::builder().attempt_timeout(Duration::ZERO)),
            PolicyError::NoTime("attempt timeout")
        );
        assert_eq!(
            refused(RetryPolicy::builder().deadline(Duration::ZERO)),
            PolicyError::NoTime("deadline")
        );
    }

    #[test]
    fn the_defaults_are_those_documented() {
        let policy = RetryPolicy::builder().build().unwrap();
        assert_eq!(policy, RetryPolicy::default());
        assert_eq!(policy.max_attempts(), 5);
        assert_eq!(policy.base_delay(), Duration::from_millis(500));
        assert_eq!(policy.max_delay(), Duration::from_secs(8));
        assert_eq!(policy.attempt_timeout(), Duration::from_secs(10));
        assert_eq!(policy.deadline(), None);
        assert_eq!(policy.max_retry_after(), Duration::from_secs(60));
        assert_eq!(policy.in_progress_budget(), Duration::from_secs(60));
        assert_eq!(RetryPolicy::once().max_attempts(), 1);
    }
}
