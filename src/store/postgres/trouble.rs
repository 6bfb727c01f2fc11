//! What goes wrong with a database, and whether to try again.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Why something could not be done. Cheap to clone: all verbs of a group share it.
#[derive(Clone, Debug)]
pub(crate) enum Trouble {
    /// It cannot be used as it is; the text says what to do.
    Unusable(String),
    /// Nothing was written.
    Failed(Arc<dyn std::error::Error + Send + Sync>),
    /// It may have been written, and it could not be asked.
    InDoubt(Arc<dyn std::error::Error + Send + Sync>),
}

/// The database stayed away.
#[derive(Debug, Error)]
#[error(
    "Postgres at {place} could not be used for {seconds} s: {last}; see that it runs, can be reached \
     and takes this user, and try again",
    seconds = .waited.as_secs_f32().round(),
)]
pub(super) struct Away {
    pub(super) place: String,
    pub(super) waited: Duration,
    #[source]
    pub(super) last: sqlx::Error,
}

/// The runtime that our writers live on has ended.
#[derive(Debug, Error)]
#[error("the runtime that the store was opened on has ended; open it again on this one")]
pub(super) struct Stopped;

/// What an error says about trying again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The connection is no good any more; the statement may have been executed.
    Gone,
    /// Nothing was written, and it may go better in a moment.
    Again,
    /// It takes no writes.
    ReadOnly,
    /// It would end the same way again.
    Refused,
}

/// The classes of PostgreSQL's documentation, appendix A, read 2026-11-29.
pub(super) fn class(error: &sqlx::Error) -> Class {
    match error {
        sqlx::Error::Io(_)
        | sqlx::Error::Protocol(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::WorkerCrashed => Class::Gone,
        sqlx::Error::Database(error) => of_state(&error.code().unwrap_or_default()),
        _ => Class::Refused,
    }
}

fn of_state(state: &str) -> Class {
    match state {
        // Shut down, crashed, starting up, idle for too long.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" => Class::Gone,
        _ if state.starts_with("08") => Class::Gone,
        // Serialization, deadlock, connections used up, lock not had in time, cancelled.
        "40001" | "40P01" | "53300" | "55P03" | "57014" => Class::Again,
        "25006" => Class::ReadOnly,
        _ => Class::Refused,
    }
}

pub(super) fn read_only(place: &str) -> Trouble {
    Trouble::Unusable(format!(
        "Postgres at {place} is read-only for us: connect to the primary, and see that \
         default_transaction_read_only is off for this user and database"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_state_says_about_trying_again() {
        for (state, class) in [
            ("08006", Class::Gone),
            ("57P01", Class::Gone),
            ("57P02", Class::Gone),
            ("57P03", Class::Gone),
            ("40P01", Class::Again),
            ("40001", Class::Again),
            ("53300", Class::Again),
            ("25006", Class::ReadOnly),
            ("23505", Class::Refused),
            ("22021", Class::Refused),
            ("28P01", Class::Refused),
            ("53100", Class::Refused),
            ("", Class::Refused),
        ] {
            assert_eq!(of_state(state), class, "{state}");
        }
        assert_eq!(class(&sqlx::Error::PoolClosed), Class::Refused);
        assert_eq!(class(&sqlx::Error::PoolTimedOut), Class::Gone);
    }
}
