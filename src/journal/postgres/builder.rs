//! Opening the journal in PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use sqlx::{PgPool, Row};

use super::write::Writes;
use super::{PostgresJournal, enqueue};
use crate::journal::JournalError;
use crate::store::postgres::{Component, Database, Lanes, Schema, Statement, Trouble, migrate};

const STEPS: Component = Component {
    name: "journal",
    steps: &[include_str!("migrations/1_operation.sql"), enqueue::FUNCTION],
};

const DEFAULT_SCHEMA: &str = "post_once";
const DEFAULT_ENVIRONMENT: &str = "default";
const DEFAULT_WRITERS: usize = 2;
const MOST_WRITERS: usize = 32;
const DEFAULT_RETRY_FOR: Duration = Duration::from_secs(30);

/// The settings of a [`PostgresJournal`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct PostgresJournalBuilder {
    pool: PgPool,
    schema: String,
    environment: String,
    writers: usize,
    retry_for: Duration,
    existing: bool,
}

impl PostgresJournalBuilder {
    pub(super) fn new(pool: PgPool) -> PostgresJournalBuilder {
        PostgresJournalBuilder {
            pool,
            schema: DEFAULT_SCHEMA.to_owned(),
            environment: DEFAULT_ENVIRONMENT.to_owned(),
            writers: DEFAULT_WRITERS,
            retry_for: DEFAULT_RETRY_FOR,
            existing: false,
        }
    }

    /// The schema that the tables are in, made when it is not there. ASCII letters, digits and
    /// underscores; `post_once` unless given.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// The environment that the journal belongs to: written down when it is made, and compared ever
    /// after, so that a restored copy does not send. `default` unless given.
    pub fn environment(mut self, name: impl Into<String>) -> Self {
        self.environment = name.into();
        self
    }

    /// How many connections write, from 1 to 32; 2 unless given. Few make large groups.
    pub fn writers(mut self, count: usize) -> Self {
        self.writers = count;
        self
    }

    /// How long a verb waits for a server that is away, 30 s unless given. One that was queued behind
    /// another may wait twice as long.
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Only opens a journal that is there: one that is not is an error, and is not made.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Opens the journal, and makes or migrates its tables where that is needed.
    ///
    /// # Errors
    /// When the server cannot be reached or used, when the schema is of a newer program or of another
    /// environment, when it has to be changed and may not be, and on settings out of range.
    pub async fn build(self) -> Result<PostgresJournal, JournalError> {
        if !(1..=MOST_WRITERS).contains(&self.writers) {
            let count = self.writers;
            return Err(JournalError::Unusable(format!(
                "{count} writers: take 1 to {MOST_WRITERS}"
            )));
        }
        if self.environment.is_empty() || self.environment.contains('\0') {
            return Err(JournalError::Unusable("an environment has a name: give one".to_owned()));
        }
        let schema = Schema::parse(&self.schema)?;
        let database = Database::new(self.pool, self.retry_for);
        if self.existing {
            is_there(&database, &schema).await?;
        }
        migrate(&database, &schema, STEPS).await.map_err(opening)?;
        let highest = belongs(&database, &schema, &self.environment).await?;
        let lanes = Lanes::start(Writes::new(&schema, highest), database.clone(), self.writers);
        Ok(PostgresJournal { schema, database, lanes, purged: Arc::new(AtomicI64::new(0)) })
    }
}

/// While a journal is opened no verb is in doubt.
fn opening(trouble: Trouble) -> JournalError {
    match trouble {
        Trouble::Unusable(what) => JournalError::Unusable(what),
        Trouble::Failed(error) | Trouble::InDoubt(error) => {
            JournalError::Unusable(format!("the journal cannot be opened: {error}"))
        }
    }
}

/// Checks that there is a journal, of whatever version.
async fn is_there(database: &Database, schema: &Schema) -> Result<(), JournalError> {
    let table = schema.sql("SELECT 1 WHERE to_regclass('{schema}.operation') IS NOT NULL");
    if database.rows(&Statement::new(table)).await.map_err(opening)?.is_empty() {
        let name = schema.name();
        return Err(JournalError::Unusable(format!(
            "the database holds no journal in schema {name:?}"
        )));
    }
    Ok(())
}

/// Binds a new journal to the environment, or compares. Returns its highest row.
async fn belongs(
    database: &Database,
    schema: &Schema,
    environment: &str,
) -> Result<i64, JournalError> {
    let read = Statement::new(schema.sql(
        "SELECT name, (SELECT coalesce(max(id), 0) FROM {schema}.operation) FROM {schema}.environment",
    ));
    let bind = "INSERT INTO {schema}.environment (name) VALUES ($1) ON CONFLICT DO NOTHING";
    let bind = Statement::new(schema.sql(bind)).with(environment);
    // One that is bound already is not written to, for it may be read-only.
    let mut rows = database.rows(&read).await.map_err(opening)?;
    if rows.is_empty() {
        database.rows(&bind).await.map_err(opening)?;
        rows = database.rows(&read).await.map_err(opening)?;
    }
    let failed = |error: sqlx::Error| JournalError::Failed(Box::new(error));
    let row = rows.first().ok_or_else(|| failed(sqlx::Error::RowNotFound))?;
    let bound: String = row.try_get(0).map_err(failed)?;
    if bound == environment {
        return row.try_get(1).map_err(failed);
    }
    Err(JournalError::Unusable(format!(
        "the journal in schema {:?} belongs to environment {bound:?} and was opened for \
         {environment:?}: open it for its own, or take another database; a copy must not send",
        schema.name(),
    )))
}
