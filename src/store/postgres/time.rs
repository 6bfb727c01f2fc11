//! Times in statements, by the server's clock: microseconds since, until, and ahead.

use std::time::Duration;

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
        concat!(
            "(date_part('epoch', ",
            $crate::store::postgres::now!(),
            " - ",
            $time,
            ") * 1000000)::bigint"
        )
    };
}

/// Microseconds from the epoch until then.
#[cfg(feature = "client")]
macro_rules! epoch {
    ($time:literal) => {
        concat!("(date_part('epoch', ", $time, ") * 1000000)::bigint")
    };
}

/// The instant that lies so many microseconds ahead.
macro_rules! ahead {
    ($microseconds:literal) => {
        concat!(
            "(",
            $crate::store::postgres::now!(),
            " + ",
            $microseconds,
            " * interval '1 microsecond')"
        )
    };
}

#[cfg(feature = "client")]
pub(crate) use epoch;
pub(crate) use {age, ahead, now};

/// An age or what is left; what lies in the future has no age.
pub(crate) fn duration(microseconds: Option<i64>) -> Duration {
    Duration::from_micros(u64::try_from(microseconds.unwrap_or_default()).unwrap_or_default())
}

/// Whole microseconds, at most two centuries: more is "for ever" for a lease and for a wait.
pub(crate) fn microseconds(duration: Duration) -> i64 {
    const FOR_EVER: Duration = Duration::from_secs(200 * 365 * 86_400);
    i64::try_from(duration.min(FOR_EVER).as_micros()).expect("two centuries fit")
}
