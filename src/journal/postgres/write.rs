//! Writes in groups: one statement for up to 256 verbs of a kind.
//!
//! Groups come sorted by what they lock, and the connections join row by row (see
//! `store/postgres/retry.rs`), so that two groups lock what they share in the same order.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::insert::{BORN, INSERT, Insert, NAMED};
use super::row::{ahead, microseconds, now};
use crate::journal::{Claim, Inserted, JournalError, Outcome, StoredAnswer, To, Trail};
use crate::store::postgres::{Schema, Statement, Work};

/// What a writer is asked for.
pub(super) enum Verb {
    Insert(Insert),
    Attempt {
        claim: Claim,
        trail: Trail,
    },
    Renew {
        claim: Claim,
        lease: Duration,
    },
    Finish {
        claim: Claim,
        outcome: Outcome,
        wrote: i64,
    },
    /// A statement by itself. `done` finds what it did in an earlier try.
    Single {
        statement: Statement,
        done: Option<Statement>,
    },
}

/// What comes of it.
pub(super) enum Answer {
    Inserted(Result<Inserted, JournalError>),
    Held(bool),
    Rows(Vec<PgRow>),
}

/// A random number that tells one write from another.
pub(super) fn mark() -> i64 {
    rand::random()
}

/// The statements, in one schema.
pub(super) struct Writes {
    pub(super) insert: Arc<str>,
    pub(super) born: Arc<str>,
    pub(super) named: Arc<str>,
    attempt: Arc<str>,
    renew: Arc<str>,
    finish: Arc<str>,
    finished: Arc<str>,
    /// The highest row that we have inserted.
    pub(super) highest: AtomicI64,
}

/// The attempts are those of the trail and the one that begins, so that a second try comes to the same.
const ATTEMPT: &str = concat!(
    "UPDATE {schema}.operation o SET trail = v.trail, sent = v.sent, \
     attempts = v.recorded + 1, lost = 1, \
     first_send = coalesce(CASE WHEN v.sent THEN o.first_send END, ",
    now!(),
    "), \
     updated = ",
    now!(),
    " FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::boolean[], $5::integer[]) \
     AS v(id, token, trail, sent, recorded) \
     WHERE o.id = v.id AND o.token = v.token RETURNING o.id, o.token"
);

const RENEW: &str = concat!(
    "UPDATE {schema}.operation o SET claimed = true, due = ",
    ahead!("v.lease_us"),
    ", updated = ",
    now!(),
    " FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v(id, token, lease_us) \
     WHERE o.id = v.id AND o.token = v.token RETURNING o.id, o.token"
);

const FINISH: &str = concat!(
    "UPDATE {schema}.operation o SET token = o.token + 1, claimed = false, \
     state = v.state, reason = v.reason, due = ",
    ahead!("v.wait_us"),
    ", \
     first_send = CASE WHEN v.sent THEN o.first_send END, trail = v.trail, sent = v.sent, \
     attempts = v.recorded, lost = (o.lost - 1) * v.released, \
     answer_status = CASE WHEN v.head IS NULL THEN o.answer_status ELSE v.status END, \
     answer_body = CASE WHEN v.head IS NULL THEN o.answer_body ELSE v.body END, \
     answer_head = coalesce(v.head, o.answer_head), wrote = v.wrote, updated = ",
    now!(),
    " FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], \
     $7::boolean[], $8::integer[], $9::integer[], $10::text[], $11::bytea[], $12::bigint[], \
     $13::integer[]) AS v(id, token, state, reason, wait_us, trail, sent, released, status, head, \
     body, wrote, recorded) \
     WHERE o.id = v.id AND o.token = v.token RETURNING o.id, o.wrote"
);

/// What was ended in an earlier try.
const FINISHED: &str = "SELECT o.id, o.wrote FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) \
    AS v(id, token, wrote) JOIN {schema}.operation o ON o.id = v.id \
    WHERE o.token = v.token + 1 AND o.wrote = v.wrote";

