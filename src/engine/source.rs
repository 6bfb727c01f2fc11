//! Where the requests of an operation's attempts come from.

use http::Method;
use reqwest::{Request, Url};

/// The request as the caller gave it, and a copy of it for each attempt.
///
/// It stays with the caller, so that a call which is dropped can be continued.
pub(super) enum Source<'a> {
    /// Its body is in memory: every attempt gets the same bytes.
    Replayable(&'a Request),
    /// Its body is a stream: there is one attempt, which takes it.
    Once { request: &'a mut Option<Request>, method: Method, url: Url },
}

impl<'a> Source<'a> {
    /// `None` when there is no request any more.
    pub(super) fn new(request: &'a mut Option<Request>) -> Option<Source<'a>> {
        let given = request.as_ref()?;
        if given.body().is_none_or(|body| body.as_bytes().is_some()) {
            return request.as_ref().map(Source::Replayable);
        }
        let (method, url) = (given.method().clone(), given.url().clone());
        Some(Source::Once { request, method, url })
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
}
