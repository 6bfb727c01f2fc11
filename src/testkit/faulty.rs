//! A store of keys that fails when it is told to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use super::state::pause;
use crate::server::answer::StoredAnswer;
use crate::server::claim::RecoveryPoint;
use crate::server::store::{
    Ask, ClaimError, ClaimStore, Claimed, Decision, Held, Holder, Name, Row, Sealed,
};

/// What can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Claiming a key.
    Claim,
    /// Extending a lease.
    Renew,
    /// Writing a recovery point down.
    Checkpoint,
    /// Storing an answer.
    Complete,
    /// Giving a claim back.
    Release,
    /// Looking at a row.
    Look,
    /// Deleting what is over.
    Sweep,
}

/// A store around another one. Clones share their faults.
#[derive(Clone, Debug)]
pub struct FaultyClaims {
    inner: Arc<dyn ClaimStore>,
    faults: Arc<Mutex<Faults>>,
}

#[derive(Debug, Default)]
struct Faults {
    failing: Vec<Verb>,
    delay: Duration,
}

/// What a verb that was told to fails with.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} was told to fail")]
struct Told(Verb);

impl FaultyClaims {
    /// A store that does what the inner one does.
    #[must_use]
    pub fn new(inner: Arc<dyn ClaimStore>) -> FaultyClaims {
        FaultyClaims { inner, faults: Arc::default() }
    }

    /// From now on these verbs fail, and write nothing; all others work. None: all work again.
    pub fn fail(&self, verbs: impl IntoIterator<Item = Verb>) {
        self.faults().failing = verbs.into_iter().collect();
    }

    /// From now on each verb takes so long.
    pub fn delay(&self, delay: Duration) {
        self.faults().delay = delay;
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn pass(&self, verb: Verb) -> Result<(), ClaimError> {
        let delay = self.faults().delay;
        if !delay.is_zero() {
            pause(delay).await;
        }
        if self.faults().failing.contains(&verb) {
            return Err(ClaimError::Failed(Box::new(Told(verb))));
        }
        Ok(())
    }
}

impl Sealed for FaultyClaims {
    fn as_any(&self) -> &dyn std::any::Any {
        self.inner.as_any()
    }
}

#[async_trait]
impl ClaimStore for FaultyClaims {
    async fn claim(&self, ask: &Ask) -> Result<Claimed, ClaimError> {
        self.pass(Verb::Claim).await?;
        self.inner.claim(ask).await
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Held<()>, ClaimError> {
        self.pass(Verb::Renew).await?;
        self.inner.renew(holder, lease).await
    }

    async fn checkpoint(
        &self,
        holder: &Holder,
        point: &RecoveryPoint,
        lease: Duration,
    ) -> Result<Held<()>, ClaimError> {
        self.pass(Verb::Checkpoint).await?;
        self.inner.checkpoint(holder, point, lease).await
    }

    async fn complete(
        &self,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError> {
        self.pass(Verb::Complete).await?;
        self.inner.complete(holder, answer, retention).await
    }

    async fn release(&self, holder: &Holder) -> Result<Held<()>, ClaimError> {
        self.pass(Verb::Release).await?;
        self.inner.release(holder).await
    }

    async fn look(&self, name: &Name) -> Result<Option<Row>, ClaimError> {
        self.pass(Verb::Look).await?;
        self.inner.look(name).await
    }

    async fn list(&self, after: Option<&Name>, limit: u32) -> Result<Vec<Row>, ClaimError> {
        self.inner.list(after, limit).await
    }

    async fn settle(&self, seen: &Holder, decision: &Decision) -> Result<Held<()>, ClaimError> {
        self.inner.settle(seen, decision).await
    }

    async fn sweep(&self, limit: u32) -> Result<u64, ClaimError> {
        self.pass(Verb::Sweep).await?;
        self.inner.sweep(limit).await
    }
}
