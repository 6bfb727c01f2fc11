//! Rows as SQLite has them, and what they mean.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use crate::fingerprint::Fingerprint;
use crate::server::answer::StoredAnswer;
use crate::server::claim::{RecoveryPoint, Seen};
use crate::server::store::{self, Ask, ClaimError, Holder, Name, Token};
use crate::store::sqlite::{after, millis, sum};

/// What could be read, or why not.
pub(super) type Read<T> = std::result::Result<T, ClaimError>;

/// The columns of a [`Stored`] row, in their order: all but the answer itself.
macro_rules! columns {
    () => {
        "id, principal, key, fingerprint, token, locked_until, expires_at, created_at, runs, point, \
         point_data, point_unconfirmed, status, answer_sum, sum"
    };
}
pub(super) use columns;

/// A row that is what was written; times are milliseconds since the epoch.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    /// Zero before it is inserted.
    pub(super) id: i64,
    pub(super) name: Name,
    pub(super) fingerprint: Fingerprint,
    pub(super) token: i64,
    pub(super) locked_until: i64,
    pub(super) expires_at: i64,
    created_at: i64,
    pub(super) runs: u32,
    pub(super) point: Option<RecoveryPoint>,
    /// Status and sum of its answer.
    answer: Option<(i64, i64)>,
}

/// An answer, ready to be written.
#[derive(Debug)]
pub(super) struct Written {
    status: i64,
    lines: Vec<u8>,
    body: Option<Bytes>,
    sum: i64,
}

impl Written {
    pub(super) fn new(answer: &StoredAnswer) -> Written {
        let (status, lines) = (i64::from(answer.status.as_u16()), answer.header_lines());
        let sum = sum_of_answer(status, &lines, answer.body.as_deref());
        Written { status, lines, body: answer.body.clone(), sum }
    }
}

impl Stored {
    /// A row of a first run.
    pub(super) fn new(ask: &Ask, now: SystemTime) -> Stored {
        Stored {
            id: 0,
            name: ask.holder.name.clone(),
            fingerprint: ask.fingerprint,
            token: ask.holder.token.0,
            locked_until: after(now, ask.lease),
            expires_at: after(now, ask.retention),
            created_at: millis(now),
            runs: 1,
            point: None,
            answer: None,
        }
    }

    /// Inserts it, unless there is a row of this name.
    pub(super) fn insert(&self, on: &Connection) -> Result<bool> {
        let mut insert = on.prepare_cached(
            "INSERT INTO post_once_claim (principal, key, fingerprint, token, locked_until, \
             expires_at, created_at, runs, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
             ON CONFLICT DO NOTHING",
        )?;
        let fingerprint = self.fingerprint.to_string();
        let inserted = insert.execute(params![
            self.name.principal,
            self.name.key,
            fingerprint,
            self.token,
            self.locked_until,
            self.expires_at,
            self.created_at,
            self.runs,
            self.sum(&fingerprint),
        ])?;
        Ok(inserted == 1)
    }

    /// Writes it over the row that had this token; `false` when that is not there any more.
    pub(super) fn update(&self, on: &Connection, token: i64) -> Result<bool> {
        let mut update = on.prepare_cached(
            "UPDATE post_once_claim SET token = ?3, locked_until = ?4, runs = ?5, point = ?6, \
             point_data = ?7, point_unconfirmed = ?8, sum = ?9 WHERE id = ?1 AND token = ?2",
        )?;
        let point = self.point.as_ref();
        let changed = update.execute(params![
            self.id,
            token,
            self.token,
            self.locked_until,
            self.runs,
            point.map(|point| &point.name),
            point.and_then(|point| point.data.as_ref()),
            point.is_some_and(|point| point.unconfirmed),
            self.sum(&self.fingerprint.to_string()),
        ])?;
        Ok(changed == 1)
    }

