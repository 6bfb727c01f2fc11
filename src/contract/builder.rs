//! Building a contract, and what is refused.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, Method};
use thiserror::Error;

use super::rule::{Rule, Signal};
use super::{Carrier, Contract, Terms};
use crate::key::{KeyFormat, KeyRule};
use crate::retry::window::{Window, WindowError};

/// Headers that HTTP itself, the body or a credential needs: never a place for a key.
const RESERVED: [&str; 18] = [
    "accept",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
];

/// Describes a server. Starts from the generic contract or from another one, and is checked by
/// [`build`](ContractBuilder::build).
#[derive(Clone, Debug)]
#[must_use]
pub struct ContractBuilder {
    terms: Terms,
    /// The first setting that was refused.
    refused: Option<ContractError>,
}

impl Contract {
    /// Starts from the generic contract under another name.
    pub fn builder(name: &str) -> ContractBuilder {
        ContractBuilder { terms: Terms::generic(), refused: None }.name(name)
    }

    /// The same terms, to be changed.
    pub fn to_builder(&self) -> ContractBuilder {
        ContractBuilder { terms: Terms::clone(&self.0), refused: None }
    }
}

impl ContractBuilder {
    /// The name in reports and journals.
    pub fn name(mut self, name: &str) -> Self {
        self.terms.name = Cow::Owned(name.to_owned());
        self
    }

    /// The key travels in this header.
    pub fn key_header(mut self, name: &str) -> Self {
        if let Some(name) = self.request_header(name) {
            self.terms.carrier = Carrier::Header(name);
        }
        self
    }

    /// The key travels in this top-level member of a JSON body.
    pub fn key_member(mut self, name: &str) -> Self {
        self.terms.carrier = Carrier::Member(Cow::Owned(name.to_owned()));
        self
    }

    /// A companion of the key: this header carries the time of the first send as an HTTP date
    /// (RFC 9110 §5.6.7), the same on every attempt.
    pub fn first_sent_header(mut self, name: &str) -> Self {
        self.terms.first_sent_header = self.request_header(name);
        self
    }

    /// How the key is written. Default: as it is.
    pub fn format(mut self, format: KeyFormat) -> Self {
        self.terms.format = format;
        self
    }

    /// Which keys the server accepts. Default: all.
    pub fn keys(mut self, keys: KeyRule) -> Self {
        self.terms.keys = keys;
        self
    }

    /// Methods that take a key although they are idempotent by RFC 9110 §9.2.2, such as DELETE.
    /// POST, PATCH and unknown methods always take one.
    pub fn keyed_methods(mut self, methods: impl IntoIterator<Item = Method>) -> Self {
        self.terms.keyed_methods = methods.into_iter().collect();
        self
    }

    /// For how long the server remembers a key, from the first send. Default: 24 hours.
    pub fn window(mut self, window: Duration) -> Self {
        self.terms.window = Some(window);
        self
    }

    /// The server never forgets a key.
    pub fn no_window(mut self) -> Self {
        self.terms.window = None;
        self
    }

    /// Another window for a path and all below it. `/orders` covers `/orders` and `/orders/7` but
    /// not `/orders-old`; the longest prefix that covers a path counts.
    pub fn window_for_path(mut self, prefix: &str, window: Duration) -> Self {
        self.terms.window_by_path.retain(|(other, _)| other != prefix);
        self.terms.window_by_path.push((prefix.to_owned(), window));
        self
    }

