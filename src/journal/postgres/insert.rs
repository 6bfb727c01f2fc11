//! Inserting in groups: what has no rival of its name becomes a row, and the others find theirs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use super::row::{self, ahead, columns, microseconds, now};
use super::write::{Answer, Verb, Writes, mark};
use crate::journal::{Claim, Draft, Inserted, JournalError, RowId, Token};
use crate::store::postgres::Schema;

pub(super) struct Insert {
    draft: Draft,
    /// `None`: nobody claims it, it is due.
    lease: Option<Duration>,
    born: i64,
    /// The row is not among those up to this one. Known from the first try on.
    floor: Option<i64>,
}

impl Insert {
    pub(super) fn new(draft: &Draft, lease: Option<Duration>) -> Insert {
        Insert { draft: draft.clone(), lease, born: mark(), floor: None }
    }

    /// The token of a new row.
    fn token(&self) -> Token {
        Token(self.lease.is_some().into())
    }

    fn made(&self, id: i64) -> Inserted {
        Inserted::New(Claim::new(RowId(id), self.token()))
    }
}

/// Inserts what has no rival of its name. The rows are read from the arrays in their order.
pub(super) const INSERT: &str = concat!(
    "INSERT INTO {schema}.operation AS o (scope, name, key, head, body, open_us, born, token, \
     attempts, lost, claimed, created, updated, first_send, due) \
     SELECT v.scope, v.name, v.key, v.head, v.body, v.open_us, v.born, v.begun, v.begun, v.begun, \
     v.begun = 1, ",
    now!(),
    ", ",
    now!(),
    ", CASE WHEN v.begun = 1 THEN ",
    now!(),
    " END, ",
    ahead!("v.lease_us"),
    " FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bytea[], $6::bigint[], \
     $7::bigint[], $8::integer[], $9::bigint[]) \
     AS v(scope, name, key, head, body, open_us, born, begun, lease_us) \
     ON CONFLICT DO NOTHING RETURNING o.born, o.id"
);

/// The rows of an earlier try.
pub(super) const BORN: &str = "SELECT o.born, o.id FROM {schema}.operation o \
    WHERE o.id > $1 AND o.born = ANY($2::bigint[])";

/// The rows of these names.
pub(super) const NAMED: &str = concat!(
    "SELECT v.at, ",
    columns!(),
    " FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS v(scope, name, at) \
     JOIN {schema}.operation o ON o.scope = v.scope AND o.name = v.name"
);

impl Writes {
    pub(super) async fn insert(
        &self,
        conn: &mut PgConnection,
        group: &mut [Verb],
        again: bool,
    ) -> Result<Vec<Answer>, sqlx::Error> {
        let highest = self.highest.load(Ordering::Relaxed);
        let mut open: Vec<(usize, &Insert)> = Vec::with_capacity(group.len());
        for (at, verb) in group.iter_mut().enumerate() {
            let Verb::Insert(insert) = verb else { unreachable!("a group is of one kind") };
            insert.floor.get_or_insert(highest);
            open.push((at, insert));
        }
        // Whoever waits for a rival's name holds only lower ones.
        open.sort_by(|(_, one), (_, other)| one.name().cmp(&other.name()));
        let mut answers: Vec<_> = (0..open.len()).map(|_| None).collect();
        if again {
            let rows = self.born(conn, &open).await?;
            self.made(&rows, &mut open, &mut answers)?;
        }
        // A name that was found taken may be gone when it is looked up: then it is inserted after all.
        while !open.is_empty() {
            let rows = insert_query(&self.insert, &open).fetch_all(&mut *conn).await?;
            self.made(&rows, &mut open, &mut answers)?;
            if open.is_empty() {
                break;
            }
            let scopes: Vec<_> = open.iter().map(|(_, insert)| &*insert.draft.scope).collect();
            let names: Vec<_> =
                open.iter().map(|(_, insert)| insert.draft.name.as_deref()).collect();
            let named = sqlx::query(AssertSqlSafe(Arc::clone(&self.named)));
            let mut found = HashMap::new();
            for row in named.bind(scopes).bind(names).fetch_all(&mut *conn).await? {
                found.insert(row.try_get::<i64, _>(0)?, row);
            }
            let mut place = 0;
            open.retain(|(at, _)| {
                place += 1;
                let Some(row) = found.get(&place) else { return true };
                let record = row::record(row, 1).map(|record| Inserted::Found(Box::new(record)));
                answers[*at] = Some(Answer::Inserted(record));
                false
            });
        }
        Ok(answers.into_iter().map(|answer| answer.expect("none is left open")).collect())
    }

