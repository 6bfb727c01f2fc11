//! Rows as they are read.

use bytes::Bytes;
use sqlx::Row as _;
use sqlx::postgres::PgRow;

use crate::server::answer::StoredAnswer;
use crate::server::claim::{RecoveryPoint, Seen};
use crate::server::store::{ClaimError, Holder, Name, Row, Token};
use crate::store::postgres::duration;

/// What the rule sees of the row `o`, and its token. Times in microseconds, by the server's clock.
macro_rules! seen {
    () => {
        concat!(
            "o.token, o.fingerprint, o.status, -",
            $crate::store::postgres::age!("o.locked_until"),
            ", -",
            $crate::store::postgres::age!("o.expires_at"),
            ", o.runs, o.point_name, o.point_data, o.point_unconfirmed"
        )
    };
}

/// All that a [`Row`] is made of, of the row `o`.
macro_rules! columns {
    () => {
        concat!(
            $crate::server::store::postgres::row::seen!(),
            ", o.header_lines, o.body, o.principal, o.key, ",
            $crate::store::postgres::age!("o.created_at")
        )
    };
}

/// The row `o` may be forgotten: [`Seen::may_be_forgotten`]. Its first line is the predicate of an index.
macro_rules! forgotten {
    () => {
        concat!(
            "((o.status IS NOT NULL OR o.point_name IS NULL) AND o.expires_at <= ",
            $crate::store::postgres::now!(),
            " AND (o.status IS NOT NULL OR o.locked_until <= ",
            $crate::store::postgres::now!(),
            "))"
        )
    };
}

/// Nobody works on the row `o`, and it is not answered.
macro_rules! dead {
    () => {
        concat!("(o.status IS NULL AND o.locked_until <= ", $crate::store::postgres::now!(), ")")
    };
}

pub(super) use {columns, dead, forgotten, seen};

/// What is stored under a key.
pub(super) struct Stored {
    pub(super) token: Token,
    pub(super) seen: Seen,
    pub(super) answer: Option<StoredAnswer>,
}

/// Reads what `seen!()` selects, from this column on, and after it the header lines and the body.
pub(super) fn stored(row: &PgRow, from: usize, key: &str) -> Result<Stored, ClaimError> {
    let corrupt = |what: String| ClaimError::Corrupt { key: key.to_owned(), what };
    read(row, from).map_err(|error| corrupt(error.to_string()))?.map_err(corrupt)
}

/// Reads what `columns!()` selects.
pub(super) fn row(row: &PgRow) -> Result<Row, ClaimError> {
    let failed = |error: sqlx::Error| ClaimError::Failed(error.into());
    let principal = row.try_get(11).map_err(failed)?;
    let key: String = row.try_get(12).map_err(failed)?;
    let age = duration(row.try_get(13).map_err(failed)?);
    let Stored { token, seen, answer } = stored(row, 0, &key)?;
    Ok(Row { holder: Holder::new(Name { principal, key }, token), seen, age, answer })
}

/// The recovery point, of which the name is in this column.
pub(super) fn point(row: &PgRow, from: usize) -> Result<Option<RecoveryPoint>, sqlx::Error> {
    let name: Option<String> = row.try_get(from)?;
    let (data, unconfirmed) = (row.try_get(from + 1)?, row.try_get(from + 2)?);
    Ok(name.map(|name| RecoveryPoint { name, data, unconfirmed }))
}

fn read(row: &PgRow, from: usize) -> Result<Result<Stored, String>, sqlx::Error> {
    let at = |column: usize| from + column;
    let fingerprint: &str = row.try_get(at(1))?;
    let status: Option<i16> = row.try_get(at(2))?;
    let runs: i32 = row.try_get(at(5))?;
    let lines: Option<&[u8]> = row.try_get(at(9))?;
    let body = row.try_get::<Option<Vec<u8>>, _>(at(10))?.map(Bytes::from);
    let (token, point) = (Token(row.try_get(at(0))?), point(row, at(6))?);
    let (lease_left, retention_left) =
        (duration(row.try_get(at(3))?), duration(row.try_get(at(4))?));
    let made = || {
        let seen = Seen {
            fingerprint: fingerprint.parse().map_err(|_| "its fingerprint".to_owned())?,
            answered: status.is_some(),
            lease_left,
            retention_left,
            point,
            runs: runs.unsigned_abs(),
        };
        let answer = match (status, lines) {
            (Some(status), Some(lines)) => {
                let status = u16::try_from(status).map_err(|_| "its status".to_owned())?;
                Some(StoredAnswer::read(status, lines, body)?)
            }
            _ => None,
        };
        Ok(Stored { token, seen, answer })
    };
    Ok(made())
}
