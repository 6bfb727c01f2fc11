//! Reading an answer inside its attempt, and giving it back as if nobody had.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};
use reqwest::{Body, Response, ResponseBuilderExt, Url};

/// An answer, and what was read of its body.
pub(super) struct Read {
    response: Response,
    bytes: Bytes,
    complete: bool,
}

impl Read {
    /// Reads the body up to a limit, in bytes. A body that is declared longer is not begun.
    pub(super) async fn up_to(limit: usize, mut response: Response) -> reqwest::Result<Read> {
        let declared = response.content_length().and_then(|length| usize::try_from(length).ok());
        if declared.is_some_and(|length| length > limit) {
            return Ok(Read { response, bytes: Bytes::new(), complete: false });
        }
        let Some(first) = response.chunk().await? else {
            return Ok(Read { response, bytes: Bytes::new(), complete: true });
        };
        let Some(second) = response.chunk().await? else {
            let complete = first.len() <= limit;
            return Ok(Read { response, bytes: first, complete });
        };
        let mut bytes = BytesMut::with_capacity(declared.unwrap_or(first.len() + second.len()));
        bytes.extend_from_slice(&first);
        bytes.extend_from_slice(&second);
        let mut complete = false;
        while bytes.len() <= limit && !complete {
            match response.chunk().await? {
                Some(more) => bytes.extend_from_slice(&more),
                None => complete = true,
            }
        }
        Ok(Read { response, bytes: bytes.freeze(), complete })
    }

    /// The answer, if its body is whole.
    pub(super) fn if_complete(self) -> Option<Read> {
        self.complete.then_some(self)
    }

    /// The answer's headers.
    pub(super) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// What was read.
    pub(super) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether that is the whole body.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The answer as an ordinary response: what was read stands in front of the rest.
    pub(super) fn into_response(self) -> Response {
        self.rebuilt(None)
    }

    fn rebuilt(self, at_end: Option<AtEnd>) -> Response {
        let Read { mut response, bytes, complete } = self;
        if !complete && bytes.is_empty() && at_end.is_none() {
            return response;
        }
        let mut rebuilt = http::Response::builder();
        if let Some(extensions) = rebuilt.extensions_mut() {
            *extensions = std::mem::take(response.extensions_mut());
        }
        let rebuilt = rebuilt.url(response.url().clone()).body(());
        let mut rebuilt = rebuilt.expect("nothing was set that could be wrong");
        *rebuilt.status_mut() = response.status();
        *rebuilt.version_mut() = response.version();
        *rebuilt.headers_mut() = std::mem::take(response.headers_mut());
        Response::from(rebuilt.map(|()| {
            if complete {
                Body::from(bytes)
            } else {
                let at_end = at_end.map(Mutex::new);
                Body::wrap(Prefixed { read: bytes, rest: Body::from(response), at_end })
            }
        }))
    }

    /// The same, with something to be done when the caller has read the body to a clean end. Dropped
    /// before, it is not done.
    pub(super) fn into_response_ending(self, at_end: impl FnOnce() + Send + 'static) -> Response {
        let at_end: AtEnd = Box::new(at_end);
        self.rebuilt(Some(at_end))
    }

    /// The answer's status.
    pub(super) fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The answer with its body as bytes; whatever was not read is left out.
    pub(super) fn into_bytes(self) -> http::Response<Bytes> {
        http::Response::from(self.response).map(|_| self.bytes)
    }
}

/// What to do at the clean end of a body.
type AtEnd = Box<dyn FnOnce() + Send>;

/// A body whose beginning was read already.
struct Prefixed {
    read: Bytes,
    rest: Body,
    /// Behind a lock only because a body must be `Sync`.
    at_end: Option<Mutex<AtEnd>>,
}

impl http_body::Body for Prefixed {
    type Data = Bytes;
    type Error = reqwest::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, reqwest::Error>>> {
        if !self.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.read)))));
        }
        let polled = Pin::new(&mut self.rest).poll_frame(cx);
        let ended = matches!(polled, Poll::Ready(None))
            || matches!(polled, Poll::Ready(Some(Ok(_)))) && self.rest.is_end_stream();
        if ended && let Some(at_end) = self.at_end.take() {
            at_end.into_inner().unwrap_or_else(PoisonError::into_inner)();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read = u64::try_from(self.read.len()).unwrap_or(u64::MAX);
        let rest = self.rest.size_hint();
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(rest.lower().saturating_add(read).min(hint.upper().unwrap_or(u64::MAX)));
        hint
    }
}

/// Whether an answer came from where the request went, fragments aside.
pub(super) fn is_same_resource(sent: &Url, answered: &Url) -> bool {
    without_fragment(sent) == without_fragment(answered)
}

/// A `#` stands nowhere else in a URL than in front of its fragment.
fn without_fragment(url: &Url) -> &str {
    url.as_str().split('#').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Body;

    fn response(body: impl Into<reqwest::Body>) -> Response {
        let url = Url::parse("http://a.test/x").unwrap();
        let builder = http::Response::builder().status(201).header("x", "1").url(url);
        Response::from(builder.body(body.into()).unwrap())
    }

    /// A body without a declared length.
    struct Chunks(Vec<&'static [u8]>);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
            let next = (!self.0.is_empty()).then(|| self.0.remove(0));
            Poll::Ready(next.map(|chunk| Ok(Frame::data(Bytes::from_static(chunk)))))
        }
    }

    fn chunks(chunks: &[&'static [u8]]) -> Response {
        response(reqwest::Body::wrap(Chunks(chunks.to_vec())))
    }

    #[tokio::test]
    async fn what_was_read_is_given_back_whole() {
        let table: [(&[&'static [u8]], usize, bool); 7] = [
            (&[], 4, true),
            (&[b"abcd"], 4, true),
            (&[b"abcde"], 4, false),
            (&[b"ab", b"cd"], 4, true),
            (&[b"ab", b"cd", b"e"], 4, false),
            (&[b"a", b"b", b"c", b"d"], 4, true),
            (&[b"abc", b"defgh", b"ijk"], 4, false),
        ];
        for (body, limit, complete) in table {
            let read = Read::up_to(limit, chunks(body)).await.unwrap();
            assert_eq!(read.is_complete(), complete, "{body:?}");
            let back = read.into_response();
            assert_eq!(back.status(), 201);
            assert_eq!(back.headers()["x"], "1");
            assert_eq!(back.url().as_str(), "http://a.test/x");
            assert_eq!(back.bytes().await.unwrap(), body.concat(), "{body:?}");
        }
    }

    #[tokio::test]
    async fn a_body_declared_above_the_limit_is_not_begun() {
        let read = Read::up_to(4, response("abcde")).await.unwrap();
        assert!(!read.is_complete() && read.bytes().is_empty());
        assert_eq!(read.into_response().bytes().await.unwrap(), "abcde");
    }

    #[test]
    fn a_fragment_is_no_redirect_and_anything_else_is() {
        let sent = Url::parse("http://a.test/x?q=1#f").unwrap();
        let same = |url: &str| is_same_resource(&sent, &Url::parse(url).unwrap());
        assert!(same("http://a.test/x?q=1") && same("http://a.test/x?q=1#g"));
        for other in [
            "http://a.test/x",
            "http://a.test/y?q=1",
            "http://b.test/x?q=1",
            "https://a.test/x?q=1",
        ] {
            assert!(!same(other), "{other}");
        }
    }
}
