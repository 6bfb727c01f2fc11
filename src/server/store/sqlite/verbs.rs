//! The verbs. Those that write are run inside a transaction that holds the write lock.

use std::time::{Duration, SystemTime};

use rusqlite::{Connection, Result, Row};

use super::row::{Read, Stored, Written, columns, corrupt};
use crate::server::claim::{RecoveryPoint, Verdict, claim as judge};
use crate::server::store::{self, Ask, ClaimError, Claimed, Held, Holder, Name, Token};
use crate::store::sqlite::{after, atomically, millis};

/// What is left of a row that could be read; otherwise the error is what came of the verb.
macro_rules! read {
    ($read:expr) => {
        match $read {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        }
    };
}

pub(super) fn claim(on: &Connection, ask: &Ask, now: SystemTime) -> Result<Read<Claimed>> {
    let first = Stored::new(ask, now);
    if first.insert(on)? {
        return Ok(won(true, &first));
    }
    let name = &ask.holder.name;
    let Some(found) = Stored::by_name(on, name)? else {
        return Ok(Err(corrupt(&name.key, "its index leads to no row")));
    };
    let mut stored = read!(found);
    Ok(match judge(Some(&stored.seen(now)), &ask.fingerprint) {
        Verdict::Fresh => {
            let anew = atomically::<_, rusqlite::Error>(on, || {
                Ok(stored.delete(on)? && first.insert(on)?)
            })?;
            won(anew, &first)
        }
        Verdict::TakeOver => {
            let token = stored.token;
            stored.token = ask.holder.token.0;
            stored.runs = stored.runs.saturating_add(1);
            stored.locked_until = after(now, ask.lease);
            won(stored.update(on, token)?, &stored)
        }
        Verdict::Replay => Ok(Claimed::Answered(read!(stored.read_answer(on)?))),
        Verdict::InProgress { lease_left } => Ok(Claimed::InProgress { lease_left }),
        Verdict::Mismatch => Ok(Claimed::Mismatch),
        Verdict::Reconcile => Ok(Claimed::Reconcile),
    })
}

/// A row that was read in this transaction can only be missed by what reads and writes the file wrongly.
fn won(written: bool, stored: &Stored) -> Read<Claimed> {
    if written {
        Ok(Claimed::Won { run: stored.runs, point: stored.point.clone() })
    } else {
        Err(stored.corrupt("it was read, and cannot be found to be written"))
    }
}

/// Lets a worker change the row that it holds.
fn held(
    on: &Connection,
    holder: &Holder,
    write: impl FnOnce(Stored) -> Result<bool>,
) -> Result<Read<Held<()>>> {
    let Some(found) = Stored::by_name(on, &holder.name)? else { return Ok(Ok(Held::Lost)) };
    let stored = read!(found);
    if stored.token != holder.token.0 || stored.is_answered() {
        return Ok(Ok(Held::Lost));
    }
    Ok(Ok(if write(stored)? { Held::Yes(()) } else { Held::Lost }))
}

pub(super) fn renew(
    on: &Connection,
    holder: &Holder,
    lease: Duration,
    now: SystemTime,
) -> Result<Read<Held<()>>> {
    held(on, holder, |mut stored| {
        stored.locked_until = after(now, lease);
        stored.update(on, holder.token.0)
    })
}

pub(super) fn checkpoint(
    on: &Connection,
    holder: &Holder,
    point: &RecoveryPoint,
    lease: Duration,
    now: SystemTime,
) -> Result<Read<Held<()>>> {
    held(on, holder, |mut stored| {
        stored.point = Some(point.clone());
        stored.locked_until = after(now, lease);
        stored.update(on, holder.token.0)
    })
}

pub(super) fn complete(
    on: &Connection,
    holder: &Holder,
    answer: &Written,
    retention: Duration,
    now: SystemTime,
) -> Result<Read<Held<()>>> {
    held(on, holder, |mut stored| stored.answer(on, holder.token.0, answer, after(now, retention)))
}

/// Work that ends with an answer, or why it came to nothing.
#[derive(Debug)]
pub(crate) enum Undone<E> {
    Work(E),
    Store(ClaimError),
    Lost,
}

/// Why statements were rolled back.
enum Rolled<E> {
    For(Undone<E>),
    By(rusqlite::Error),
}

impl<E> From<rusqlite::Error> for Rolled<E> {
    fn from(error: rusqlite::Error) -> Rolled<E> {
        Rolled::By(error)
    }
}

