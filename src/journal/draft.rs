//! An operation on its way into a journal.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};

use super::record::latin1;
use crate::fingerprint::Fingerprint;
use crate::redact;

/// An operation as it is written down: never changed afterwards.
#[derive(Clone)]
#[non_exhaustive]
pub struct Draft {
    /// The account it is sent under; empty is the default scope.
    pub scope: String,
    /// The caller's name for it, unique in its scope. A caller's key is its name.
    pub name: Option<String>,
    /// The key, as text.
    pub key: String,
    /// What was sent, to the byte.
    pub request: StoredRequest,
    /// Everything else.
    pub terms: Terms,
}

/// A request as it is stored: with its key, without its credentials.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredRequest {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// The stored headers, the key's among them, in their order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body.
    pub body: Bytes,
}

/// What belongs to an operation beside its request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The headers whose values are not stored, and which it must not be sent without.
    pub missing: Vec<String>,
    /// The contract's name.
    pub contract: String,
    /// The resolved window and its margin; `None` is for ever.
    pub window: Option<(Duration, Duration)>,
    /// Tells whether a later call of the same name is the same request.
    pub fingerprint: Fingerprint,
    /// The caller's own JSON, handed back with the outcome.
    pub context: Option<String>,
    /// Whether the resumer goes on after a caller was told that it did not end.
    pub keep_trying: bool,
}

impl Draft {
    /// What a store writes beside scope, name, key and body: one JSON object with a version.
    #[must_use]
    pub(crate) fn head(&self) -> String {
        let head = Head {
            v: Head::VERSION,
            method: self.request.method.clone(),
            url: self.request.url.clone(),
            headers: latin1::encode(&self.request.headers),
            missing: self.terms.missing.clone(),
            contract: self.terms.contract.clone(),
            window_ms: self.terms.window.map(|(window, _)| millis(window)),
            margin_ms: self.terms.window.map(|(_, margin)| millis(margin)),
            fingerprint: Some(self.terms.fingerprint.to_string()),
            context: self.terms.context.clone(),
            keep_trying: self.terms.keep_trying,
        };
        serde_json::to_string(&head).expect("strings, numbers and lists are JSON")
    }

    /// Reads back what a store wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(
        scope: String,
        name: Option<String>,
        key: String,
        head: &str,
        body: Bytes,
    ) -> Result<Draft, String> {
        let head: Head =
            serde_json::from_str(head).map_err(|error| format!("its head: {error}"))?;
        if head.v > Head::VERSION {
            return Err(format!("version {} is newer than this program", head.v));
        }
        let request = StoredRequest {
            method: head.method,
            url: head.url,
            headers: latin1::decode(head.headers)?,
            body,
        };
        let fingerprint = match head.fingerprint {
            Some(text) => text.parse().map_err(|_| "its fingerprint".to_owned())?,
            None => request.fingerprint()?,
        };
        let window = head.window_ms.zip(head.margin_ms);
        Ok(Draft {
            scope,
            name,
            key,
            request,
            terms: Terms {
                missing: head.missing,
                contract: head.contract,
                window: window.map(|(window, margin)| {
                    (Duration::from_millis(window), Duration::from_millis(margin))
                }),
                fingerprint,
                context: head.context,
                keep_trying: head.keep_trying,
            },
        })
    }
}

impl StoredRequest {
    /// The fingerprint of what is stored, as the call that sends the same computes it.
    fn fingerprint(&self) -> Result<Fingerprint, String> {
        let method = Method::from_bytes(self.method.as_bytes()).map_err(|_| "its method")?;
        let url = reqwest::Url::parse(&self.url).map_err(|error| format!("its URL: {error}"))?;
        let media_type = self.headers.iter().find(|(name, _)| name == CONTENT_TYPE.as_str());
        let media_type = media_type.map(|(_, value)| String::from_utf8_lossy(value));
        Ok(Fingerprint::new(&method, url.as_str(), media_type.as_deref(), &self.body))
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("scope", &self.scope)
            .field("name", &self.name)
            .field("key", &self.key)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredRequest {
    /// Neither query, header values nor body are shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoredRequest");
        shown.field("method", &self.method);
        if let Ok(url) = reqwest::Url::parse(&self.url) {
            shown.field("url", &format_args!("{}", redact::Shown(&url)));
        }
        shown.field("body", &format_args!("{} bytes", self.body.len())).finish_non_exhaustive()
    }
}

/// The persisted form. Readers of version 1 ignore members that they do not know; writers never
/// change the meaning of a member, and raise the version when an old reader would do harm.
#[derive(Serialize, Deserialize)]
struct Head {
    v: u32,
    method: String,
    url: String,
    headers: Vec<(String, String)>,
    #[serde(default)]
    missing: Vec<String>,
    contract: String,
    #[serde(default)]
    window_ms: Option<u64>,
    #[serde(default)]
    margin_ms: Option<u64>,
    /// Absent where a database wrote the row by itself, which knows no canonical form of JSON: it
    /// follows from the request then, for as long as its body is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fingerprint: Option<String>,
    #[serde(default)]
    context: Option<String>,
    #[serde(default)]
    keep_trying: bool,
}

impl Head {
    const VERSION: u32 = 1;
}

/// Whole milliseconds; a window is never made longer by that.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_without_a_fingerprint_has_that_of_its_request() {
        let read = |body: &'static [u8]| {
            let head = r#"{"v":1,"method":"POST","url":"https://api.example",
                "headers":[["content-type","application/json"]],"contract":"generic"}"#;
            Draft::read(String::new(), None, "k".into(), head, Bytes::from_static(body)).unwrap()
        };
        let json = br#"{"b":1,"a":2.0}"#;
        let sent = Fingerprint::new(
            &Method::POST,
            "https://api.example/",
            Some("application/json"),
            br#"{"a":2,"b":1}"#,
        );
        assert_eq!(read(json).terms.fingerprint, sent);
        assert_ne!(read(b"{}").terms.fingerprint, sent);
        // What is written back is written whole.
        let draft = read(json);
        let again = Draft::read(String::new(), None, "k".into(), &draft.head(), Bytes::new());
        assert_eq!(again.unwrap().terms.fingerprint, sent);
    }
}
