//! A journal as the tool is told of it: where it is, opening it, and finding rows in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use post_once::journal::{
    Journal, JournalError, List, PostgresJournal, Record, RowId, SqliteJournal, State,
};
use reqwest::Url;
use sqlx::postgres::PgPoolOptions;

use crate::exit::Exit;
use crate::output::{say, with_causes};

/// How long the tool waits for a database that is away.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The most rows that are read at once.
const PAGE: u32 = 500;

/// Where a journal is.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Database(String),
}

/// Whether a journal that is not there is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Existing,
    OrMake,
}

/// Why a command ends, and what is to be said of it.
pub(crate) type Failed = (Exit, String);

impl Place {
    /// A URL of PostgreSQL, or else a path.
    pub(crate) fn parse(text: &str) -> Result<Place, String> {
        if ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme)) {
            return Ok(Place::Database(text.to_owned()));
        }
        if text.is_empty() {
            return Err("give the path of a file, or a postgres:// URL".to_owned());
        }
        Ok(Place::File(text.into()))
    }

    /// As it may be shown: a password is replaced by `…`.
    pub(crate) fn shown(&self) -> String {
        let text = match self {
            Place::File(path) => return path.display().to_string(),
            Place::Database(text) => text,
        };
        let Ok(url) = Url::parse(text) else { return "postgres://…".to_owned() };
        let mut shown = format!("{}://", url.scheme());
        if !url.username().is_empty() || url.password().is_some() {
            shown.push_str(url.username());
            shown.push_str(if url.password().is_some() { ":…@" } else { "@" });
        }
        shown.push_str(url.host_str().unwrap_or_default());
        if let Some(port) = url.port() {
            shown.push_str(&format!(":{port}"));
        }
        shown.push_str(url.path());
        if url.query().is_some() || url.fragment().is_some() {
            shown.push_str("?…");
        }
        shown
    }

    /// Opens it, for the environment that is named by `POST_ONCE_ENVIRONMENT`.
    ///
    /// # Errors
    /// When it cannot be used; says why.
    pub(crate) async fn open(&self, how: Open) -> Result<Arc<dyn Journal>, Failed> {
        let environment = match std::env::var("POST_ONCE_ENVIRONMENT") {
            Ok(name) if !name.is_empty() => name,
            _ => "default".to_owned(),
        };
        self.open_for(environment, how).await
    }

    async fn open_for(&self, environment: String, how: Open) -> Result<Arc<dyn Journal>, Failed> {
        let failed = |error: &dyn std::error::Error| {
            let why =
                format!("the journal {} cannot be used: {}", self.shown(), with_causes(error));
            (Exit::Environment, why)
        };
        match self {
            Place::File(path) => {
                let journal = SqliteJournal::builder(path).environment(environment);
                let journal = match how {
                    Open::Existing => journal.existing(),
                    Open::OrMake => journal,
                };
                Ok(Arc::new(journal.open().await.map_err(|error| failed(&error))?))
            }
            Place::Database(url) => {
                let pool = PgPoolOptions::new().acquire_timeout(PATIENCE).connect_lazy(url);
                let pool = pool.map_err(|error| failed(&error))?;
                let journal = PostgresJournal::builder(pool).environment(environment);
                let journal = journal.writers(1).retry_for(PATIENCE);
                let journal = match how {
                    Open::Existing => journal.existing(),
                    Open::OrMake => journal,
                };
                Ok(Arc::new(journal.build().await.map_err(|error| failed(&error))?))
            }
        }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// A verb of an open journal failed.
pub(crate) fn failed(error: JournalError) -> Failed {
    (Exit::Environment, with_causes(&error))
}

/// The one operation that has this key, in this scope or in any.
///
/// # Errors
/// When there is none or more than one, or when the journal fails.
pub(crate) async fn by_key(
    journal: &dyn Journal,
    key: &str,
    scope: Option<&str>,
) -> Result<Record, Failed> {
    let mut rows = journal.by_key(key).await.map_err(failed)?;
    rows.retain(|row| scope.is_none_or(|scope| row.draft.scope == scope));
    let refused = |why: &str| Err((Exit::Refused, why.to_owned()));
    match rows.len() {
        0 => refused("the journal holds no operation with this key"),
        1 => Ok(rows.remove(0)),
        _ => refused("several operations have this key: say with --scope which of them"),
    }
}

/// Reads the rows of a journal page by page, in the order in which they were inserted.
pub(crate) struct Pages<'a> {
    journal: &'a dyn Journal,
    filter: List,
    done: bool,
}

impl<'a> Pages<'a> {
    /// Rows stored in one of these states, of this scope or of any.
    pub(crate) fn new(
        journal: &'a dyn Journal,
        states: Vec<State>,
        scope: Option<&str>,
    ) -> Pages<'a> {
        let mut filter = List::default();
        filter.states = states;
        filter.scope = scope.map(str::to_owned);
        filter.limit = PAGE;
        Pages { journal, filter, done: false }
    }

    /// The next rows; none at the end. A row that cannot be read is told of and passed by.
    ///
    /// # Errors
    /// When the journal fails.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<Record>>, Failed> {
        while !self.done {
            match self.journal.list(&self.filter).await {
                Ok(rows) => {
                    let Some(last) = rows.last() else { break };
                    self.filter.after = Some(last.row);
                    return Ok(Some(rows));
                }
                // What stands before it is still to be read.
                Err(JournalError::Corrupt { .. }) if self.filter.limit > 1 => {
                    self.filter.limit /= 2;
                }
                Err(error @ JournalError::Corrupt { row, .. }) => {
                    say(&format!("note: {error}"));
                    self.filter.after = Some(RowId(row));
                    self.filter.limit = PAGE;
                }
                Err(error) => return Err(failed(error)),
            }
        }
        self.done = true;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_url_of_postgres_or_a_path_and_shows_no_password() {
        for (text, shown) in [
            ("orders.journal", "orders.journal"),
            ("/var/x:y@z", "/var/x:y@z"),
            ("postgres://db/shop", "postgres://db/shop"),
            ("postgres://app@db:5433/shop", "postgres://app@db:5433/shop"),
            ("postgresql://app:s3cret@db/shop", "postgresql://app:…@db/shop"),
            ("postgres://:s3cret@db/shop", "postgres://:…@db/shop"),
            ("postgres://db/shop?password=s3cret", "postgres://db/shop?…"),
            ("postgres://a:s3cret@:x/", "postgres://…"),
        ] {
            let place = Place::parse(text).unwrap();
            assert_eq!(place.shown(), shown);
            assert_eq!(format!("{place:?}"), shown);
        }
        assert!(Place::parse("").is_err());
    }
}
