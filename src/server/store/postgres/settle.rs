//! Reading, what a person decides, and the sweep.

use std::sync::atomic::{AtomicI64, Ordering};

use sqlx::Row as _;

use super::row::{self, columns, dead, forgotten};
use super::write::{Answer, Verb, Written};
use super::{PostgresClaims, fits, is_storable};
use crate::server::store::{ClaimError, Decision, Held, Holder, Name, Row, Token};
use crate::store::postgres::{Statement, Trouble, ahead, now};

const LOOK: &str =
    concat!("SELECT ", columns!(), " FROM {schema}.claim o WHERE o.principal = $1 AND o.key = $2");

/// Those that wait for a person. Its first line is the predicate of an index; the number there is that of
/// the rule.
const LIST: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM {schema}.claim o \
     WHERE o.status IS NULL AND (o.point_name IS NOT NULL OR o.runs >= 20) AND ",
    dead!(),
    " AND (o.point_unconfirmed OR o.runs >= 20 OR o.expires_at <= ",
    now!(),
    ") AND NOT ",
    forgotten!(),
    " AND ($1::text IS NULL OR (o.principal, o.key) > ($1, $2)) \
     ORDER BY o.principal, o.key LIMIT $3"
);

/// A row that nobody works on, as it was seen; and that nobody is writing.
macro_rules! seen_dead {
    () => {
        concat!(
            "WITH picked AS MATERIALIZED (SELECT o.principal, o.key FROM {schema}.claim o \
             WHERE o.principal = $1 AND o.key = $2 AND o.token = $3 AND ",
            dead!(),
            " FOR UPDATE SKIP LOCKED) "
        )
    };
}

/// Whoever was late must not write any more: the token is another one.
const RUN_AGAIN: &str = concat!(
    seen_dead!(),
    "UPDATE {schema}.claim o SET token = $4, runs = 0, point_unconfirmed = false \
     FROM picked p WHERE o.principal = p.principal AND o.key = p.key RETURNING 1"
);

const ANSWER: &str = concat!(
    seen_dead!(),
    "UPDATE {schema}.claim o SET token = $4, expires_at = ",
    ahead!("$5::bigint"),
    ", status = $6, header_lines = $7, body = $8 \
     FROM picked p WHERE o.principal = p.principal AND o.key = p.key RETURNING 1"
);

const FORGET: &str = concat!(
    seen_dead!(),
    "DELETE FROM {schema}.claim o USING picked p \
     WHERE o.principal = p.principal AND o.key = p.key RETURNING 1"
);

/// An earlier try did it.
const DECIDED: &str =
    "SELECT 1 FROM {schema}.claim o WHERE o.principal = $1 AND o.key = $2 AND o.token = $3";
const GONE: &str = "SELECT 1 WHERE NOT EXISTS \
    (SELECT FROM {schema}.claim o WHERE o.principal = $1 AND o.key = $2)";

/// From the time on at which the last batch ended, in microseconds: the index still has what was deleted
/// before it for as long as anybody has an old snapshot.
const SWEEP: &str = concat!(
    "WITH picked AS MATERIALIZED (SELECT o.principal, o.key, o.expires_at FROM {schema}.claim o WHERE ",
    forgotten!(),
    " AND o.expires_at >= timestamptz 'epoch' + $2 * interval '1 microsecond' \
     ORDER BY o.expires_at LIMIT $1 FOR UPDATE SKIP LOCKED) \
     DELETE FROM {schema}.claim o USING picked p \
     WHERE o.principal = p.principal AND o.key = p.key \
     RETURNING (date_part('epoch', p.expires_at) * 1000000)::bigint"
);

pub(super) async fn look(claims: &PostgresClaims, name: &Name) -> Result<Option<Row>, ClaimError> {
    if !is_storable([&*name.principal, &name.key]) {
        return Ok(None);
    }
    let look = Statement::new(claims.schema.sql(LOOK)).with(&*name.principal).with(&*name.key);
    let rows = single(claims, look, None).await?;
    rows.first().map(row::row).transpose()
}

