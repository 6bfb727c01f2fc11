//! What tells a row that was stored from one that a broken disk returns.
//!
//! Not a digest: nobody is kept from making two texts of one sum. Each word goes in by a step that can be
//! undone, so that a change within one word always changes the sum, and any other one is missed once in
//! 2⁶⁴ times. It is part of the file, and never changes.

/// Over all parts, each behind its length.
pub(crate) fn sum(parts: &[&[u8]]) -> i64 {
    let mut sum = 0;
    for part in parts {
        sum = step(sum, part.len() as u64);
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            sum = step(sum, u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum = step(sum, u64::from_le_bytes(last));
    }
    // The high bits of a product know of all others.
    (sum ^ (sum >> 32)).cast_signed()
}

/// The multiplier is 2⁶⁴ divided by the golden ratio, made odd.
fn step(sum: u64, word: u64) -> u64 {
    (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}
