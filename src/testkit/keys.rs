//! Where a request carries its idempotency key, and reading it.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The place of the key.
#[derive(Debug, Clone)]
pub(super) enum KeyCarrier {
    Header(HeaderName),
    /// A top-level member of the JSON body.
    Member(String),
}

/// A request may not be answered at all for its key: 400.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadKey;

impl KeyCarrier {
    /// The key without its quotes; `None` if the request has none. Two fields, an empty key and
    /// one that is not visible ASCII are refused.
    pub(super) fn read(&self, headers: &HeaderMap, body: &[u8]) -> Result<Option<String>, BadKey> {
        match self {
            Self::Header(name) => {
                let mut values = headers.get_all(name).iter();
                match (values.next(), values.next()) {
                    (None, _) => Ok(None),
                    (Some(value), None) => unquoted(value).map(Some),
                    (Some(_), Some(_)) => Err(BadKey),
                }
            }
            Self::Member(name) => {
                let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
                match body.as_ref().and_then(|body| body.get(name)) {
                    None => Ok(None),
                    Some(serde_json::Value::String(key)) if !key.is_empty() => {
                        Ok(Some(key.clone()))
                    }
                    Some(_) => Err(BadKey),
                }
            }
        }
    }
}

/// Raw and quoted (an RFC 9651 string) are one key.
fn unquoted(value: &HeaderValue) -> Result<String, BadKey> {
    let raw = value.to_str().map_err(|_| BadKey)?.trim();
    let quoted = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let key = match quoted {
        Some(inner) => unescaped(inner),
        None => raw.to_owned(),
    };
    if key.is_empty() { Err(BadKey) } else { Ok(key) }
}

/// Takes the backslash off each escaped character (RFC 9651 §3.3.3).
fn unescaped(inner: &str) -> String {
    let mut characters = inner.chars();
    let mut key = String::with_capacity(inner.len());
    while let Some(character) = characters.next() {
        key.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_and_quoted_are_one_key_and_bad_ones_are_refused() {
        let carrier = KeyCarrier::Header(HeaderName::from_static("idempotency-key"));
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&["abc"], Ok(Some("abc"))),
            (&["\"abc\""], Ok(Some("abc"))),
            (&["\"a\\\"b\\\\\""], Ok(Some("a\"b\\"))),
            (&["\"\""], Err(BadKey)),
            (&[""], Err(BadKey)),
            (&["abc", "abc"], Err(BadKey)),
            (&["\u{e9}"], Err(BadKey)),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers
                    .append("idempotency-key", HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            let expected = expected.map(|key| key.map(str::to_owned));
            assert_eq!(carrier.read(&headers, b""), expected, "{values:?}");
        }
    }

    #[test]
    fn member_is_read_from_the_top_level_only() {
        let carrier = KeyCarrier::Member("idempotency_key".to_owned());
        for (body, expected) in [
            (r#"{"idempotency_key":"abc"}"#, Ok(Some("abc".to_owned()))),
            (r#"{"in":{"idempotency_key":"abc"}}"#, Ok(None)),
            (r#"{"idempotency_key":7}"#, Err(BadKey)),
            ("no json", Ok(None)),
        ] {
            assert_eq!(carrier.read(&HeaderMap::new(), body.as_bytes()), expected, "{body}");
        }
    }
}
