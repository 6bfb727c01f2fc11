//! Work in the file of the keys, on the connection of the store.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use http::Response;
use rusqlite::Connection;
use thiserror::Error;

use super::{Claim, transaction};
use crate::server::store::{ClaimError, SqliteClaims, Undone};

/// Why work in the file of the keys came to nothing. None of it is committed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TransactError<E> {
    /// The work failed, and was undone. The claim is still ours.
    #[error("the work failed, and was undone: {0}")]
    Work(E),
    /// The claim was lost, or the store failed. Only with [`ClaimError::InDoubt`] may the work have been committed,
    /// and then its answer was, too.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

enum Failed<E> {
    With(E),
    Panicked(Box<dyn Any + Send>),
}

impl Claim {
    /// Does work in the file of a [`SqliteClaims`] and ends the claim with the answer that it returns, in one
    /// transaction. Return the same response.
    ///
    /// It is as [`Claim::complete_in`], on the connection of the store instead of yours: what is done at the same
    /// time shares the transaction, and its flush, and nobody waits for the lock of another connection. The work
    /// runs on the thread that writes, so let it be a few statements and nothing else. It is run a second time
    /// where a transaction that it shared had to be rolled back, so let it have no other effect.
    ///
    /// # Errors
    /// See [`TransactError`]. With each of them what the work wrote is undone.
    ///
    /// # Panics
    /// When the work does; what it wrote is undone then, too.
    ///
    /// ```
    /// use axum::http::{Response, StatusCode};
    /// use post_once::server::store::rusqlite;
    /// use post_once::server::Claim;
    ///
    /// async fn order(claim: Claim, body: String) -> Result<Response<String>, StatusCode> {
    ///     let order = move |file: &rusqlite::Connection| -> rusqlite::Result<_> {
    ///         file.prepare_cached("INSERT INTO orders (body) VALUES (?1)")?.execute([&body])?;
    ///         Ok(Response::new(format!("order {}", file.last_insert_rowid())))
    ///     };
    ///     claim.transact(order).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    /// }
    /// ```
    pub async fn transact<B, E>(
        &self,
        mut work: impl FnMut(&Connection) -> Result<Response<B>, E> + Send + 'static,
    ) -> Result<Response<B>, TransactError<E>>
    where
        B: AsRef<[u8]> + Send + 'static,
        E: Send + 'static,
    {
        let keeper = self.keeper();
        let store = keeper.store.as_any().downcast_ref::<SqliteClaims>();
        let store = store.ok_or_else(|| transaction::of_another_kind("SQLite"))?;
        let claim = self.clone();
        let work = move |file: &Connection| match catch_unwind(AssertUnwindSafe(|| work(file))) {
            Ok(Ok(response)) => {
                let answer = claim.answer(&response);
                Ok((response, answer))
            }
            Ok(Err(error)) => Err(Failed::With(error)),
            Err(panic) => Err(Failed::Panicked(panic)),
        };
        match store.transact(self.holder(), keeper.retention, work).await {
            Ok(response) => {
                self.completed_with(response.status());
                Ok(response)
            }
            Err(Undone::Work(Failed::With(error))) => Err(TransactError::Work(error)),
            Err(Undone::Work(Failed::Panicked(panic))) => resume_unwind(panic),
            Err(Undone::Store(error)) => Err(error.into()),
            Err(Undone::Lost) => Err(ClaimError::Lost.into()),
        }
    }
}
