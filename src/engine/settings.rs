//! The settings that a client and a middleware have in common.

use std::sync::Arc;
use std::time::Duration;

use super::{Engine, Journaling};
use crate::clock::SystemClock;
use crate::contract::Contract;
use crate::journal::{HeaderRules, Journal};
use crate::observer::Watch;
use crate::retry::{RetryBudgets, RetryPolicy};

/// The most of an answer's body that is read inside the attempt by default, in bytes.
const RESPONSE_LIMIT: usize = 1024 * 1024;

/// For how long a claim is held without a sign of life, by default.
const LEASE: Duration = Duration::from_secs(30);

/// The largest request body that is written down by default, in bytes.
const REQUEST_LIMIT: usize = 1024 * 1024;

impl Default for Engine {
    fn default() -> Engine {
        Engine {
            policy: RetryPolicy::default(),
            contract: Contract::default(),
            clock: Arc::new(SystemClock),
            watch: Watch(None),
            budgets: RetryBudgets::default(),
            response_limit: RESPONSE_LIMIT,
            journaling: None,
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

        /// Where operations are written down before their first byte goes out.
        pub fn journal(mut self, journal: impl $crate::journal::Journal) -> Self {
            self.journaling.journal = Some(std::sync::Arc::new(journal));
            self
        }

        /// The same, for a journal whose kind is only known at run time, or which is used elsewhere too.
        pub fn shared_journal(
            mut self,
            journal: std::sync::Arc<dyn $crate::journal::Journal>,
        ) -> Self {
            self.journaling.journal = Some(journal);
            self
        }

        /// For how long a claim on an operation is ours without a sign of life; 30 s by default, and
        /// renewed each third of it. After a crash the operation is resumed no sooner.
        pub fn lease(mut self, lease: std::time::Duration) -> Self {
            self.journaling.lease = lease;
            self
        }

        /// A request header whose value is stored in the journal, beside those that are known to be
        /// harmless. Never a credential.
        pub fn store_header(mut self, name: http::HeaderName) -> Self {
            self.journaling.headers.stored.push(name);
            self
        }

        /// A request header that the client or its middleware sets anew for each attempt, so that a
        /// resumed operation does not miss it.
        pub fn reapplied_by_stack(mut self, name: http::HeaderName) -> Self {
            self.journaling.headers.reapplied.push(name);
            self
        }

        /// The largest request body that is written down, in bytes; 1 MiB by default. A larger one is
        /// refused before it is sent.
        pub fn request_limit(mut self, bytes: usize) -> Self {
            self.journaling.request_limit = bytes;
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

/// The settings of a journal, of which there may be none.
#[derive(Debug)]
pub(crate) struct JournalSettings {
    pub(crate) journal: Option<Arc<dyn Journal>>,
    pub(crate) lease: Duration,
    pub(crate) headers: HeaderRules,
    pub(crate) request_limit: usize,
    pub(crate) origins: Vec<String>,
}

impl Default for JournalSettings {
    fn default() -> JournalSettings {
        JournalSettings {
            journal: None,
            lease: LEASE,
            headers: HeaderRules::default(),
            request_limit: REQUEST_LIMIT,
            origins: Vec::new(),
        }
    }
}

impl JournalSettings {
    /// The engine with the journal, if there is one.
    pub(crate) fn complete(self, engine: Engine) -> Engine {
        let JournalSettings { journal, lease, headers, request_limit, origins } = self;
        let with = |journal| Journaling { journal, lease, headers, request_limit, origins };
        let journaling = journal.map(with);
        Engine { journaling, ..engine }
    }
}

pub(crate) use engine_settings;
