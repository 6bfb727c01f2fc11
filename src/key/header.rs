//! The key in a header field: written in the server's format, read in either.

use http::HeaderValue;
use sfv::{BareItem, Item, Parser};

use super::{IdempotencyKey, KeyError, KeyFormat, Repr};

impl IdempotencyKey {
    /// Reads the value of a key field: the raw text or, when it starts with a quote, the string of
    /// RFC 9651 §3.3.3. `"k"` and `k` are one key here. Parameters after a string are ignored.
    ///
    /// # Errors
    /// When the value is neither, or its text is not a key ([`IdempotencyKey::parse`]).
    pub fn from_header_value(value: &HeaderValue) -> Result<Self, KeyError> {
        let Ok(text) = value.to_str() else {
            return Err(KeyError::not_printable(&String::from_utf8_lossy(value.as_bytes())));
        };
        if !text.starts_with('"') {
            return Self::parse(text);
        }
        match Parser::new(text).parse::<Item>().map(|item| item.bare_item) {
            Ok(BareItem::String(string)) => Self::parse(string.as_str()),
            _ => Err(KeyError::quoting(text)),
        }
    }

    /// The value of the key field in this format, marked sensitive so that logs and HPACK tables
    /// leave it out.
    #[must_use]
    pub fn to_header_value(&self, format: KeyFormat) -> HeaderValue {
        let mut buffer = [b'"'; 38];
        let value = match (&self.0, format) {
            (Repr::Uuid(uuid), KeyFormat::Hyphenated) => {
                HeaderValue::from_str(uuid.as_hyphenated().encode_lower(&mut buffer))
            }
            (Repr::Uuid(uuid), KeyFormat::Simple) => {
                HeaderValue::from_str(uuid.as_simple().encode_lower(&mut buffer))
            }
            (Repr::Uuid(uuid), KeyFormat::Quoted) => {
                uuid.as_hyphenated().encode_lower(&mut buffer[1..]);
                HeaderValue::from_bytes(&buffer)
            }
            (Repr::Text(_), _) => HeaderValue::from_str(&self.render(format)),
        };
        let mut value = value.expect("a key is printable ASCII, and so is its quoted form");
        value.set_sensitive(true);
        value
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FORMATS: [KeyFormat; 3] = [KeyFormat::Hyphenated, KeyFormat::Simple, KeyFormat::Quoted];

    #[test]
    fn a_header_value_is_the_rendered_key_and_sensitive() {
        for text in ["0f0e0d0c-0b0a-4908-8706-050403020100", "order 42", r#"a"b\c"#] {
            let key = IdempotencyKey::parse(text).unwrap();
            for format in FORMATS {
                let value = key.to_header_value(format);
                assert_eq!(value, key.render(format).as_ref());
                assert!(value.is_sensitive());
            }
        }
    }

    #[test]
    fn quoted_and_raw_are_one_key() {
        for (raw, value) in [
            ("order-42", "order-42"),
            ("order-42", "\"order-42\""),
            ("order-42", "\"order-42\";version=1"),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            (r#"a"b\c"#, r#"a"b\c"#),
            (":b64:", ":b64:"),
            ("0f0e0d0c-0b0a-4908-8706-050403020100", "\"0f0e0d0c-0b0a-4908-8706-050403020100\""),
        ] {
            let read = IdempotencyKey::from_header_value(&HeaderValue::from_static(value));
            assert_eq!(read.unwrap(), IdempotencyKey::parse(raw).unwrap());
        }
    }

    #[test]
    fn malformed_values_are_refused_with_the_reason() {
        let over = format!("\"{}\"", "x".repeat(256));
        for (value, says) in [
            ("", "is empty"),
            ("\"\"", "is empty"),
            ("\"", "RFC 9651"),
            ("\"open", "RFC 9651"),
            ("\"a\" \"b\"", "RFC 9651"),
            ("\"a\", \"b\"", "RFC 9651"),
            ("\"a\\n\"", "RFC 9651"),
            ("\" a\"", "no space at either end"),
            ("a\tb", "printable ASCII"),
            ("schlüssel", "printable ASCII"),
            (over.as_str(), "at most 255"),
        ] {
            let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
            let error = IdempotencyKey::from_header_value(&value).unwrap_err().to_string();
            assert!(error.contains(says), "{value:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn every_quoted_key_reads_back(text in "[!-~]([ -~]{0,253}[!-~])?") {
            let key = IdempotencyKey::parse(&text).unwrap();
            let value = key.to_header_value(KeyFormat::Quoted);
            prop_assert_eq!(IdempotencyKey::from_header_value(&value).unwrap(), key);
        }
    }
}
