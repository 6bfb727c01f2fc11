//! Names, requests and answers to test a store with.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use crate::fingerprint::Fingerprint;
use crate::key::IdempotencyKey;
use crate::server::answer::StoredAnswer;
use crate::server::store::{Ask, Holder, Name, Token};

/// The key of the principal `acct_1`.
///
/// # Panics
/// When it is none.
#[must_use]
pub fn name(key: &str) -> Name {
    Name::new("acct_1", &IdempotencyKey::parse(key).expect("the case names a key"))
}

/// A worker that begins on this row, with a new token.
#[must_use]
pub fn holder(name: &Name) -> Holder {
    Holder::new(name.clone(), Token::mint())
}

/// What a `POST` of this body asks for.
#[must_use]
pub fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::new(&Method::POST, "/v1/charges", Some("application/json"), body.as_bytes())
}

/// A claim on this row, for a `POST` of this body.
#[must_use]
pub fn ask(name: &Name, body: &str, lease: Duration, retention: Duration) -> Ask {
    Ask::new(holder(name), fingerprint(body), lease, retention)
}

/// An answer with this body.
///
/// # Panics
/// When there is no such status.
#[must_use]
pub fn answer(status: u16, body: impl Into<Bytes>) -> StoredAnswer {
    let status = StatusCode::from_u16(status).expect("the case names a status");
    let headers = fields(&[("content-type", b"application/json")]);
    StoredAnswer::new(status, headers, Some(body.into()))
}

/// Header fields, line for line.
pub(super) fn fields(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}
