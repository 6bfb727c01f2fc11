//! Keys of downstream calls, made from the key of the operation that causes them.

use sha2::{Digest, Sha256};

use super::{IdempotencyKey, Repr};

/// Part of every derivation. A new algorithm needs a new tag; this one is never reused.
const DOMAIN: &[u8] = b"post-once/derive/v1";

impl IdempotencyKey {
    /// The key of the downstream call named `step`: a UUIDv8 (RFC 9562 §5.8).
    ///
    /// The same key and step give the same derived key, in every process and every version of this
    /// crate, so that a repeated handler repeats its outgoing calls under the same keys. It takes
    /// 122 bits of a SHA-256 over tag, key text and step, each behind its length in eight bytes.
    /// Servers that accept version 4 only refuse it: see [`KeyRule::allows_derived`].
    ///
    /// [`KeyRule::allows_derived`]: super::KeyRule::allows_derived
    ///
    /// ```
    /// use post_once::key::IdempotencyKey;
    ///
    /// let order = IdempotencyKey::parse("order-42")?;
    /// assert_ne!(order.derive("charge"), order.derive("ship"));
    /// assert_eq!(order.derive("charge").to_string().len(), 36);
    /// # Ok::<(), post_once::key::KeyError>(())
    /// ```
    #[must_use]
    pub fn derive(&self, step: &str) -> Self {
        let text = self.render(super::KeyFormat::Hyphenated);
        let mut hasher = Sha256::new();
        for part in [DOMAIN, text.as_bytes(), step.as_bytes()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize()[..16]);
        Self(Repr::Uuid(uuid::Builder::from_custom_bytes(bytes).into_uuid()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(key: &str, step: &str) -> String {
        IdempotencyKey::parse(key).unwrap().derive(step).to_string()
    }

    /// These values are in other people's databases: they never change.
    #[test]
    fn derived_keys_are_the_same_for_ever() {
        assert_eq!(derived("order-42", "ship"), "bb58148c-842c-8eb9-87d8-31922f5eeb11");
        assert_eq!(
            derived("0f0e0d0c-0b0a-4908-8706-050403020100", ""),
            "1ab7583d-de68-8e60-be0f-2311c9b681ba"
        );
    }

    #[test]
    fn length_prefixes_keep_shifted_inputs_apart() {
        assert_ne!(derived("ab", "c"), derived("a", "bc"));
        assert_ne!(derived("a", ""), derived("a", "a"));
    }

    #[test]
    fn derived_keys_are_version_8_uuids() {
        let uuid = uuid::Uuid::try_parse(&derived("order-42", "ship")).unwrap();
        assert_eq!((uuid.get_version_num(), uuid.get_variant()), (8, uuid::Variant::RFC4122));
    }
}
