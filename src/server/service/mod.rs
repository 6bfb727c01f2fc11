//! The engine of the server half: claims a key, keeps the claim alive, ends it. It knows no HTTP server.
//!
//! # The rule
//! 1. A key is claimed before any work is done for it, so that the claim outlives each who works.
//! 2. The lease is renewed at each third of it, for as long as the work goes on. A holder that could not
//!    confirm a renewal before its lease was over counts itself as lost, and its work is dropped.
//! 3. Every write names the token of this run. Once the claim is lost none of them is written.
//!
//! # Not guaranteed
//! - That work which was dropped had no effect. It is as with a process that was killed: what is to happen with
//!   the answer or not at all belongs into [`Claim::complete_in`].

mod heartbeat;
mod held;
#[cfg(feature = "sqlite")]
mod transact;
mod transaction;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Clock, SystemClock};
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;

use super::answer::{Fields, StoredAnswer};
use super::store::{Ask, ClaimError, ClaimStore, Claimed, Holder, Name, Token};

pub use held::Claim;
#[cfg(feature = "sqlite")]
pub use transact::TransactError;
pub use transaction::Transaction;

pub(crate) use heartbeat::alive;
pub(crate) use held::Ended;

const LEASE: Duration = Duration::from_secs(30);
const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
const ANSWER_LIMIT: usize = 1 << 20;

/// What keys are claimed with: a store, and for how long.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) store: Arc<dyn ClaimStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) lease: Duration,
    pub(crate) retention: Duration,
    pub(crate) fields: Fields,
    pub(crate) answer_limit: usize,
}

/// What came of a claim.
pub(crate) enum Outcome {
    Won(Claim),
    Answered(StoredAnswer),
    InProgress(Duration),
    Mismatch,
    Reconcile,
}

impl Keeper {
    pub(crate) fn new(store: Arc<dyn ClaimStore>) -> Keeper {
        Keeper {
            store,
            clock: Arc::new(SystemClock),
            lease: LEASE,
            retention: RETENTION,
            fields: Fields::default(),
            answer_limit: ANSWER_LIMIT,
        }
    }

    /// Claims a key, or says why not.
    pub(crate) async fn claim(
        &self,
        principal: &str,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
    ) -> Result<Outcome, ClaimError> {
        let holder = Holder::new(Name::new(principal, key), Token::mint());
        let ask = Ask::new(holder.clone(), fingerprint, self.lease, self.retention);
        // The lease counts from before it was asked for: the store's may end later, never earlier.
        let asked = self.clock.monotonic();
        Ok(match self.store.claim(&ask).await? {
            Claimed::Won { run, point } => {
                Outcome::Won(Claim::new(self.clone(), holder, key.clone(), run, point, asked))
            }
            Claimed::Answered(answer) => Outcome::Answered(answer),
            Claimed::InProgress { lease_left } => Outcome::InProgress(lease_left),
            Claimed::Mismatch => Outcome::Mismatch,
            Claimed::Reconcile => Outcome::Reconcile,
        })
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeper")
            .field("store", &self.store)
            .field("lease", &self.lease)
            .field("retention", &self.retention)
            .finish_non_exhaustive()
    }
}
