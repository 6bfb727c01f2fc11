//! What an operation is, across all its attempts and across calls that repeat it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use reqwest::Request;

use crate::key::IdempotencyKey;
use crate::retry::History;
use crate::retry::window::Moment;

/// What an operation is: its key, when it was first sent, and what came of it.
///
/// It lives in the caller's extensions, so that a middleware outside that repeats the call continues
/// the same operation: same key, same window.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperationState {
    pub(crate) key: Option<IdempotencyKey>,
    pub(crate) first_send: Option<Moment>,
    pub(crate) attempts: u32,
    pub(crate) history: History,
    /// The server's own word on its window, if it shortened ours.
    pub(crate) advertised: Option<Duration>,
    /// Of the request, where a caller may come back with another one.
    identity: u64,
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

    /// The state of a new operation with the same request.
    pub(crate) fn renewed(&self) -> OperationState {
        OperationState { identity: self.identity, ..OperationState::default() }
    }
}

/// Tells two requests of one caller apart. Not a fingerprint: it never leaves the process, and no
/// one has an interest in two requests that share it.
fn identity(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    request.method().hash(&mut hasher);
    request.url().as_str().hash(&mut hasher);
    request.body().and_then(|body| body.as_bytes()).hash(&mut hasher);
    hasher.finish()
}
