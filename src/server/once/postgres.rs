//! Work in a transaction on PostgreSQL.

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::PgConnection;

use super::{Begun, Once, OnceError, Ran, read, stored};
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::server::service::{Claim, Ended, alive};
use crate::server::store::{ClaimError, Held, PostgresClaims};

impl Once<PostgresClaims> {
    /// Does work in a transaction of the store's pool: what it writes through the connection and what it returns
    /// commit together.
    ///
    /// # Errors
    /// See [`OnceError`]. After any of them nothing of the work is committed.
    pub async fn run<T, E>(
        &self,
        principal: &str,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<Ran<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let claim = match self.begin(principal, key, fingerprint).await? {
            Begun::Claim(claim) => claim,
            Begun::Before(value) => return Ok(Ran::Before(value)),
        };
        alive(&claim, self.transact(&claim, work)).await.unwrap_or(Err(OnceError::Lost))
    }

    async fn transact<T, E>(
        &self,
        claim: &Claim,
        work: impl AsyncFnOnce(&mut PgConnection) -> Result<T, E>,
    ) -> Result<Ran<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let mut transaction = match self.store.pool().begin().await {
            Ok(transaction) => transaction,
            Err(error) => return Err(self.give_back(claim, failed(error)).await),
        };
        // A transaction that is dropped is rolled back before its connection is used again.
        let value = match work(&mut transaction).await {
            Ok(value) => value,
            Err(error) => {
                drop(transaction);
                return Err(self.give_back(claim, OnceError::Work(error)).await);
            }
        };
        let answer = match stored(&value) {
            Ok(answer) => answer,
            Err(error) => {
                drop(transaction);
                return Err(self.give_back(claim, OnceError::Value(error)).await);
            }
        };
        let (holder, retention) = (claim.holder(), self.keeper.retention);
        match self.store.complete_in(&mut transaction, holder, &answer, retention).await {
            Ok(Held::Yes(())) => {}
            Ok(Held::Lost) => return Err(OnceError::Lost),
            Err(error) => {
                drop(transaction);
                return Err(self.give_back(claim, error.into()).await);
            }
        }
        let Err(error) = transaction.commit().await else { return Ok(Ran::Now(value)) };
        // Its word may have been lost after the commit: the row of the key tells.
        match claim.release().await? {
            Ended::Yes | Ended::Lost => Err(failed(error)),
            Ended::Answered(answer) => read(&answer).map(Ran::Now).map_err(OnceError::Value),
        }
    }
}

fn failed<E>(error: sqlx::Error) -> OnceError<E> {
    OnceError::Store(ClaimError::Failed(Box::new(error)))
}
