//! The settings that a client and a middleware have in common.

use std::sync::Arc;

use super::Engine;
use crate::clock::SystemClock;
use crate::contract::Contract;
use crate::observer::Watch;
use crate::retry::{RetryBudgets, RetryPolicy};

/// The most of an answer's body that is read inside the attempt by default, in bytes.
const RESPONSE_LIMIT: usize = 1024 * 1024;

impl Default for Engine {
    fn default() -> Engine {
        Engine {
            policy: RetryPolicy::default(),
            contract: Contract::default(),
            clock: Arc::new(SystemClock),
            watch: Watch(None),
            budgets: RetryBudgets::default(),
            response_limit: RESPONSE_LIMIT,
        }
    }
}

/// The setters of a builder that has an `engine`.
macro_rules! engine_settings {
    () => {
        /// How often, how fast and how long an operation is tried.
        pub fn policy(mut self, policy: $crate::retry::RetryPolicy) -> Self {
            self.engine.policy = policy;
            self
        }

        /// What the server promises about keys. The generic contract by default.
        pub fn contract(mut self, contract: $crate::contract::Contract) -> Self {
            self.engine.contract = contract;
            self
        }

        /// Is told what happens to each operation. One at a time: the last one set.
        pub fn observer(mut self, observer: impl $crate::observer::Observer) -> Self {
            self.engine.watch = $crate::observer::Watch(Some(Box::new(observer)));
            self
        }

        /// The clock to measure and wait by. The system's by default; one that is moved by hand in
        /// tests.
        pub fn clock(mut self, clock: impl $crate::clock::Clock) -> Self {
            self.engine.clock = std::sync::Arc::new(clock);
            self
        }

        /// The most of an answer's body that is read inside the attempt, in bytes; 1 MiB by
        /// default. A longer one is handed over as it arrives, and may then still be cut short.
        pub fn response_limit(mut self, bytes: usize) -> Self {
            self.engine.response_limit = bytes;
            self
        }
    };
}

pub(crate) use engine_settings;
