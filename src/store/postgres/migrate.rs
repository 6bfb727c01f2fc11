//! Migrations: they only add, and may be run twice and at once.

use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};

use super::retry::Database;
use super::{Schema, Trouble};

/// What has tables in a schema: a name of its own in the table of migrations, and its steps, of which
/// the first makes version 1. A step that was released is never changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Component {
    pub(crate) name: &'static str,
    pub(crate) steps: &'static [&'static str],
}

/// The oldest server with all that is used here: `gen_random_uuid()` came with 13.
const OLDEST: i32 = 130_000;

/// Brings the schema to the version of this program.
///
/// # Errors
/// When it is newer, when we may not change it, when the server is too old or of another encoding.
pub(crate) async fn migrate(
    database: &Database,
    schema: &Schema,
    component: Component,
) -> Result<(), Trouble> {
    let mut tries = database.tries();
    loop {
        let brought = async {
            let mut open = database.connect(tries.limit(), &mut Vec::new()).await?;
            bring(&mut open.conn, schema, component).await
        };
        match brought.await {
            Ok(outcome) => return outcome,
            Err(error) => tries.again(error).await?,
        }
    }
}

async fn bring(
    conn: &mut PgConnection,
    schema: &Schema,
    component: Component,
) -> Result<Result<(), Trouble>, sqlx::Error> {
    if let Err(trouble) = fits(conn).await? {
        return Ok(Err(trouble));
    }
    // Without a lock and without rights to change anything, when there is nothing to change.
    match current(conn, schema, component).await? {
        Some(version) if version >= component.steps.len() => {
            return Ok(known(version, schema, component));
        }
        _ => {}
    }
    let mut tx = conn.begin().await?;
    // Ends with the transaction. The number is the schema's, so that others do not wait for us.
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('post-once/' || $1, 0))")
        .bind(schema.name())
        .execute(&mut *tx)
        .await?;
    if current(&mut tx, schema, component).await?.is_none() {
        let table = schema.sql(TABLE);
        sqlx::raw_sql(AssertSqlSafe(table)).execute(&mut *tx).await?;
    }
    let done = current(&mut tx, schema, component).await?.unwrap_or_default();
    for (at, step) in component.steps.iter().enumerate().skip(done) {
        sqlx::raw_sql(AssertSqlSafe(schema.sql(step))).execute(&mut *tx).await?;
        let record =
            schema.sql("INSERT INTO {schema}.migration (component, version) VALUES ($1, $2)");
        let version = i32::try_from(at + 1).expect("there are few migrations");
        sqlx::query(AssertSqlSafe(record))
            .bind(component.name)
            .bind(version)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await?;
    Ok(known(done, schema, component))
}

const TABLE: &str = "
    CREATE SCHEMA IF NOT EXISTS {schema};
    CREATE TABLE IF NOT EXISTS {schema}.migration (
        component text NOT NULL,
        version integer NOT NULL,
        applied timestamptz NOT NULL DEFAULT clock_timestamp(),
        PRIMARY KEY (component, version)
    )";

/// The version of the component; `None` where there is not even the table of migrations.
async fn current(
    conn: &mut PgConnection,
    schema: &Schema,
    component: Component,
) -> Result<Option<usize>, sqlx::Error> {
    let exists = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables \
                  WHERE schemaname = $1 AND tablename = 'migration')";
    let exists = sqlx::query(exists).bind(schema.name()).fetch_one(&mut *conn).await?;
    if !exists.try_get::<bool, _>(0)? {
        return Ok(None);
    }
    let version =
        schema.sql("SELECT coalesce(max(version), 0) FROM {schema}.migration WHERE component = $1");
    let version =
        sqlx::query(AssertSqlSafe(version)).bind(component.name).fetch_one(&mut *conn).await?;
    Ok(Some(usize::try_from(version.try_get::<i32, _>(0)?).unwrap_or_default()))
}

fn known(version: usize, schema: &Schema, component: Component) -> Result<(), Trouble> {
    let ours = component.steps.len();
    if version <= ours {
        return Ok(());
    }
    Err(Trouble::Unusable(format!(
        "the {} in schema {:?} is of version {version}, and this program knows versions up to {ours}: \
         a newer program made it; update this one",
        component.name,
        schema.name(),
    )))
}

/// Whether the server has what we need.
async fn fits(conn: &mut PgConnection) -> Result<Result<(), Trouble>, sqlx::Error> {
    let asked = "SELECT current_setting('server_version_num')::integer, \
                 current_setting('server_version'), current_setting('server_encoding')";
    let row = sqlx::query(asked).fetch_one(conn).await?;
    let (number, version, encoding): (i32, String, String) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    Ok(if number < OLDEST {
        Err(Trouble::Unusable(format!("Postgres {version} is too old: take 13 or newer")))
    } else if encoding != "UTF8" {
        Err(Trouble::Unusable(format!(
            "the database is encoded in {encoding}: make one with ENCODING 'UTF8'"
        )))
    } else {
        Ok(())
    })
}
