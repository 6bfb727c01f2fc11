//! Completing a claim in the transaction of its handler.

#[cfg(feature = "postgres")]
use std::pin::Pin;

use crate::server::answer::StoredAnswer;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::server::store::{ClaimError, Held};

use super::Claim;

/// A transaction in which a claim can be completed: of sqlx on PostgreSQL, of rusqlite on SQLite.
pub trait Transaction: sealed::Sealed {
    /// What [`Claim::complete_in`] returns for it.
    type Done;

    #[doc(hidden)]
    fn complete(self, claim: &Claim, answer: StoredAnswer) -> Self::Done;
}

mod sealed {
    pub trait Sealed {}

    #[cfg(feature = "postgres")]
    impl Sealed for &mut sqlx::PgConnection {}
    #[cfg(feature = "postgres")]
    impl Sealed for &mut sqlx::Transaction<'_, sqlx::Postgres> {}
    #[cfg(feature = "sqlite")]
    impl Sealed for &rusqlite::Transaction<'_> {}
}

#[cfg(feature = "postgres")]
impl<'c> Transaction for &'c mut sqlx::PgConnection {
    type Done = Pin<Box<dyn Future<Output = Result<(), ClaimError>> + Send + 'c>>;

    fn complete(self, claim: &Claim, answer: StoredAnswer) -> Self::Done {
        let claim = claim.clone();
        Box::pin(async move {
            let keeper = claim.keeper();
            let store =
                keeper.store.as_any().downcast_ref::<crate::server::store::PostgresClaims>();
            let store = store.ok_or_else(|| of_another_kind("PostgreSQL"))?;
            held(store.complete_in(self, claim.holder(), &answer, keeper.retention).await?)
        })
    }
}

#[cfg(feature = "postgres")]
impl<'c> Transaction for &'c mut sqlx::Transaction<'_, sqlx::Postgres> {
    type Done = Pin<Box<dyn Future<Output = Result<(), ClaimError>> + Send + 'c>>;

    fn complete(self, claim: &Claim, answer: StoredAnswer) -> Self::Done {
        let connection: &'c mut sqlx::PgConnection = &mut *self;
        connection.complete(claim, answer)
    }
}

#[cfg(feature = "sqlite")]
impl Transaction for &rusqlite::Transaction<'_> {
    type Done = Result<(), ClaimError>;

    fn complete(self, claim: &Claim, answer: StoredAnswer) -> Self::Done {
        let keeper = claim.keeper();
        let store = keeper.store.as_any().downcast_ref::<crate::server::store::SqliteClaims>();
        let store = store.ok_or_else(|| of_another_kind("SQLite"))?;
        held(store.complete_in(self, claim.holder(), &answer, keeper.retention)?)
    }
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(super) fn of_another_kind(kind: &str) -> ClaimError {
    ClaimError::Unusable(format!(
        "the transaction is on {kind}, and the keys are kept in a store of another kind: roll it back, \
         and keep the keys in the database that it writes to"
    ))
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn held(held: Held<()>) -> Result<(), ClaimError> {
    match held {
        Held::Yes(()) => Ok(()),
        Held::Lost => Err(ClaimError::Lost),
    }
}
