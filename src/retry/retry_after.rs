//! Reading `Retry-After` (RFC 9110 §10.2.3).
//!
//! The value is a number of seconds or one of the three forms of an HTTP date (RFC 9110 §5.6.7),
//! always in UTC. A date is judged against the response's own `Date`, so that it does not matter
//! how far the two clocks are apart. What does not fit the grammar is ignored, as is a field that
//! is there twice: then the usual backoff applies.

use std::time::{Duration, SystemTime};

use http::header::{DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};

/// The wait that the server asks for, if it validly asks for one. A date in the past asks for none.
pub(crate) fn read(headers: &HeaderMap, now: impl FnOnce() -> SystemTime) -> Option<Duration> {
    let value = only(headers, &RETRY_AFTER)?;
    if let Some(seconds) = whole_number(value) {
        return Some(Duration::from_secs(seconds));
    }
    let at = date(value)?;
    let now = only(headers, &DATE).and_then(date).unwrap_or_else(now);
    Some(at.duration_since(now).unwrap_or(Duration::ZERO))
}

/// The same from a field in milliseconds, such as `retry-after-ms`, where a contract names one.
pub(crate) fn read_millis(headers: &HeaderMap, name: &HeaderName) -> Option<Duration> {
    only(headers, name).and_then(whole_number).map(Duration::from_millis)
}

/// The field's value, trimmed, if the field is there exactly once and is text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => HeaderValue::to_str(value).ok().map(str::trim),
        _ => None,
    }
}

/// `1*DIGIT`; more than fits is as long as it can be.
fn whole_number(value: &str) -> Option<u64> {
    let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| value.parse().unwrap_or(u64::MAX))
}

fn date(value: &str) -> Option<SystemTime> {
    httpdate::parse_http_date(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT, the date of RFC 9110's examples.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)
    }

    fn headers(fields: &[(HeaderName, &[u8])]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        map
    }

    fn seconds(n: u64) -> Option<Duration> {
        Some(Duration::from_secs(n))
    }

    // O-13. No zone is ever read: the three forms are UTC by grammar, whatever TZ says.
    #[test]
    fn one_value_of_every_kind() {
        let table: &[(&[u8], Option<Duration>)] = &[
            (b"120", seconds(120)),
            (b" 120 ", seconds(120)),
            (b"0", seconds(0)),
            (b"00005", seconds(5)),
            (b"Sun, 06 Nov 1994 08:49:47 GMT", seconds(10)),
            (b"Sunday, 06-Nov-94 08:49:47 GMT", seconds(10)),
            (b"Sun Nov  6 08:49:47 1994", seconds(10)),
            (b"Sun, 06 Nov 1994 08:49:27 GMT", seconds(0)),
            (b"-1", None),
            (b"+1", None),
            (b"1.5", None),
            (b"inf", None),
            (b"1e3", None),
            (b"0x10", None),
            (b"", None),
            (b" ", None),
            (b"\xe9", None),
            (b"soon", None),
            (b"Sun, 06 Nov 1994 08:49:47 CET", None),
            (b"1, 2", None),
        ];
        for (value, expected) in table {
            let read = read(&headers(&[(RETRY_AFTER, value)]), now);
            assert_eq!(read, *expected, "{:?}", String::from_utf8_lossy(value));
        }
    }

    // O-14.
    #[test]
    fn absurd_but_valid_values_are_long_not_wrong() {
        let epoch = read(&headers(&[(RETRY_AFTER, b"1732982400")]), now);
        assert_eq!(epoch, seconds(1_732_982_400));
        let digits = read(&headers(&[(RETRY_AFTER, b"123456789012345678901234567890")]), now);
        assert_eq!(digits, seconds(u64::MAX));
        let far = read(&headers(&[(RETRY_AFTER, b"Fri, 31 Dec 9999 23:59:59 GMT")]), now);
        assert!(far > seconds(8_000 * 365 * 86_400));
    }

    #[test]
    fn a_field_that_is_there_twice_is_ignored() {
        let twice = headers(&[(RETRY_AFTER, b"1"), (RETRY_AFTER, b"2")]);
        assert_eq!(read(&twice, now), None);
        assert_eq!(read(&HeaderMap::new(), now), None);
    }

    #[test]
    fn a_date_is_judged_against_the_response_date() {
        let at: &[u8] = b"Sun, 06 Nov 1994 08:49:47 GMT";
        let an_hour_behind: &[u8] = b"Sun, 06 Nov 1994 07:49:37 GMT";
        let with = |date: &[u8]| read(&headers(&[(RETRY_AFTER, at), (DATE, date)]), now);
        assert_eq!(with(an_hour_behind), seconds(3_610));
        assert_eq!(with(b"not a date"), seconds(10), "then against our own clock");
    }

    #[test]
    fn milliseconds_are_whole_numbers_too() {
        let name = HeaderName::from_static("retry-after-ms");
        let with = |value| read_millis(&headers(&[(name.clone(), value)]), &name);
        assert_eq!(with(b"250"), Some(Duration::from_millis(250)));
        assert_eq!(with(b"2.5"), None);
    }
}
