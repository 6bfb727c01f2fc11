//! What an operation is, across all its attempts and across calls that repeat it.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use reqwest::Request;

use crate::fingerprint::Fingerprint;
use crate::journal::{RowId, Token};
use crate::key::IdempotencyKey;
use crate::retry::History;
use crate::retry::window::{FirstSend, Window};

/// What an operation is: its key, when it was first sent, and what came of it.
///
/// It lives in the caller's extensions, so that a middleware outside that repeats the call continues
/// the same operation: same key, same window.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperationState {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) first_send: Option<FirstSend>,
    pub(crate) attempts: u32,
    pub(crate) history: History,
    /// The server's own word on its window, if it shortened ours.
    pub(crate) advertised: Option<Duration>,
    /// The window that was resolved when the operation was written down.
    pub(crate) resolved: Option<Window>,
    /// The row in the journal, and its token when we left it.
    pub(crate) row: Option<(RowId, Token)>,
    /// Whether the key is the caller's.
    pub(crate) key_is_given: bool,
    /// Of the request, where a caller may come back with another one.
    identity: u64,
    /// Of the request as the caller gave it; only for the journal.
    fingerprint: Option<Fingerprint>,
}

impl OperationState {
    /// Whether this is the state of the same request: method, URL and body, to the byte.
    pub(crate) fn is_of(&self, request: &Request) -> bool {
        self.identity == identity(request)
    }

    /// Takes the server's word on its window, if it is shorter than what it said before.
    pub(crate) fn shorten_window(&mut self, advertised: Option<Duration>) {
        self.advertised = [self.advertised, advertised].into_iter().flatten().min();
    }

    /// The state of a new operation that is told from others by its request.
    pub(crate) fn told_by(request: &Request) -> OperationState {
        OperationState { identity: identity(request), ..OperationState::default() }
    }

    /// Takes the fingerprint of a request that has no key yet, for the journal.
    #[must_use]
    pub(crate) fn with_fingerprint(mut self, request: &Request) -> OperationState {
        let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
        let (method, url) = (request.method(), request.url().as_str());
        self.fingerprint = Some(Fingerprint::new(method, url, media_type, body));
        self
    }

    /// The fingerprint, if it was taken.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.fingerprint
    }

    /// The state of a new operation with the same request.
    pub(crate) fn renewed(&self) -> OperationState {
        let OperationState { identity, fingerprint, .. } = *self;
        OperationState { identity, fingerprint, ..OperationState::default() }
    }
}

/// Tells two requests of one caller apart. Not a fingerprint: it never leaves the process, and no
/// one has an interest in two requests that share it.
fn identity(request: &Request) -> u64 {
    let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
    let parts = [request.method().as_str().as_bytes(), request.url().as_str().as_bytes(), body];
    parts.into_iter().fold(0, folded)
}

/// Adds a part, and its length, to a hash: each eight bytes by a multiplication whose two halves
/// are folded together. A quarter of what the standard library's hash takes.
fn folded(hash: u64, part: &[u8]) -> u64 {
    /// Odd, and with as many ones as zeroes: the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word ^ FACTOR) * u128::from(FACTOR);
        (product >> 64) as u64 ^ product as u64
    };
    let (words, rest) = part.as_chunks::<8>();
    let hash = words.iter().fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash, u64::from_le_bytes(last)), part.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::{Method, Url};

    fn request(method: Method, path: &str, body: &'static str) -> Request {
        let url = Url::parse("http://a.test/").unwrap().join(path).unwrap();
        let mut request = Request::new(method, url);
        *request.body_mut() = Some(body.into());
        request
    }

    #[test]
    fn one_byte_makes_another_request() {
        let state = OperationState::told_by(&request(Method::POST, "/x", "0123456789abcdef, 17"));
        assert!(state.is_of(&request(Method::POST, "/x", "0123456789abcdef, 17")));
        for (method, path, body) in [
            (Method::PATCH, "/x", "0123456789abcdef, 17"),
            (Method::POST, "/y", "0123456789abcdef, 17"),
            (Method::POST, "/x0", "123456789abcdef, 17"),
            (Method::POST, "/x", "0123456789abcdef, 18"),
            (Method::POST, "/x", "1123456789abcdef, 17"),
            (Method::POST, "/x", "89abcdef01234567, 17"),
            (Method::POST, "/x", "0123456789abcdef, 17\0"),
            (Method::POST, "/x", "0123456789abcdef"),
            (Method::POST, "/x", ""),
        ] {
            assert!(!state.is_of(&request(method, path, body)), "{path} {body}");
        }
    }
}
