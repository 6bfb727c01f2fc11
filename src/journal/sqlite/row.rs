//! Rows as SQLite has them, and what they mean.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::{FromSqlResult, ValueRef};

use super::sum;
use crate::journal::{Ages, Draft, JournalError, Record, RowId, State, StoredAnswer, Token, Trail};

/// The columns of a [`Stored`] row, in their order.
macro_rules! columns {
    () => {
        "id, scope, name, key, state, reason, token, attempts, lost, sent, claimed, created_at, \
         updated_at, first_send_at, due_at, request_sum, answer_sum, answer_status, head, trail, \
         answer_head, answer_body, body"
    };
}
pub(super) use columns;

/// A row as it was read; what its texts mean is worked out by whoever asked for it.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) row: RowId,
    token: i64,
    attempts: i64,
    lost: i64,
    claimed: bool,
    updated_at: i64,
    first_send_at: Option<i64>,
    due_at: Option<i64>,
    scope: String,
    name: Option<String>,
    key: String,
    state: String,
    reason: Option<String>,
    sent: bool,
    created_at: i64,
    request_sum: i64,
    answer_sum: Option<i64>,
    answer_status: Option<i64>,
    head: String,
    trail: Option<String>,
    answer_head: Option<String>,
    answer_body: Option<Bytes>,
    body: Bytes,
}

impl Stored {
    /// Reads a row of [`columns!`]. What a column cannot hold spoils this row only.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Result<Stored, JournalError>> {
        let id = row.get(0)?;
        Ok(Stored::fields(id, |column| row.get_ref(column)).map_err(|what| corrupt(id, what)))
    }

    fn fields<'a>(
        id: i64,
        column: impl Fn(usize) -> rusqlite::Result<ValueRef<'a>>,
    ) -> Result<Stored, String> {
        let take =
            |at: usize, what: &str| column(at).map_err(|error| format!("its {what}: {error}"));
        let of = |what: &str| format!("its {what} has a type that it cannot have");
        let number = |at, what| null(take(at, what)?, ValueRef::as_i64).map_err(|_| of(what));
        let text = |at, what| {
            let text = null(take(at, what)?, ValueRef::as_str).map_err(|_| of(what))?;
            Ok::<_, String>(text.map(str::to_owned))
        };
        let bytes = |at, what| {
            let bytes = null(take(at, what)?, ValueRef::as_blob).map_err(|_| of(what))?;
            Ok::<_, String>(bytes.map(Bytes::copy_from_slice))
        };
        let there = |what: &str| format!("its {what} is missing");
        macro_rules! must {
            ($read:ident, $at:literal, $what:literal) => {
                $read($at, $what)?.ok_or_else(|| there($what))?
            };
        }
        Ok(Stored {
            row: RowId(id),
            scope: must!(text, 1, "scope"),
            name: text(2, "name")?,
            key: must!(text, 3, "key"),
            state: must!(text, 4, "state"),
            reason: text(5, "reason")?,
            token: must!(number, 6, "token"),
            attempts: must!(number, 7, "attempts"),
            lost: must!(number, 8, "lost claims"),
            sent: must!(number, 9, "sent mark") != 0,
            claimed: must!(number, 10, "claim") != 0,
            created_at: must!(number, 11, "time of creation"),
            updated_at: must!(number, 12, "time of the last write"),
            first_send_at: number(13, "first send")?,
            due_at: number(14, "due time")?,
            request_sum: must!(number, 15, "sum"),
            answer_sum: number(16, "answer's sum")?,
            answer_status: number(17, "status")?,
            head: must!(text, 18, "head"),
            trail: text(19, "trail")?,
            answer_head: text(20, "answer's head")?,
            answer_body: bytes(21, "answer's body")?,
            body: must!(bytes, 22, "body"),
        })
    }

    /// It is what it was looked for by: a damaged index leads to other rows.
    pub(super) fn is_named(&self, scope: &str, name: &str) -> bool {
        self.scope == scope && self.name.as_deref() == Some(name)
    }

    /// What is left of it without its bodies: the sum of its request, and that of its answer.
    pub(super) fn emptied(&self) -> (i64, Option<i64>) {
        let answer_head = self.answer_head.as_deref().unwrap_or_default();
        (
            sum::of_request(&self.scope, self.name.as_deref(), &self.key, &self.head, b""),
            self.answer_status.map(|status| sum::of_answer(status, answer_head, None)),
        )
    }

    /// As it is once it has been claimed.
    pub(super) fn claim(&mut self, now: i64, end: i64) {
        self.token += 1;
        self.attempts += 1;
        self.lost += 1;
        self.claimed = true;
        self.updated_at = now;
        self.first_send_at.get_or_insert(now);
        self.due_at = Some(end);
    }

    /// What it means, at this time.
    pub(super) fn record(self, now: i64) -> Result<Record, JournalError> {
        let row = self.row;
        self.meaning(now).map_err(|what| corrupt(row.0, what))
    }

    fn meaning(self, now: i64) -> Result<Record, String> {
        let name = self.name.as_deref();
        let sum = sum::of_request(&self.scope, name, &self.key, &self.head, &self.body);
        if self.request_sum != sum {
            return Err("its request is not what was written".to_owned());
        }
        let since = |at: i64| Duration::from_millis(now.saturating_sub(at).max(0).unsigned_abs());
        let time = |at: i64| UNIX_EPOCH + Duration::from_millis(at.max(0).unsigned_abs());
        let lease_left = self.due_at.filter(|end| self.claimed && *end > now);
        let ages = Ages {
            created: since(self.created_at),
            updated: since(self.updated_at),
            first_send: self.first_send_at.map(since),
            first_send_at: self.first_send_at.map(time),
            clock_went_back: self.first_send_at.is_some_and(|first| first > now),
            lease_left: lease_left
                .map(|end| Duration::from_millis(end.saturating_sub(now).unsigned_abs())),
        };
        let answer = match self.answer_status {
            None if self.answer_sum.is_none() => None,
            None => return Err("its status is missing".to_owned()),
            Some(status) => {
                let head = self.answer_head.unwrap_or_default();
                let sum = sum::of_answer(status, &head, self.answer_body.as_deref());
                if self.answer_sum != Some(sum) {
                    return Err("its answer is not what was written".to_owned());
                }
                let status = u16::try_from(status).map_err(|_| "its status".to_owned())?;
                Some(StoredAnswer::read(status, &head, self.answer_body)?)
            }
        };
        let count = |count: i64| u32::try_from(count.max(0)).unwrap_or(u32::MAX);
        Ok(Record {
            row: self.row,
            token: Token(self.token),
            state: State::read(&self.state, self.reason.as_deref())?,
            draft: Draft::read(self.scope, self.name, self.key, &self.head, self.body)?,
            attempts: count(self.attempts),
            lost: count(self.lost),
            trail: match &self.trail {
                Some(trail) => Trail::read(trail, self.sent)?,
                None => Trail { attempts: Vec::new(), sent: self.sent },
            },
            answer,
            ages,
        })
    }
}

pub(super) fn corrupt(row: i64, what: impl Into<String>) -> JournalError {
    JournalError::Corrupt { row, what: what.into() }
}

fn null<'a, T>(
    value: ValueRef<'a>,
    read: impl Fn(&ValueRef<'a>) -> FromSqlResult<T>,
) -> FromSqlResult<Option<T>> {
    if value == ValueRef::Null { Ok(None) } else { read(&value).map(Some) }
}
