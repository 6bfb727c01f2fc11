//! Why a text is no key, or not one that a server takes.

use rand::rngs::SysError;

use super::rule::{Alphabet, UuidRule};

/// How much of an offending text an error shows, in characters.
const SHOWN: usize = 64;

/// A key that was refused, or could not be minted. Nothing has been sent.
///
/// The message says what would be taken instead, and shows at most 64 characters of the refused
/// text, escaped.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct KeyError(Kind);

#[derive(Debug, thiserror::Error)]
enum Kind {
    #[error("idempotency key is empty: give 1 to 255 bytes of printable ASCII")]
    Empty,
    #[error("idempotency key of {len} bytes is too long: at most {max} are taken here ({shown})")]
    TooLong { len: usize, max: usize, shown: String },
    #[error("idempotency key of {len} bytes is too short: at least {min} are taken here ({shown})")]
    TooShort { len: usize, min: usize, shown: String },
    #[error("idempotency key may hold printable ASCII only, and no space at either end ({shown})")]
    NotPrintable { shown: String },
    #[error("idempotency key may hold only {alphabet} here ({shown})")]
    Alphabet { alphabet: Alphabet, shown: String },
    #[error("idempotency key must be {rule} here ({shown})")]
    Uuid { rule: UuidRule, shown: String },
    #[error(
        "idempotency key starts with a quote but is not a string by RFC 9651: \
         close the quote, and escape only quotes and backslashes ({shown})"
    )]
    Quoting { shown: String },
    #[error("the operating system gave no random bytes for an idempotency key")]
    NoRandomness(#[source] SysError),
}

impl KeyError {
    pub(super) fn empty() -> Self {
        Self(Kind::Empty)
    }

    pub(super) fn too_long(text: &str, max: usize) -> Self {
        Self(Kind::TooLong { len: text.len(), max, shown: shown(text) })
    }

    pub(super) fn too_short(text: &str, min: usize) -> Self {
        Self(Kind::TooShort { len: text.len(), min, shown: shown(text) })
    }

    pub(super) fn not_printable(text: &str) -> Self {
        Self(Kind::NotPrintable { shown: shown(text) })
    }

    pub(super) fn alphabet(text: &str, alphabet: Alphabet) -> Self {
        Self(Kind::Alphabet { alphabet, shown: shown(text) })
    }

    pub(super) fn uuid(text: &str, rule: UuidRule) -> Self {
        Self(Kind::Uuid { rule, shown: shown(text) })
    }

    pub(super) fn quoting(text: &str) -> Self {
        Self(Kind::Quoting { shown: shown(text) })
    }

    pub(super) fn no_randomness(error: SysError) -> Self {
        Self(Kind::NoRandomness(error))
    }
}

fn shown(text: &str) -> String {
    let escaped: Vec<char> = text.chars().take(SHOWN + 1).flat_map(char::escape_default).collect();
    let cut = if escaped.len() > SHOWN { "…" } else { "" };
    let start: String = escaped.into_iter().take(SHOWN).collect();
    format!("\"{start}{cut}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_64_characters_of_a_key_are_shown() {
        assert_eq!(shown("a\"b\n"), r#""a\"b\n""#);
        assert_eq!(shown(&"x".repeat(64)), format!("\"{}\"", "x".repeat(64)));
        assert_eq!(shown(&"x".repeat(65)), format!("\"{}…\"", "x".repeat(64)));
        assert_eq!(shown(&"\u{1}".repeat(500)).chars().count(), 64 + 3);
    }
}
