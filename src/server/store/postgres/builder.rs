//! Opening the keys in PostgreSQL.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use sqlx::PgPool;

use super::PostgresClaims;
use super::write::Writes;
use crate::server::store::ClaimError;
use crate::store::postgres::{Component, Database, Lanes, Schema, Statement, Trouble, migrate};

const STEPS: Component =
    Component { name: "claims", steps: &[include_str!("migrations/1_claim.sql")] };

const DEFAULT_SCHEMA: &str = "post_once";
const DEFAULT_WRITERS: usize = 2;
const MOST_WRITERS: usize = 32;
const DEFAULT_RETRY_FOR: Duration = Duration::from_secs(2);

/// The settings of [`PostgresClaims`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct PostgresClaimsBuilder {
    pool: PgPool,
    schema: String,
    writers: usize,
    retry_for: Duration,
    existing: bool,
}

impl PostgresClaimsBuilder {
    pub(super) fn new(pool: PgPool) -> PostgresClaimsBuilder {
        PostgresClaimsBuilder {
            pool,
            schema: DEFAULT_SCHEMA.to_owned(),
            writers: DEFAULT_WRITERS,
            retry_for: DEFAULT_RETRY_FOR,
            existing: false,
        }
    }

    /// The schema that the table is in, made when it is not there. ASCII letters, digits and underscores;
    /// `post_once` unless given. A journal may live in the same one.
    pub fn schema(mut self, name: impl Into<String>) -> Self {
        self.schema = name.into();
        self
    }

    /// How many connections write, from 1 to 32; 2 unless given. Few make large groups.
    pub fn writers(mut self, count: usize) -> Self {
        self.writers = count;
        self
    }

    /// How long a verb waits for a server that is away, 2 s unless given: somebody waits for its answer,
    /// and can be told to come back. One that was queued behind another may wait twice as long.
    pub fn retry_for(mut self, time: Duration) -> Self {
        self.retry_for = time;
        self
    }

    /// Only opens what is there: a schema without keys is an error, and gets none.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Opens the keys, and makes or migrates their table where that is needed.
    ///
    /// # Errors
    /// When the server cannot be reached or used, when the schema is of a newer program, when it has to be
    /// changed and may not be, and on settings out of range.
    pub async fn build(self) -> Result<PostgresClaims, ClaimError> {
        if !(1..=MOST_WRITERS).contains(&self.writers) {
            let count = self.writers;
            return Err(ClaimError::Unusable(format!("{count} writers: take 1 to {MOST_WRITERS}")));
        }
        let schema = Schema::parse(&self.schema)?;
        let database = Database::new(self.pool.clone(), self.retry_for);
        if self.existing {
            is_there(&database, &schema).await?;
        }
        migrate(&database, &schema, STEPS).await.map_err(opening)?;
        let lanes = Lanes::start(Writes::new(&schema), database.clone(), self.writers);
        let complete_in = schema.sql(super::write::COMPLETE_IN);
        Ok(PostgresClaims {
            pool: self.pool,
            retry_for: self.retry_for,
            schema,
            database,
            lanes,
            complete_in,
            swept: Arc::new(AtomicI64::new(0)),
        })
    }
}

/// While it is opened no verb is in doubt.
fn opening(trouble: Trouble) -> ClaimError {
    match trouble {
        Trouble::Unusable(what) => ClaimError::Unusable(what),
        Trouble::Failed(error) | Trouble::InDoubt(error) => {
            ClaimError::Unusable(format!("the store of keys cannot be opened: {error}"))
        }
    }
}

/// Checks that there is a table, of whatever version.
async fn is_there(database: &Database, schema: &Schema) -> Result<(), ClaimError> {
    let table = schema.sql("SELECT 1 WHERE to_regclass('{schema}.claim') IS NOT NULL");
    if database.rows(&Statement::new(table)).await.map_err(opening)?.is_empty() {
        let name = schema.name();
        return Err(ClaimError::Unusable(format!("the database holds no keys in schema {name:?}")));
    }
    Ok(())
}
