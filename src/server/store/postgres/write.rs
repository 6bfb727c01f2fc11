//! Writes in groups: one statement for up to 256 verbs of a kind.
//!
//! No group waits for a row that somebody else is writing: that may be a transaction of the user's, which
//! may be open for long, and the group is many requests. Such a row is told of, and asked for again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Row as _};

use super::claim::{CLAIM, TAKE};
use crate::server::claim::RecoveryPoint;
use crate::server::store::{Ask, ClaimError, Claimed, Holder};
use crate::store::postgres::{Schema, Statement, Work, ahead, now};

/// What a writer is asked for. Durations are in microseconds.
pub(super) enum Verb {
    Claim(Ask),
    Renew {
        holder: Holder,
        lease: i64,
    },
    Checkpoint {
        holder: Holder,
        lease: i64,
        point: RecoveryPoint,
    },
    Complete {
        holder: Holder,
        answer: Written,
    },
    Release {
        holder: Holder,
        /// The token of the row, should it be kept: a heartbeat that comes late must not hold it again.
        next: i64,
    },
    /// A statement by itself. `done` finds what it did in an earlier try.
    Single {
        statement: Statement,
        done: Option<Statement>,
    },
}

/// An answer, as it is written.
#[derive(Clone)]
pub(super) struct Written {
    pub(super) status: i16,
    pub(super) lines: Vec<u8>,
    pub(super) body: Option<bytes::Bytes>,
    pub(super) retention: i64,
}

/// What comes of it.
pub(super) enum Answer {
    Claimed(Result<Claimed, ClaimError>),
    Wrote(Wrote),
    Rows(Vec<PgRow>),
}

/// What came of a write that named a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    Yes,
    Lost,
    /// It was the holder's a moment ago, and somebody is writing it.
    Busy,
}

/// The statements, in one schema.
pub(super) struct Writes {
    pub(super) claim: Arc<str>,
    pub(super) take: Arc<str>,
    renew: Arc<str>,
    checkpoint: Arc<str>,
    complete: Arc<str>,
    release: Arc<str>,
    left: Arc<str>,
}

/// The rows that their holders still work on, as `picked`, locked; what is to be written comes with them.
macro_rules! picked {
    ($types:literal, $columns:literal, $also:literal) => {
        concat!(
            "WITH v AS MATERIALIZED (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[]",
            $types,
            ") AS v(principal, key, token",
            $columns,
            ")), picked AS MATERIALIZED (SELECT v.*",
            $also,
            " FROM v JOIN {schema}.claim o \
             ON o.principal = v.principal AND o.key = v.key \
             WHERE o.token = v.token AND o.status IS NULL FOR UPDATE OF o SKIP LOCKED) "
        )
    };
}

/// The rest of an update of these.
const OF_PICKED: &str =
    " FROM picked p WHERE o.principal = p.principal AND o.key = p.key RETURNING o.token";

const RENEW: &str = concat!(
    picked!(", $4::bigint[]", ", lease_us", ""),
    "UPDATE {schema}.claim o SET locked_until = ",
    ahead!("p.lease_us"),
);

const CHECKPOINT: &str = concat!(
    picked!(
        ", $4::bigint[], $5::text[], $6::text[], $7::boolean[]",
        ", lease_us, point_name, point_data, point_unconfirmed",
        ""
    ),
    "UPDATE {schema}.claim o SET locked_until = ",
    ahead!("p.lease_us"),
    ", point_name = p.point_name, point_data = p.point_data, \
     point_unconfirmed = p.point_unconfirmed",
);

const COMPLETE: &str = concat!(
    picked!(
        ", $4::bigint[], $5::smallint[], $6::bytea[], $7::bytea[]",
        ", retention_us, status, header_lines, body",
        ""
    ),
    "UPDATE {schema}.claim o SET expires_at = ",
    ahead!("p.retention_us"),
    ", status = p.status, header_lines = p.header_lines, body = p.body",
);

