//! The charges and the keys: what a server remembers that keeps the contract. No I/O, no clock.

use std::collections::HashMap;

use bytes::Bytes;
use http::HeaderName;
use http::header::HeaderValue;

use super::answer::{Answer, as_json};

/// One effect, counted where it happened: at the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    id: String,
    key: Option<String>,
    received: Bytes,
}

impl Charge {
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    #[cfg(feature = "server")]
    pub(super) fn numbered(number: i64, key: Option<String>, received: Bytes) -> Charge {
        Charge { id: format!("ch_{number}"), key, received }
    }

    /// `ch_1`, `ch_2`, … in the order in which the effects happened.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The idempotency key, unquoted; `None` if the request had none.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// The request's body, byte for byte.
    pub fn received(&self) -> &Bytes {
        &self.received
    }
}

/// What the store says to a request before anything is done for it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// Go on; a key is marked as being worked on until [`Store::commit`] or [`Store::keep`].
    Fresh,
    /// The key is answered already: this is its answer, marked.
    Replay(Answer),
    /// The key came with other bytes before.
    Mismatch,
    /// The first request with this key is not answered yet.
    InProgress,
}

/// All charges and all keys.
#[derive(Debug, Default)]
pub(super) struct Store {
    charges: Vec<Charge>,
    keys: HashMap<String, Known>,
}

#[derive(Debug)]
struct Known {
    body: Bytes,
    /// `None` while the first request is being worked on.
    answer: Option<Answer>,
}

impl Store {
    /// Claims `key` for `body`, or says why not. Other bytes are told before work in progress.
    pub(super) fn begin(&mut self, key: Option<&str>, body: &Bytes) -> Begin {
        let Some(key) = key else { return Begin::Fresh };
        match self.keys.get(key) {
            Some(known) if known.body != *body => Begin::Mismatch,
            Some(Known { answer: Some(answer), .. }) => Begin::Replay(marked(answer)),
            Some(Known { answer: None, .. }) => Begin::InProgress,
            None => {
                let known = Known { body: body.clone(), answer: None };
                self.keys.insert(key.to_owned(), known);
                Begin::Fresh
            }
        }
    }

    /// Makes the effect and stores its answer under `key`. Returns the charge's id and the answer.
    pub(super) fn commit(&mut self, key: Option<&str>, body: &Bytes) -> (String, Answer) {
        let id = format!("ch_{}", self.charges.len() + 1);
        let answer = Answer::created(&id, body);
        let charge = Charge { id: id.clone(), key: key.map(str::to_owned), received: body.clone() };
        self.charges.push(charge);
        self.keep(key, body, &answer);
        (id, answer)
    }

    /// Stores an answer under `key` without an effect.
    pub(super) fn keep(&mut self, key: Option<&str>, body: &Bytes, answer: &Answer) {
        if let Some(key) = key {
            let known = Known { body: body.clone(), answer: Some(answer.clone()) };
            self.keys.insert(key.to_owned(), known);
        }
    }

    /// Every effect so far.
    pub(super) fn charges(&self) -> &[Charge] {
        &self.charges
    }

    /// What [`listing`] shows of all charges.
    pub(super) fn listing(&self) -> serde_json::Value {
        listing(&self.charges)
    }
}

/// `{"count":N,"charges":[{"id":…,"received":…}]}`
pub(super) fn listing(charges: &[Charge]) -> serde_json::Value {
    let charges: Vec<_> = charges
        .iter()
        .map(|charge| serde_json::json!({ "id": charge.id, "received": as_json(&charge.received) }))
        .collect();
    serde_json::json!({ "count": charges.len(), "charges": charges })
}

/// The field that marks a replay: `Idempotency-Replayed: true`.
fn marked(answer: &Answer) -> Answer {
    let name = HeaderName::from_static("idempotency-replayed");
    answer.clone().with(name, HeaderValue::from_static("true"))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    const BODY: Bytes = Bytes::from_static(br#"{"amount":1}"#);

    #[test]
    fn first_request_with_a_key_is_fresh_and_claims_it() {
        let mut store = Store::default();
        assert_eq!(store.begin(Some("a"), &BODY), Begin::Fresh);
        assert_eq!(store.begin(Some("a"), &BODY), Begin::InProgress);
        assert_eq!(store.begin(Some("b"), &BODY), Begin::Fresh);
        assert!(store.charges().is_empty());
    }

    #[test]
    fn committed_key_replays_the_same_answer_with_the_marker() {
        let mut store = Store::default();
        store.begin(Some("a"), &BODY);
        let (id, first) = store.commit(Some("a"), &BODY);
        assert_eq!(id, "ch_1");
        assert_eq!(first.status, StatusCode::CREATED);
        assert_eq!(first.headers["location"], "/v1/charges/ch_1");
        assert_eq!(first.body, r#"{"id":"ch_1","received":{"amount":1}}"#);
        assert!(!first.headers.contains_key("idempotency-replayed"));

        let Begin::Replay(mut again) = store.begin(Some("a"), &BODY) else { panic!("no replay") };
        assert_eq!(again.headers.remove("idempotency-replayed").unwrap(), "true");
        assert_eq!(again, first);
        assert_eq!(store.charges().len(), 1);
    }

    #[test]
    fn other_bytes_are_told_before_work_in_progress() {
        let mut store = Store::default();
        store.begin(Some("a"), &BODY);
        assert_eq!(store.begin(Some("a"), &Bytes::from_static(b"other")), Begin::Mismatch);
        store.commit(Some("a"), &BODY);
        assert_eq!(store.begin(Some("a"), &Bytes::from_static(b"other")), Begin::Mismatch);
    }

    #[test]
    fn without_a_key_every_request_is_an_effect() {
        let mut store = Store::default();
        for _ in 0..2 {
            assert_eq!(store.begin(None, &BODY), Begin::Fresh);
            store.commit(None, &BODY);
        }
        let ids: Vec<_> = store.charges().iter().map(Charge::id).collect();
        assert_eq!(ids, ["ch_1", "ch_2"]);
    }

    #[test]
    fn kept_answer_is_replayed_without_an_effect() {
        let mut store = Store::default();
        store.begin(Some("a"), &BODY);
        store.keep(Some("a"), &BODY, &Answer::refusal(StatusCode::SERVICE_UNAVAILABLE));
        let Begin::Replay(answer) = store.begin(Some("a"), &BODY) else { panic!("no replay") };
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(store.charges().is_empty());
    }

    #[test]
    fn body_that_is_no_json_is_listed_as_a_string() {
        let mut store = Store::default();
        store.commit(None, &Bytes::from_static(b"plain"));
        let expected = r#"{"charges":[{"id":"ch_1","received":"plain"}],"count":1}"#;
        assert_eq!(store.listing().to_string(), expected);
    }
}
