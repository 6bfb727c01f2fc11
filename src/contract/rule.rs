//! Reading an answer: what a contract's rules say about a status, its headers and its body.

use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::Value;

use super::ContractError;
use crate::retry::Known;

/// One signal of a server: when an answer looks like this, it means that.
///
/// All the tests that are given must hold. At least one of header and body is needed, or statuses
/// that do not include 409: a bare 409 may be any of four things, and so means none of them.
///
/// ```
/// use post_once::contract::{Meaning, Rule};
///
/// const STILL_WORKING: Rule =
///     Rule::new(Meaning::InProgress).statuses(&[409, 425]).header("Retry-After");
/// const SPENT: Rule =
///     Rule::new(Meaning::DoneBefore).statuses(&[409]).body_value("/error/code", "key_spent");
/// # assert_ne!(STILL_WORKING, SPENT);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Rule {
    meaning: Meaning,
    statuses: &'static [u16],
    header: Option<HeaderTest>,
    body: Option<BodyTest>,
    resource: Option<&'static str>,
}

/// What a [`Rule`] says about the operation. Where several rules match, the first in this order
/// counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Meaning {
    /// The answer is the stored one and cannot change: final, whatever its status.
    Replayed,
    /// An earlier attempt under this key is still being worked on: wait, with the same key.
    InProgress,
    /// The operation had been carried out before; the answer names the resource: final.
    DoneBefore,
    /// The key was used with another request: final.
    Mismatch,
    /// The server looked at the key and refused; neither this attempt nor an earlier one under the
    /// same key was carried out: final.
    Rejected,
}

/// The field is there; with values: it has one of them, in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeaderTest {
    name: &'static str,
    values: &'static [&'static str],
}

/// The JSON pointer leads to something that is not null; with a value: to that string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BodyTest {
    pointer: &'static str,
    value: Option<&'static str>,
}

impl Rule {
    /// A rule with this meaning and no test yet.
    pub const fn new(meaning: Meaning) -> Rule {
        Rule { meaning, statuses: &[], header: None, body: None, resource: None }
    }

    /// The status is one of these: 200 to 299 or 400 to 599. A redirect is never looked at.
    pub const fn statuses(self, statuses: &'static [u16]) -> Rule {
        Rule { statuses, ..self }
    }

    /// The answer has this header, whatever its value.
    pub const fn header(self, name: &'static str) -> Rule {
        self.header_values(name, &[])
    }

    /// The answer has this header with one of these values, in upper or lower case.
    pub const fn header_values(self, name: &'static str, values: &'static [&'static str]) -> Rule {
        Rule { header: Some(HeaderTest { name, values }), ..self }
    }

    /// The body is JSON, and this pointer (RFC 6901) leads to a value that is not null.
    ///
    /// Bodies are read up to 64 KiB; a longer one never matches.
    pub const fn body(self, pointer: &'static str) -> Rule {
        Rule { body: Some(BodyTest { pointer, value: None }), ..self }
    }

    /// The body is JSON, and this pointer (RFC 6901) leads to this string.
    ///
    /// Bodies are read up to 64 KiB; a longer one never matches.
    pub const fn body_value(self, pointer: &'static str, value: &'static str) -> Rule {
        Rule { body: Some(BodyTest { pointer, value: Some(value) }), ..self }
    }

    /// Where a [`Meaning::DoneBefore`] names the resource that the earlier execution had made: a
    /// pointer (RFC 6901) to a string in the body, for [`Report::resource`](crate::Report::resource).
    pub const fn resource(self, pointer: &'static str) -> Rule {
        Rule { resource: Some(pointer), ..self }
    }
}

/// What the head of an answer is enough for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Known(Known),
    /// A rule waits for the body. `Contract::read_body` goes on.
    NeedsBody,
}

/// A rule that was checked, its header name parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signal {
    rule: Rule,
    header: Option<HeaderName>,
}