/// What has come nowhere is as if it had never been.
const RELEASE: &str = concat!(
    picked!(", $4::bigint[]", ", next", ", o.point_name IS NULL AS bare"),
    ", gone AS (DELETE FROM {schema}.claim o USING picked p \
     WHERE p.bare AND o.principal = p.principal AND o.key = p.key RETURNING p.token), \
     kept AS (UPDATE {schema}.claim o SET token = p.next, locked_until = ",
    now!(),
    " FROM picked p WHERE NOT p.bare AND o.principal = p.principal AND o.key = p.key \
     RETURNING p.token) SELECT token FROM gone UNION ALL SELECT token FROM kept"
);

/// What is there of rows that could not be written.
const LEFT: &str = "SELECT v.token, o.token, o.status IS NULL \
    FROM unnest($1::text[], $2::text[], $3::bigint[]) AS v(principal, key, token) \
    JOIN {schema}.claim o ON o.principal = v.principal AND o.key = v.key";

/// In the transaction of the user's: what [`COMPLETE`] writes.
pub(super) const COMPLETE_IN: &str = concat!(
    "UPDATE {schema}.claim o SET expires_at = ",
    ahead!("$4::bigint"),
    ", status = $5, header_lines = $6, body = $7 \
     WHERE o.principal = $1 AND o.key = $2 AND o.token = $3 AND o.status IS NULL"
);

impl Writes {
    pub(super) fn new(schema: &Schema) -> Writes {
        let update = |sql: &str| schema.sql(&[sql, OF_PICKED].concat());
        Writes {
            claim: schema.sql(CLAIM),
            take: schema.sql(TAKE),
            renew: update(RENEW),
            checkpoint: update(CHECKPOINT),
            complete: update(COMPLETE),
            release: schema.sql(RELEASE),
            left: schema.sql(LEFT),
        }
    }

    /// A group of writes, each by a holder. The second of one holder is not written with the first.
    async fn held(
        &self,
        conn: &mut PgConnection,
        group: &[Verb],
        again: bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let mut tokens = HashSet::with_capacity(group.len());
        let is_first: Vec<_> = group.iter().map(|verb| tokens.insert(verb.token())).collect();
        let each = || group.iter().zip(&is_first);
        let firsts: Vec<_> = each().filter(|(_, first)| **first).map(|(verb, _)| verb).collect();
        let mut written = HashSet::with_capacity(firsts.len());
        for row in self.query(&firsts).fetch_all(&mut *conn).await? {
            written.insert(Some(row.try_get::<i64, _>(0)?));
        }
        let is_missing = |verb: &&Verb| !written.contains(&verb.token());
        let missing: Vec<_> = firsts.iter().copied().filter(is_missing).collect();
        let mut left = HashMap::with_capacity(missing.len());
        if !missing.is_empty() {
            for row in named(&self.left, &missing).fetch_all(conn).await? {
                let (token, open): (i64, bool) = (row.try_get(1)?, row.try_get(2)?);
                left.insert(Some(row.try_get::<i64, _>(0)?), (Some(token), open));
            }
        }
        let wrote = |(verb, is_first): (&Verb, &bool)| {
            let left = left.get(&verb.token()).copied();
            let ours = left.filter(|(token, _)| *token == verb.token());
            match (verb, left, ours) {
                _ if !is_first => Wrote::Busy,
                _ if written.contains(&verb.token()) => Wrote::Yes,
                (.., Some((_, true))) => Wrote::Busy,
                // As an earlier try has left them.
                (Verb::Complete { .. }, _, Some(_)) if again => Wrote::Yes,
                (Verb::Release { .. }, None, _) if again => Wrote::Yes,
                (Verb::Release { next, .. }, Some((token, _)), _)
                    if again && token == Some(*next) =>
                {
                    Wrote::Yes
                }
                _ => Wrote::Lost,
            }
        };
        Ok(each().map(|each| Answer::Wrote(wrote(each))).collect())
    }

