//! Rows as they are read, and the values that are written into them.

use std::time::Duration;

use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::journal::{Ages, Draft, JournalError, Record, RowId, State, StoredAnswer, Token, Trail};

/// The moment of a verb: that of its statement. One for the whole statement, so that it can be looked
/// up in an index; and not that of the transaction, which may be a long one of the user's.
macro_rules! now {
    () => {
        "statement_timestamp()"
    };
}

/// Microseconds since then; less than none when it lies in the future.
macro_rules! age {
    ($time:literal) => {
        concat!("(date_part('epoch', ", row::now!(), " - ", $time, ") * 1000000)::bigint")
    };
}

/// The instant that lies so many microseconds ahead.
macro_rules! ahead {
    ($microseconds:literal) => {
        concat!("(", row::now!(), " + ", $microseconds, " * interval '1 microsecond')")
    };
}

/// All that a [`Record`] is made of, of the row `o`. Ages in microseconds, by the server's clock.
macro_rules! columns {
    () => {
        concat!(
            "o.id, o.token, o.state, o.reason, o.scope, o.name, o.key, o.head, o.body, \
             o.attempts, o.lost, o.trail, o.sent, o.answer_status, o.answer_head, o.answer_body, ",
            row::age!("o.created"), ", ", row::age!("o.updated"), ", ", row::age!("o.first_send"), ", \
             CASE WHEN o.claimed THEN -(", row::age!("o.due"), ") END"
        )
    };
}

pub(super) use {age, ahead, columns, now};

/// Reads what `columns!()` selects, from this column on.
pub(super) fn record(row: &PgRow, from: usize) -> Result<Record, JournalError> {
    let id: i64 = row.try_get(from).map_err(|error| JournalError::Failed(error.into()))?;
    let corrupt = |what: String| JournalError::Corrupt { row: id, what };
    read(row, from, RowId(id)).map_err(|error| corrupt(error.to_string()))?.map_err(corrupt)
}

fn read(row: &PgRow, from: usize, id: RowId) -> Result<Result<Record, String>, sqlx::Error> {
    let at = |column: usize| from + column;
    let state: &str = row.try_get(at(2))?;
    let head: &str = row.try_get(at(7))?;
    let body = Bytes::from(row.try_get::<Vec<u8>, _>(at(8))?);
    let (scope, name, key) = (row.try_get(at(4))?, row.try_get(at(5))?, row.try_get(at(6))?);
    let trail: &str = row.try_get(at(11))?;
    let status: Option<i32> = row.try_get(at(13))?;
    let answer_head: Option<&str> = row.try_get(at(14))?;
    let answer_body: Option<Vec<u8>> = row.try_get(at(15))?;
    let age = |column| row.try_get::<Option<i64>, _>(at(column));
    let first_send = age(18)?;
    let ages = Ages {
        created: duration(age(16)?),
        updated: duration(age(17)?),
        first_send: first_send.map(|age| duration(Some(age))),
        clock_went_back: first_send.is_some_and(|age| age < 0),
        lease_left: Some(duration(age(19)?)).filter(|left| !left.is_zero()),
    };
    let (token, reason, sent) = (row.try_get(at(1))?, row.try_get(at(3))?, row.try_get(at(12))?);
    let (attempts, lost): (i32, i32) = (row.try_get(at(9))?, row.try_get(at(10))?);
    let made = || {
        let answer = match (status, answer_head) {
            (Some(status), Some(head)) => {
                let status = u16::try_from(status).map_err(|_| "its status".to_owned())?;
                Some(StoredAnswer::read(status, head, answer_body.map(Bytes::from))?)
            }
            _ => None,
        };
        Ok(Record {
            row: id,
            token: Token(token),
            state: State::read(state, reason)?,
            draft: Draft::read(scope, name, key, head, body)?,
            attempts: attempts.unsigned_abs(),
            lost: lost.unsigned_abs(),
            trail: Trail::read(trail, sent)?,
            answer,
            ages,
        })
    };
    Ok(made())
}

/// An age or what is left; what lies in the future has no age.
fn duration(microseconds: Option<i64>) -> Duration {
    Duration::from_micros(u64::try_from(microseconds.unwrap_or_default()).unwrap_or_default())
}

/// Whole microseconds, at most a century: more is "for ever" for a lease and for a wait.
pub(super) fn microseconds(duration: Duration) -> i64 {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    i64::try_from(duration.min(CENTURY).as_micros()).expect("a century fits")
}
