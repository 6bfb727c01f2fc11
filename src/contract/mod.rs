//! What a server promises about idempotency keys, as data: where the key goes, for how long it is
//! remembered, and how answers are to be read.
//!
//! A [`Contract`] is one of the presets ([`Contract::stripe`], [`Contract::named`]), or built from
//! the generic one ([`Contract::builder`]). [`providers`] shows how servers are described that are
//! no presets, and how a server's promise is verified.
//!
//! # How an answer is read
//! The first that fits counts:
//!
//! 1. **redirected**: a 3xx, or an answer from another URL;
//! 2. **replayed**: a marker that says so (`Idempotent-Replayed: true`, not `false`);
//! 3. **in progress**: a 409 with `Retry-After`, or the server's own signal;
//! 4. **done before**: the server's own signal;
//! 5. **mismatch**, then **rejected**: the server's own signals;
//! 6. the server's hint for or against a retry, where the contract names the header;
//! 7. the status.
//!
//! # Guarantees
//! - A 409 alone is never read as a signal: it may mean in progress, mismatch, done before, or a
//!   conflict of the business. [`ContractBuilder::build`] refuses such a rule.
//! - A hint never overrides a replay, and a success needs none.
//! - The body is read only where a rule for that status asks for it, and only up to 64 KiB.
//! - A window that the server advertises may shorten the contract's, never lengthen it.
//!
//! # Not guaranteed
//! - That a server keeps its promise, or that a provider has not changed it since the date that
//!   its preset names. What a preset could not verify it says.
//! - That a server which ignores keys is noticed: it will run a retry twice, whatever the
//!   contract says.
//!
//! ```
//! use std::time::Duration;
//!
//! use post_once::Contract;
//! use post_once::contract::{Meaning, Rule};
//!
//! # fn main() -> Result<(), post_once::contract::ContractError> {
//! let stripe = Contract::stripe();
//! assert_eq!(stripe.window_for("/v1/charges").unwrap().length(), Duration::from_secs(24 * 3600));
//!
//! const BUSY: Rule = Rule::new(Meaning::InProgress).statuses(&[409]).body_value("/code", "busy");
//! let acme = Contract::builder("acme")
//!     .key_header("Acme-Request-Key")
//!     .window(Duration::from_secs(3600))
//!     .rule(BUSY)
//!     .build()?;
//! assert_eq!(acme.window_for("/orders").unwrap().length(), Duration::from_secs(3600));
//!
//! // What a bare 409 means nobody can say, so a contract may not say it either.
//! let bare = Rule::new(Meaning::InProgress).statuses(&[409]);
//! assert!(Contract::builder("acme").rule(bare).build().is_err());
//! # Ok(()) }
//! ```

mod builder;
mod lifetime;
mod preset;
mod rule;

pub mod providers {
    #![doc = include_str!("guide.md")]
}

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

pub use self::builder::{ContractBuilder, ContractError};
pub(crate) use self::rule::Reading;
use self::rule::Signal;
pub use self::rule::{Meaning, Rule};
use crate::key::{KeyFormat, KeyRule};
use crate::retry::window::Window;
use crate::retry::{Known, retry_after};

/// What a server promises about keys. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contract(Arc<Terms>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Terms {
    name: Cow<'static, str>,
    carrier: Carrier,
    first_sent_header: Option<HeaderName>,
    format: KeyFormat,
    keys: KeyRule,
    keyed_methods: Vec<Method>,
    window: Option<Duration>,
    /// The longest prefix first.
    window_by_path: Vec<(String, Duration)>,
    margin: Option<Duration>,
    /// In the order of [`Signal::place`].
    signals: Vec<Signal>,
    retry_hint: Option<HeaderName>,
    retry_after_ms: Option<HeaderName>,
    advertised_window: Option<HeaderName>,
    rejects_behind_key: Vec<u16>,
    request_id_headers: Vec<HeaderName>,
    closed_by: Vec<u16>,
    operation_headers: Vec<HeaderName>,
}

/// Where the key goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carrier {
    /// A header field of the request.
    Header(HeaderName),
    /// A top-level member of a JSON body.
    Member(Cow<'static, str>),
}

impl Default for Contract {
    /// The generic contract.
    fn default() -> Contract {
        Contract::generic()
    }
}

impl Contract {
    /// The longest piece of a body that is read for a rule, in bytes.
    pub(crate) const BODY_PIECE: usize = 64 * 1024;

    /// The name in reports and journals.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Where the key goes.
    #[must_use]
    pub fn carrier(&self) -> &Carrier {
        &self.0.carrier
    }

    /// The header that carries the time of the first send beside the key, if there is one.
    #[must_use]
    pub fn first_sent_header(&self) -> Option<&HeaderName> {
        self.0.first_sent_header.as_ref()
    }

