//! Claims, and what a person decides.

use std::cmp::Reverse;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{Encode, Postgres, Row, Type};

use super::row::{self, age, ahead, columns, microseconds, now};
use super::write::{Answer, Verb, mark};
use super::{Claim, Decision, Due, Held, JournalError, PostgresJournal, Record, RowId, Token};
use crate::store::postgres::Statement;

/// What a claim does to its row.
macro_rules! claimed {
    ($lease_us:literal, $wrote:literal) => {
        concat!(
            "token = o.token + 1, state = 'pending', reason = NULL, claimed = true, \
             due = ",
            ahead!($lease_us),
            ", first_send = coalesce(o.first_send, ",
            now!(),
            "), \
             attempts = o.attempts + 1, lost = o.lost + 1, wrote = ",
            $wrote,
            ", \
             updated = ",
            now!()
        )
    };
}

const TAKE: &str = concat!(
    "UPDATE {schema}.operation o SET ",
    claimed!("$4::bigint", "$3"),
    " WHERE o.id = $1 AND o.token = $2 AND NOT (o.claimed AND o.due > ",
    now!(),
    ") RETURNING o.id"
);

const DUE: &str = concat!(
    "WITH picked AS MATERIALIZED (SELECT o.id, o.due FROM {schema}.operation o \
     WHERE o.state = 'pending' AND o.due <= ",
    ahead!("-$5::bigint"),
    " AND ($1::text[] = '{}' OR o.scope = ANY ($1)) \
     ORDER BY o.due LIMIT $2 FOR UPDATE SKIP LOCKED) \
     UPDATE {schema}.operation o SET ",
    claimed!("$4::bigint", "$3"),
    " FROM picked WHERE o.id = picked.id RETURNING ",
    age!("picked.due"),
    ", ",
    columns!()
);

const DECIDE: &str = concat!(
    "UPDATE {schema}.operation o SET token = o.token + 1, claimed = false, state = $4, \
     reason = NULL, due = ",
    now!(),
    ", lost = CASE WHEN $4 = 'pending' THEN 0 ELSE o.lost END, \
     wrote = $3, updated = ",
    now!(),
    " WHERE o.id = $1 AND o.token = $2 AND NOT (o.claimed AND o.due > ",
    now!(),
    ") RETURNING o.id"
);

/// What was written in an earlier try, and is the last that was.
const WRITTEN: &str =
    "SELECT o.id FROM {schema}.operation o WHERE o.id = $1 AND o.token = $2 + 1 AND o.wrote = $3";

pub(super) async fn take(
    journal: &PostgresJournal,
    row: RowId,
    seen: Token,
    lease: Duration,
) -> Result<Held<Claim>, JournalError> {
    let held = fenced(journal, TAKE, row, seen, microseconds(lease)).await?;
    Ok(if held { Held::Yes(Claim::new(row, Token(seen.0 + 1))) } else { Held::Lost })
}

pub(super) async fn decide(
    journal: &PostgresJournal,
    row: RowId,
    seen: Token,
    decision: Decision,
) -> Result<Held<()>, JournalError> {
    let state = match decision {
        Decision::Retry => "pending",
        Decision::Abandon => "abandoned",
        Decision::Unknown => "unknown",
        Decision::Completed => "completed",
    };
    Ok(if fenced(journal, DECIDE, row, seen, state).await? { Held::Yes(()) } else { Held::Lost })
}

/// A write on one row that was seen with this token.
async fn fenced<'q, T>(
    journal: &PostgresJournal,
    sql: &str,
    row: RowId,
    seen: Token,
    value: T,
) -> Result<bool, JournalError>
where
    T: Encode<'q, Postgres> + Type<Postgres>,
{
    let done = Statement::new(journal.schema.sql(WRITTEN)).with(row.0).with(seen.0).with(mark());
    let mut write = done.clone().with(value);
    write.sql = journal.schema.sql(sql);
    Ok(!single(journal, write, Some(done)).await?.is_empty())
}

/// Claims what is due. A row that cannot be read is claimed too, so that it is not in the way of the
/// others, and is an error only when it comes alone.
pub(super) async fn due(
    journal: &PostgresJournal,
    filter: &Due,
    lease: Duration,
) -> Result<Vec<(Claim, Record)>, JournalError> {
    let statement = Statement::new(journal.schema.sql(DUE))
        .with(&filter.scopes)
        .with(i64::from(filter.limit))
        .with(mark())
        .with(microseconds(lease))
        .with(microseconds(filter.since));
    let (mut claimed, mut unreadable) = (Vec::new(), None);
    for row in single(journal, statement, None).await? {
        let overdue: i64 = row.try_get(0).map_err(|error| JournalError::Failed(Box::new(error)))?;
        match row::record(&row, 1) {
            Ok(record) => claimed.push((overdue, record)),
            Err(error) => unreadable = Some(error),
        }
    }
    claimed.sort_by_key(|(overdue, record)| (Reverse(*overdue), record.row));
    match unreadable {
        Some(error) if claimed.is_empty() => Err(error),
        _ => Ok(claimed
            .into_iter()
            .map(|(_, record)| (Claim::new(record.row, record.token), record))
            .collect()),
    }
}

/// A statement on a writer's connection.
pub(super) async fn single(
    journal: &PostgresJournal,
    statement: Statement,
    done: Option<Statement>,
) -> Result<Vec<PgRow>, JournalError> {
    match journal.lanes.ask(Verb::Single { statement, done }).await? {
        Answer::Rows(rows) => Ok(rows),
        Answer::Inserted(_) | Answer::Held(_) => unreachable!("a statement is answered by rows"),
    }
}
