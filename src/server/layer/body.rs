//! The bodies of what passes through: the handler's request, and its answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// The body of a handler's request: read whole where the request has a key, as it came elsewhere.
    #[derive(Debug)]
    pub struct RequestBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    /// The body of an answer: ours, or the handler's.
    #[derive(Debug)]
    pub struct AnswerBody<B> {
        #[pin]
        inner: Inner<B>,
    }
}

pin_project! {
    /// What was read, then what was not.
    #[derive(Debug)]
    struct Inner<B> {
        read: Option<Bytes>,
        #[pin]
        rest: Option<B>,
    }
}

impl<B> RequestBody<B> {
    pub(super) fn as_it_came(body: B) -> Self {
        RequestBody { inner: Inner { read: None, rest: Some(body) } }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        RequestBody { inner: Inner { read: Some(bytes), rest: None } }
    }
}

impl<B> AnswerBody<B> {
    pub(super) fn of_handler(body: B) -> Self {
        AnswerBody { inner: Inner { read: None, rest: Some(body) } }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        AnswerBody { inner: Inner { read: Some(bytes), rest: None } }
    }

    /// What was read of a body that is too large to be kept, and its rest.
    pub(super) fn in_parts(read: Bytes, rest: B) -> Self {
        AnswerBody { inner: Inner { read: Some(read), rest: Some(rest) } }
    }
}

impl<B: Body<Data = Bytes>> Inner<B> {
    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        match this.read.take() {
            Some(bytes) if !bytes.is_empty() => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            _ => match this.rest.as_pin_mut() {
                Some(rest) => rest.poll_frame(cx),
                None => Poll::Ready(None),
            },
        }
    }

    fn ended(&self) -> bool {
        self.read.as_ref().is_none_or(Bytes::is_empty)
            && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn hint(&self) -> SizeHint {
        let read = self.read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        let rest = self.rest.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower().saturating_add(read));
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint
    }
}

impl<B: Body<Data = Bytes>> Body for RequestBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().inner.poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.ended()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.hint()
    }
}

impl<B: Body<Data = Bytes>> Body for AnswerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        self.project().inner.poll(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.ended()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn what_was_read_comes_before_the_rest() {
        let rest = Full::new(Bytes::from("rest"));
        let body = AnswerBody::in_parts(Bytes::from("read, "), rest.clone());
        assert_eq!(body.size_hint().exact(), Some(10));
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "read, rest");

        let body = RequestBody::as_it_came(rest);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "rest");

        let empty: RequestBody<Full<Bytes>> = RequestBody::whole(Bytes::new());
        assert!(empty.is_end_stream());
        assert_eq!(empty.size_hint().exact(), Some(0));
    }
}
