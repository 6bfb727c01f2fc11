//! Which keys a server accepts, as data.

use std::fmt;

use uuid::{Uuid, Variant};

use super::{IdempotencyKey, KeyError, KeyFormat, MAX_KEY_LEN, Repr};

/// Which keys a server accepts. Checked before anything is sent.
///
/// ```
/// use post_once::key::{Alphabet, IdempotencyKey, KeyFormat, KeyRule};
///
/// const RULE: KeyRule = KeyRule::any().max_len(32).alphabet(Alphabet::Token);
///
/// let key = IdempotencyKey::from_random_bytes([7; 16]);
/// assert!(RULE.check(&key, KeyFormat::Hyphenated).is_err(), "36 characters");
/// assert!(RULE.check(&key, KeyFormat::Simple).is_ok(), "32 characters");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct KeyRule {
    min_len: usize,
    max_len: usize,
    alphabet: Alphabet,
    uuid: UuidRule,
}

impl KeyRule {
    /// Every key: 1 to [`MAX_KEY_LEN`] bytes of printable ASCII.
    pub const fn any() -> Self {
        Self { min_len: 1, max_len: MAX_KEY_LEN, alphabet: Alphabet::Visible, uuid: UuidRule::None }
    }

    /// The shortest key, in bytes as rendered, quotes and their escapes not counted.
    pub const fn min_len(self, min_len: usize) -> Self {
        Self { min_len, ..self }
    }

    /// The longest key, in bytes as rendered, quotes and their escapes not counted.
    pub const fn max_len(self, max_len: usize) -> Self {
        Self { max_len, ..self }
    }

    /// The characters that a key may hold.
    pub const fn alphabet(self, alphabet: Alphabet) -> Self {
        Self { alphabet, ..self }
    }

    /// Whether a key must be a UUID, and of which version.
    pub const fn uuid(self, uuid: UuidRule) -> Self {
        Self { uuid, ..self }
    }

    /// Whether keys made by [`IdempotencyKey::derive`], UUIDs of version 8, can be accepted.
    #[must_use]
    pub const fn allows_derived(&self) -> bool {
        !matches!(self.uuid, UuidRule::V4)
    }

    /// Checks the key as it would be rendered in this format.
    ///
    /// # Errors
    /// When the server would refuse the key; says what it takes.
    pub fn check(&self, key: &IdempotencyKey, format: KeyFormat) -> Result<(), KeyError> {
        let mut buffer = Uuid::encode_buffer();
        let text = match (&key.0, format) {
            (Repr::Text(text), _) => text,
            (Repr::Uuid(uuid), KeyFormat::Simple) => &*uuid.as_simple().encode_lower(&mut buffer),
            (Repr::Uuid(uuid), _) => &*uuid.as_hyphenated().encode_lower(&mut buffer),
        };
        if text.len() < self.min_len {
            return Err(KeyError::too_short(text, self.min_len));
        }
        if text.len() > self.max_len {
            return Err(KeyError::too_long(text, self.max_len));
        }
        // Every key is visible, whoever made it.
        if self.alphabet != Alphabet::Visible
            && !text.bytes().all(|byte| self.alphabet.contains(byte))
        {
            return Err(KeyError::alphabet(text, self.alphabet));
        }
        if !self.uuid.accepts(key) {
            return Err(KeyError::uuid(text, self.uuid));
        }
        Ok(())
    }
}

impl fmt::Display for KeyRule {
    /// For tables: `1 to 50 of printable ASCII`, `a UUID of version 4`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.uuid {
            UuidRule::None => {
                f.pad(&format!("{} to {} of {}", self.min_len, self.max_len, self.alphabet))
            }
            uuid => uuid.fmt(f),
        }
    }
}

/// The characters that a server accepts in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Alphabet {
    /// Printable ASCII, 0x20 to 0x7E.
    Visible,
    /// `A-Z a-z 0-9 _ -`.
    Token,
    /// `A-Z a-z 0-9 _ -` and the space.
    TokenAndSpace,
}

impl Alphabet {
    const fn contains(self, byte: u8) -> bool {
        let token = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        match self {
            Self::Visible => matches!(byte, b' '..=b'~'),
            Self::Token => token,
            Self::TokenAndSpace => token || byte == b' ',
        }
    }
}

impl fmt::Display for Alphabet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Visible => "printable ASCII",
            Self::Token => "letters, digits, '_' and '-'",
            Self::TokenAndSpace => "letters, digits, '_', '-' and spaces",
        })
    }
}

/// Whether a server accepts only UUIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UuidRule {
    /// Any text.
    None,
    /// A UUID of any version, hyphenated or simple, in either case.
    Any,
    /// A UUID of version 4, hyphenated or simple, in either case.
    V4,
}

