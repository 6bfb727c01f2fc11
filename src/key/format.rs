//! The spellings in which servers take a key.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::{IdempotencyKey, Repr};

/// How a key is written into a header field or a body member.
///
/// Raw is the default of every contract but the IETF draft's: to many servers `"k"` and `k` are
/// two different keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum KeyFormat {
    /// The text of the key as it is: for a minted key the 36 characters of a hyphenated UUID.
    #[default]
    Hyphenated,
    /// The 32 hexadecimal digits of a UUID. A text that is not a canonical UUID stays as it is.
    Simple,
    /// A quoted string (RFC 9651 §3.3.3), as draft-ietf-httpapi-idempotency-key-header-07 §2.1 asks.
    Quoted,
}

impl KeyFormat {
    /// The name on command lines and in tables: `hyphenated`, `simple` or `quoted`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hyphenated => "hyphenated",
            Self::Simple => "simple",
            Self::Quoted => "quoted",
        }
    }
}

impl fmt::Display for KeyFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for KeyFormat {
    type Err = UnknownKeyFormat;

    fn from_str(name: &str) -> Result<Self, UnknownKeyFormat> {
        [Self::Hyphenated, Self::Simple, Self::Quoted]
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or(UnknownKeyFormat(()))
    }
}

/// A name that is not one of a [`KeyFormat`].
#[derive(Debug, thiserror::Error)]
#[error("unknown key format: take hyphenated, simple or quoted")]
pub struct UnknownKeyFormat(());

impl IdempotencyKey {
    /// The key as text in this format, for a body member.
    #[must_use]
    pub fn render(&self, format: KeyFormat) -> Cow<'_, str> {
        match (&self.0, format) {
            (Repr::Text(text), KeyFormat::Hyphenated | KeyFormat::Simple) => Cow::Borrowed(text),
            (Repr::Text(text), KeyFormat::Quoted) => Cow::Owned(quoted(text)),
            (Repr::Uuid(uuid), KeyFormat::Hyphenated) => Cow::Owned(uuid.to_string()),
            (Repr::Uuid(uuid), KeyFormat::Simple) => Cow::Owned(uuid.simple().to_string()),
            (Repr::Uuid(uuid), KeyFormat::Quoted) => Cow::Owned(format!("\"{uuid}\"")),
        }
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        if matches!(char, '"' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_spells_uuids_and_texts_in_its_own_way() {
        let uuid = "0f0e0d0c-0b0a-4908-8706-050403020100";
        for (key, format, spelled) in [
            (uuid, KeyFormat::Hyphenated, uuid),
            (uuid, KeyFormat::Simple, "0f0e0d0c0b0a49088706050403020100"),
            (uuid, KeyFormat::Quoted, "\"0f0e0d0c-0b0a-4908-8706-050403020100\""),
            ("order 42", KeyFormat::Hyphenated, "order 42"),
            ("order 42", KeyFormat::Simple, "order 42"),
            ("order 42", KeyFormat::Quoted, "\"order 42\""),
            (r#"a"b\c"#, KeyFormat::Hyphenated, r#"a"b\c"#),
            (r#"a"b\c"#, KeyFormat::Quoted, r#""a\"b\\c""#),
        ] {
            assert_eq!(IdempotencyKey::parse(key).unwrap().render(format), spelled);
        }
    }

    #[test]
    fn format_names_are_read_back_and_others_are_refused() {
        for name in ["hyphenated", "simple", "quoted"] {
            assert_eq!(name.parse::<KeyFormat>().unwrap().name(), name);
        }
        for name in ["", "Simple", "raw"] {
            assert!(name.parse::<KeyFormat>().is_err());
        }
    }
}