impl Signal {
    pub(super) fn new(rule: Rule) -> Result<Signal, ContractError> {
        let tested = rule.header.is_some() || rule.body.is_some();
        if !tested && (rule.statuses.is_empty() || rule.statuses.contains(&409)) {
            return Err(ContractError::BareRule);
        }
        if let Some(&status) = rule.statuses.iter().find(|s| !matches!(s, 200..=299 | 400..=599)) {
            return Err(ContractError::Status(status));
        }
        let pointers = [rule.body.map(|body| body.pointer), rule.resource];
        if let Some(pointer) = pointers.into_iter().flatten().find(|pointer| !is_pointer(pointer)) {
            return Err(ContractError::Pointer(pointer));
        }
        let header = rule.header.map(|test| super::builder::header_name(test.name)).transpose()?;
        Ok(Signal { rule, header })
    }

    /// Where it stands among the rules: by meaning, and those first that need no body.
    pub(super) fn place(&self) -> (Meaning, bool) {
        (self.rule.meaning, self.rule.body.is_some())
    }

    fn known(&self) -> Known {
        match self.rule.meaning {
            Meaning::Replayed => Known::Replayed,
            Meaning::InProgress => Known::InProgress,
            Meaning::DoneBefore => Known::DoneBefore,
            Meaning::Mismatch => Known::Mismatch,
            Meaning::Rejected => Known::Rejected,
        }
    }

    /// The resource that a body names, if this signal says where.
    pub(super) fn resource(&self, body: &Value) -> Option<String> {
        body.pointer(self.rule.resource?)?.as_str().map(str::to_owned)
    }

    fn fits_head(&self, status: StatusCode, headers: &HeaderMap) -> bool {
        let statuses = self.rule.statuses;
        (statuses.is_empty() || statuses.contains(&status.as_u16())) && self.fits_headers(headers)
    }

    fn fits_headers(&self, headers: &HeaderMap) -> bool {
        let (Some(test), Some(name)) = (self.rule.header, &self.header) else { return true };
        let wanted = |value: &http::HeaderValue| {
            test.values
                .iter()
                .any(|wanted| value.as_bytes().eq_ignore_ascii_case(wanted.as_bytes()))
        };
        if test.values.is_empty() {
            headers.contains_key(name)
        } else {
            headers.get_all(name).iter().any(wanted)
        }
    }

    fn fits_body(&self, body: Option<&Value>) -> bool {
        let Some(test) = self.rule.body else { return true };
        let found = body.and_then(|body| body.pointer(test.pointer));
        match test.value {
            Some(wanted) => found.and_then(Value::as_str) == Some(wanted),
            None => found.is_some_and(|found| !found.is_null()),
        }
    }
}

/// Reads status and headers of an answer that is no redirect. The signals are in order of
/// [`Signal::place`].
pub(super) fn read_head(
    signals: &[Signal],
    retry_hint: Option<&HeaderName>,
    status: StatusCode,
    headers: &HeaderMap,
) -> Reading {
    match signals.iter().find(|signal| signal.fits_head(status, headers)) {
        Some(signal) if signal.rule.body.is_some() => Reading::NeedsBody,
        Some(signal) => Reading::Known(signal.known()),
        None => Reading::Known(without_signal(retry_hint, status, headers)),
    }
}

