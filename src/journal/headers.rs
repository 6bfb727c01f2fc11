//! Which headers of a request are stored, which may be dropped, and which are credentials.
//!
//! Decided before the first send, by name alone:
//!
//! 1. *stored*: content headers, the key's own, and those that the caller added to the list;
//! 2. *droppable*: what says who is asking or traces the request, and makes no difference to the
//!    operation;
//! 3. **everything else is a credential**: its value is never stored, only its name, and the operation
//!    is not sent again without it.

use http::{HeaderMap, HeaderName};

/// Stored: they belong to the body.
pub(super) const CONTENT: [&str; 6] =
    ["accept", "content-encoding", "content-language", "content-type", "prefer", "if-match"];

/// Not stored and not missed.
pub(super) const DROPPABLE: [&str; 14] = [
    "accept-encoding",
    "accept-language",
    "baggage",
    "cache-control",
    "connection",
    "content-length",
    "date",
    "expect",
    "host",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "user-agent",
];

/// Kept of an answer: what its caller reads. Never `Set-Cookie`.
const ANSWER: [&str; 11] = [
    "cache-control",
    "content-encoding",
    "content-language",
    "content-location",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "link",
    "location",
    "retry-after",
];

/// Which headers are stored beside the content's, and which the stack itself sets again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HeaderRules {
    /// Stored too.
    pub(crate) stored: Vec<HeaderName>,
    /// Set anew by the client or its middleware on each attempt: neither stored nor missed.
    pub(crate) reapplied: Vec<HeaderName>,
}

/// What becomes of a request's headers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Sorted {
    pub(crate) stored: Vec<(String, Vec<u8>)>,
    /// The names of the credentials.
    pub(crate) missing: Vec<String>,
}

impl HeaderRules {
    /// Sorts a request's headers. `own` are those that the contract says belong to the operation, the
    /// key's among them, and `first_sent` the one that says when it was sent first, which each attempt
    /// makes anew.
    pub(crate) fn sort(
        &self,
        headers: &HeaderMap,
        own: impl Fn(&HeaderName) -> bool,
        first_sent: Option<&HeaderName>,
    ) -> Sorted {
        let mut sorted = Sorted::default();
        for name in headers.keys() {
            if own(name) || CONTENT.contains(&name.as_str()) || self.stored.contains(name) {
                for value in headers.get_all(name) {
                    sorted.stored.push((name.as_str().to_owned(), value.as_bytes().to_vec()));
                }
            } else if Some(name) != first_sent
                && !DROPPABLE.contains(&name.as_str())
                && !self.reapplied.contains(name)
            {
                sorted.missing.push(name.as_str().to_owned());
            }
        }
        sorted
    }
}

/// The headers of an answer that are kept.
pub(crate) fn of_answer(headers: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    let kept = |name: &HeaderName| ANSWER.contains(&name.as_str());
    headers
        .iter()
        .filter(|(name, _)| kept(name))
        .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(names: &[&'static str]) -> HeaderMap {
        names
            .iter()
            .map(|name| (HeaderName::from_static(name), HeaderValue::from_static("v")))
            .collect()
    }

    #[test]
    fn whatever_is_not_known_to_be_harmless_is_a_credential() {
        let key = HeaderName::from_static("idempotency-key");
        let all = headers(&[
            "authorization",
            "content-type",
            "cookie",
            "idempotency-key",
            "stripe-account",
            "user-agent",
            "x-api-key",
            "x-signature",
        ]);
        let rules = HeaderRules {
            stored: vec![HeaderName::from_static("stripe-account")],
            reapplied: vec![HeaderName::from_static("x-signature")],
        };
        let sorted = rules.sort(&all, |name| *name == key, None);
        let stored: Vec<_> = sorted.stored.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(stored, ["content-type", "idempotency-key", "stripe-account"]);
        assert_eq!(sorted.missing, ["authorization", "cookie", "x-api-key"]);
    }

    #[test]
    fn cookies_of_an_answer_are_not_kept() {
        let kept = of_answer(&headers(&["content-type", "location", "set-cookie", "x-trace"]));
        let names: Vec<_> = kept.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["content-type", "location"]);
    }
}
