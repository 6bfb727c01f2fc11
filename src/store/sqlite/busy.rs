//! Waiting for a lock that another process holds.

use std::time::Duration;

use rand::RngExt;
use rusqlite::{Connection, ErrorCode};

use crate::clock;

/// The waits of one lock, at most: about half a minute.
const MOST_WAITS: i32 = 10_000;
/// The waits of a checkpoint, during which nobody writes: about a tenth of a second.
const FEW_WAITS: i32 = 50;

/// Makes a connection wait for locks.
pub(super) fn patient(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(waited_long as fn(i32) -> bool))
}

/// Makes a connection wait for locks a little.
pub(super) fn impatient(connection: &mut Connection) -> rusqlite::Result<()> {
    connection.busy_handler(Some(waited_briefly as fn(i32) -> bool))
}

/// Tries again what is refused at once, without a word to the busy handler: changing the journal mode.
pub(super) fn patiently<T>(
    mut attempt: impl FnMut() -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let mut waits = 0;
    loop {
        match attempt() {
            Err(error)
                if matches!(
                    error.sqlite_error_code(),
                    Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
                ) && waited_long(waits) =>
            {
                waits += 1;
            }
            result => return result,
        }
    }
}

fn waited_long(waits: i32) -> bool {
    wait(waits, MOST_WAITS)
}

fn waited_briefly(waits: i32) -> bool {
    wait(waits, FEW_WAITS)
}

fn wait(waits: i32, most: i32) -> bool {
    let go_on = waits < most;
    if go_on {
        let unit: f64 = rand::rng().random();
        clock::block(pause(waits, unit));
    }
    go_on
}

/// Short at first, for a commit is short; then a few milliseconds. Random, so that of several who wait
/// none comes always too late.
fn pause(waits: i32, unit: f64) -> Duration {
    let (least, most) = if waits < 10 { (100.0, 500.0) } else { (500.0, 5_500.0) };
    Duration::from_secs_f64((least + unit * (most - least)) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_short_random_and_half_a_minute_in_all() {
        assert_eq!(pause(0, 0.0), Duration::from_micros(100));
        assert_eq!(pause(9, 0.5), Duration::from_micros(300));
        assert_eq!(pause(10, 0.0), Duration::from_micros(500));
        assert_eq!(pause(5_000, 0.5), Duration::from_millis(3));
        let total: Duration = (0..MOST_WAITS).map(|waits| pause(waits, 0.5)).sum();
        assert!((25..35).contains(&total.as_secs()), "{total:?}");
        let brief: Duration = (0..FEW_WAITS).map(|waits| pause(waits, 0.5)).sum();
        assert!((100..200).contains(&brief.as_millis()), "{brief:?}");
        assert!(!waited_long(MOST_WAITS) && !waited_briefly(FEW_WAITS));
    }
}
