//! Times as columns hold them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since the epoch.
pub(crate) fn millis(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => length(since),
        Err(before) => -length(before.duration()),
    }
}

/// Whole milliseconds; at most so many that a few of them added up fit into a column.
pub(crate) fn length(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

/// So long after this: never before it, and never beyond the end of time.
pub(crate) fn after(now: SystemTime, wait: Duration) -> i64 {
    match now.duration_since(UNIX_EPOCH) {
        Ok(since) if !wait.is_zero() => {
            let end = since.saturating_add(wait);
            let begun = i64::from(end.subsec_nanos() % 1_000_000 != 0);
            length(end).saturating_add(begun)
        }
        Ok(_) | Err(_) => millis(now).saturating_add(length(wait)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_milliseconds_and_never_overflow() {
        assert_eq!(millis(UNIX_EPOCH + Duration::from_micros(1_999)), 1);
        assert_eq!(millis(UNIX_EPOCH - Duration::from_millis(5)), -5);
        let now = UNIX_EPOCH + Duration::from_micros(10_001);
        assert_eq!(after(now, Duration::from_millis(5)), 16, "not before");
        assert_eq!(after(now, Duration::ZERO), 10, "at once");
        assert!(after(now, Duration::MAX) > i64::MAX / 8);
        assert_eq!(after(UNIX_EPOCH, Duration::from_millis(5)), 5);
        assert!(after(UNIX_EPOCH - Duration::from_secs(1), Duration::MAX) > i64::MAX / 8);
        assert!(length(Duration::MAX).checked_mul(3).is_some());
    }
}
