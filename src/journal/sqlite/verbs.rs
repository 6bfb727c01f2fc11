//! The verbs that write, each run inside a transaction that holds the write lock.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Result, params};

use super::queries;
use super::row::{Stored, columns, corrupt};
use super::sum;
use crate::journal::{
    Claim, Decision, Draft, Due, Held, JournalError, Outcome, RowId, To, Token, Trail,
};
use crate::store::sqlite::{after, atomically, length, millis};

/// A row that could be read, or why not.
pub(super) type Read = std::result::Result<Stored, JournalError>;

/// An operation, ready to be written.
#[derive(Debug)]
pub(super) struct Insert {
    scope: String,
    name: Option<String>,
    key: String,
    usable_ms: Option<i64>,
    head: String,
    body: Bytes,
    sum: i64,
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Added {
    New(Claim),
    Found(Box<Read>, SystemTime),
}

impl Insert {
    pub(super) fn new(draft: &Draft) -> Insert {
        let head = draft.head();
        let (name, body) = (draft.name.as_deref(), &draft.request.body);
        Insert {
            sum: sum::of_request(&draft.scope, name, &draft.key, &head, body),
            scope: draft.scope.clone(),
            name: draft.name.clone(),
            key: draft.key.clone(),
            usable_ms: draft
                .terms
                .window
                .map(|(window, margin)| length(window).saturating_sub(length(margin)).max(0)),
            head,
            body: body.clone(),
        }
    }

    /// Inserts it with a claim for so long, or without one.
    pub(super) fn run(
        &self,
        connection: &Connection,
        now: SystemTime,
        lease: Option<Duration>,
    ) -> Result<Added> {
        let at = millis(now);
        let claimed = i64::from(lease.is_some());
        let due = lease.map_or(at, |lease| after(now, lease));
        let mut insert = connection.prepare_cached(
            "INSERT INTO post_once_operations (scope, name, key, token, attempts, lost, claimed, \
             created_at, updated_at, first_send_at, due_at, usable_ms, request_sum, head, body) \
             VALUES (?1, ?2, ?3, ?4, ?4, ?4, ?4, ?5, ?5, ?6, ?7, ?8, ?9, ?10, ?11) \
             ON CONFLICT DO NOTHING",
        )?;
        let inserted = insert.execute(params![
            self.scope,
            self.name,
            self.key,
            claimed,
            at,
            lease.map(|_| at),
            due,
            self.usable_ms,
            self.sum,
            self.head,
            &*self.body,
        ])?;
        if inserted == 1 {
            let row = RowId(connection.last_insert_rowid());
            return Ok(Added::New(Claim::new(row, Token(claimed))));
        }
        let name = self.name.as_deref().unwrap_or_default();
        let found = by_name(connection, &self.scope, name)?;
        Ok(Added::Found(Box::new(found.ok_or(rusqlite::Error::QueryReturnedNoRows)?), now))
    }
}

pub(super) fn by_name(connection: &Connection, scope: &str, name: &str) -> Result<Option<Read>> {
    let mut select = connection.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM post_once_operations WHERE scope = ?1 AND name = ?2"
    ))?;
    let found = select.query_row([scope, name], Stored::read).optional()?;
    Ok(found.map(|read| match read {
        Ok(stored) if !stored.is_named(scope, name) => {
            Err(corrupt(stored.row.0, "it has another name than its index says"))
        }
        read => read,
    }))
}

pub(super) fn by_row(connection: &Connection, row: RowId) -> Result<Option<Read>> {
    let mut select = connection.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM post_once_operations WHERE id = ?1"
    ))?;
    select.query_row([row.0], Stored::read).optional()
}