/// The same once the body is there.
pub(super) fn read_body(
    signals: &[Signal],
    retry_hint: Option<&HeaderName>,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> Known {
    let body = serde_json::from_slice(body).ok();
    signals
        .iter()
        .find(|signal| signal.fits_head(status, headers) && signal.fits_body(body.as_ref()))
        .map_or_else(|| without_signal(retry_hint, status, headers), Signal::known)
}

/// The server's hint, and without one the status. A success needs no hint.
fn without_signal(hint: Option<&HeaderName>, status: StatusCode, headers: &HeaderMap) -> Known {
    let value = hint.filter(|_| !status.is_success()).and_then(|name| headers.get(name));
    match value.map(|value| value.as_bytes()) {
        Some(value) if value.eq_ignore_ascii_case(b"true") => Known::HintedRetry,
        Some(value) if value.eq_ignore_ascii_case(b"false") => Known::HintedStop,
        _ => Known::from_status(status.as_u16()),
    }
}

/// RFC 6901 §3, the empty pointer (the whole document) left out.
fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|after| after.starts_with(['0', '1']))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

    use super::*;
    use crate::contract::Contract;

    type Fields = &'static [(&'static str, &'static str)];

    fn headers(fields: Fields) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn head(contract: &Contract, status: u16, fields: Fields) -> Reading {
        contract.read_head(StatusCode::from_u16(status).unwrap(), &headers(fields), false)
    }

    fn whole(contract: &Contract, status: u16, fields: Fields, body: &str) -> Known {
        let status = StatusCode::from_u16(status).unwrap();
        contract.read_body(status, &headers(fields), body.as_bytes())
    }

    /// A server with every kind of signal.
    fn talkative() -> Contract {
        Contract::builder("talkative")
            .rule(Rule::new(Meaning::Rejected).statuses(&[422]).header("key-refused"))
            .rule(Rule::new(Meaning::Mismatch).statuses(&[409, 422]).body_value("/code", "other"))
            .rule(Rule::new(Meaning::DoneBefore).statuses(&[409]).body("/links/resource"))
            .rule(Rule::new(Meaning::InProgress).statuses(&[409, 425]).body_value("/code", "busy"))
            .rule(Rule::new(Meaning::InProgress).statuses(&[425]))
            .retry_hint("should-retry")
            .build()
            .unwrap()
    }

    // O-10.
    #[test]
    fn a_marked_replay_is_final_whatever_its_status() {
        use Known::{Final, Replayed, Unavailable};
        let table: &[(u16, Fields, Known)] = &[
            (200, &[("idempotent-replayed", "true")], Replayed),
            (503, &[("idempotent-replayed", "true")], Replayed),
            (409, &[("idempotent-replayed", "true"), ("retry-after", "1")], Replayed),
            (500, &[("idempotent-replayed", "TRUE")], Replayed),
            (500, &[("idempotency-replayed", "true")], Replayed),
            (500, &[("idempotency-status", "Replayed")], Replayed),
            (500, &[("idempotent-replayed", "false"), ("idempotent-replayed", "true")], Replayed),
            (503, &[("idempotent-replayed", "false")], Unavailable),
            (500, &[("idempotent-replayed", "")], Final),
            (500, &[("idempotency-status", "stored")], Final),
            (503, &[], Unavailable),
        ];
        for (status, fields, known) in table {
            let read = head(&Contract::generic(), *status, fields);
            assert_eq!(read, Reading::Known(*known), "{status} {fields:?}");
        }
    }

    // O-09.
    #[test]
    fn a_409_is_in_progress_only_with_a_signal() {
        let generic = Contract::generic();
        let waits: Fields = &[("retry-after", "1")];
        assert_eq!(head(&generic, 409, waits), Reading::Known(Known::InProgress));
        assert_eq!(head(&generic, 409, &[]), Reading::Known(Known::Final));
        assert_eq!(head(&generic, 423, waits), Reading::Known(Known::Final));
        assert_eq!(head(&generic, 503, waits), Reading::Known(Known::Unavailable));
        assert_eq!(head(&talkative(), 425, &[]), Reading::Known(Known::InProgress));
        assert_eq!(whole(&talkative(), 409, &[], r#"{"code":"busy"}"#), Known::InProgress);
    }

    #[test]
    fn a_redirect_is_never_looked_into() {
        let replayed: Fields = &[("idempotent-replayed", "true")];
        for status in [300, 303, 307, 308] {
            let read = head(&Contract::generic(), status, replayed);
            assert_eq!(read, Reading::Known(Known::Redirected), "{status}");
        }
        let elsewhere = Contract::generic().read_head(StatusCode::OK, &headers(replayed), true);
        assert_eq!(elsewhere, Reading::Known(Known::Redirected));
    }

    #[test]
    fn the_body_is_asked_for_only_where_it_can_change_the_answer() {
        use Reading::NeedsBody;
        let table: &[(u16, Fields, Reading)] = &[
            (409, &[], NeedsBody),
            (422, &[], NeedsBody),
            (409, &[("retry-after", "1")], Reading::Known(Known::InProgress)),
            (409, &[("idempotent-replayed", "true")], Reading::Known(Known::Replayed)),
            (425, &[], Reading::Known(Known::InProgress)),
            (201, &[], Reading::Known(Known::Final)),
            (400, &[], Reading::Known(Known::Final)),
            (429, &[], Reading::Known(Known::Throttled)),
        ];
        for (status, fields, expected) in table {
            assert_eq!(head(&talkative(), *status, fields), *expected, "{status} {fields:?}");
        }
    }

    #[test]
    fn body_rules_are_read_in_the_order_of_their_meanings() {
        let refused: Fields = &[("key-refused", "yes")];
        let hint: Fields = &[("should-retry", "true")];
        let table: &[(&str, u16, Fields, &str, Known)] = &[
            ("done", 409, &[], r#"{"links":{"resource":"R1"}}"#, Known::DoneBefore),
            ("null is not there", 409, &[], r#"{"links":{"resource":null}}"#, Known::Final),
            ("done", 409, &[], r#"{"code":"other","links":{"resource":1}}"#, Known::DoneBefore),
            ("busy", 409, &[], r#"{"code":"busy","links":{"resource":1}}"#, Known::InProgress),
            ("mismatch", 422, refused, r#"{"code":"other"}"#, Known::Mismatch),
            ("rejected", 422, refused, r#"{"code":"OTHER"}"#, Known::Rejected),
            ("not of this status", 422, &[], r#"{"code":"busy"}"#, Known::Final),
            ("not a string", 409, &[], r#"{"code":["busy"]}"#, Known::Final),
            ("signal over hint", 409, hint, r#"{"code":"other"}"#, Known::Mismatch),
            ("hint without signal", 409, hint, "{}", Known::HintedRetry),
            ("no JSON", 409, &[], "busy", Known::Final),
            ("empty", 409, &[], "", Known::Final),
        ];
        for (rule, status, fields, body, known) in table {
            assert_eq!(whole(&talkative(), *status, fields, body), *known, "{rule}: {body}");
        }
    }

    #[test]
    fn a_body_beyond_the_bound_matches_nothing() {
        let body = |len: usize| {
            let start = r#"{"code":"busy","pad":""#;
            format!("{start}{}\"}}", "x".repeat(len - start.len() - 2))
        };
        let fits = body(Contract::BODY_PIECE);
        assert_eq!(fits.len(), Contract::BODY_PIECE);
        assert_eq!(whole(&talkative(), 409, &[], &fits), Known::InProgress);
        assert_eq!(whole(&talkative(), 409, &[], &body(Contract::BODY_PIECE + 1)), Known::Final);
        assert_eq!(whole(&talkative(), 409, &[], &fits[..100]), Known::Final, "cut");
    }

    #[test]
    fn hints_are_read_only_where_named_and_never_on_a_success() {
        let table: &[(u16, Fields, Known)] = &[
            (500, &[("should-retry", "true")], Known::HintedRetry),
            (400, &[("should-retry", "True")], Known::HintedRetry),
            (503, &[("should-retry", "false")], Known::HintedStop),
            (429, &[("should-retry", "false")], Known::HintedStop),
            (429, &[("should-retry", "perhaps")], Known::Throttled),
            (201, &[("should-retry", "true")], Known::Final),
            (500, &[("should-retry", "true"), ("idempotent-replayed", "true")], Known::Replayed),
        ];
        for (status, fields, known) in table {
            let read = head(&talkative(), *status, fields);
            assert_eq!(read, Reading::Known(*known), "{status} {fields:?}");
        }
        let unnamed = head(&Contract::generic(), 500, &[("should-retry", "true")]);
        assert_eq!(unnamed, Reading::Known(Known::Final));
    }
}
