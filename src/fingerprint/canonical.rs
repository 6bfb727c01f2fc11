//! JSON in its canonical form (RFC 8785), if nothing is lost on the way.
//!
//! The body is read here and not by a general parser, for three reasons: a general parser collapses
//! repeated names and rounds numbers before anyone can notice; what it makes of a number depends on
//! features that any crate of a build can switch on; and the form of most tokens is canonical
//! already, so that they are copied as they are. Escapes are decoded, and escaped strings and
//! unusual numbers written, by the libraries for it.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

use super::number;

/// How many arrays and objects may be open at once. Part of the algorithm, so fixed with its version.
const MAX_DEPTH: usize = 128;

/// The canonical form, or nothing if `body` is not JSON in UTF-8, or would lose something.
pub(super) fn canonical(body: &[u8]) -> Option<String> {
    let text = str::from_utf8(body).ok()?;
    let out = String::with_capacity(text.len());
    let mut reader = Reader { rest: text, out, members: Vec::new() };
    reader.value(MAX_DEPTH)?;
    reader.skip_space();
    reader.rest.is_empty().then_some(reader.out)
}

/// Reads from `rest`, and appends the canonical form of what it has read to `out`.
struct Reader<'a> {
    rest: &'a str,
    out: String,
    /// The members so far of the objects that are open, the innermost last: their names, and where they are
    /// in `out`.
    members: Vec<(Cow<'a, str>, Range<usize>)>,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth_left: usize) -> Option<()> {
        self.skip_space();
        match self.rest.as_bytes().first()? {
            b'{' => self.object(depth_left.checked_sub(1)?),
            b'[' => self.array(depth_left.checked_sub(1)?),
            b'"' => self.string().map(drop),
            b'-' | b'0'..=b'9' => self.number(),
            _ => self.literal(),
        }
    }

    fn object(&mut self, depth_left: usize) -> Option<()> {
        self.expect("{")?;
        self.out.push('{');
        let (start, first) = (self.out.len(), self.members.len());
        if !self.skip("}") {
            loop {
                self.skip_space();
                let from = self.out.len();
                let name = self.string()?;
                self.expect(":")?;
                self.out.push(':');
                self.value(depth_left)?;
                self.members.push((name, from..self.out.len()));
                if self.skip("}") {
                    break;
                }
                self.expect(",")?;
                self.out.push(',');
            }
        }
        self.sort(first, start)?;
        self.out.push('}');
        Some(())
    }

    /// Brings the members from the `first` on into their order; they were written from `start` on. Nothing
    /// if a name is repeated.
    fn sort(&mut self, first: usize, start: usize) -> Option<()> {
        let members = &mut self.members[first..];
        if !members.is_sorted_by(|(one, _), (other, _)| order(one, other).is_lt()) {
            members.sort_by(|(one, _), (other, _)| order(one, other));
            if members.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                return None;
            }
            let unsorted = self.out.split_off(start);
            for (at, (_, range)) in members.iter().enumerate() {
                if at > 0 {
                    self.out.push(',');
                }
                self.out.push_str(&unsorted[range.start - start..range.end - start]);
            }
        }
        self.members.truncate(first);
        Some(())
    }

    fn array(&mut self, depth_left: usize) -> Option<()> {
        self.expect("[")?;
        self.out.push('[');
        if !self.skip("]") {
            loop {
                self.value(depth_left)?;
                if self.skip("]") {
                    break;
                }
                self.expect(",")?;
                self.out.push(',');
            }
        }
        self.out.push(']');
        Some(())
    }

    /// What it says, without quotes and escapes.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        let bytes = self.rest.strip_prefix('"')?.as_bytes();
        let ends = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
        let (mut end, mut is_escaped) = (0, false);
        loop {
            end += bytes.get(end..)?.iter().position(ends)?;
            match bytes[end] {
                b'"' => break,
                b'\\' => (end, is_escaped) = (end + 2, true),
                _ => return None,
            }
        }
        let (token, rest) = self.rest.split_at(end + 2);
        self.rest = rest;
        if !is_escaped {
            self.out.push_str(token);
            return Some(Cow::Borrowed(&token[1..=end]));
        }
        let decoded: String = serde_json::from_str(token).ok()?;
        self.out.push_str(&serde_json_canonicalizer::to_string(&decoded).ok()?);
        Some(Cow::Owned(decoded))
    }

    fn number(&mut self) -> Option<()> {
        let is_part = |c: char| matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E');
        let end = self.rest.find(|c| !is_part(c)).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        self.out.push_str(&number::canonical(token)?);
        Some(())
    }

    fn literal(&mut self) -> Option<()> {
        for word in ["true", "false", "null"] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                self.out.push_str(word);
                return Some(());
            }
        }
        None
    }

    fn expect(&mut self, mark: &str) -> Option<()> {
        self.skip(mark).then_some(())
    }

    fn skip(&mut self, mark: &str) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(mark);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let bytes = self.rest.as_bytes();
        let end = bytes.iter().position(|byte| !is_space(byte)).unwrap_or(bytes.len());
        self.rest = &self.rest[end..];
    }
}