    /// What is held back at the end of every window. Default: a tenth of it, at most 5 minutes.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.terms.margin = Some(margin);
        self
    }

    /// Adds a signal of the server to those that are there.
    pub fn rule(mut self, rule: Rule) -> Self {
        match Signal::new(rule) {
            Ok(signal) => self.terms.signals.push(signal),
            Err(error) => self.refuse(error),
        }
        self
    }

    /// A response header that says `true` for "retry" and `false` for "do not". It is obeyed, but
    /// never overrides a replay, the window or a limit. Default: none.
    pub fn retry_hint(mut self, name: &str) -> Self {
        self.terms.retry_hint = self.response_header(name);
        self
    }

    /// A response header that says in milliseconds what `Retry-After` says in seconds, and wins
    /// over it. Default: none.
    pub fn retry_after_ms(mut self, name: &str) -> Self {
        self.terms.retry_after_ms = self.response_header(name);
        self
    }

    /// A response header with the server's own window, as an ISO 8601 duration such as `PT30M`. It
    /// may shorten the window, never lengthen it. Default: `Idempotency-Key-Lifetime`.
    pub fn advertised_window(mut self, name: &str) -> Self {
        self.terms.advertised_window = self.response_header(name);
        self
    }

    /// Statuses (400 to 499) that the server gives only after it has looked at the key, so that
    /// they tell the fate of earlier attempts too. Default: none.
    pub fn rejects_behind_key(mut self, statuses: impl IntoIterator<Item = u16>) -> Self {
        self.terms.rejects_behind_key = statuses.into_iter().collect();
        self
    }

    /// Statuses, 400 to 499, that reject an operation for good, so that a journal closes it: beyond 400,
    /// 402, 404, 410, 413, 415 and 422, which do so everywhere.
    pub fn closed_by(mut self, statuses: impl IntoIterator<Item = u16>) -> Self {
        self.terms.closed_by = statuses.into_iter().collect();
        self
    }

    /// A request header that belongs to the operation, such as the account it is for: a journal stores
    /// its value. Of a header that is not known to be harmless only the name is stored.
    pub fn operation_header(mut self, name: &str) -> Self {
        if let Some(name) = self.response_header(name) {
            self.terms.operation_headers.push(name);
        }
        self
    }

    /// The response header that names the request in the server's logs. Default: `X-Request-Id`,
    /// then `Request-Id`.
    pub fn request_id_header(mut self, name: &str) -> Self {
        self.terms.request_id_headers = self.response_header(name).into_iter().collect();
        self
    }

    /// Checks the terms.
    ///
    /// # Errors
    /// When a setting could not work, or could make two executions out of one; says which and why.
    pub fn build(self) -> Result<Contract, ContractError> {
        let mut terms = self.terms;
        if let Some(error) = self.refused {
            return Err(error);
        }
        if terms.name.is_empty() {
            return Err(ContractError::NoName);
        }
        match &terms.carrier {
            Carrier::Header(name) if terms.first_sent_header.as_ref() == Some(name) => {
                return Err(ContractError::SharedHeader(name.clone()));
            }
            Carrier::Member(name) if name.is_empty() => return Err(ContractError::NoMember),
            _ => {}
        }
        let by_path = terms.window_by_path.iter().map(|(_, length)| *length);
        for length in by_path.chain(terms.window) {
            window(length, terms.margin)?;
        }
        if let Some((prefix, _)) = terms.window_by_path.iter().find(|(p, _)| !p.starts_with('/')) {
            return Err(ContractError::Path(prefix.clone()));
        }
        if let Some(&status) = terms.rejects_behind_key.iter().find(|s| !matches!(s, 400..=499)) {
            return Err(ContractError::RejectingStatus(status));
        }
        terms.window_by_path.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        terms.signals.sort_by_key(Signal::place);
        Ok(Contract(Arc::new(terms)))
    }

    fn request_header(&mut self, name: &str) -> Option<HeaderName> {
        let name = self.response_header(name)?;
        if RESERVED.contains(&name.as_str()) {
            self.refuse(ContractError::ReservedHeader(name));
            return None;
        }
        Some(name)
    }

    fn response_header(&mut self, name: &str) -> Option<HeaderName> {
        header_name(name).map_err(|error| self.refuse(error)).ok()
    }

    fn refuse(&mut self, error: ContractError) {
        self.refused.get_or_insert(error);
    }
}

pub(super) fn header_name(name: &str) -> Result<HeaderName, ContractError> {
    name.parse().map_err(|_| ContractError::HeaderName(name.to_owned()))
}

pub(super) fn window(length: Duration, margin: Option<Duration>) -> Result<Window, WindowError> {
    match margin {
        Some(margin) => Window::with_margin(length, margin),
        None => Window::new(length),
    }
}

