//! Rows as they are read, and the values that are written into them.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::journal::{Ages, Draft, JournalError, Record, RowId, State, StoredAnswer, Token, Trail};
use crate::store::postgres::duration;

/// All that a [`Record`] is made of, of the row `o`. Ages in microseconds, by the server's clock.
macro_rules! columns {
    () => {
        concat!(
            "o.id, o.token, o.state, o.reason, o.scope, o.name, o.key, o.head, o.body, \
             o.attempts, o.lost, o.trail, o.sent, o.answer_status, o.answer_head, o.answer_body, ",
            row::age!("o.created"), ", ", row::age!("o.updated"), ", ", row::age!("o.first_send"), ", \
             CASE WHEN o.claimed THEN -(", row::age!("o.due"), ") END, ", row::epoch!("o.first_send")
        )
    };
}

pub(super) use crate::store::postgres::{age, ahead, epoch, microseconds, now};
pub(super) use columns;

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
        first_send_at: age(20)?.map(|at| UNIX_EPOCH + duration(Some(at))),
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
