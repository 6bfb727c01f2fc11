//! Claiming in groups: what has no row gets one, and the others are judged by theirs.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::row::{self, Stored, dead, forgotten, seen};
use super::write::{Answer, Verb, Writes};
use crate::server::claim::{Verdict, claim};
use crate::server::store::{Ask, ClaimError, Claimed};
use crate::store::postgres::{ahead, microseconds, now};

/// A row that changes under our eyes is looked at so often. Then somebody works on it, whoever it is.
const MOST_LOOKS: u32 = 4;

/// What such a one has left of its lease, as far as we can tell.
const SOON: Duration = Duration::from_millis(100);

/// Inserts what has no row, and reads the rows of the others.
///
/// What has a row is not inserted, not even to be told so: an insert would wait for the transaction that
/// is just completing that row, and with it the group. A row that came after the statement began is
/// neither inserted nor seen: the next look sees it.
pub(super) const CLAIM: &str = concat!(
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], \
     $5::bigint[], $6::bigint[]) AS v(principal, key, fingerprint, token, lease_us, retention_us)), \
     made AS (INSERT INTO {schema}.claim AS o \
     (principal, key, fingerprint, token, locked_until, expires_at, created_at) \
     SELECT v.principal, v.key, v.fingerprint, v.token, ",
    ahead!("v.lease_us"),
    ", ",
    ahead!("v.retention_us"),
    ", ",
    now!(),
    " FROM v WHERE NOT EXISTS (SELECT FROM {schema}.claim o \
     WHERE o.principal = v.principal AND o.key = v.key) \
     ON CONFLICT DO NOTHING RETURNING o.token AS asked, ",
    seen!(),
    ", o.header_lines, o.body) \
     SELECT * FROM made UNION ALL SELECT v.token, ",
    seen!(),
    ", CASE WHEN o.fingerprint = v.fingerprint THEN o.header_lines END, \
     CASE WHEN o.fingerprint = v.fingerprint THEN o.body END \
     FROM v JOIN {schema}.claim o ON o.principal = v.principal AND o.key = v.key"
);

/// Takes rows over, or begins them anew: if they are still as they were seen. One that somebody writes at
/// this moment is left alone.
pub(super) const TAKE: &str = concat!(
    "WITH v AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], \
     $5::bigint[], $6::bigint[], $7::bigint[], $8::boolean[]) \
     AS v(principal, key, fingerprint, token, lease_us, retention_us, seen, fresh)), \
     picked AS MATERIALIZED (SELECT v.* FROM v JOIN {schema}.claim o \
     ON o.principal = v.principal AND o.key = v.key WHERE o.token = v.seen \
     AND CASE WHEN v.fresh THEN ",
    forgotten!(),
    " ELSE ",
    dead!(),
    " AND NOT o.point_unconfirmed END FOR UPDATE OF o SKIP LOCKED) \
     UPDATE {schema}.claim o SET token = p.token, fingerprint = p.fingerprint, locked_until = ",
    ahead!("p.lease_us"),
    ", expires_at = CASE WHEN p.fresh THEN ",
    ahead!("p.retention_us"),
    " ELSE o.expires_at END, created_at = CASE WHEN p.fresh THEN ",
    now!(),
    " ELSE o.created_at END, runs = CASE WHEN p.fresh THEN 1 ELSE o.runs + 1 END, \
     point_name = CASE WHEN NOT p.fresh THEN o.point_name END, \
     point_data = CASE WHEN NOT p.fresh THEN o.point_data END, \
     point_unconfirmed = o.point_unconfirmed AND NOT p.fresh, \
     status = NULL, header_lines = NULL, body = NULL \
     FROM picked p WHERE o.principal = p.principal AND o.key = p.key \
     RETURNING o.token, o.runs, o.point_name, o.point_data, o.point_unconfirmed"
);

/// What a row says to a claim.
enum Step {
    /// This.
    Is(Claimed),
    /// That it is to be had.
    Take(Take),
}

/// A row to take, seen with this token.
struct Take {
    seen: i64,
    fresh: bool,
}

