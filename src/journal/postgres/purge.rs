//! Deleting what is old, in batches.

use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::Row;

use super::row::{self, columns, microseconds, now};
use super::{JournalError, PostgresJournal, Purge};
use crate::store::postgres::Statement;

/// The rows `o` that are closed and old.
macro_rules! old {
    () => {
        concat!(
            "o.state IN ('completed', 'abandoned') \
             AND o.updated <= ",
            now!(),
            " - $1 * interval '1 microsecond'"
        )
    };
}

/// From one row to another, so that the next batch need not read again what this one did.
const BODIES: &str = concat!(
    "WITH picked AS MATERIALIZED (SELECT o.id FROM {schema}.operation o WHERE ",
    old!(),
    " AND (o.body <> '' OR o.answer_body IS NOT NULL) AND o.id > $3 AND o.id <= $4 \
     ORDER BY o.id LIMIT $2 FOR UPDATE SKIP LOCKED) \
     UPDATE {schema}.operation o SET body = '', answer_body = NULL \
     FROM picked WHERE o.id = picked.id RETURNING o.id"
);

const NAMES: &str = concat!(
    "DELETE FROM {schema}.operation WHERE id IN (SELECT o.id FROM {schema}.operation o WHERE ",
    old!(),
    " ORDER BY o.id LIMIT $2 FOR UPDATE SKIP LOCKED) RETURNING id"
);

/// A fingerprint that follows from the body has to be written down before the body goes.
const BARE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM {schema}.operation o WHERE o.bare AND ",
    old!(),
    " LIMIT $2"
);
const DRESS: &str = "UPDATE {schema}.operation SET head = $2, bare = false WHERE id = $1";
const GIVE_UP: &str = "UPDATE {schema}.operation SET bare = false WHERE id = $1";

pub(super) async fn purge(
    journal: &PostgresJournal,
    older_than: Duration,
    what: Purge,
    limit: u32,
) -> Result<u64, JournalError> {
    let statement = |sql| {
        let statement = Statement::new(journal.schema.sql(sql));
        statement.with(microseconds(older_than)).with(i64::from(limit))
    };
    if what == Purge::Names {
        return Ok(journal.database.rows(&statement(NAMES)).await?.len() as u64);
    }
    dress(journal, statement(BARE)).await?;
    let from = journal.purged.load(Ordering::Relaxed);
    let bodies = |from: i64, to: i64| statement(BODIES).with(from).with(to);
    let mut rows = journal.database.rows(&bodies(from, i64::MAX)).await?;
    if rows.is_empty() && from > 0 {
        // The end: once more from the start, for what has become old meanwhile.
        rows = journal.database.rows(&bodies(0, from)).await?;
    }
    let ids = rows.iter().map(|row| row.try_get::<i64, _>(0));
    let ids = ids.collect::<Result<Vec<_>, _>>();
    let ids = ids.map_err(|error| JournalError::Failed(Box::new(error)))?;
    journal.purged.store(ids.iter().copied().max().unwrap_or_default(), Ordering::Relaxed);
    Ok(ids.len() as u64)
}

async fn dress(journal: &PostgresJournal, bare: Statement) -> Result<(), JournalError> {
    for row in journal.database.rows(&bare).await? {
        let dressed = match row::record(&row, 0) {
            Ok(record) => Statement::new(journal.schema.sql(DRESS))
                .with(record.row.0)
                .with(record.draft.head()),
            // Nothing follows from what cannot be read.
            Err(JournalError::Corrupt { row, .. }) => {
                Statement::new(journal.schema.sql(GIVE_UP)).with(row)
            }
            Err(error) => return Err(error),
        };
        journal.database.rows(&dressed).await?;
    }
    Ok(())
}
