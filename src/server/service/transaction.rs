//! Completing a claim in the transaction of its handler.

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
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn held(held: Held<()>) -> Result<(), ClaimError> {
    match held {
        Held::Yes(()) => Ok(()),
        Held::Lost => Err(ClaimError::Lost),
    }
}
