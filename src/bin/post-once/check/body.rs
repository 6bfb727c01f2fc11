//! The bodies of the trials: the one given, changed, its members in another order, with the key in it.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of a JSON object in the order in which they stand, each value as it is written.
#[derive(Clone, Debug)]
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> serde::Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl Members {
    fn of(body: &[u8]) -> Option<Members> {
        serde_json::from_slice(body).ok()
    }

    fn write(&self) -> Vec<u8> {
        let members = self.0.iter().map(|(name, value)| {
            let name = serde_json::Value::from(name.as_str());
            format!("{name}:{value}", value = value.get())
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(",")).into_bytes()
    }
}

/// Whether it is a JSON object.
pub(super) fn is_object(body: &[u8]) -> bool {
    Members::of(body).is_some()
}

/// The same object with its members the other way round; `None` if there is no other order.
pub(super) fn reordered(body: &[u8]) -> Option<Vec<u8>> {
    let mut members = Members::of(body)?;
    members.0.reverse();
    (members.0.len() > 1).then(|| members.write())
}

/// The body with one value changed, likely still to be accepted: a number, else a boolean, else the
/// last text. `None` for JSON without such a value.
pub(super) fn changed(body: &[u8]) -> Option<Vec<u8>> {
    let Some(mut members) = Members::of(body) else {
        // Of other JSON nobody knows what may be changed; of any text a longer one is another.
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok();
        return (!is_json).then(|| [body, b"x"].concat());
    };
    let values = || members.0.iter().enumerate();
    let new = |change: fn(&str) -> Option<String>| {
        move |(at, (_, value)): (usize, &(String, Box<RawValue>))| {
            change(value.get()).map(|value| (at, value))
        }
    };
    let (at, value) = values()
        .find_map(new(number))
        .or_else(|| values().find_map(new(boolean)))
        .or_else(|| values().rev().find_map(new(text)))
        .or_else(|| values().find_map(new(object)))?;
    members.0[at].1 = RawValue::from_string(value).ok()?;
    Some(members.write())
}

fn number(value: &str) -> Option<String> {
    if let Ok(number) = value.parse::<i64>() {
        return Some(number.checked_add(1)?.to_string());
    }
    let number: f64 = serde_json::from_str(value).ok()?;
    serde_json::to_string(&(number + 1.0)).ok().filter(|new| new != value)
}

fn boolean(value: &str) -> Option<String> {
    value.parse::<bool>().ok().map(|value| (!value).to_string())
}

fn text(value: &str) -> Option<String> {
    let text: String = serde_json::from_str(value).ok()?;
    Some(serde_json::Value::from(text + "x").to_string())
}

fn object(value: &str) -> Option<String> {
    Members::of(value.as_bytes()).and_then(|_| String::from_utf8(changed(value.as_bytes())?).ok())
}

/// The object with this text in a member of this name, in the place of one that is there.
pub(super) fn with_member(body: &[u8], name: &str, text: &str) -> Vec<u8> {
    let Some(mut members) = Members::of(body) else { return body.to_vec() };
    members.0.retain(|(other, _)| other != name);
    let text = serde_json::Value::from(text).to_string();
    let text = RawValue::from_string(text).expect("a string that was written as JSON is JSON");
    members.0.push((name.to_owned(), text));
    members.write()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(body: Option<Vec<u8>>) -> Option<String> {
        body.map(|body| String::from_utf8(body).unwrap())
    }

    #[test]
    fn members_are_turned_round_and_their_values_kept_byte_for_byte() {
        for (body, expected) in [
            (r#"{"b":1.50,"a":{"d":1,"c":2}}"#, Some(r#"{"a":{"d":1,"c":2},"b":1.50}"#)),
            (r#" { "a\u0062" : "\u0041" , "a" : 1e3 } "#, Some(r#"{"a":1e3,"ab":"\u0041"}"#)),
            (r#"{"a":1}"#, None),
            ("{}", None),
            ("[1,2]", None),
            ("plain", None),
        ] {
            assert_eq!(shown(reordered(body.as_bytes())).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn one_value_is_changed_the_least_likely_to_be_refused_first() {
        for (body, expected) in [
            (r#"{"c":"eur","n":1,"m":2}"#, Some(r#"{"c":"eur","n":2,"m":2}"#)),
            (r#"{"n":1.5}"#, Some(r#"{"n":2.5}"#)),
            (r#"{"a":"x","b":true}"#, Some(r#"{"a":"x","b":false}"#)),
            (r#"{"a":"eur","b":"note"}"#, Some(r#"{"a":"eur","b":"notex"}"#)),
            (r#"{"a":null,"b":{"c":1}}"#, Some(r#"{"a":null,"b":{"c":2}}"#)),
            (r#"{"a":null}"#, None),
            ("[1]", None),
            ("plain", Some("plainx")),
            ("", Some("x")),
        ] {
            assert_eq!(shown(changed(body.as_bytes())).as_deref(), expected, "{body}");
        }
    }

    #[test]
    fn the_key_takes_the_place_of_a_member_of_its_name() {
        let body = with_member(br#"{"k":7,"a":1}"#, "k", "x\"y");
        assert_eq!(shown(Some(body)).unwrap(), r#"{"a":1,"k":"x\"y"}"#);
    }
}