    /// The same, with its answer.
    pub(super) fn answer(
        &mut self,
        on: &Connection,
        token: i64,
        answer: &Written,
        expires_at: i64,
    ) -> Result<bool> {
        self.answer = Some((answer.status, answer.sum));
        self.expires_at = expires_at;
        let mut update = on.prepare_cached(
            "UPDATE post_once_claim SET token = ?3, expires_at = ?4, status = ?5, answer_sum = ?6, \
             header_lines = ?7, body = ?8, sum = ?9 WHERE id = ?1 AND token = ?2",
        )?;
        let changed = update.execute(params![
            self.id,
            token,
            self.token,
            self.expires_at,
            answer.status,
            answer.sum,
            answer.lines,
            answer.body.as_deref(),
            self.sum(&self.fingerprint.to_string()),
        ])?;
        Ok(changed == 1)
    }

    /// Deletes it, if it has this token still.
    pub(super) fn delete(&self, on: &Connection) -> Result<bool> {
        let sql = "DELETE FROM post_once_claim WHERE id = ?1 AND token = ?2";
        Ok(on.prepare_cached(sql)?.execute((self.id, self.token))? == 1)
    }

    /// The row of this name.
    pub(super) fn by_name(on: &Connection, name: &Name) -> Result<Option<Read<Stored>>> {
        let mut select = on.prepare_cached(concat!(
            "SELECT ",
            columns!(),
            " FROM post_once_claim WHERE principal = ?1 AND key = ?2"
        ))?;
        let found = select.query_row([&name.principal, &name.key], Stored::read).optional()?;
        Ok(found.map(|read| match read {
            Ok(stored) if stored.name != *name => {
                Err(corrupt(&name.key, "it has another name than its index says"))
            }
            Ok(stored) => Ok(stored),
            Err(what) => Err(corrupt(&name.key, what)),
        }))
    }

    /// Reads a row of [`columns!`], or says what is wrong with it.
    pub(super) fn read(row: &Row<'_>) -> Result<std::result::Result<Stored, String>> {
        Ok(Stored::fields(row.get(0)?, |at| row.get_ref(at)))
    }

