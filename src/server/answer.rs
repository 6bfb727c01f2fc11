//! The answer that a key keeps, and what of it is given again.
//!
//! The rule: status and body as they are, and every header field byte for byte and line for line, but
//!
//! 1. those of one connection (RFC 9110 §7.6.1): `Connection` and what it names, `Keep-Alive`, `TE`,
//!    `Trailer`, `Transfer-Encoding`, `Upgrade`, `Proxy-*`; and `Content-Length`, which is counted anew;
//! 2. those of one exchange, [`EXCHANGE`]: `Date`, `Set-Cookie`, request ids, rate limits.
//!
//! # Not guaranteed
//! - The order of fields of different names is that of [`HeaderMap`]. It has no meaning (RFC 9110 §5.3).

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

/// Of one exchange, and wrong in another.
pub const EXCHANGE: [&str; 16] = [
    "age",
    "date",
    "server-timing",
    "set-cookie",
    "set-cookie2",
    "strict-transport-security",
    "alt-svc",
    "request-id",
    "x-request-id",
    "x-correlation-id",
    "traceparent",
    "tracestate",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "www-authenticate",
];

/// Of one exchange too: all that begin so.
pub const EXCHANGE_PREFIXES: [&str; 3] = ["ratelimit-", "x-ratelimit-", "x-rate-limit-"];

/// Of one connection.
const CONNECTION: [&str; 10] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Which header fields of an answer are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fields {
    /// All but those of one connection or of one exchange. The default.
    #[default]
    EndToEnd,
    /// Only these, and of these only the ones that the default keeps.
    Only(Vec<HeaderName>),
}

impl Fields {
    /// What is kept of these.
    #[must_use]
    pub fn keep(&self, headers: &HeaderMap) -> HeaderMap {
        let named: Vec<_> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .map(|name| name.trim().to_ascii_lowercase())
            .collect();
        let kept = |name: &HeaderName| {
            let text = name.as_str();
            let of_exchange = EXCHANGE.contains(&text)
                || EXCHANGE_PREFIXES.iter().any(|prefix| text.starts_with(prefix));
            let of_connection =
                CONNECTION.contains(&text) || named.iter().any(|named| named == text);
            let listed = match self {
                Fields::EndToEnd => true,
                Fields::Only(names) => names.contains(name),
            };
            listed && !of_exchange && !of_connection
        };
        let mut kept_fields = HeaderMap::new();
        for (name, value) in headers.iter().filter(|(name, _)| kept(name)) {
            kept_fields.append(name, value.clone());
        }
        kept_fields
    }
}

/// What a store keeps of an answer.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredAnswer {
    /// The status.
    pub status: StatusCode,
    /// The fields that are given again.
    pub headers: HeaderMap,
    /// The body; `None` when it was too large to keep.
    pub body: Option<Bytes>,
}

impl StoredAnswer {
    /// An answer, as it is kept.
    #[must_use]
    pub fn new(status: StatusCode, headers: HeaderMap, body: Option<Bytes>) -> StoredAnswer {
        StoredAnswer { status, headers, body }
    }

    /// The header fields as a store writes them: one line each, as in HTTP/1.1.
    #[must_use]
    pub fn header_lines(&self) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.headers.len() * 32);
        for (name, value) in &self.headers {
            lines.extend_from_slice(name.as_str().as_bytes());
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value.as_bytes());
            lines.push(b'\n');
        }
        lines
    }

    /// Reads back what a store wrote.
    ///
    /// # Errors
    /// What is wrong with it, when it is not what [`StoredAnswer::header_lines`] made.
    pub fn read(status: u16, lines: &[u8], body: Option<Bytes>) -> Result<StoredAnswer, String> {
        let status = StatusCode::from_u16(status).map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let at = line.windows(2).position(|pair| pair == b": ").ok_or("a line has no name")?;
            let name = HeaderName::from_bytes(&line[..at]).map_err(|error| error.to_string())?;
            let value =
                HeaderValue::from_bytes(&line[at + 2..]).map_err(|error| error.to_string())?;
            headers.append(name, value);
        }
        Ok(StoredAnswer { status, headers, body })
    }
}

impl fmt::Debug for StoredAnswer {
    /// Without its fields and its body, which are the caller's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &[u8])]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value).unwrap());
        }
        headers
    }

    /// O-28
    #[test]
    fn fields_of_a_connection_or_an_exchange_are_left_out_and_others_kept_line_for_line() {
        let kept: &[(&str, &[u8])] = &[
            ("location", b"/v1/charges/1"),
            ("link", b"<a>; rel=next, <b>"),
            ("link", b"<c>"),
            ("x-name", b"caf\xe9"),
            ("x-empty", b""),
            ("x-colon", b"a: b: c"),
            ("content-type", b"application/json"),
            ("etag", b"\"1\""),
        ];
        let left: &[(&str, &[u8])] = &[
            ("connection", b"close, X-Hop"),
            ("x-hop", b"1"),
            ("keep-alive", b"timeout=5"),
            ("transfer-encoding", b"chunked"),
            ("content-length", b"3"),
            ("date", b"Tue, 01 Dec 2026 00:00:00 GMT"),
            ("set-cookie", b"session=secret"),
            ("x-request-id", b"req_1"),
            ("ratelimit-remaining", b"3"),
            ("x-ratelimit-reset", b"9"),
            ("retry-after", b"1"),
        ];
        let all = fields(&[left, kept].concat());
        let headers = Fields::EndToEnd.keep(&all);
        assert_eq!(headers, fields(kept));

        let answer = StoredAnswer::new(StatusCode::CREATED, headers, Some(Bytes::from("{}")));
        let read = StoredAnswer::read(201, &answer.header_lines(), Some(Bytes::from("{}")));
        assert_eq!(read.unwrap(), answer);

        let only = Fields::Only(vec![header::LOCATION, header::SET_COOKIE]);
        assert_eq!(only.keep(&all), fields(&[("location", b"/v1/charges/1")]));
    }

    #[test]
    fn what_is_no_answer_is_not_read() {
        for (status, lines) in
            [(99, &b""[..]), (201, b"no name\n"), (201, b"a b: c\n"), (201, b"a: \x00\n")]
        {
            assert!(StoredAnswer::read(status, lines, None).is_err(), "{status} {lines:?}");
        }
    }

    #[test]
    fn nothing_of_the_callers_is_in_its_debug_output() {
        let headers = fields(&[("x-secret", b"s3cret")]);
        let answer = StoredAnswer::new(StatusCode::OK, headers, Some(Bytes::from("s3cret")));
        assert_eq!(format!("{answer:?}"), "StoredAnswer { status: 200, .. }");
    }
}
