//! Reading.

use std::time::Duration;

use sqlx::Row;
use sqlx::postgres::PgRow;

use super::claim::single;
use super::insert::NAMED;
use super::row::{self, age, columns};
use super::{Gauges, JournalError, List, PostgresJournal, Record};
use crate::journal::RowId;
use crate::store::postgres::Statement;

/// There is no index for it: keys are asked for by people.
const BY_KEY: &str =
    concat!("SELECT ", columns!(), " FROM {schema}.operation o WHERE o.key = $1 ORDER BY o.id");

const BY_ROW: &str = concat!("SELECT ", columns!(), " FROM {schema}.operation o WHERE o.id = $1");

const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM {schema}.operation o \
     WHERE o.id > $1 AND ($2::text[] = '{}' OR o.state = ANY ($2)) \
     AND ($3::text IS NULL OR o.scope = $3) ORDER BY o.id LIMIT $4"
);

/// Each row counts as what it is now, see `Record::state_now`.
const GAUGES: &str = concat!(
    "SELECT count(*) FILTER (WHERE s = 'pending'), count(*) FILTER (WHERE s = 'parked'), \
     count(*) FILTER (WHERE s = 'unknown'), count(*) FILTER (WHERE s = 'completed'), \
     count(*) FILTER (WHERE s = 'abandoned'), ",
    age!("min(o.created) FILTER (WHERE s IN ('pending', 'parked'))"),
    ", \
     min(left_us) FILTER (WHERE s IN ('pending', 'parked')) \
     FROM {schema}.operation o CROSS JOIN LATERAL (SELECT CASE WHEN o.state IN ('pending', 'parked') \
     AND o.first_send IS NOT NULL \
     THEN o.open_us - greatest(",
    age!("o.first_send"),
    ", 0) END) AS l(left_us) \
     CROSS JOIN LATERAL (SELECT CASE WHEN left_us <= 0 THEN 'unknown' ELSE o.state END) AS n(s)"
);

pub(super) async fn by_row(
    journal: &PostgresJournal,
    row: RowId,
) -> Result<Option<Record>, JournalError> {
    let found = single(journal, Statement::new(journal.schema.sql(BY_ROW)).with(row.0), None);
    found.await?.first().map(|row| row::record(row, 0)).transpose()
}

pub(super) async fn by_name(
    journal: &PostgresJournal,
    scope: &str,
    name: &str,
) -> Result<Option<Record>, JournalError> {
    if scope.contains('\0') || name.contains('\0') {
        return Ok(None);
    }
    let named = Statement::new(journal.schema.sql(NAMED)).with(vec![scope]).with(vec![name]);
    let rows = single(journal, named, None).await?;
    rows.first().map(|row| row::record(row, 1)).transpose()
}

pub(super) async fn by_key(
    journal: &PostgresJournal,
    key: &str,
) -> Result<Vec<Record>, JournalError> {
    if key.contains('\0') {
        return Ok(Vec::new());
    }
    read(journal, Statement::new(journal.schema.sql(BY_KEY)).with(key)).await
}

pub(super) async fn list(
    journal: &PostgresJournal,
    filter: &List,
) -> Result<Vec<Record>, JournalError> {
    if filter.scope.as_ref().is_some_and(|scope| scope.contains('\0')) {
        return Ok(Vec::new());
    }
    let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
    let list = Statement::new(journal.schema.sql(LIST))
        .with(filter.after.map_or(i64::MIN, |RowId(after)| after))
        .with(states)
        .with(filter.scope.as_deref())
        .with(i64::from(filter.limit));
    read(journal, list).await
}

async fn read(
    journal: &PostgresJournal,
    statement: Statement,
) -> Result<Vec<Record>, JournalError> {
    journal.database.rows(&statement).await?.iter().map(|row| row::record(row, 0)).collect()
}

pub(super) async fn gauges(journal: &PostgresJournal) -> Result<Gauges, JournalError> {
    let rows = journal.database.rows(&Statement::new(journal.schema.sql(GAUGES))).await?;
    let row = rows.first().ok_or(sqlx::Error::RowNotFound);
    row.and_then(count).map_err(|error| JournalError::Failed(Box::new(error)))
}

fn count(row: &PgRow) -> Result<Gauges, sqlx::Error> {
    let count = |at| row.try_get::<i64, _>(at).map(i64::unsigned_abs);
    let time = |at| {
        let time = row.try_get::<Option<i64>, _>(at)?;
        Ok::<_, sqlx::Error>(time.map(|time| Duration::from_micros(time.max(0).unsigned_abs())))
    };
    Ok(Gauges {
        pending: count(0)?,
        parked: count(1)?,
        unknown: count(2)?,
        completed: count(3)?,
        abandoned: count(4)?,
        oldest: time(5)?,
        closes_first: time(6)?,
    })
}