    /// How the key is written.
    #[must_use]
    pub fn format(&self) -> KeyFormat {
        self.0.format
    }

    /// Which keys the server accepts.
    pub fn keys(&self) -> &KeyRule {
        &self.0.keys
    }

    /// Whether a request of this method gets a key: POST, PATCH and unknown methods do; GET, HEAD,
    /// OPTIONS, TRACE, PUT and DELETE only where the contract lists them.
    #[must_use]
    pub fn wants_key(&self, method: &Method) -> bool {
        !method.is_idempotent() || self.0.keyed_methods.contains(method)
    }

    /// For how long the server remembers the key of a request to this path. `None`: for ever.
    #[must_use]
    pub fn window_for(&self, path: &str) -> Option<Window> {
        let by_path = self.0.window_by_path.iter().find(|(prefix, _)| covers(prefix, path));
        let length = by_path.map(|(_, length)| *length).or(self.0.window)?;
        Some(self.checked(length))
    }

    /// The paths that have a window of their own, the longest first. What they do not cover has
    /// that of [`window_for`](Contract::window_for) an empty path.
    pub fn windows_by_path(&self) -> impl Iterator<Item = (&str, Window)> {
        self.0.window_by_path.iter().map(|(prefix, length)| (&**prefix, self.checked(*length)))
    }

    fn checked(&self, length: Duration) -> Window {
        builder::window(length, self.0.margin).expect("every window was checked at build")
    }

    /// What an answer from the URL that was sent to says by this contract; of the body at most 64 KiB
    /// are looked at.
    ///
    /// ```
    /// use http::{HeaderMap, StatusCode};
    /// use post_once::Contract;
    /// use post_once::retry::Known;
    ///
    /// let body = br#"{"error":{"type":"idempotency_error"}}"#;
    /// let read = |contract: Contract| contract.read(StatusCode::BAD_REQUEST, &HeaderMap::new(), body);
    /// assert_eq!(read(Contract::stripe()), Known::Mismatch);
    /// assert_eq!(read(Contract::generic()), Known::Final);
    /// ```
    #[must_use]
    pub fn read(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Known {
        match self.read_head(status, headers, false) {
            Reading::Known(known) => known,
            Reading::NeedsBody => self.read_body(status, headers, body),
        }
    }

    /// The window that the server itself announces in this answer, if it is readable.
    pub(crate) fn advertised_window(&self, headers: &HeaderMap) -> Option<Duration> {
        let values = headers.get_all(self.0.advertised_window.as_ref()?);
        values.iter().filter_map(|value| lifetime::parse(value.to_str().ok()?)).min()
    }

    /// Whether a rejection by this status is for good, beyond those that are so everywhere.
    pub(crate) fn closed_by(&self, status: StatusCode) -> bool {
        self.0.closed_by.contains(&status.as_u16())
    }

    /// Whether this request header belongs to the operation: the key's, or one that the contract lists.
    pub(crate) fn is_of_operation(&self, name: &HeaderName) -> bool {
        let carries_key = matches!(&self.0.carrier, Carrier::Header(carrier) if carrier == name);
        carries_key || self.0.operation_headers.contains(name)
    }

    /// The name of the request in the server's logs.
    pub(crate) fn request_id<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        let mut values = self.0.request_id_headers.iter().filter_map(|name| headers.get(name));
        values.find_map(|value| HeaderValue::to_str(value).ok())
    }

    /// Whether this status is given only by code that has looked at the key.
    pub(crate) fn rejects_behind_key(&self, status: StatusCode) -> bool {
        self.0.rejects_behind_key.contains(&status.as_u16())
    }

    /// The wait that the server asks for, in milliseconds where the contract names such a header.
    pub(crate) fn retry_after(
        &self,
        headers: &HeaderMap,
        now: impl FnOnce() -> SystemTime,
    ) -> Option<Duration> {
        let millis = self.0.retry_after_ms.as_ref();
        millis
            .and_then(|name| retry_after::read_millis(headers, name))
            .or_else(|| retry_after::read(headers, now))
    }

    /// What status and headers say. `redirected`: the answer is from another URL than the one
    /// that was sent to.
    pub(crate) fn read_head(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        redirected: bool,
    ) -> Reading {
        if redirected || status.is_redirection() {
            return Reading::Known(Known::Redirected);
        }
        rule::read_head(&self.0.signals, self.0.retry_hint.as_ref(), status, headers)
    }

