//! What tells a row that was stored from one that a broken disk returns.
//!
//! Not a digest: nobody is kept from making two texts of one sum. Each word goes in by a step that can be
//! undone, so that a change within one word always changes the sum, and any other one is missed once in
//! 2⁶⁴ times. It is part of the file, and never changes.

/// The sum of a request: it must not be sent when it is another one.
pub(super) fn of_request(
    scope: &str,
    name: Option<&str>,
    key: &str,
    head: &str,
    body: &[u8],
) -> i64 {
    let name = name.map(str::as_bytes);
    let named: &[u8] = if name.is_some() { b"named" } else { b"" };
    let name = name.unwrap_or_default();
    sum(&[scope.as_bytes(), named, name, key.as_bytes(), head.as_bytes(), body])
}

/// The sum of an answer: it must not be returned when it is another one.
pub(super) fn of_answer(status: i64, head: &str, body: Option<&[u8]>) -> i64 {
    let kept: &[u8] = if body.is_some() { b"kept" } else { b"" };
    sum(&[&status.to_le_bytes(), head.as_bytes(), kept, body.unwrap_or_default()])
}

/// Over all parts, each behind its length.
fn sum(parts: &[&[u8]]) -> i64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_requests_share_their_parts() {
        let plain = of_request("a", Some("b"), "c", "d", b"e");
        for other in [
            of_request("ab", Some(""), "c", "d", b"e"),
            of_request("a", None, "bc", "d", b"e"),
            of_request("a", Some("b"), "c", "de", b""),
            of_request("a", Some("b"), "c", "d", b"f"),
            of_request("a", Some("b"), "c", "d", b"e\0"),
        ] {
            assert_ne!(plain, other);
        }
        assert_ne!(of_request("", None, "", "", b""), of_request("", Some(""), "", "", b""));
        assert_ne!(of_answer(200, "", None), of_answer(200, "", Some(b"")));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let body: Vec<u8> = (0..203).collect();
        let sum = of_request("", None, "k", "{}", &body);
        for bit in 0..body.len() * 8 {
            let mut flipped = body.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(of_request("", None, "k", "{}", &flipped), sum, "bit {bit}");
        }
    }

    /// Files that are there must stay readable.
    #[test]
    fn the_sum_is_what_it_always_was() {
        let sums =
            [of_request("s", Some("n"), "k", "{}", b"0123456789"), of_answer(201, "{}", None)];
        assert_eq!(sums, [-5_354_224_286_493_049_985, 8_818_582_060_005_924_543]);
    }
}