impl UuidRule {
    fn accepts(self, key: &IdempotencyKey) -> bool {
        let uuid = match &key.0 {
            Repr::Uuid(uuid) => Some(*uuid),
            Repr::Text(text) if matches!(text.len(), 32 | 36) => Uuid::try_parse(text).ok(),
            Repr::Text(_) => None,
        };
        match self {
            Self::None => true,
            Self::Any => uuid.is_some(),
            Self::V4 => uuid.is_some_and(|uuid| {
                uuid.get_version_num() == 4 && uuid.get_variant() == Variant::RFC4122
            }),
        }
    }
}

impl fmt::Display for UuidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "any text",
            Self::Any => "a UUID",
            Self::V4 => "a UUID of version 4",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V4: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
    const V8: &str = "0f0e0d0c-0b0a-8908-8706-050403020100";
    const V4_OTHER_VARIANT: &str = "0f0e0d0c-0b0a-4908-0706-050403020100";

    #[test]
    fn a_rule_is_checked_on_the_rendered_text_without_its_quotes() {
        use KeyFormat::{Hyphenated, Quoted, Simple};
        const ANY: KeyRule = KeyRule::any();
        let long = "x".repeat(255);
        let simple = V4.replace('-', "");
        let upper = V4.to_uppercase();
        let braced = format!("{{{V4}}}");
        for (rule, key, format, refused_for) in [
            (ANY, "k", Hyphenated, None),
            (ANY, long.as_str(), Quoted, None),
            (ANY.max_len(36), V4, Quoted, None),
            (ANY.max_len(35), V4, Hyphenated, Some("at most 35")),
            (ANY.max_len(32), V4, Simple, None),
            (ANY.max_len(3), r#"a"b"#, Quoted, None),
            (ANY.min_len(4), "abc", Hyphenated, Some("at least 4")),
            (ANY.min_len(4), "abcd", Hyphenated, None),
            (ANY.alphabet(Alphabet::Visible), "a b~", Hyphenated, None),
            (ANY.alphabet(Alphabet::Token), "aZ0_-", Quoted, None),
            (ANY.alphabet(Alphabet::Token), "a b", Hyphenated, Some("letters, digits")),
            (ANY.alphabet(Alphabet::Token), "a.b", Hyphenated, Some("letters, digits")),
            (ANY.alphabet(Alphabet::TokenAndSpace), "a b", Hyphenated, None),
            (ANY.alphabet(Alphabet::TokenAndSpace), "a.b", Hyphenated, Some("and spaces")),
            (ANY.uuid(UuidRule::None), "order-42", Hyphenated, None),
            (ANY.uuid(UuidRule::Any), "order-42", Hyphenated, Some("must be a UUID here")),
            (ANY.uuid(UuidRule::Any), V8, Hyphenated, None),
            (ANY.uuid(UuidRule::Any), upper.as_str(), Hyphenated, None),
            (ANY.uuid(UuidRule::Any), braced.as_str(), Hyphenated, Some("must be a UUID here")),
            (ANY.uuid(UuidRule::V4), V4, Simple, None),
            (ANY.uuid(UuidRule::V4), simple.as_str(), Hyphenated, None),
            (ANY.uuid(UuidRule::V4), V8, Hyphenated, Some("version 4")),
            (ANY.uuid(UuidRule::V4), V4_OTHER_VARIANT, Hyphenated, Some("version 4")),
        ] {
            let checked = rule.check(&IdempotencyKey::parse(key).unwrap(), format);
            match (checked, refused_for) {
                (Ok(()), None) => {}
                (Err(error), Some(says)) => {
                    assert!(error.to_string().contains(says), "{key}: {error}");
                }
                (checked, _) => panic!("{rule:?}, {key}, {format}: {checked:?}"),
            }
        }
    }

    #[test]
    fn a_rule_is_shown_in_a_few_words() {
        let tokens = KeyRule::any().min_len(2).max_len(32).alphabet(Alphabet::Token);
        for (rule, shown) in [
            (KeyRule::any(), "1 to 255 of printable ASCII"),
            (tokens, "2 to 32 of letters, digits, '_' and '-'"),
            (KeyRule::any().uuid(UuidRule::Any), "a UUID"),
            (KeyRule::any().uuid(UuidRule::V4), "a UUID of version 4"),
        ] {
            assert_eq!(rule.to_string(), shown);
        }
    }

    #[test]
    fn derived_keys_are_allowed_unless_version_4_is_asked() {
        let derived = IdempotencyKey::from_random_bytes([1; 16]).derive("step");
        for uuid in [UuidRule::None, UuidRule::Any, UuidRule::V4] {
            let rule = KeyRule::any().uuid(uuid);
            assert_eq!(rule.allows_derived(), rule.check(&derived, KeyFormat::Hyphenated).is_ok());
        }
    }
}
