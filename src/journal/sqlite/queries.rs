//! What reads, on its own connection; and purging, which finds its rows there.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, OptionalExtension, Result, Row, named_params};

use super::row::{Stored, columns};
use super::verbs::Read;
use crate::journal::{Gauges, List, Purge};
use crate::store::sqlite::{atomically, millis};

/// What nobody will touch any more, since before the time in ?2.
macro_rules! closed {
    () => {
        "state IN ('completed', 'abandoned') AND updated_at <= ?2"
    };
}

/// The condition of the index of what is not settled, word for word: only so the index is used.
macro_rules! unsettled {
    () => {
        "(state = 'parked' OR state = 'unknown' OR state = 'purged')"
    };
}

/// What has a body left.
macro_rules! full {
    () => {
        "(length(body) > 0 OR answer_body IS NOT NULL)"
    };
}

/// How many rows there are, how many of them have a window that has closed, when the oldest of the others
/// was created, and when the first of their windows closes.
macro_rules! counted {
    ($($of:expr),+) => {
        concat!(
            "SELECT count(*), sum(first_send_at + usable_ms <= ?1), \
             min(iif(first_send_at + usable_ms <= ?1, NULL, created_at)), \
             min(iif(first_send_at + usable_ms > ?1, first_send_at + usable_ms, NULL)) \
             FROM post_once_operations WHERE ",
            $($of),+
        )
    };
}

/// The rows of a listing.
macro_rules! listed {
    () => {
        concat!(
            "SELECT ",
            columns!(),
            " FROM post_once_operations WHERE id > :after AND state <> 'purged' \
             AND (:states = '[]' OR state IN (SELECT value FROM json_each(:states))) \
             AND (:scope IS NULL OR scope = :scope)"
        )
    };
}

pub(super) fn by_key(connection: &Connection, key: &str) -> Result<Vec<Read>> {
    let mut select = connection.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM post_once_operations WHERE key = ?1 ORDER BY id"
    ))?;
    select.query_map([key], Stored::read)?.collect()
}

pub(super) fn list(connection: &Connection, filter: &List) -> Result<Vec<Read>> {
    let states: Vec<_> = filter.states.iter().map(|state| state.as_str()).collect();
    let closed = |state: &&str| matches!(*state, "completed" | "abandoned");
    // What is open among many that are not is found by the indexes that have nothing else.
    let sql = if states.is_empty() || states.iter().any(closed) {
        concat!(listed!(), " ORDER BY id LIMIT :limit")
    } else {
        concat!(
            listed!(),
            " AND id IN (SELECT id FROM post_once_operations WHERE due_at IS NOT NULL \
             UNION ALL SELECT id FROM post_once_operations WHERE ",
            unsettled!(),
            ") ORDER BY id LIMIT :limit"
        )
    };
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map(
        named_params! {
            ":after": filter.after.map_or(i64::MIN, |after| after.0),
            ":states": json(&states),
            ":scope": filter.scope,
            ":limit": filter.limit,
        },
        Stored::read,
    )?;
    rows.collect()
}

/// A list as JSON, the form in which a statement takes one.
pub(super) fn json(list: &[impl serde::Serialize]) -> String {
    serde_json::to_string(list).expect("a list of texts is JSON")
}

pub(super) fn gauges(connection: &Connection, now: SystemTime) -> Result<Gauges> {
    let at = millis(now);
    let mut gauges = Gauges::default();
    let (mut oldest, mut closes) = (None, None);
    // What is not settled is in one of two small indexes, and nothing but them is read.
    for (sql, open) in [
        (counted!("due_at IS NOT NULL"), &mut gauges.pending),
        (counted!("state = 'parked' AND ", unsettled!()), &mut gauges.parked),
    ] {
        let mut select = connection.prepare_cached(sql)?;
        let (count, closed) = select.query_row([at], |row| {
            oldest = [oldest, row.get(2)?].into_iter().flatten().min();
            closes = [closes, row.get(3)?].into_iter().flatten().min();
            Ok((number(row, 0)?, number(row, 1)?))
        })?;
        *open = count.saturating_sub(closed);
        gauges.unknown += closed;
    }
    let mut unknown = connection.prepare_cached(concat!(
        "SELECT count(*) FROM post_once_operations WHERE state = 'unknown' AND ",
        unsettled!()
    ))?;
    gauges.unknown += unknown.query_row([], |row| number(row, 0))?;
    let mut settled =
        connection.prepare_cached("SELECT rows FROM post_once_counts WHERE state = ?1")?;
    gauges.completed = settled.query_row(["completed"], |row| number(row, 0))?;
    gauges.abandoned = settled.query_row(["abandoned"], |row| number(row, 0))?;
    let span =
        |from: i64, to: i64| Duration::from_millis(to.saturating_sub(from).max(0).unsigned_abs());
    gauges.oldest = oldest.map(|created| span(created, at));
    gauges.closes_first = closes.map(|end| span(at, end));
    Ok(gauges)
}

