//! A claim that is ours, in the hands of whoever works for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::Response;

use super::{Keeper, Transaction};
use crate::key::IdempotencyKey;
use crate::server::answer::StoredAnswer;
use crate::server::claim::RecoveryPoint;
use crate::server::store::{ClaimError, Held, Holder};

/// The right, and the duty, to do the work behind a key. Clones are the same claim.
///
/// A handler finds it in the extensions of its request, or takes it as an argument with axum.
#[derive(Clone)]
pub struct Claim(Arc<Inner>);

struct Inner {
    keeper: Keeper,
    holder: Holder,
    key: IdempotencyKey,
    run: u32,
    point: Option<RecoveryPoint>,
    /// When its lease was asked for, by the keeper's clock.
    asked: Duration,
    /// The status of the answer that was completed in a transaction; 0 if none was.
    completed: AtomicU16,
}

/// What the end of a claim came to.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is written down.
    Yes,
    /// The key was answered before: by the same run in a transaction, or by another worker.
    Answered(StoredAnswer),
    /// Another worker has it, or nobody.
    Lost,
}

impl Claim {
    pub(crate) fn new(
        keeper: Keeper,
        holder: Holder,
        key: IdempotencyKey,
        run: u32,
        point: Option<RecoveryPoint>,
        asked: Duration,
    ) -> Claim {
        let completed = AtomicU16::new(0);
        Claim(Arc::new(Inner { keeper, holder, key, run, point, asked, completed }))
    }

    /// The key. [`IdempotencyKey::derive`] makes of it the key of a call to somebody else: the same in every
    /// run.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.0.key
    }

    /// Whose key it is.
    #[must_use]
    pub fn principal(&self) -> &str {
        &self.0.holder.name.principal
    }

    /// The row, and the token of this run.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.0.holder
    }

    /// Which run it is: 1 for the first, more after a worker died.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.0.run
    }

    /// How far the worker before us had come, if it wrote that down and died.
    #[must_use]
    pub fn point(&self) -> Option<&RecoveryPoint> {
        self.0.point.as_ref()
    }

    /// Writes down that the work has come so far, durably, with what the next worker needs to go on from here.
    ///
    /// # Errors
    /// [`ClaimError::Lost`] when the claim is no longer ours: stop. Others when the store fails; then it is
    /// not known to be written, and going on is as safe as without the checkpoint.
    pub async fn checkpoint(
        &self,
        name: impl Into<String>,
        data: impl ToString,
    ) -> Result<(), ClaimError> {
        self.write(RecoveryPoint::reached(name, Some(data.to_string()))).await
    }

    /// Writes down that a call to somebody else begins which cannot be repeated. Until the next checkpoint a dead
    /// worker is not followed by another: the row waits for a person.
    ///
    /// For calls that take a key derived from ours this is not needed.
    ///
    /// # Errors
    /// As [`Claim::checkpoint`]; then do not make the call.
    pub async fn external_call(
        &self,
        name: impl Into<String>,
        data: impl ToString,
    ) -> Result<(), ClaimError> {
        self.write(RecoveryPoint::unconfirmed(name, Some(data.to_string()))).await
    }

    /// Ends the claim with this answer **in your transaction**: effect and answer commit together, or neither
    /// does. Commit, and return the same response. The transaction must be on the database of the store.
    ///
    /// With PostgreSQL it is awaited; with SQLite it is not a future.
    ///
    /// # Errors
    /// [`ClaimError::Lost`] when the claim is no longer ours: roll back. Others when the store fails, or the
    /// transaction is of another kind than the store: roll back too.
    ///
    /// # Not promised
    /// - Anything where the response is returned without the commit: the client is told what did not happen, until
    ///   it asks again.
    pub fn complete_in<T: Transaction, B: AsRef<[u8]>>(
        &self,
        transaction: T,
        response: &Response<B>,
    ) -> T::Done {
        self.completed_with(response.status());
        transaction.complete(self, self.answer(response))
    }

    /// A response, as it is kept.
    pub(super) fn answer<B: AsRef<[u8]>>(&self, response: &Response<B>) -> StoredAnswer {
        let body = response.body().as_ref();
        let body = (body.len() <= self.0.keeper.answer_limit).then(|| Bytes::copy_from_slice(body));
        let headers = self.0.keeper.fields.keep(response.headers());
        StoredAnswer::new(response.status(), headers, body)
    }

    /// An answer of this status was completed in a transaction.
    pub(super) fn completed_with(&self, status: http::StatusCode) {
        self.0.completed.store(status.as_u16(), Ordering::Release);
    }

    async fn write(&self, point: RecoveryPoint) -> Result<(), ClaimError> {
        let keeper = &self.0.keeper;
        match keeper.store.checkpoint(&self.0.holder, &point, keeper.lease).await? {
            Held::Yes(()) => Ok(()),
            Held::Lost => Err(ClaimError::Lost),
        }
    }

    /// Whether an answer of this status was completed in a transaction.
    pub(crate) fn was_completed_with(&self, status: http::StatusCode) -> bool {
        self.0.completed.load(Ordering::Acquire) == status.as_u16()
    }

    /// Ends the claim with this answer.
    pub(crate) async fn complete(&self, answer: &StoredAnswer) -> Result<Ended, ClaimError> {
        let keeper = &self.0.keeper;
        match keeper.store.complete(&self.0.holder, answer, keeper.retention).await? {
            Held::Yes(()) => Ok(Ended::Yes),
            Held::Lost => self.found().await,
        }
    }

    /// Gives the claim up, so that the next request is run.
    pub(crate) async fn release(&self) -> Result<Ended, ClaimError> {
        match self.0.keeper.store.release(&self.0.holder).await? {
            Held::Yes(()) => Ok(Ended::Yes),
            Held::Lost => self.found().await,
        }
    }

    /// What there is where our claim was.
    async fn found(&self) -> Result<Ended, ClaimError> {
        let row = self.0.keeper.store.look(&self.0.holder.name).await?;
        Ok(row.and_then(|row| row.answer).map_or(Ended::Lost, Ended::Answered))
    }

    /// Whether this very run has ended it, as in a transaction.
    pub(super) async fn is_answered_by_us(&self) -> Result<bool, ClaimError> {
        let row = self.0.keeper.store.look(&self.0.holder.name).await?;
        Ok(row.is_some_and(|row| row.holder == self.0.holder && row.seen.answered))
    }

    pub(super) fn asked(&self) -> Duration {
        self.0.asked
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.0.keeper
    }
}

impl fmt::Debug for Claim {
    /// Without the principal, which may be a credential.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim")
            .field("key", &self.0.key)
            .field("run", &self.0.run)
            .field("point", &self.0.point.as_ref().map(|point| &point.name))
            .finish_non_exhaustive()
    }
}
