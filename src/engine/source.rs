//! Where the requests of an operation's attempts come from.

use http::Method;
use reqwest::{Request, Url};

/// The request as the caller gave it, and a copy of it for each attempt.
pub(super) enum Source {
    /// Its body is in memory: every attempt gets the same bytes.
    Replayable(Request),
    /// Its body is a stream: there is one attempt.
    Once { request: Option<Request>, method: Method, url: Url },
}

impl Source {
    pub(super) fn new(request: Request) -> Source {
        let in_memory = request.body().is_none_or(|body| body.as_bytes().is_some());
        if in_memory {
            return Source::Replayable(request);
        }
        let (method, url) = (request.method().clone(), request.url().clone());
        Source::Once { request: Some(request), method, url }
    }

    /// The request of the next attempt.
    pub(super) fn next(&mut self) -> Request {
        match self {
            Source::Replayable(request) => {
                request.try_clone().expect("a body in memory can be cloned")
            }
            Source::Once { request, .. } => {
                request.take().expect("what cannot be sent again is not attempted again")
            }
        }
    }

    pub(super) fn is_replayable(&self) -> bool {
        matches!(self, Source::Replayable(_))
    }

    pub(super) fn method(&self) -> &Method {
        match self {
            Source::Replayable(request) => request.method(),
            Source::Once { method, .. } => method,
        }
    }

    pub(super) fn url(&self) -> &Url {
        match self {
            Source::Replayable(request) => request.url(),
            Source::Once { url, .. } => url,
        }
    }

    /// The request, for a later call; `None` once a stream was sent.
    pub(super) fn into_request(self) -> Option<Request> {
        match self {
            Source::Replayable(request) => Some(request),
            Source::Once { request, .. } => request,
        }
    }
}
