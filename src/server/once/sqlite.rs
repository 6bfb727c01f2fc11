//! Work in a transaction on SQLite.

use rusqlite::{Connection, Transaction, TransactionBehavior};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Begun, Once, OnceError, Ran, read, stored};
use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::server::service::{Claim, Ended};
use crate::server::store::{ClaimError, Held, SqliteClaims};

impl Once<SqliteClaims> {
    /// Does work in a transaction on *your* connection to the store's file: what it writes through it and what it
    /// returns commit together. The work is no future, and blocks: keep it short.
    ///
    /// The transaction takes the write lock at its start; set a busy timeout on the connection, and
    /// `synchronous = FULL`.
    ///
    /// # Errors
    /// See [`OnceError`]. After any of them nothing of the work is committed.
    pub async fn run<T, E>(
        &self,
        principal: &str,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        connection: &mut Connection,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<Ran<T>, OnceError<E>>
    where
        T: Serialize + DeserializeOwned,
    {
        let claim = match self.begin(principal, key, fingerprint).await? {
            Begun::Claim(claim) => claim,
            Begun::Before(value) => return Ok(Ran::Before(value)),
        };
        match self.transact(&claim, connection, work) {
            Ok(value) => Ok(Ran::Now(value)),
            Err(Failed::For(error @ OnceError::Lost)) => Err(error),
            Err(Failed::For(error)) => Err(self.give_back(&claim, error).await),
            // Its word may have been lost after the commit: the row of the key tells.
            Err(Failed::ToCommit(error)) => match claim.release().await? {
                Ended::Yes | Ended::Lost => Err(failed(error)),
                Ended::Answered(answer) => read(&answer).map(Ran::Now).map_err(OnceError::Value),
            },
        }
    }

    fn transact<T: Serialize, E>(
        &self,
        claim: &Claim,
        connection: &mut Connection,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, E>,
    ) -> Result<T, Failed<E>> {
        let failed_for = |error| Failed::For(failed(error));
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed_for)?;
        let value = work(&transaction).map_err(|error| Failed::For(OnceError::Work(error)))?;
        let answer = stored(&value).map_err(|error| Failed::For(OnceError::Value(error)))?;
        let (holder, retention) = (claim.holder(), self.keeper.retention);
        match self.store.complete_in(&transaction, holder, &answer, retention) {
            Ok(Held::Yes(())) => transaction.commit().map_err(Failed::ToCommit).map(|()| value),
            Ok(Held::Lost) => Err(Failed::For(OnceError::Lost)),
            Err(error) => Err(Failed::For(error.into())),
        }
    }
}

enum Failed<E> {
    For(OnceError<E>),
    ToCommit(rusqlite::Error),
}

fn failed<E>(error: rusqlite::Error) -> OnceError<E> {
    OnceError::Store(ClaimError::Failed(Box::new(error)))
}