impl Writes {
    /// `highest`: a row that is there already, as high as it is known.
    pub(super) fn new(schema: &Schema, highest: i64) -> Writes {
        Writes {
            insert: schema.sql(INSERT),
            born: schema.sql(BORN),
            named: schema.sql(NAMED),
            attempt: schema.sql(ATTEMPT),
            renew: schema.sql(RENEW),
            finish: schema.sql(FINISH),
            finished: schema.sql(FINISHED),
            highest: AtomicI64::new(highest),
        }
    }

    async fn attempt(
        &self,
        conn: &mut PgConnection,
        group: &[Verb],
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let mut rows: Vec<_> = group
            .iter()
            .filter_map(|verb| match verb {
                Verb::Attempt { claim, trail } => Some((claim, trail)),
                _ => None,
            })
            .collect();
        rows.sort_unstable_by_key(|(claim, _)| claim.row);
        let held = sqlx::query(AssertSqlSafe(Arc::clone(&self.attempt)))
            .bind(rows.iter().map(|(claim, _)| claim.row.0).collect::<Vec<_>>())
            .bind(rows.iter().map(|(claim, _)| claim.token.0).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, trail)| trail.write()).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, trail)| trail.sent).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, trail)| recorded(trail)).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        held_by_token(group, &held)
    }

    async fn renew(
        &self,
        conn: &mut PgConnection,
        group: &[Verb],
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let mut rows: Vec<_> = group
            .iter()
            .filter_map(|verb| match verb {
                Verb::Renew { claim, lease } => Some((claim, microseconds(*lease))),
                _ => None,
            })
            .collect();
        rows.sort_unstable_by_key(|(claim, _)| claim.row);
        let held = sqlx::query(AssertSqlSafe(Arc::clone(&self.renew)))
            .bind(rows.iter().map(|(claim, _)| claim.row.0).collect::<Vec<_>>())
            .bind(rows.iter().map(|(claim, _)| claim.token.0).collect::<Vec<_>>())
            .bind(rows.iter().map(|(_, lease)| *lease).collect::<Vec<_>>())
            .fetch_all(conn)
            .await?;
        held_by_token(group, &held)
    }

    async fn finish(
        &self,
        conn: &mut PgConnection,
        group: &[Verb],
        again: bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let mut rows: Vec<_> = group.iter().filter_map(Ending::of).collect();
        rows.sort_unstable_by_key(|row| row.claim.row);
        let ids: Vec<_> = rows.iter().map(|row| row.claim.row.0).collect();
        let tokens: Vec<_> = rows.iter().map(|row| row.claim.token.0).collect();
        let marks: Vec<_> = rows.iter().map(|row| row.wrote).collect();
        let mut written = HashSet::with_capacity(rows.len());
        let finish = sqlx::query(AssertSqlSafe(Arc::clone(&self.finish)))
            .bind(&ids)
            .bind(&tokens)
            .bind(rows.iter().map(|row| row.state).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.reason).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.wait).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.trail.write()).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.trail.sent).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.released).collect::<Vec<_>>())
            .bind(
                rows.iter().map(|row| row.answer.map(|a| i32::from(a.status))).collect::<Vec<_>>(),
            )
            .bind(rows.iter().map(|row| row.answer.map(StoredAnswer::head)).collect::<Vec<_>>())
            .bind(rows.iter().map(|row| row.answer_body()).collect::<Vec<_>>())
            .bind(&marks)
            .bind(rows.iter().map(|row| recorded(row.trail)).collect::<Vec<_>>());
        for row in finish.fetch_all(&mut *conn).await? {
            written.insert((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?));
        }
        if again && written.len() < rows.len() {
            let finished = sqlx::query(AssertSqlSafe(Arc::clone(&self.finished)));
            let before = finished.bind(&ids).bind(&tokens).bind(&marks).fetch_all(conn).await?;
            for row in before {
                written.insert((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?));
            }
        }
        let held = |verb: &Verb| match verb {
            Verb::Finish { claim, wrote, .. } => written.contains(&(claim.row.0, *wrote)),
            _ => false,
        };
        Ok(group.iter().map(|verb| Answer::Held(held(verb))).collect())
    }
}

