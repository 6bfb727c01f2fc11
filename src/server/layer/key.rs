//! Reading the key of a request.

use http::{HeaderMap, HeaderName};

use crate::key::IdempotencyKey;
use crate::server::problem::Problem;

/// The key in this field, raw or quoted. `None`: there is none.
pub(super) fn read(
    headers: &HeaderMap,
    field: &HeaderName,
    longest: usize,
) -> Result<Option<IdempotencyKey>, Problem> {
    let mut values = headers.get_all(field).iter();
    let (Some(value), more) = (values.next(), values.next()) else { return Ok(None) };
    if more.is_some() {
        return Err(Problem::KeyMalformed("The key is given more than once.".to_owned()));
    }
    let key = IdempotencyKey::from_header_value(value)
        .map_err(|error| Problem::KeyMalformed(format!("{error}.")))?;
    let length = key.to_string().len();
    if length > longest {
        let why = format!("The key has {length} bytes, and may have {longest} at most.");
        return Err(Problem::KeyMalformed(why));
    }
    Ok(Some(key))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    /// O-26
    #[test]
    fn a_key_is_one_field_raw_or_quoted() {
        let field = HeaderName::from_static("idempotency-key");
        let long = "x".repeat(21);
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&["abc"], Ok(Some("abc"))),
            (&["\"abc\""], Ok(Some("abc"))),
            (&["\"a\\\"b\""], Ok(Some("a\"b"))),
            (&[""], Err("empty")),
            (&["\"\""], Err("empty")),
            (&["\"abc"], Err("RFC 9651")),
            (&["a\tb"], Err("printable ASCII")),
            (&["\u{e9}"], Err("printable ASCII")),
            (&["abc", "abc"], Err("more than once")),
            (&["abc", "\"abc\""], Err("more than once")),
            (&[&long[..20]], Ok(Some(&long[..20]))),
            (&[&long], Err("at most")),
        ] {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(&field, HeaderValue::from_bytes(value.as_bytes()).unwrap());
            }
            match (read(&headers, &field, 20), expected) {
                (Ok(key), Ok(expected)) => {
                    let expected = expected.map(|text| IdempotencyKey::parse(text).unwrap());
                    assert_eq!(key, expected, "{values:?}");
                }
                (Err(Problem::KeyMalformed(why)), Err(expected)) => {
                    assert!(why.contains(expected), "{values:?}: {why}");
                }
                (read, expected) => panic!("{values:?}: {read:?}, not {expected:?}"),
            }
        }
    }
}