    fn fields<'a>(
        id: i64,
        column: impl Fn(usize) -> Result<ValueRef<'a>>,
    ) -> std::result::Result<Stored, String> {
        let of = |what: &str| format!("its {what} is not what it can be");
        let take = |at, what: &str| column(at).map_err(|error| format!("its {what}: {error}"));
        let number = |at, what| match take(at, what)? {
            ValueRef::Null => Ok(None),
            value => value.as_i64().map(Some).map_err(|_| of(what)),
        };
        let text = |at, what| match take(at, what)? {
            ValueRef::Null => Ok(None),
            value => value.as_str().map(Some).map_err(|_| of(what)),
        };
        let must_number = |at, what| number(at, what)?.ok_or_else(|| of(what));
        let must_text = |at, what| text(at, what)?.ok_or_else(|| of(what));
        let written = must_text(3, "fingerprint")?;
        let point = text(9, "recovery point")?;
        let data = text(10, "recovery point")?.map(str::to_owned);
        let unconfirmed = must_number(11, "recovery point")? != 0;
        let stored = Stored {
            id,
            name: Name {
                principal: must_text(1, "principal")?.to_owned(),
                key: must_text(2, "key")?.to_owned(),
            },
            fingerprint: written.parse().map_err(|_| of("fingerprint"))?,
            token: must_number(4, "token")?,
            locked_until: must_number(5, "lease")?,
            expires_at: must_number(6, "retention")?,
            created_at: must_number(7, "time of creation")?,
            runs: u32::try_from(must_number(8, "number of runs")?).map_err(|_| of("runs"))?,
            point: point.map(|name| RecoveryPoint { name: name.to_owned(), data, unconfirmed }),
            answer: number(12, "status")?.zip(number(13, "sum of its answer")?),
        };
        if must_number(14, "sum")? == stored.sum(written) {
            Ok(stored)
        } else {
            Err("it is not what was written".to_owned())
        }
    }

    /// Its sum: nothing must be done by it when it is another one. It is part of the file, and never changes.
    fn sum(&self, fingerprint: &str) -> i64 {
        let point = self.point.as_ref();
        let data = point.and_then(|point| point.data.as_deref());
        let unconfirmed = point.is_some_and(|point| point.unconfirmed);
        let (status, of_answer) = self.answer.unwrap_or_default();
        let numbers = [
            self.token,
            self.locked_until,
            self.expires_at,
            self.created_at,
            self.runs.into(),
            point.is_some().into(),
            data.is_some().into(),
            unconfirmed.into(),
            self.answer.is_some().into(),
            status,
            of_answer,
        ];
        let numbers: Vec<_> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        sum(&[
            self.name.principal.as_bytes(),
            self.name.key.as_bytes(),
            fingerprint.as_bytes(),
            &numbers,
            point.map(|point| point.name.as_bytes()).unwrap_or_default(),
            data.map(str::as_bytes).unwrap_or_default(),
        ])
    }

    pub(super) fn is_answered(&self) -> bool {
        self.answer.is_some()
    }

    /// What the rule sees of it at this time.
    pub(super) fn seen(&self, now: SystemTime) -> Seen {
        let left =
            |end: i64| Duration::from_millis(end.saturating_sub(millis(now)).max(0).unsigned_abs());
        Seen {
            fingerprint: self.fingerprint,
            answered: self.is_answered(),
            lease_left: left(self.locked_until),
            retention_left: left(self.expires_at),
            point: self.point.clone(),
            runs: self.runs,
        }
    }

    /// Its answer; an error when there is none.
    pub(super) fn read_answer(&self, on: &Connection) -> Result<Read<StoredAnswer>> {
        let sql = "SELECT header_lines, body FROM post_once_claim WHERE id = ?1";
        on.prepare_cached(sql)?.query_row([self.id], |row| {
            let bytes = |at| match row.get_ref(at)? {
                ValueRef::Null => Ok(None),
                ValueRef::Blob(bytes) => Ok(Some(bytes)),
                value => Err(rusqlite::Error::InvalidColumnType(
                    at,
                    "an answer".to_owned(),
                    value.data_type(),
                )),
            };
            let (Ok(lines), Ok(body)) = (bytes(0), bytes(1)) else {
                return Ok(Err(self.corrupt("its answer has a type that it cannot have")));
            };
            Ok(self.meaning(lines, body).map_err(|what| self.corrupt(what)))
        })
    }

    fn meaning(
        &self,
        lines: Option<&[u8]>,
        body: Option<&[u8]>,
    ) -> std::result::Result<StoredAnswer, String> {
        let lines = lines.ok_or("its answer is missing")?;
        let (status, sum) = self.answer.ok_or("its answer is missing")?;
        if sum_of_answer(status, lines, body) != sum {
            return Err("its answer is not what was written".to_owned());
        }
        let status = u16::try_from(status).map_err(|error| error.to_string())?;
        StoredAnswer::read(status, lines, body.map(Bytes::copy_from_slice))
    }

    /// As it is handed out.
    pub(super) fn row(self, now: SystemTime, answer: Option<StoredAnswer>) -> store::Row {
        let age = millis(now).saturating_sub(self.created_at).max(0).unsigned_abs();
        store::Row {
            seen: self.seen(now),
            age: Duration::from_millis(age),
            holder: Holder::new(self.name, Token(self.token)),
            answer,
        }
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> ClaimError {
        corrupt(&self.name.key, what)
    }
}

/// It must not be given again when it is another one. It is part of the file, and never changes.
fn sum_of_answer(status: i64, lines: &[u8], body: Option<&[u8]>) -> i64 {
    let kept: &[u8] = if body.is_some() { b"kept" } else { b"" };
    sum(&[&status.to_le_bytes(), lines, kept, body.unwrap_or_default()])
}

pub(super) fn corrupt(key: &str, what: impl Into<String>) -> ClaimError {
    ClaimError::Corrupt { key: key.to_owned(), what: what.into() }
}