    /// The statement of a kind, with what it writes.
    fn query<'q>(&self, verbs: &[&Verb]) -> Query<'q, Postgres, PgArguments> {
        let leases = || verbs.iter().filter_map(|verb| verb.lease()).collect::<Vec<_>>();
        match verbs {
            [Verb::Checkpoint { .. }, ..] => {
                let points = || verbs.iter().filter_map(|verb| verb.point());
                named(&self.checkpoint, verbs)
                    .bind(leases())
                    .bind(points().map(|point| &*point.name).collect::<Vec<_>>())
                    .bind(points().map(|point| point.data.as_deref()).collect::<Vec<_>>())
                    .bind(points().map(|point| point.unconfirmed).collect::<Vec<_>>())
            }
            [Verb::Complete { .. }, ..] => {
                let answers = || verbs.iter().filter_map(|verb| verb.answer());
                named(&self.complete, verbs)
                    .bind(answers().map(|answer| answer.retention).collect::<Vec<_>>())
                    .bind(answers().map(|answer| answer.status).collect::<Vec<_>>())
                    .bind(answers().map(|answer| &*answer.lines).collect::<Vec<_>>())
                    .bind(answers().map(|answer| answer.body.as_deref()).collect::<Vec<_>>())
            }
            [Verb::Release { .. }, ..] => {
                let next = |verb: &&Verb| match verb {
                    Verb::Release { next, .. } => Some(*next),
                    _ => None,
                };
                named(&self.release, verbs).bind(verbs.iter().filter_map(next).collect::<Vec<_>>())
            }
            _ => named(&self.renew, verbs).bind(leases()),
        }
    }
}

/// A statement, with the holders of its rows.
fn named<'q>(sql: &Arc<str>, verbs: &[&Verb]) -> Query<'q, Postgres, PgArguments> {
    let holders = || verbs.iter().filter_map(|verb| verb.holder());
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
        .bind(holders().map(|holder| &*holder.name.principal).collect::<Vec<_>>())
        .bind(holders().map(|holder| &*holder.name.key).collect::<Vec<_>>())
        .bind(holders().map(|holder| holder.token.0).collect::<Vec<_>>())
}

impl Verb {
    fn holder(&self) -> Option<&Holder> {
        match self {
            Verb::Renew { holder, .. }
            | Verb::Checkpoint { holder, .. }
            | Verb::Complete { holder, .. }
            | Verb::Release { holder, .. } => Some(holder),
            Verb::Claim(_) | Verb::Single { .. } => None,
        }
    }

    fn token(&self) -> Option<i64> {
        self.holder().map(|holder| holder.token.0)
    }

    fn lease(&self) -> Option<i64> {
        match self {
            Verb::Renew { lease, .. } | Verb::Checkpoint { lease, .. } => Some(*lease),
            _ => None,
        }
    }

    fn point(&self) -> Option<&RecoveryPoint> {
        match self {
            Verb::Checkpoint { point, .. } => Some(point),
            _ => None,
        }
    }

    fn answer(&self) -> Option<&Written> {
        match self {
            Verb::Complete { answer, .. } => Some(answer),
            _ => None,
        }
    }
}

impl Work for Writes {
    type Verb = Verb;
    type Answer = Answer;

    const KINDS: usize = 6;

    fn kind(verb: &Verb) -> usize {
        match verb {
            Verb::Claim(_) => 0,
            Verb::Renew { .. } => 1,
            Verb::Checkpoint { .. } => 2,
            Verb::Complete { .. } => 3,
            Verb::Release { .. } => 4,
            Verb::Single { .. } => 5,
        }
    }

    fn most(kind: usize) -> usize {
        if kind == 5 { 1 } else { usize::MAX }
    }

    fn bytes(verb: &Verb) -> usize {
        let body = verb.answer().and_then(|answer| answer.body.as_ref());
        body.map_or(0, bytes::Bytes::len)
    }

    async fn write(
        &self,
        conn: &mut PgConnection,
        group: &mut [Verb],
        again: bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        match group {
            [] => Ok(Vec::new()),
            [Verb::Claim(_), ..] => self.claim(conn, group).await,
            [Verb::Single { statement, done }, ..] => {
                if let Some(done) = done.as_ref().filter(|_| again) {
                    let rows = done.rows(conn).await?;
                    if !rows.is_empty() {
                        return Ok(vec![Answer::Rows(rows)]);
                    }
                }
                Ok(vec![Answer::Rows(statement.rows(conn).await?)])
            }
            _ => self.held(conn, group, again).await,
        }
    }
}