    /// What the whole answer says, after [`Reading::NeedsBody`]. At most [`Contract::BODY_PIECE`]
    /// bytes are looked at; a body that is cut is no JSON and matches nothing.
    pub(crate) fn read_body(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Known {
        let piece = body.get(..Contract::BODY_PIECE).unwrap_or(body);
        rule::read_body(&self.0.signals, self.0.retry_hint.as_ref(), status, headers, piece)
    }

    /// The resource that an answer of "done before" names, where the contract says how.
    pub(crate) fn resource(&self, body: &[u8]) -> Option<String> {
        let body = serde_json::from_slice(body).ok()?;
        self.0.signals.iter().find_map(|signal| signal.resource(&body))
    }
}

/// Whether `path` is `prefix` or lies below it.
fn covers(prefix: &str, path: &str) -> bool {
    path.strip_prefix(prefix)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || prefix.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn idempotent_methods_take_a_key_only_where_listed() {
        let listed = Contract::builder("acme").keyed_methods([Method::PUT]).build().unwrap();
        let brew = Method::from_bytes(b"BREW").unwrap();
        for method in [Method::POST, Method::PATCH, Method::CONNECT, brew] {
            assert!(Contract::generic().wants_key(&method), "{method}");
            assert!(listed.wants_key(&method), "{method}");
        }
        let idempotent = [
            Method::GET,
            Method::HEAD,
            Method::OPTIONS,
            Method::TRACE,
            Method::PUT,
            Method::DELETE,
        ];
        for method in idempotent {
            assert!(!Contract::generic().wants_key(&method), "{method}");
            assert_eq!(listed.wants_key(&method), method == Method::PUT, "{method}");
        }
    }

    #[test]
    fn the_longest_prefix_that_covers_a_path_gives_its_window() {
        let contract = Contract::builder("acme")
            .window(9 * SECOND)
            .window_for_path("/a", SECOND)
            .window_for_path("/a/b/", 2 * SECOND)
            .window_for_path("/a/b/c", 99 * SECOND)
            .window_for_path("/a/b/c", 3 * SECOND)
            .build()
            .unwrap();
        for (path, seconds) in [
            ("/", 9),
            ("/a", 1),
            ("/a/x", 1),
            ("/ab", 9),
            ("/a/b", 1),
            ("/a/b/x", 2),
            ("/a/b/c", 3),
            ("/a/b/c/d", 3),
            ("/a/b/cd", 2),
            ("/x/a", 9),
            ("", 9),
        ] {
            let window = contract.window_for(path).unwrap();
            assert_eq!(window.length(), seconds * SECOND, "{path}");
        }
    }

    #[test]
    fn windows_by_path_are_listed_with_their_margin_the_longest_path_first() {
        let contract = Contract::builder("acme")
            .window_for_path("/a", 20 * SECOND)
            .window_for_path("/a/b", 30 * SECOND)
            .margin(SECOND)
            .build()
            .unwrap();
        let listed: Vec<_> =
            contract.windows_by_path().map(|(path, window)| (path, window.usable())).collect();
        assert_eq!(listed, [("/a/b", 29 * SECOND), ("/a", 19 * SECOND)]);
        assert_eq!(Contract::generic().windows_by_path().count(), 0);
    }

    #[test]
    fn an_advertised_window_is_read_and_garbage_is_not() {
        let name = "idempotency-key-lifetime";
        let read = |fields: &[_]| Contract::ietf().advertised_window(&headers(fields));
        assert_eq!(read(&[(name, "PT30M")]), Some(1_800 * SECOND));
        assert_eq!(read(&[(name, "P1D"), (name, "PT30M")]), Some(1_800 * SECOND), "the shortest");
        assert_eq!(read(&[(name, "soon"), (name, "PT30M")]), Some(1_800 * SECOND));
        assert_eq!(read(&[(name, "1800")]), None);
        assert_eq!(read(&[]), None);
        let other = Contract::builder("acme").advertised_window("key-ttl").build().unwrap();
        assert_eq!(other.advertised_window(&headers(&[("key-ttl", "PT1H")])), Some(3_600 * SECOND));
    }

    #[test]
    fn milliseconds_win_over_retry_after_only_where_named() {
        let now = || SystemTime::UNIX_EPOCH;
        let both = headers(&[("retry-after", "2"), ("retry-after-ms", "250")]);
        let named = Contract::builder("acme").retry_after_ms("Retry-After-Ms").build().unwrap();
        assert_eq!(named.retry_after(&both, now), Some(SECOND / 4));
        assert_eq!(Contract::generic().retry_after(&both, now), Some(2 * SECOND));
        let garbled = headers(&[("retry-after", "2"), ("retry-after-ms", "x")]);
        assert_eq!(named.retry_after(&garbled, now), Some(2 * SECOND));
        assert_eq!(named.retry_after(&HeaderMap::new(), now), None);
    }
}