impl Writes {
    /// However often it is sent, it comes to the same: a row that has our token is ours.
    pub(super) async fn claim(
        &self,
        conn: &mut PgConnection,
        group: &[Verb],
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let mut open: Vec<_> = group
            .iter()
            .enumerate()
            .filter_map(|(at, verb)| match verb {
                Verb::Claim(ask) => Some((at, ask)),
                _ => None,
            })
            .collect();
        // Whoever waits for a rival's insert has inserted only lower names.
        open.sort_by(|(_, one), (_, other)| one.holder.name.cmp(&other.holder.name));
        let mut answers: Vec<_> = group.iter().map(|_| None).collect();
        for _ in 0..MOST_LOOKS {
            let asks: Vec<_> = open.iter().map(|(_, ask)| *ask).collect();
            let rows = bound(&self.claim, &asks).fetch_all(&mut *conn).await?;
            let rows = by_token(&rows)?;
            let mut takes = Vec::new();
            open.retain(|(at, ask)| {
                match rows.get(&ask.holder.token.0).map(|row| step(ask, row)) {
                    None => true,
                    Some(Ok(Step::Take(take))) => {
                        takes.push((*ask, take));
                        true
                    }
                    Some(Ok(Step::Is(claimed))) => {
                        answers[*at] = Some(Ok(claimed));
                        false
                    }
                    Some(Err(error)) => {
                        answers[*at] = Some(Err(error));
                        false
                    }
                }
            });
            if !takes.is_empty() {
                let mut taken = self.take(conn, &takes).await?;
                open.retain(|(at, ask)| match taken.remove(&ask.holder.token.0) {
                    Some(won) => {
                        answers[*at] = Some(Ok(won));
                        false
                    }
                    None => true,
                });
            }
            if open.is_empty() {
                break;
            }
        }
        let in_doubt = || Ok(Claimed::InProgress { lease_left: SOON });
        Ok(answers
            .into_iter()
            .map(|found| Answer::Claimed(found.unwrap_or_else(in_doubt)))
            .collect())
    }

    /// Those that were taken, by their new tokens.
    async fn take(
        &self,
        conn: &mut PgConnection,
        takes: &[(&Ask, Take)],
    ) -> Result<HashMap<i64, Claimed>, sqlx::Error> {
        let asks: Vec<_> = takes.iter().map(|(ask, _)| *ask).collect();
        let rows = bound(&self.take, &asks)
            .bind(takes.iter().map(|(_, take)| take.seen).collect::<Vec<_>>())
            .bind(takes.iter().map(|(_, take)| take.fresh).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        let won = |row: &PgRow| {
            let run: i32 = row.try_get(1)?;
            let won = Claimed::Won { run: run.unsigned_abs(), point: row::point(row, 2)? };
            Ok((row.try_get(0)?, won))
        };
        rows.iter().map(won).collect()
    }
}

/// A statement, with what both of them are told of the claims.
fn bound<'q>(
    sql: &Arc<str>,
    asks: &[&Ask],
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let asks = || asks.iter().copied();
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
        .bind(asks().map(|ask| &*ask.holder.name.principal).collect::<Vec<_>>())
        .bind(asks().map(|ask| &*ask.holder.name.key).collect::<Vec<_>>())
        .bind(asks().map(|ask| ask.fingerprint.to_string()).collect::<Vec<_>>())
        .bind(asks().map(|ask| ask.holder.token.0).collect::<Vec<_>>())
        .bind(asks().map(|ask| microseconds(ask.lease)).collect::<Vec<_>>())
        .bind(asks().map(|ask| microseconds(ask.retention)).collect::<Vec<_>>())
}

fn by_token(rows: &[PgRow]) -> Result<HashMap<i64, &PgRow>, sqlx::Error> {
    rows.iter().map(|row| Ok((row.try_get(0)?, row))).collect()
}

fn step(ask: &Ask, row: &PgRow) -> Result<Step, ClaimError> {
    let key = &ask.holder.name.key;
    let Stored { token, seen, answer } = row::stored(row, 1, key)?;
    if token == ask.holder.token && !seen.answered {
        return Ok(Step::Is(Claimed::Won { run: seen.runs, point: seen.point }));
    }
    Ok(match claim(Some(&seen), &ask.fingerprint) {
        Verdict::Fresh => Step::Take(Take { seen: token.0, fresh: true }),
        Verdict::TakeOver => Step::Take(Take { seen: token.0, fresh: false }),
        Verdict::Mismatch => Step::Is(Claimed::Mismatch),
        Verdict::InProgress { lease_left } => Step::Is(Claimed::InProgress { lease_left }),
        Verdict::Reconcile => Step::Is(Claimed::Reconcile),
        Verdict::Replay => match answer {
            Some(answer) => Step::Is(Claimed::Answered(answer)),
            None => {
                let what = "it has a status and no header lines".to_owned();
                return Err(ClaimError::Corrupt { key: key.clone(), what });
            }
        },
    })
}