pub(super) async fn list(
    claims: &PostgresClaims,
    after: Option<&Name>,
    limit: u32,
) -> Result<Vec<Row>, ClaimError> {
    if let Some(after) = after {
        fits([&after.principal, &after.key])?;
    }
    let list = Statement::new(claims.schema.sql(LIST))
        .with(after.map(|name| &*name.principal))
        .with(after.map(|name| &*name.key))
        .with(i64::from(limit));
    claims.database.rows(&list).await?.iter().map(row::row).collect()
}

pub(super) async fn settle(
    claims: &PostgresClaims,
    seen: &Holder,
    decision: &Decision,
) -> Result<Held<()>, ClaimError> {
    let Holder { name, token } = seen;
    fits([&name.principal, &name.key])?;
    let named = |sql| {
        let statement = Statement::new(claims.schema.sql(sql));
        statement.with(&*name.principal).with(&*name.key)
    };
    let settled = Token::mint().0;
    let (statement, done) = match decision {
        Decision::RunAgain => {
            (named(RUN_AGAIN).with(token.0).with(settled), named(DECIDED).with(settled))
        }
        Decision::Answer(answer, retention) => {
            let Written { status, lines, body, retention } = Written::new(answer, *retention);
            let statement = named(ANSWER).with(token.0).with(settled).with(retention).with(status);
            (statement.with(lines).with(body.as_deref()), named(DECIDED).with(settled))
        }
        Decision::Forget => (named(FORGET).with(token.0), named(GONE)),
    };
    let rows = single(claims, statement, Some(done)).await?;
    Ok(if rows.is_empty() { Held::Lost } else { Held::Yes(()) })
}

pub(super) async fn sweep(
    claims: &PostgresClaims,
    swept: &AtomicI64,
    limit: u32,
) -> Result<u64, ClaimError> {
    let mut sum = 0;
    for left in (1..=limit).rev().step_by(BATCH as usize) {
        let batch = left.min(BATCH);
        let deleted = sweep_batch(claims, swept, batch).await?;
        sum += deleted;
        if deleted < u64::from(batch) {
            break;
        }
    }
    Ok(sum)
}

/// So many rows at a time, for a writer does nothing else meanwhile. It is a writer, since whatever the
/// planner believes its connection goes by the index.
const BATCH: u32 = 500;

async fn sweep_batch(
    claims: &PostgresClaims,
    swept: &AtomicI64,
    limit: u32,
) -> Result<u64, ClaimError> {
    let from = swept.load(Ordering::Relaxed);
    let batch = |from: i64| {
        let sweep = Statement::new(claims.schema.sql(SWEEP));
        single(claims, sweep.with(i64::from(limit)).with(from), None)
    };
    let mut rows = batch(from).await?;
    if rows.is_empty() && from > 0 {
        // The end: once more from the start, for what was left alone because somebody had it.
        rows = batch(0).await?;
    }
    let ends = rows.iter().map(|row| row.try_get::<i64, _>(0));
    let ends = ends.collect::<Result<Vec<_>, _>>();
    let ends = ends.map_err(|error| ClaimError::Failed(error.into()))?;
    swept.store(ends.iter().copied().max().unwrap_or_default(), Ordering::Relaxed);
    Ok(ends.len() as u64)
}

/// A statement on a writer's connection.
async fn single(
    claims: &PostgresClaims,
    statement: Statement,
    done: Option<Statement>,
) -> Result<Vec<sqlx::postgres::PgRow>, Trouble> {
    match claims.lanes.ask(Verb::Single { statement, done }).await? {
        Answer::Rows(rows) => Ok(rows),
        Answer::Claimed(_) | Answer::Wrote(_) => unreachable!("a statement is answered by rows"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::claim::MOST_RUNS;

    #[test]
    fn the_list_and_its_index_know_the_number_of_the_rule() {
        let runs = format!("runs >= {MOST_RUNS}");
        assert_eq!(LIST.matches(&runs).count(), LIST.matches("runs >=").count());
        assert!(LIST.contains(&runs) && include_str!("migrations/1_claim.sql").contains(&runs));
    }
}