/// A count; of nothing it is NULL.
fn number(row: &Row<'_>, column: usize) -> Result<u64> {
    Ok(row.get::<_, Option<i64>>(column)?.unwrap_or(0).max(0).unsigned_abs())
}

/// Rows that may be purged: after this one, in their order.
pub(super) fn purgeable(
    connection: &Connection,
    what: Purge,
    after: i64,
    before: SystemTime,
    limit: u32,
) -> Result<Vec<i64>> {
    let mut select = connection.prepare_cached(match what {
        Purge::Bodies => concat!(
            "SELECT id FROM post_once_operations WHERE id > ?1 AND ",
            closed!(),
            " AND ",
            full!(),
            " ORDER BY id LIMIT ?3"
        ),
        Purge::Names => concat!(
            "SELECT id FROM post_once_operations WHERE id > ?1 AND ",
            closed!(),
            " ORDER BY id LIMIT ?3"
        ),
    })?;
    select.query_map((after, millis(before), limit), |row| row.get(0))?.collect()
}

/// Purges these rows, as far as they are still what they were. One that cannot be read stays.
pub(super) fn purge(
    connection: &Connection,
    what: Purge,
    rows: &[i64],
    before: SystemTime,
) -> Result<u64> {
    let before = millis(before);
    let purge = match what {
        Purge::Bodies => empty,
        Purge::Names => delete,
    };
    atomically(connection, || {
        let mut touched = 0;
        for row in rows {
            touched += purge(connection, *row, before)?;
        }
        if what == Purge::Names {
            // What was the last row once.
            let mut delete = connection.prepare_cached(concat!(
                "DELETE FROM post_once_operations WHERE state = 'purged' AND ",
                unsettled!(),
                " AND id < (SELECT max(id) FROM post_once_operations)"
            ))?;
            delete.execute([])?;
        }
        Ok(touched as u64)
    })
}

/// Deletes one row; of the last one the number stays, so that it is not given again.
fn delete(connection: &Connection, row: i64, before: i64) -> Result<usize> {
    let mut hollow = connection.prepare_cached(concat!(
        "UPDATE post_once_operations SET state = 'purged', scope = '', name = NULL, key = '', \
         head = '', trail = NULL, answer_status = NULL, answer_head = NULL, answer_body = NULL, \
         body = x'' WHERE id = ?1 AND id = (SELECT max(id) FROM post_once_operations) AND ",
        closed!()
    ))?;
    let mut delete = connection.prepare_cached(concat!(
        "DELETE FROM post_once_operations WHERE id = ?1 AND ",
        closed!()
    ))?;
    Ok(hollow.execute((row, before))? + delete.execute((row, before))?)
}

/// Empties one row of its bodies.
fn empty(connection: &Connection, row: i64, before: i64) -> Result<usize> {
    let mut select = connection.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM post_once_operations WHERE id = ?1 AND ",
        closed!(),
        " AND ",
        full!()
    ))?;
    let Some(Ok(stored)) = select.query_row((row, before), Stored::read).optional()? else {
        return Ok(0);
    };
    let (request_sum, answer_sum) = stored.emptied();
    let mut update = connection.prepare_cached(
        "UPDATE post_once_operations SET body = x'', answer_body = NULL, request_sum = ?2, \
         answer_sum = ?3 WHERE id = ?1",
    )?;
    update.execute((row, request_sum, answer_sum))
}

/// So much earlier than this.
pub(super) fn before(now: SystemTime, age: Duration) -> SystemTime {
    now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH)
}
