//! The fingerprint of a request: how a key that comes back with another payload is noticed.
//!
//! A key names one operation, and an operation has one payload. Two requests with the same
//! fingerprint ask for the same thing; the same key with another fingerprint is a mistake that has
//! to be refused (draft-ietf-httpapi-idempotency-key-header-07 §2.4), for answering it would
//! return the result of something else.
//!
//! # The rule
//! A fingerprint is an algorithm version and a SHA-256 over method, target, media type and body,
//! each behind its length. The body counts
//! 1. in its canonical form by RFC 8785 when the media type is `application/json` or ends in
//!    `+json` **and that form loses nothing**: valid UTF-8 and JSON, no lone surrogate, no member
//!    name repeated in one object, no number whose decimal value differs from that of the shortest
//!    form of its double (`1e400`, `9007199254740993`), at most 128 levels deep;
//! 2. byte for byte otherwise.
//!
//! The two are hashed apart: a canonical body never matches raw bytes. The media type counts in
//! lower case, for JSON without its parameters, otherwise with its parameters as they are; an
//! absent one counts as an empty one.
//!
//! # Guarantees
//! - Member order, white space, character escapes and the spelling of a number (`1`, `1.0`, `10e-1`)
//!   do not change the fingerprint of JSON; any other difference does.
//! - Version 1 gives the same value for the same request for ever, whatever features of other
//!   crates are switched on in a build.
//! - Bodies from strangers are safe to read: time grows with the length of the body, not with what
//!   is in it, and the stack is bounded.
//!
//! # Not guaranteed
//! - Requests that mean the same may still differ: `+00:00` and `Z`, an absent member and `null`,
//!   two spellings of a path. A difference is the safe answer.
//! - A fingerprint hides nothing: who can guess a body can check the guess. Header fields other than
//!   the media type do not count.
//!
//! ```
//! use http::Method;
//! use post_once::fingerprint::Fingerprint;
//!
//! let json = |body: &str| {
//!     Fingerprint::new(&Method::POST, "/charges", Some("application/json"), body.as_bytes())
//! };
//! assert_eq!(json(r#"{"amount": 1.0, "to": "a"}"#), json(r#"{"to":"\u0061","amount":1}"#));
//! assert_ne!(json(r#"{"amount": 1}"#), json(r#"{"amount": 2}"#));
//! assert_ne!(json(r#"{"amount": 1, "amount": 2}"#), json(r#"{"amount": 2}"#));
//! ```

mod canonical;
mod number;
#[cfg(test)]
mod properties;

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use http::Method;
use sha2::{Digest, Sha256};

/// Part of every digest. A new algorithm needs a new tag and a new version.
const DOMAIN: &[u8] = b"post-once/fingerprint/v1";

/// What a request asks for, in 33 bytes: an algorithm version and a SHA-256 digest.
///
/// Written as `v1:` and 64 hexadecimal digits in lower case; that form is for storing, and is read
/// back by every later version.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    version: u8,
    digest: [u8; 32],
}

impl Fingerprint {
    /// The version of the algorithm that [`Fingerprint::new`] uses.
    pub const VERSION: u8 = 1;

    /// The fingerprint of a request.
    ///
    /// `target` is what the two sides of a comparison agree on: a server takes path and query, a
    /// client the whole URL. `media_type` is the value of `Content-Type`.
    #[must_use]
    pub fn new(method: &Method, target: &str, media_type: Option<&str>, body: &[u8]) -> Self {
        let media_type = MediaType::read(media_type.unwrap_or_default());
        let canonical = if media_type.is_json { canonical::canonical(body) } else { None };
        let (form, body): (&[u8], &[u8]) = match &canonical {
            Some(canonical) => (b"rfc8785", canonical.as_bytes()),
            None => (b"raw", body),
        };
        let mut hasher = Sha256::new();
        for part in [
            DOMAIN,
            method.as_str().as_bytes(),
            target.as_bytes(),
            media_type.essence.as_bytes(),
            media_type.parameters.as_bytes(),
            form,
            body,
        ] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        Self { version: Self::VERSION, digest: hasher.finalize().into() }
    }

