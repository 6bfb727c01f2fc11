//! What tells a request or an answer that was stored from one that a broken disk returns.

use crate::store::sqlite::sum;

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