pub(super) fn take(
    connection: &Connection,
    row: RowId,
    seen: Token,
    now: SystemTime,
    lease: Duration,
) -> Result<Held<Claim>> {
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET state = 'pending', reason = NULL, token = token + 1, \
         attempts = attempts + 1, lost = lost + 1, claimed = 1, updated_at = ?3, \
         first_send_at = coalesce(first_send_at, ?3), due_at = ?4 \
         WHERE id = ?1 AND token = ?2 AND (claimed = 0 OR due_at <= ?3)",
    )?;
    let changed = update.execute((row.0, seen.0, millis(now), after(now, lease)))?;
    Ok(held(changed, Claim::new(row, Token(seen.0 + 1))))
}

pub(super) fn claim_due(
    connection: &Connection,
    filter: &Due,
    now: SystemTime,
    lease: Duration,
) -> Result<Vec<Read>> {
    atomically(connection, || claim_each(connection, filter, now, lease))
}

fn claim_each(
    connection: &Connection,
    filter: &Due,
    now: SystemTime,
    lease: Duration,
) -> Result<Vec<Read>> {
    let (at, end) = (millis(now), after(now, lease));
    let due_before = at.saturating_sub(length(filter.since));
    let scopes = (!filter.scopes.is_empty()).then(|| queries::json(&filter.scopes));
    let mut select = connection.prepare_cached(match &scopes {
        None => concat!(
            "SELECT ",
            columns!(),
            " FROM post_once_operations WHERE due_at <= ?1 AND ?3 IS NULL \
             ORDER BY due_at LIMIT ?2"
        ),
        Some(_) => concat!(
            "SELECT ",
            columns!(),
            " FROM post_once_operations WHERE due_at <= ?1 \
             AND scope IN (SELECT value FROM json_each(?3)) ORDER BY due_at LIMIT ?2"
        ),
    })?;
    let due = select.query_map((due_before, filter.limit, scopes), Stored::read)?;
    let mut due: Vec<Read> = due.collect::<Result<_>>()?;
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET token = token + 1, attempts = attempts + 1, \
         lost = lost + 1, claimed = 1, updated_at = ?2, \
         first_send_at = coalesce(first_send_at, ?2), due_at = ?3 WHERE id = ?1",
    )?;
    for read in &mut due {
        match read {
            Ok(stored) => {
                update.execute((stored.row.0, at, end))?;
                stored.claim(at, end);
            }
            Err(JournalError::Corrupt { row, .. }) => set_aside(connection, *row, at)?,
            Err(_) => {}
        }
    }
    Ok(due)
}

/// A row that cannot be read is for a person, and must not be claimed again and again.
pub(super) fn set_aside(connection: &Connection, row: i64, at: i64) -> Result<()> {
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET state = 'unknown', reason = NULL, token = token + 1, \
         claimed = 0, due_at = NULL, updated_at = ?2 WHERE id = ?1",
    )?;
    update.execute((row, at)).map(drop)
}

pub(super) fn attempt(
    connection: &Connection,
    claim: Claim,
    trail: &Written,
    now: SystemTime,
) -> Result<Held<()>> {
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET trail = ?3, sent = ?4, attempts = ?6 + 1, lost = 1, \
         first_send_at = CASE WHEN ?4 THEN coalesce(first_send_at, ?5) ELSE ?5 END, \
         updated_at = ?5 WHERE id = ?1 AND token = ?2",
    )?;
    let changed = update.execute((
        claim.row.0,
        claim.token.0,
        &trail.text,
        trail.sent,
        millis(now),
        trail.count,
    ))?;
    Ok(held(changed, ()))
}

pub(super) fn renew(
    connection: &Connection,
    claim: Claim,
    now: SystemTime,
    lease: Duration,
) -> Result<Held<()>> {
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET claimed = 1, due_at = ?4, updated_at = ?3 \
         WHERE id = ?1 AND token = ?2",
    )?;
    let end = after(now, lease);
    let changed = update.execute((claim.row.0, claim.token.0, millis(now), end))?;
    Ok(held(changed, ()))
}

/// A trail, ready to be written.
#[derive(Debug)]
pub(super) struct Written {
    text: String,
    sent: bool,
    count: u32,
}

impl Written {
    pub(super) fn new(trail: &Trail) -> Written {
        Written { text: trail.write(), sent: trail.sent, count: trail.count() }
    }
}

