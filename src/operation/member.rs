//! A key carried as a top-level member of a JSON body.
//!
//! The member is spliced in textually, so that nothing else of the body changes: not its white
//! space, not the order of its members, not the spelling of its numbers.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{IgnoredAny, MapAccess, Visitor};

use crate::refusal::Refusal;

/// What the body says under the member's name.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    Text(String),
}

/// Looks for the member.
///
/// # Errors
/// When the body is no JSON object, has the member twice, or has something else than a text there.
pub(crate) fn find(body: &[u8], name: &str) -> Result<Found, Refusal> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let seen = json.deserialize_map(Member { name }).and_then(|seen| json.end().map(|()| seen));
    match seen {
        Err(_) => Err(Refusal::Member("it is not a JSON object")),
        Ok(Seen { times: 2.., .. }) => Err(Refusal::TwoKeys),
        Ok(Seen { times: 0, .. }) => Ok(Found::Nothing),
        Ok(Seen { text: Some(text), .. }) => Ok(Found::Text(text)),
        Ok(Seen { text: None, .. }) => Err(Refusal::Member("its key is not a text")),
    }
}

/// The body with the member in front. The body must be a JSON object without it.
pub(crate) fn splice(body: &[u8], name: &str, key: &str) -> Vec<u8> {
    let open = body.iter().position(|b| *b == b'{').map_or(0, |at| at + 1);
    let (head, rest) = body.split_at(open);
    let is_empty = rest.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'}');
    let member = format!(
        "{}:{}{}",
        serde_json::Value::from(name),
        serde_json::Value::from(key),
        if is_empty { "" } else { "," }
    );
    [head, member.as_bytes(), rest].concat()
}

struct Member<'a> {
    name: &'a str,
}

#[derive(Default)]
struct Seen {
    times: u32,
    text: Option<String>,
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Seen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Seen, A::Error> {
        let mut seen = Seen::default();
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == self.name {
                seen.times += 1;
                seen.text = match map.next_value::<serde_json::Value>()? {
                    serde_json::Value::String(text) => Some(text),
                    _ => None,
                };
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "idempotency_key";

    #[test]
    fn the_member_goes_in_front_and_nothing_else_changes() {
        let table = [
            (r#"{"a":1.50, "b":[ ]}"#, r#"{"idempotency_key":"k","a":1.50, "b":[ ]}"#),
            (
                " {\n  \"a\": \"\\u00e9\"\n}\n",
                " {\"idempotency_key\":\"k\",\n  \"a\": \"\\u00e9\"\n}\n",
            ),
            ("{}", r#"{"idempotency_key":"k"}"#),
            ("{ \n}", "{\"idempotency_key\":\"k\" \n}"),
        ];
        for (body, expected) in table {
            let spliced = splice(body.as_bytes(), NAME, "k");
            assert_eq!(String::from_utf8(spliced.clone()).unwrap(), expected);
            assert_eq!(find(&spliced, NAME).unwrap(), Found::Text("k".into()));
        }
    }

    #[test]
    fn only_the_top_level_counts() {
        let found = |body: &str| find(body.as_bytes(), NAME);
        assert_eq!(found(r#"{"x":{"idempotency_key":"k"}}"#).unwrap(), Found::Nothing);
        assert_eq!(found(r#"{"x":1,"idempotency_key":"k"}"#).unwrap(), Found::Text("k".into()));
        assert_eq!(found(r#"{"idempotency_\u006bey":"k"}"#).unwrap(), Found::Text("k".into()));
    }

    #[test]
    fn a_body_that_cannot_carry_the_key_is_refused() {
        let refused = ["", "[]", "\"text\"", "{", "{} {}", "not json", r#"{"idempotency_key":7}"#];
        for body in refused {
            assert!(matches!(find(body.as_bytes(), NAME), Err(Refusal::Member(_))), "{body}");
        }
        let twice = r#"{"idempotency_key":"a","idempotency_key":"a"}"#;
        assert!(matches!(find(twice.as_bytes(), NAME), Err(Refusal::TwoKeys)));
    }
}