/// Does work for a claim that is held, and completes it with the answer: both, or neither.
pub(super) fn transact<T, E>(
    on: &Connection,
    holder: &Holder,
    retention: Duration,
    now: SystemTime,
    work: impl FnOnce(&Connection) -> std::result::Result<(T, Written), E>,
) -> Result<std::result::Result<T, Undone<E>>> {
    let transacted = atomically(on, || {
        let mut done = None;
        let held = held(on, holder, |mut stored| match work(on) {
            // It ended the transaction, and its answer must not be written without it.
            _ if on.is_autocommit() => Ok(false),
            Ok((value, answer)) => {
                done = Some(Ok(value));
                stored.answer(on, holder.token.0, &answer, after(now, retention))
            }
            Err(error) => {
                done = Some(Err(error));
                Ok(true)
            }
        })?;
        match (done, held) {
            (Some(Err(error)), _) => Err(Rolled::For(Undone::Work(error))),
            (_, Err(error)) => Err(Rolled::For(Undone::Store(error))),
            (Some(Ok(value)), Ok(Held::Yes(()))) => Ok(value),
            (_, Ok(_)) => Err(Rolled::For(Undone::Lost)),
        }
    });
    match transacted {
        Ok(value) => Ok(Ok(value)),
        Err(Rolled::For(undone)) => Ok(Err(undone)),
        Err(Rolled::By(error)) => Err(error),
    }
}

pub(super) fn release(on: &Connection, holder: &Holder, now: SystemTime) -> Result<Read<Held<()>>> {
    held(on, holder, |mut stored| {
        if stored.point.is_none() {
            return stored.delete(on);
        }
        // A heartbeat that comes late must not hold it again.
        stored.token = Token::mint().0;
        stored.locked_until = millis(now);
        stored.update(on, holder.token.0)
    })
}

pub(super) fn look(
    on: &Connection,
    name: &Name,
    now: SystemTime,
) -> Result<Read<Option<store::Row>>> {
    // One view of the file for both queries.
    atomically(on, || {
        let Some(found) = Stored::by_name(on, name)? else { return Ok(Ok(None)) };
        let stored = read!(found);
        let answer = match stored.is_answered() {
            true => Some(read!(stored.read_answer(on)?)),
            false => None,
        };
        Ok(Ok(Some(stored.row(now, answer))))
    })
}

/// A page ends before a row that cannot be read, and the next one begins with its error.
pub(super) fn list(
    on: &Connection,
    after: Option<&Name>,
    limit: u32,
    now: SystemTime,
) -> Result<Read<Vec<store::Row>>> {
    // No key is empty.
    let (principal, key) = after.map_or(("", ""), |name| (&name.principal, &name.key));
    let mut select = on.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM post_once_claim INDEXED BY post_once_claim_unfinished \
         WHERE status IS NULL AND (point IS NOT NULL OR runs > 1) AND (principal, key) > (?1, ?2) \
         ORDER BY principal, key"
    ))?;
    let mut rows = select.query([principal, key])?;
    let mut page = Vec::new();
    while page.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
        let Some(row) = rows.next()? else { break };
        match Stored::read(row)? {
            Ok(stored) if stored.seen(now).waits_for_a_person() => page.push(stored.row(now, None)),
            Ok(_) => {}
            Err(what) if page.is_empty() => return Ok(Err(corrupt(&key_of(row), what))),
            Err(_) => break,
        }
    }
    Ok(Ok(page))
}

/// The key of a row that cannot be read, as far as it can.
fn key_of(row: &Row<'_>) -> String {
    let key = row.get_ref(2).ok().and_then(|key| key.as_bytes().ok());
    String::from_utf8_lossy(key.unwrap_or_default()).into_owned()
}

/// What a person decided, ready to be written.
#[derive(Debug)]
pub(super) enum Settle {
    RunAgain,
    Answer(Written, Duration),
    Forget,
}

pub(super) fn settle(
    on: &Connection,
    seen: &Holder,
    decision: &Settle,
    now: SystemTime,
) -> Result<Read<Held<()>>> {
    held(on, seen, |mut stored| {
        if stored.seen(now).is_live() {
            return Ok(false);
        }
        // Whoever was late must not write any more.
        stored.token = Token::mint().0;
        match decision {
            Settle::RunAgain => {
                stored.runs = 0;
                if let Some(point) = &mut stored.point {
                    point.unconfirmed = false;
                }
                stored.update(on, seen.token.0)
            }
            Settle::Answer(answer, retention) => {
                stored.answer(on, seen.token.0, answer, after(now, *retention))
            }
            Settle::Forget => {
                stored.token = seen.token.0;
                stored.delete(on)
            }
        }
    })
}

/// What cannot be read is not deleted: it may be what must not be forgotten.
pub(super) fn sweep(on: &Connection, limit: u32, now: SystemTime) -> Result<u64> {
    let mut select = on.prepare_cached(concat!(
        "SELECT ",
        columns!(),
        " FROM post_once_claim INDEXED BY post_once_claim_expiry \
         WHERE (status IS NOT NULL OR point IS NULL) AND expires_at <= ?1 ORDER BY expires_at"
    ))?;
    let mut rows = select.query([millis(now)])?;
    let mut over = Vec::new();
    while over.len() < usize::try_from(limit).unwrap_or(usize::MAX) {
        let Some(row) = rows.next()? else { break };
        over.extend(Stored::read(row)?.ok().filter(|stored| stored.seen(now).may_be_forgotten()));
    }
    drop(rows);
    drop(select);
    let mut swept = 0;
    for stored in over {
        swept += u64::from(stored.delete(on)?);
    }
    Ok(swept)
}
