//! The object of `--output json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use post_once::report::{Attempt, Source};
use post_once::retry::Exhausted;
use post_once::{Effect, Report};
use reqwest::Response;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

/// What is told of an operation. Serializes as the object of `--output json`.
pub(crate) struct Record {
    pub(crate) key: Option<String>,
    pub(crate) operation: Option<String>,
    pub(crate) source: Source,
    pub(crate) effect: Effect,
    pub(crate) replayed: bool,
    pub(crate) exhausted: Option<Exhausted>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) answer: Option<Answer>,
}

/// The answer that decides.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Record {
    /// Of an operation that has no report of its own.
    pub(crate) fn new(key: Option<String>, effect: Effect, attempts: Vec<Attempt>) -> Record {
        Record {
            key,
            operation: None,
            source: Source::Network,
            effect,
            replayed: false,
            exhausted: None,
            attempts,
            answer: None,
        }
    }

    /// Of an operation as its report tells it.
    pub(crate) fn of(report: &Report) -> Record {
        Record {
            key: report.key().map(ToString::to_string),
            operation: report.operation().map(str::to_owned),
            source: report.source(),
            effect: report.effect(),
            replayed: report.is_replayed(),
            exhausted: report.exhausted(),
            attempts: report.attempts().cloned().collect(),
            answer: None,
        }
    }

    /// Of an operation that was answered.
    ///
    /// # Errors
    /// When the rest of a very long body is lost on its way: then there is no answer, and no
    /// certainty.
    pub(crate) async fn answered(response: Response) -> Result<Record, (Record, reqwest::Error)> {
        let report = Report::of(&response).expect("every response of the client has a report");
        let record = Record::of(report);
        let (status, headers) = (response.status(), response.headers().clone());
        match response.bytes().await {
            Ok(body) => Ok(Record { answer: Some(Answer { status, headers, body }), ..record }),
            Err(error) => Err((Record { effect: Effect::Unknown, ..record }, error.without_url())),
        }
    }

    /// As one line of JSON, unless the body brings lines of its own.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("names and values are of JSON");
        line.push(b'\n');
        line
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(11))?;
        map.serialize_entry("key", &self.key)?;
        map.serialize_entry("operation", &self.operation)?;
        map.serialize_entry("status", &self.answer.as_ref().map(|a| a.status.as_u16()))?;
        map.serialize_entry("effect", self.effect.as_str())?;
        map.serialize_entry("replayed", &self.replayed)?;
        map.serialize_entry("source", self.source.as_str())?;
        map.serialize_entry("exhausted", &self.exhausted.is_some())?;
        map.serialize_entry("exhausted_by", &self.exhausted.map(Exhausted::as_str))?;
        let attempts: Vec<_> = self.attempts.iter().map(Tried).collect();
        map.serialize_entry("attempts", &attempts)?;
        let none = HeaderMap::new();
        let headers = self.answer.as_ref().map_or(&none, |answer| &answer.headers);
        map.serialize_entry("headers", &Headers(headers))?;
        map.serialize_entry("body", &self.answer.as_ref().map(|answer| Body(&answer.body)))?;
        map.end()
    }
}

struct Tried<'a>(&'a Attempt);

impl Serialize for Tried<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let attempt = self.0;
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("number", &attempt.number())?;
        map.serialize_entry("status", &attempt.status().map(|status| status.as_u16()))?;
        map.serialize_entry("error", &attempt.error())?;
        map.serialize_entry("known", attempt.known().as_str())?;
        map.serialize_entry("request_id", &attempt.request_id())?;
        map.serialize_entry("waited_ms", &attempt.waited().as_millis())?;
        map.serialize_entry("elapsed_ms", &attempt.elapsed().as_millis())?;
        map.end()
    }
}

/// All values of each name; bytes that are no text are replaced.
struct Headers<'a>(&'a HeaderMap);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.keys().map(|name| {
            let values = self.0.get_all(name).iter();
            let values: Vec<_> =
                values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            (name.as_str(), values)
        }))
    }
}

/// JSON as it came, so that no number loses a digit; else text; else base64.
struct Body<'a>(&'a [u8]);

impl Serialize for Body<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(json) = serde_json::from_slice::<&RawValue>(self.0) {
            return json.serialize(serializer);
        }
        if let Ok(text) = std::str::from_utf8(self.0) {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("base64", &STANDARD.encode(self.0))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn json(value: impl Serialize) -> String {
        serde_json::to_string(&value).unwrap()
    }

    #[test]
    fn a_body_is_json_if_it_parses_else_text_else_base64() {
        let table: [(&[u8], &str); 8] = [
            (br#"{"b":1,"a":12345678901234567890.10}"#, r#"{"b":1,"a":12345678901234567890.10}"#),
            (b" [1]\n", "[1]"),
            (b"null", "null"),
            (b"", r#""""#),
            (b"plain \"text\"", r#""plain \"text\"""#),
            (b"{} {}", r#""{} {}""#),
            (b"\xff\xfe", r#"{"base64":"//4="}"#),
            (b"\"\xff\"", r#"{"base64":"Iv8i"}"#),
        ];
        for (body, expected) in table {
            assert_eq!(json(Body(body)), expected, "{body:?}");
        }
    }

    #[test]
    fn every_value_of_a_header_is_listed() {
        let mut headers = HeaderMap::new();
        headers.append("a", HeaderValue::from_static("1"));
        headers.append("a", HeaderValue::from_static("2"));
        headers.append("b", HeaderValue::from_bytes(b"\xe9").unwrap());
        assert_eq!(json(Headers(&headers)), "{\"a\":[\"1\",\"2\"],\"b\":[\"\u{fffd}\"]}");
    }
}
