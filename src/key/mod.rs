//! The idempotency key: the name under which a server recognises every attempt of one operation.
//!
//! A key is minted once per operation, outside the retry loop, and every attempt carries the same
//! one. Two keys are equal exactly when their texts are equal, byte for byte.
//!
//! # What a key is
//! 1. 1 to 255 bytes of printable ASCII (0x20 to 0x7E), with no space at either end. What a given
//!    server accepts is narrower: [`KeyRule`] says it, and is checked before anything is sent.
//! 2. A UUIDv4 unless the caller brings one ([`IdempotencyKey::mint`]).
//! 3. The caller's spelling is kept: `AB` and `ab` are two keys, and so are `k` and `"k"`.
//!
//! # Guarantees
//! - Every minted key takes 122 bits from the operating system's generator, at the moment it is
//!   minted. No generator state lives in the process, so a forked child or a restored snapshot
//!   never repeats the keys of its parent.
//! - [`IdempotencyKey::derive`] gives the same key for the same inputs, in every version of this
//!   crate.
//!
//! # Not guaranteed
//! - A key is not a secret, and nobody has to guess it to collide with it: a caller who reuses a
//!   text reuses the key.
//! - A server that ignores keys will run a retry twice, whatever the key.
//!
//! ```
//! use post_once::key::{IdempotencyKey, KeyFormat};
//!
//! let order = IdempotencyKey::parse("order-42")?;
//! assert_eq!(order.to_header_value(KeyFormat::Hyphenated), "order-42");
//! assert_eq!(order.to_header_value(KeyFormat::Quoted), "\"order-42\"");
//! assert_eq!(order.derive("ship"), order.derive("ship"));
//! assert!(IdempotencyKey::parse("order 42\n").is_err());
//! # Ok::<(), post_once::key::KeyError>(())
//! ```

mod derive;
mod error;
mod format;
mod header;
mod rule;

use std::fmt;
use std::sync::Arc;

use rand::TryRng;
use rand::rngs::SysRng;
use uuid::Uuid;

pub use self::error::KeyError;
pub use self::format::{KeyFormat, UnknownKeyFormat};
pub use self::rule::{Alphabet, KeyRule, UuidRule};

/// The longest key, in bytes.
pub const MAX_KEY_LEN: usize = 255;

/// An idempotency key. Cheap to clone: 16 bytes, or a shared text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(Repr);

/// One text has one representation, which makes the derived comparison a comparison of texts:
/// `Text` never holds what `Uuid` prints.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    Uuid(Uuid),
    Text(Arc<str>),
}

impl IdempotencyKey {
    /// Mints a fresh key, a UUIDv4.
    ///
    /// The bytes come straight from the operating system, one call per key.
    ///
    /// # Errors
    /// When the operating system has no random bytes to give. Nothing has been sent then, and
    /// nothing may be: a guessable key could be someone else's.
    pub fn mint() -> Result<Self, KeyError> {
        let mut bytes = [0; 16];
        SysRng.try_fill_bytes(&mut bytes).map_err(KeyError::no_randomness)?;
        Ok(Self::from_random_bytes(bytes))
    }

    /// The UUIDv4 made of these random bytes; version and variant bits are set here (RFC 9562 §5.4).
    ///
    /// For those who bring their own generator. The bytes must not repeat.
    #[must_use]
    pub const fn from_random_bytes(bytes: [u8; 16]) -> Self {
        Self(Repr::Uuid(uuid::Builder::from_random_bytes(bytes).into_uuid()))
    }

    /// Takes a caller's key, and keeps its spelling.
    ///
    /// # Errors
    /// When `text` is empty, longer than [`MAX_KEY_LEN`] bytes, holds anything but printable ASCII
    /// (0x20 to 0x7E), or starts or ends with a space, which HTTP would strip.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if text.is_empty() {
            return Err(KeyError::empty());
        }
        if text.len() > MAX_KEY_LEN {
            return Err(KeyError::too_long(text, MAX_KEY_LEN));
        }
        if !text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
            || text.starts_with(' ')
            || text.ends_with(' ')
        {
            return Err(KeyError::not_printable(text));
        }
        Ok(Self::from_checked(text))
    }

    fn from_checked(text: &str) -> Self {
        let uuid = Uuid::try_parse(text)
            .ok()
            .filter(|uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text);
        Self(uuid.map_or_else(|| Repr::Text(text.into()), Repr::Uuid))
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Uuid(uuid) => {
                f.pad(uuid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
            }
            Repr::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({self})")
    }
}

impl std::str::FromStr for IdempotencyKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::parse(text)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    const UUID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

    /// O-01: no two operations ever share a key.
    #[test]
    fn minted_keys_are_distinct_version_4_uuids() {
        let keys: HashSet<_> = (0..1000).map(|_| IdempotencyKey::mint().unwrap()).collect();
        assert_eq!(keys.len(), 1000);
        for key in keys {
            let uuid = Uuid::try_parse(&key.to_string()).unwrap();
            assert_eq!(uuid.get_version_num(), 4);
            assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        }
    }

    #[test]
    fn random_bytes_become_the_same_uuid_with_version_and_variant_set() {
        let bytes = [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0];
        assert_eq!(IdempotencyKey::from_random_bytes(bytes).to_string(), UUID);
    }

    #[test]
    fn a_parsed_key_equals_the_minted_one_and_any_other_spelling_does_not() {
        let key = IdempotencyKey::mint().unwrap();
        let text = key.to_string();
        assert_eq!(IdempotencyKey::parse(&text).unwrap(), key);
        let uuid = Uuid::try_parse(UUID).unwrap();
        for other in [
            uuid.hyphenated().to_string().to_uppercase(),
            uuid.simple().to_string(),
            uuid.braced().to_string(),
            uuid.urn().to_string(),
        ] {
            let parsed = IdempotencyKey::parse(&other).unwrap();
            assert_eq!(parsed.to_string(), other);
            assert_ne!(parsed, IdempotencyKey::parse(UUID).unwrap(), "{other}");
        }
    }

    #[test]
    fn keys_outside_the_grammar_are_refused_with_the_reason() {
        let over = "x".repeat(256);
        for (text, says) in [
            ("", "is empty"),
            (over.as_str(), "at most 255"),
            (" k", "no space at either end"),
            ("k ", "no space at either end"),
            (" ", "no space at either end"),
            ("k\tk", "printable ASCII"),
            ("k\r\nX-Evil: 1", "printable ASCII"),
            ("k\u{7f}", "printable ASCII"),
            ("schlüssel", "printable ASCII"),
        ] {
            let error = IdempotencyKey::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
            assert!(error.len() < 250, "{error}");
            assert!(error.chars().all(|c| matches!(c, ' '..='~' | '…')), "{error}");
        }
        assert!(IdempotencyKey::parse(&"x".repeat(255)).is_ok());
        assert!(IdempotencyKey::parse("!a b~").is_ok());
    }

    proptest! {
        /// O-02: the caller's value goes out as it is.
        #[test]
        fn every_printable_text_keeps_its_spelling(text in "[!-~]([ -~]{0,253}[!-~])?") {
            let key: IdempotencyKey = text.parse().unwrap();
            prop_assert_eq!(key.to_string(), text);
        }
    }
}
