//! Properties of the fingerprint over any JSON value, written in any way.

use http::Method;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use super::{Fingerprint, canonical::canonical};

/// A value of any shape. Its numbers are what a double holds.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
        (any::<f64>().prop_filter("JSON has finite numbers", |double| double.is_finite()))
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[ -~é\u{e000}-\u{ffff}😀\"\\\\]{0,3}", inner, 0..6)
                .prop_map(|members| json!(members)),
        ]
    })
}

/// Writes a value in a way that `choices` decides: order, white space, escapes, numbers.
struct Writer<'a> {
    choices: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    out: String,
}

impl Writer<'_> {
    fn write(value: &Value, choices: &[u8]) -> String {
        let mut writer = Writer { choices: choices.iter().cycle(), out: String::new() };
        writer.value(value);
        writer.space();
        writer.out
    }

    fn choose(&mut self, of: usize) -> usize {
        usize::from(*self.choices.next().expect("choices are not empty")) % of
    }

    fn space(&mut self) {
        let space = ["", "", " ", "\n\t", "\r\n  "][self.choose(5)];
        self.out.push_str(space);
    }

    fn mark(&mut self, mark: char) {
        self.space();
        self.out.push(mark);
        self.space();
    }

    fn value(&mut self, value: &Value) {
        self.space();
        match value {
            Value::Array(items) => {
                self.mark('[');
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        self.mark(',');
                    }
                    self.value(item);
                }
                self.mark(']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for at in 1..members.len() {
                    members.swap(at, self.choose(at + 1));
                }
                self.mark('{');
                for (at, (name, value)) in members.into_iter().enumerate() {
                    if at > 0 {
                        self.mark(',');
                    }
                    self.string(name);
                    self.mark(':');
                    self.value(value);
                }
                self.mark('}');
            }
            Value::String(text) => self.string(text),
            Value::Number(number) => {
                let number = number.to_string();
                let spelled = match (self.choose(3), number.contains(['.', 'e'])) {
                    (1, false) => format!("{number}.00"),
                    (2, false) => format!("{number}0E-1"),
                    _ => number,
                };
                self.out.push_str(&spelled);
            }
            Value::Null | Value::Bool(_) => self.out.push_str(&value.to_string()),
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        for char in text.chars() {
            if char < ' ' || matches!(char, '"' | '\\') || self.choose(4) == 0 {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    self.out.push_str(&format!("\\u{unit:04X}"));
                }
            } else {
                self.out.push(char);
            }
        }
        self.out.push('"');
    }
}

/// Changes one leaf, or one empty array or object, into something else.
fn change(value: &mut Value, which: &Index) {
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = which.index(items.len());
            change(&mut items[at], which);
        }
        Value::Object(members) if !members.is_empty() => {
            let at = which.index(members.len());
            change(members.values_mut().nth(at).expect("the index is within"), which);
        }
        leaf => {
            *leaf = match leaf.take() {
                Value::Null => Value::Bool(false),
                Value::Bool(bool) => Value::Bool(!bool),
                Value::Number(number) if number.as_f64() == Some(1.0) => json!(2),
                Value::Number(_) => json!(1),
                Value::String(text) => Value::String(text + " "),
                Value::Array(_) => json!({}),
                Value::Object(_) => json!([]),
            }
        }
    }
}

fn of(body: &str) -> Fingerprint {
    Fingerprint::new(&Method::POST, "/", Some("application/json"), body.as_bytes())
}

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 1..64)
}

proptest! {
    /// O-29: order, white space, escapes and the spelling of numbers do not count.
    #[test]
    fn writing_it_in_another_way_changes_nothing(
        value in any_json(), one in choices(), other in choices(),
    ) {
        let (one, other) = (Writer::write(&value, &one), Writer::write(&value, &other));
        prop_assert_eq!(of(&one), of(&other), "{} {}", one, other);
    }

    /// O-29: everything else does.
    #[test]
    fn changing_a_leaf_changes_it(
        value in any_json(), which in any::<Index>(), one in choices(), other in choices(),
    ) {
        let mut changed = value.clone();
        change(&mut changed, &which);
        let (one, other) = (Writer::write(&value, &one), Writer::write(&changed, &other));
        prop_assert_ne!(of(&one), of(&other), "{} {}", one, other);
    }

    #[test]
    fn the_canonical_form_is_the_one_of_rfc_8785(value in any_json(), choices in choices()) {
        let form = serde_json_canonicalizer::to_string(&value).unwrap();
        let body = Writer::write(&value, &choices);
        let read = canonical(body.as_bytes());
        prop_assert_eq!(read.as_ref(), Some(&form));
        prop_assert_eq!(canonical(form.as_bytes()), Some(form));
    }

    /// Never looser than a general parser, and never another reading.
    #[test]
    fn what_has_a_canonical_form_is_json(
        text in r#"([\[\]{}",: ]|"a"|"b"|[0-9eE.+-]|\\u[0-9a-d]{4}|\\[nx/]|true|null|é|\u{1}){0,12}"#,
    ) {
        if let Some(form) = canonical(text.as_bytes()) {
            let value: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(form, serde_json_canonicalizer::to_string(&value).unwrap());
        }
    }
}