    /// The version of the algorithm that made this one.
    ///
    /// Fingerprints of two versions are never equal, which says nothing about their requests.
    #[must_use]
    pub const fn version(&self) -> u8 {
        self.version
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

impl fmt::Display for Fingerprint {
    /// In one piece: every operation of a journal is written with it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}:", self.version)?;
        let mut text = [0; 64];
        for (digits, byte) in text.chunks_exact_mut(2).zip(self.digest) {
            digits[0] = DIGITS[usize::from(byte >> 4)];
            digits[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).expect("hexadecimal digits are ASCII"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

impl FromStr for Fingerprint {
    type Err = MalformedFingerprint;

    /// Reads what `Display` writes, of any version; nothing else.
    fn from_str(text: &str) -> Result<Self, MalformedFingerprint> {
        let read = || {
            let (version, hex) = text.strip_prefix('v')?.split_once(':')?;
            let version = version.parse().ok()?;
            let mut digest = [0; 32];
            for (at, byte) in digest.iter_mut().enumerate() {
                *byte = u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()?;
            }
            Some(Self { version, digest })
        };
        read().filter(|read| read.to_string() == text).ok_or(MalformedFingerprint(()))
    }
}

/// A text that is not a stored [`Fingerprint`].
#[derive(Debug, thiserror::Error)]
#[error("malformed fingerprint: take a version and 64 hexadecimal digits, like v1:9f86…")]
pub struct MalformedFingerprint(());

struct MediaType<'a> {
    essence: Cow<'a, str>,
    parameters: &'a str,
    is_json: bool,
}

impl<'a> MediaType<'a> {
    fn read(value: &'a str) -> Self {
        let (essence, parameters) = value.split_once(';').unwrap_or((value, ""));
        let essence = essence.trim();
        let essence = if essence.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(essence.to_ascii_lowercase())
        } else {
            Cow::Borrowed(essence)
        };
        let is_json = essence == "application/json" || essence.ends_with("+json");
        let parameters = if is_json { "" } else { parameters.trim() };
        Self { essence, parameters, is_json }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = "application/json";

    fn of(media_type: &str, body: impl AsRef<[u8]>) -> Fingerprint {
        Fingerprint::new(&Method::POST, "/charges", Some(media_type), body.as_ref())
    }

    /// O-29: the first group matches.
    #[test]
    fn json_that_says_the_same_has_the_same_fingerprint() {
        for (one, other) in [
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#),
            (r#"{"o":{"y":[1],"x":null}}"#, r#"{"o":{"x":null,"y":[1]}}"#),
            (r#"{"a":[1,true]}"#, " {\t\"a\" :\r\n[ 1 , true ] } "),
            (r#"{"a":"/é😀"}"#, r#"{"\u0061":"\/\u00e9\uD83D\ude00"}"#),
            (r#"["\n"]"#, r#"["\u000A"]"#),
            ("[1]", "[1.0]"),
            ("[0]", "[-0]"),
        ] {
            assert_eq!(of(JSON, one), of(JSON, other), "{one} {other}");
        }
    }

    /// O-29: a false match returns the wrong result.
    #[test]
    fn bodies_that_differ_have_different_fingerprints() {
        let deep = |leaf: &str| format!("{}{leaf}{}", "[".repeat(10_000), "]".repeat(10_000));
        for (case, one, other) in [
            ("values", r#"{"a":1}"#.into(), r#"{"a":2}"#.to_owned()),
            ("types", r#"{"a":1}"#.into(), r#"{"a":"1"}"#.into()),
            ("order in an array", "[1,2]".into(), "[2,1]".into()),
            ("absent and null", "{}".into(), r#"{"a":null}"#.into()),
            ("names by case", r#"{"a":1}"#.into(), r#"{"A":1}"#.into()),
            ("no normalisation", "[\"\u{e9}\"]".into(), "[\"e\u{301}\"]".into()),
            ("repeated, first", r#"{"a":1,"a":2}"#.into(), r#"{"a":1}"#.into()),
            ("repeated, last", r#"{"a":1,"a":2}"#.into(), r#"{"a":2}"#.into()),
            ("repeated by escape", r#"{"a":1,"\u0061":2}"#.into(), r#"{"a":2}"#.into()),
            ("repeated inside", r#"[{"o":{"a":1,"a":1}}]"#.into(), r#"[{"o":{"a":1}}]"#.into()),
            ("invalid", r#"{"a":1"#.into(), r#"{"a":1}"#.into()),
            ("invalid, space", "{a:1}".into(), "{a: 1}".into()),
            ("lone surrogates", r#"["\ud800"]"#.into(), r#"["\ud801"]"#.into()),
            ("lone and replaced", r#"["\ud800"]"#.into(), r#"["\ufffd"]"#.into()),
            ("empty and null", String::new(), "null".into()),
            ("empty and empty object", String::new(), "{}".into()),
            ("past 2^53", "[9007199254740993]".into(), "[9007199254740992]".into()),
            ("past a double", "[1e400]".into(), "[1e401]".into()),
            ("below a double", "[1e-400]".into(), "[0]".into()),
            ("too many digits", "[0.10000000000000000001]".into(), "[0.1]".into()),
            ("deeply nested", deep("1"), deep("2")),
        ] {
            assert_ne!(of(JSON, &one), of(JSON, &other), "{case}");
        }
        assert_ne!(of(JSON, b"[\"\xff\"]"), of(JSON, b"[\"\xfe\"]"), "not UTF-8");
    }

    /// O-29: another media type.
    #[test]
    fn only_json_media_types_are_read_as_json() {
        let (one, other) = (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
        for (media_type, is_json) in [
            ("application/json", true),
            ("Application/JSON", true),
            (" application/json ; charset=utf-8", true),
            ("application/merge-patch+json", true),
            ("application/vnd.api+JSON;v=1", true),
            ("text/json", false),
            ("application/jsonp", false),
            ("application/json-seq", false),
            ("text/plain; note=application/json", false),
            ("", false),
        ] {
            assert_eq!(of(media_type, one) == of(media_type, other), is_json, "{media_type}");
        }
    }

    #[test]
    fn media_types_match_by_case_and_json_ones_without_parameters() {
        for (one, other, same) in [
            (JSON, "APPLICATION/json; Charset=UTF-8", true),
            (JSON, "application/merge-patch+json", false),
            ("text/plain", "Text/Plain", true),
            ("text/plain;a=1", "TEXT/plain; a=1", true),
            ("text/plain", "text/plain;a=1", false),
            ("multipart/form-data;boundary=A", "multipart/form-data;boundary=a", false),
        ] {
            assert_eq!(of(one, "{}") == of(other, "{}"), same, "{one} {other}");
        }
        let absent = Fingerprint::new(&Method::POST, "/charges", None, b"{}");
        assert_eq!(absent, of("", "{}"));
    }

    #[test]
    fn method_and_target_count_and_parts_do_not_run_together() {
        let of = |method: &Method, target: &str, body: &str| {
            Fingerprint::new(method, target, Some(JSON), body.as_bytes())
        };
        let one = of(&Method::POST, "/a", "1");
        assert_ne!(one, of(&Method::PATCH, "/a", "1"));
        assert_ne!(one, of(&Method::POST, "/A", "1"));
        assert_ne!(one, of(&Method::POST, "/a?", "1"));
        assert_ne!(
            of(&Method::from_bytes(b"AB").unwrap(), "C", ""),
            of(&Method::from_bytes(b"A").unwrap(), "BC", "")
        );
    }

    /// These values are stored: they never change.
    #[test]
    fn version_1_is_the_same_for_ever() {
        let url = "https://api.example/v1/charges?x=1";
        let body = r#"{ "n": [1.50, 1e21, -0, "\u20ac\/\u000F"], "😀": 1, "\ufb33": 2, "a": {"z": null, "y": true} }"#;
        let json =
            Fingerprint::new(&Method::POST, url, Some("Application/JSON; a=b"), body.as_bytes());
        assert_eq!(
            json.to_string(),
            "v1:e37b6cd90e15d7b71401898705f5c5272983aab1744b8e85f4b4bca9ec02485c"
        );
        let raw = Fingerprint::new(&Method::PATCH, "/p", Some("Text/Plain; a=B"), b"\xff\x00");
        assert_eq!(
            raw.to_string(),
            "v1:ff17381745d2a2cd6a2698f5e1ddec0f34ce70fc0951c4603f7af34e04e0cec3"
        );
    }

    #[test]
    fn the_stored_form_is_read_back_and_nothing_else_is() {
        let one = of(JSON, "{}");
        assert_eq!(one.to_string().parse::<Fingerprint>().unwrap(), one);
        assert_eq!(one.version(), 1);
        let hex = "0123456789abcdef".repeat(4);
        assert_eq!(format!("v255:{hex}").parse::<Fingerprint>().unwrap().version(), 255);
        assert_ne!(
            format!("v2:{hex}").parse::<Fingerprint>().unwrap(),
            format!("v1:{hex}").parse().unwrap()
        );
        for text in [
            String::new(),
            hex.clone(),
            format!("v:{hex}"),
            format!("v01:{hex}"),
            format!("v256:{hex}"),
            format!("v1:{}", &hex[1..]),
            format!("v1:{hex}0"),
            format!("v1:{}", hex.to_uppercase()),
            format!("v1:+f{}", &hex[2..]),
            format!("v1:{}é", &hex[2..]),
            format!("v1:é{}", &hex[1..]),
        ] {
            assert!(text.parse::<Fingerprint>().is_err(), "{text}");
        }
    }
}