/// A finish, as it is written.
struct Ending<'a> {
    claim: Claim,
    state: &'static str,
    reason: Option<&'static str>,
    wait: i64,
    released: i32,
    trail: &'a Trail,
    answer: Option<&'a StoredAnswer>,
    wrote: i64,
}

impl Ending<'_> {
    fn of(verb: &Verb) -> Option<Ending<'_>> {
        let Verb::Finish { claim, outcome, wrote } = verb else { return None };
        let (state, reason, wait) = match outcome.to {
            To::Completed => ("completed", None, Duration::ZERO),
            To::Parked(reason) => ("parked", Some(reason.as_str()), Duration::ZERO),
            To::Unknown => ("unknown", None, Duration::ZERO),
            To::Later(wait) => ("pending", None, wait),
            To::Released => ("pending", None, Duration::ZERO),
        };
        Some(Ending {
            claim: *claim,
            state,
            reason,
            wait: microseconds(wait),
            released: i32::from(outcome.to == To::Released),
            trail: &outcome.trail,
            answer: outcome.answer.as_ref(),
            wrote: *wrote,
        })
    }

    fn answer_body(&self) -> Option<&[u8]> {
        self.answer?.body.as_deref()
    }
}

/// How many attempts are recorded, as a column holds it.
fn recorded(trail: &Trail) -> i32 {
    i32::try_from(trail.count()).unwrap_or(i32::MAX)
}

/// Which of these claims were held, by the rows that were written.
fn held_by_token(group: &[Verb], rows: &[PgRow]) -> Result<Vec<Answer>, sqlx::Error> {
    let mut held = HashSet::with_capacity(rows.len());
    for row in rows {
        held.insert((row.try_get::<i64, _>(0)?, row.try_get::<i64, _>(1)?));
    }
    let is_held = |verb: &Verb| match verb {
        Verb::Attempt { claim, .. } | Verb::Renew { claim, .. } => {
            held.contains(&(claim.row.0, claim.token.0))
        }
        _ => false,
    };
    Ok(group.iter().map(|verb| Answer::Held(is_held(verb))).collect())
}

impl Work for Writes {
    type Verb = Verb;
    type Answer = Answer;

    const KINDS: usize = 5;

    fn kind(verb: &Verb) -> usize {
        match verb {
            Verb::Insert(_) => 0,
            Verb::Attempt { .. } => 1,
            Verb::Renew { .. } => 2,
            Verb::Finish { .. } => 3,
            Verb::Single { .. } => 4,
        }
    }

    fn most(kind: usize) -> usize {
        if kind == 4 { 1 } else { usize::MAX }
    }

    fn bytes(verb: &Verb) -> usize {
        match verb {
            Verb::Insert(insert) => insert.bytes(),
            Verb::Finish { outcome, .. } => outcome
                .answer
                .as_ref()
                .and_then(|answer| answer.body.as_ref())
                .map_or(0, |b| b.len()),
            Verb::Attempt { .. } | Verb::Renew { .. } | Verb::Single { .. } => 0,
        }
    }

    async fn write(
        &self,
        conn: &mut PgConnection,
        group: &mut [Verb],
        again: bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        match group {
            [Verb::Insert(_), ..] => self.insert(conn, group, again).await,
            [Verb::Attempt { .. }, ..] => self.attempt(conn, group).await,
            [Verb::Renew { .. }, ..] => self.renew(conn, group).await,
            [Verb::Finish { .. }, ..] => self.finish(conn, group, again).await,
            [Verb::Single { statement, done }, ..] => {
                if let Some(done) = done.as_ref().filter(|_| again) {
                    let rows = done.rows(conn).await?;
                    if !rows.is_empty() {
                        return Ok(vec![Answer::Rows(rows)]);
                    }
                }
                Ok(vec![Answer::Rows(statement.rows(conn).await?)])
            }
            [] => Ok(Vec::new()),
        }
    }
}