/// An outcome, ready to be written.
#[derive(Debug)]
pub(super) struct Finish {
    claim: Claim,
    to: To,
    trail: Written,
    status: Option<i64>,
    answer_head: Option<String>,
    answer_body: Option<Bytes>,
    answer_sum: Option<i64>,
}

impl Finish {
    pub(super) fn new(claim: Claim, outcome: &Outcome) -> Finish {
        let answer = outcome.answer.as_ref();
        let status = answer.map(|answer| i64::from(answer.status));
        let head = answer.map(crate::journal::StoredAnswer::head);
        let body = answer.and_then(|answer| answer.body.clone());
        let sum = |(status, head): (i64, &String)| sum::of_answer(status, head, body.as_deref());
        Finish {
            claim,
            to: outcome.to,
            trail: Written::new(&outcome.trail),
            answer_sum: status.zip(head.as_ref()).map(sum),
            status,
            answer_head: head,
            answer_body: body,
        }
    }

    pub(super) fn run(&self, connection: &Connection, now: SystemTime) -> Result<Held<()>> {
        let at = millis(now);
        let (state, due) = match self.to {
            To::Completed => ("completed", None),
            To::Parked(_) => ("parked", None),
            To::Unknown => ("unknown", None),
            To::Later(wait) => ("pending", Some(after(now, wait))),
            To::Released => ("pending", Some(at)),
        };
        let reason = match self.to {
            To::Parked(reason) => Some(reason.as_str()),
            _ => None,
        };
        // OR FAIL: it changes one row, or is refused before that. Otherwise, as there are triggers, SQLite
        // copies each page first, in order to take back the first of several changes.
        let mut update = connection.prepare_cached(
            "UPDATE OR FAIL post_once_operations SET state = ?3, reason = ?4, token = token + 1, \
             claimed = 0, due_at = ?5, updated_at = ?6, trail = ?7, sent = ?8, \
             first_send_at = CASE WHEN ?8 THEN first_send_at END, \
             attempts = ?14, lost = CASE WHEN ?9 THEN lost - 1 ELSE 0 END, \
             answer_status = coalesce(?10, answer_status), \
             answer_head = CASE WHEN ?10 IS NULL THEN answer_head ELSE ?11 END, \
             answer_body = CASE WHEN ?10 IS NULL THEN answer_body ELSE ?12 END, \
             answer_sum = CASE WHEN ?10 IS NULL THEN answer_sum ELSE ?13 END \
             WHERE id = ?1 AND token = ?2",
        )?;
        let changed = update.execute(params![
            self.claim.row.0,
            self.claim.token.0,
            state,
            reason,
            due,
            at,
            self.trail.text,
            self.trail.sent,
            self.to == To::Released,
            self.status,
            self.answer_head,
            self.answer_body.as_deref(),
            self.answer_sum,
            self.trail.count,
        ])?;
        Ok(held(changed, ()))
    }
}

pub(super) fn decide(
    connection: &Connection,
    row: RowId,
    seen: Token,
    decision: Decision,
    now: SystemTime,
) -> Result<Held<()>> {
    let at = millis(now);
    let (state, due) = match decision {
        Decision::Retry => ("pending", Some(at)),
        Decision::Abandon => ("abandoned", None),
        Decision::Unknown => ("unknown", None),
        Decision::Completed => ("completed", None),
    };
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET state = ?3, reason = NULL, token = token + 1, claimed = 0, \
         due_at = ?4, updated_at = ?5, lost = CASE WHEN ?3 = 'pending' THEN 0 ELSE lost END \
         WHERE id = ?1 AND token = ?2 AND (claimed = 0 OR due_at <= ?5)",
    )?;
    let changed = update.execute((row.0, seen.0, state, due, at))?;
    Ok(held(changed, ()))
}

fn held<T>(changed: usize, value: T) -> Held<T> {
    if changed == 1 { Held::Yes(value) } else { Held::Lost }
}