    async fn born(
        &self,
        conn: &mut PgConnection,
        open: &[(usize, &Insert)],
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let floor = open.iter().filter_map(|(_, insert)| insert.floor).min();
        let born: Vec<_> = open.iter().map(|(_, insert)| insert.born).collect();
        let query = sqlx::query(AssertSqlSafe(Arc::clone(&self.born)));
        query.bind(floor.unwrap_or_default()).bind(born).fetch_all(conn).await
    }

    /// Takes those that have a row out of the open ones.
    fn made(
        &self,
        rows: &[PgRow],
        open: &mut Vec<(usize, &Insert)>,
        answers: &mut [Option<Answer>],
    ) -> Result<(), sqlx::Error> {
        let mut ids = HashMap::with_capacity(rows.len());
        for row in rows {
            let (born, id): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            ids.insert(born, id);
            self.highest.fetch_max(id, Ordering::Relaxed);
        }
        open.retain(|(at, insert)| match ids.get(&insert.born) {
            Some(id) => {
                answers[*at] = Some(Answer::Inserted(Ok(insert.made(*id))));
                false
            }
            None => true,
        });
        Ok(())
    }
}

/// The insert of these, as far as no name is in the way.
fn insert_query<'q>(
    sql: &Arc<str>,
    rows: &[(usize, &Insert)],
) -> sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments> {
    let rows = || rows.iter().map(|(_, insert)| *insert);
    sqlx::query(AssertSqlSafe(Arc::clone(sql)))
        .bind(rows().map(|row| &*row.draft.scope).collect::<Vec<_>>())
        .bind(rows().map(|row| row.draft.name.as_deref()).collect::<Vec<_>>())
        .bind(rows().map(|row| &*row.draft.key).collect::<Vec<_>>())
        .bind(rows().map(|row| row.draft.head()).collect::<Vec<_>>())
        .bind(rows().map(|row| &*row.draft.request.body).collect::<Vec<_>>())
        .bind(rows().map(|row| open_us(&row.draft)).collect::<Vec<_>>())
        .bind(rows().map(|row| row.born).collect::<Vec<_>>())
        .bind(rows().map(|row| i32::from(row.lease.is_some())).collect::<Vec<_>>())
        .bind(rows().map(|row| microseconds(row.lease.unwrap_or_default())).collect::<Vec<_>>())
}

/// In the caller's transaction, where nothing is tried again.
pub(super) async fn insert_in(
    conn: &mut PgConnection,
    schema: &Schema,
    draft: &Draft,
) -> Result<Result<Inserted, JournalError>, sqlx::Error> {
    let insert = Insert::new(draft, None);
    let sql = schema.sql(INSERT);
    loop {
        let row = insert_query(&sql, &[(0, &insert)]).fetch_optional(&mut *conn).await?;
        if let Some(row) = row {
            return Ok(Ok(insert.made(row.try_get(1)?)));
        }
        let named = sqlx::query(AssertSqlSafe(schema.sql(NAMED)));
        let named = named.bind(vec![&*draft.scope]).bind(vec![draft.name.as_deref()]);
        if let Some(row) = named.fetch_optional(&mut *conn).await? {
            let record = row::record(&row, 1);
            return Ok(record.map(|record| Inserted::Found(Box::new(record))));
        }
    }
}

impl Insert {
    /// Its bytes, about.
    pub(super) fn bytes(&self) -> usize {
        self.draft.request.body.len()
    }

    fn name(&self) -> Option<(&str, &str)> {
        Some((&self.draft.scope, self.draft.name.as_deref()?))
    }
}

/// What may pass between the first send and the last.
fn open_us(draft: &Draft) -> Option<i64> {
    let (window, margin) = draft.terms.window?;
    Some(microseconds(window.saturating_sub(margin)))
}