/// A contract that could not work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ContractError {
    /// The contract has no name.
    #[error("the contract has no name; give one, it is shown in reports")]
    NoName,
    /// Not a header name.
    #[error("{0:?} is not a header name; give a token such as Idempotency-Key")]
    HeaderName(String),
    /// A header that is needed for something else.
    #[error("the header {0} has a meaning of its own; give the one that the server documents")]
    ReservedHeader(HeaderName),
    /// One header for the key and for its companion.
    #[error("the header {0} cannot carry both the key and the time of the first send")]
    SharedHeader(HeaderName),
    /// The body member has no name.
    #[error("the body member that carries the key has no name; give one, such as idempotency_key")]
    NoMember,
    /// A window that its margin uses up.
    #[error(transparent)]
    Window(#[from] WindowError),
    /// A path prefix that covers nothing.
    #[error("{0:?} is not the start of a path; give one that starts with a slash")]
    Path(String),
    /// A rule without a test, or with none but the status 409.
    #[error(
        "a rule needs a header or a body test, or statuses without 409: \
         a 409 alone may mean in progress, mismatch, done before or a conflict of the business"
    )]
    BareRule,
    /// A status that no rule is ever asked about.
    #[error("no rule is asked about the status {0}; give statuses of 200 to 299 or 400 to 599")]
    Status(u16),
    /// Not a JSON pointer.
    #[error("{0:?} is not a JSON pointer to a member; give one such as /error/code (RFC 6901)")]
    Pointer(&'static str),
    /// A status that is no rejection.
    #[error("the status {0} does not reject a request; give statuses of 400 to 499")]
    RejectingStatus(u16),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::Meaning;

    const SECOND: Duration = Duration::from_secs(1);

    fn refused(change: fn(ContractBuilder) -> ContractBuilder) -> ContractError {
        change(Contract::builder("acme")).build().unwrap_err()
    }

    fn name(name: &'static str) -> HeaderName {
        HeaderName::from_static(name)
    }

    #[test]
    fn what_could_not_work_is_refused_at_build() {
        use ContractError as E;
        const MATCHES_ALL: Rule = Rule::new(Meaning::Replayed);
        assert_eq!(refused(|c| c.name("")), E::NoName);
        assert_eq!(refused(|c| c.key_header("my key")), E::HeaderName("my key".into()));
        assert_eq!(refused(|c| c.key_header("")), E::HeaderName(String::new()));
        assert_eq!(refused(|c| c.retry_hint("a:b")), E::HeaderName("a:b".into()));
        assert_eq!(refused(|c| c.key_member("")), E::NoMember);
        assert_eq!(
            refused(|c| c.first_sent_header("Idempotency-Key")),
            E::SharedHeader(name("idempotency-key"))
        );
        assert_eq!(refused(|c| c.window_for_path("orders", SECOND)), E::Path("orders".into()));
        assert_eq!(refused(|c| c.rejects_behind_key([400, 500])), E::RejectingStatus(500));
        assert_eq!(refused(|c| c.rule(MATCHES_ALL)), E::BareRule);
        assert_eq!(refused(|c| c.rule(MATCHES_ALL.statuses(&[200, 409]))), E::BareRule);
        assert_eq!(refused(|c| c.rule(MATCHES_ALL.statuses(&[200, 304]))), E::Status(304));
        assert_eq!(refused(|c| c.rule(MATCHES_ALL.header("a b"))), E::HeaderName("a b".into()));
        for pointer in ["", "code", "/a~2", "/a~"] {
            let rule = MATCHES_ALL.body(pointer);
            let error = Contract::builder("acme").rule(rule).build().unwrap_err();
            assert_eq!(error, E::Pointer(pointer));
        }
        for pointer in ["/", "/error/code", "/a~0b~1c"] {
            assert!(Contract::builder("acme").rule(MATCHES_ALL.body(pointer)).build().is_ok());
        }
    }

    #[test]
    fn headers_with_a_meaning_of_their_own_carry_no_key() {
        for reserved in RESERVED {
            let error = Contract::builder("acme").key_header(reserved).build().unwrap_err();
            assert_eq!(error, ContractError::ReservedHeader(name(reserved)));
            let error = Contract::builder("acme").first_sent_header(reserved).build().unwrap_err();
            assert_eq!(error, ContractError::ReservedHeader(name(reserved)));
        }
        assert!(Contract::builder("acme").key_header("X-Token").build().is_ok());
    }

    #[test]
    fn no_window_may_be_used_up_by_its_margin() {
        let window = |error| matches!(error, ContractError::Window(_));
        assert!(window(refused(|c| c.window(Duration::ZERO))));
        assert!(window(refused(|c| c.margin(SECOND).window(SECOND))));
        assert!(window(refused(|c| c.window_for_path("/a", 9 * SECOND).margin(9 * SECOND))));
        let fits = Contract::builder("acme").window(2 * SECOND).margin(SECOND).build().unwrap();
        assert_eq!(fits.window_for("/").unwrap().usable(), SECOND);
        let endless = Contract::builder("acme").no_window().margin(SECOND).build().unwrap();
        assert_eq!(endless.window_for("/"), None);
    }

    #[test]
    fn the_first_refused_setting_is_told() {
        let error = refused(|c| c.key_header("a b").request_id_header("c d"));
        assert_eq!(error, ContractError::HeaderName("a b".into()));
    }

    #[test]
    fn a_contract_goes_through_its_builder_unchanged() {
        for preset in Contract::presets() {
            assert_eq!(preset.to_builder().build().unwrap(), preset);
        }
        let renamed = Contract::stripe().to_builder().name("stripe-eu").build().unwrap();
        assert_eq!(renamed.name(), "stripe-eu");
        assert_ne!(renamed, Contract::stripe());
    }
}