/// RFC 8785 §3.2.3 sorts by UTF-16 code units, which differs from the order of UTF-8 bytes for names outside
/// the basic plane.
fn order(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    one.encode_utf16().cmp(other.encode_utf16())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(open: &str, close: &str, depth: usize) -> String {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    }

    #[test]
    fn json_is_written_in_its_canonical_form() {
        for (body, form) in [
            (" null ", "null"),
            ("[]", "[]"),
            ("{ }", "{}"),
            ("[ true , false,null ]", "[true,false,null]"),
            (r#"{"b":{"d":1,"c":2},"a":[]}"#, r#"{"a":[],"b":{"c":2,"d":1}}"#),
            (r#"{"ab":1,"":2,"a":3}"#, r#"{"":2,"a":3,"ab":1}"#),
            (r#""\u0041\/\u007f\u2028""#, "\"A/\u{7f}\u{2028}\""),
            (r#""\b\t\n\f\r\"\\\u0000\u001F""#, r#""\b\t\n\f\r\"\\\u0000\u001f""#),
            (r#"[1.0,1e2,0.000001,1E-7,1e21]"#, "[1,100,0.000001,1e-7,1e+21]"),
        ] {
            assert_eq!(canonical(body.as_bytes()).as_deref(), Some(form), "{body}");
        }
    }

    /// O-29. The example of RFC 8785 §3.2.3: 😀 (D83D DE00) comes before דּ (FB33).
    #[test]
    fn names_sort_by_utf_16_code_unit() {
        let body = r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#;
        let form = "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\u{fb33}\":3}";
        assert_eq!(canonical(body.as_bytes()).as_deref(), Some(form));
    }

    /// O-29: raw bytes then.
    #[test]
    fn what_is_not_json_or_would_lose_something_has_no_canonical_form() {
        for body in [
            "",
            " ",
            "nul",
            "True",
            "nulll",
            "[1",
            "[1,]",
            "[,1]",
            "[1 2]",
            "1 2",
            "]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "{\"a\":1 \"b\":2}",
            "'a'",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\n\"",
            "\"\\\n\"",
            "\u{feff}1",
            "\u{a0}1",
            "+1",
            "01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "--1",
            "0x1",
            "1-1",
            "NaN",
            "Infinity",
            "[1]//",
            r#""\ud800""#,
            r#""\ude00\ud83d""#,
            r#"{"\ud800":1}"#,
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"[[{"x":{"a":1,"a":1}}]]"#,
            "1e400",
            "-1e400",
            "[9007199254740993]",
            r#"{"a":0.10000000000000000001}"#,
        ] {
            assert_eq!(canonical(body.as_bytes()), None, "{body}");
        }
        for body in [b"\"\xff\"".as_slice(), b"\"\xed\xa0\x80\"", b"\xff\xfe1\0"] {
            assert_eq!(canonical(body), None, "{body:?}");
        }
    }

    /// O-29: nesting is bounded.
    #[test]
    fn nesting_ends_at_128_levels() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let levels = open.matches(['[', '{']).count();
            let deepest = nested(open, close, 128 / levels);
            assert_eq!(canonical(deepest.as_bytes()).as_deref(), Some(deepest.as_str()));
            assert_eq!(canonical(nested(open, close, 128 / levels + 1).as_bytes()), None);
            assert_eq!(canonical(nested(open, close, 100_000).as_bytes()), None);
            assert_eq!(canonical(open.repeat(100_000).as_bytes()), None);
        }
        let wide = format!("[{}[]]", "[],".repeat(1000));
        assert_eq!(canonical(wide.as_bytes()).as_deref(), Some(wide.as_str()));
    }
}
