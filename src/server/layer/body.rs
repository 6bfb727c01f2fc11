//! The body of what passes through: the handler's request, and its answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// What was read of a body, then what was not: all of it where a request has a key or an answer is kept, nothing
    /// where they pass as they come.
    #[derive(Debug)]
    pub struct LayerBody<B> {
        read: Option<Bytes>,
        #[pin]
        rest: Option<B>,
    }
}

impl<B> LayerBody<B> {
    pub(super) fn as_it_came(body: B) -> Self {
        LayerBody { read: None, rest: Some(body) }
    }

    pub(super) fn whole(bytes: Bytes) -> Self {
        LayerBody { read: Some(bytes), rest: None }
    }

    /// What was read of a body that is too large to be kept, and its rest.
    pub(super) fn in_parts(read: Bytes, rest: B) -> Self {
        LayerBody { read: Some(read), rest: Some(rest) }
    }
}

impl<B: Body<Data = Bytes>> Body for LayerBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
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

    fn is_end_stream(&self) -> bool {
        self.read.as_ref().is_none_or(Bytes::is_empty)
            && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
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

/// A body while it is read. One piece, which is the usual case, is not copied.
#[derive(Default)]
pub(super) struct Gathered {
    first: Bytes,
    whole: BytesMut,
}

impl Gathered {
    pub(super) fn len(&self) -> usize {
        self.first.len() + self.whole.len()
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if self.len() == 0 {
            self.first = piece;
            return;
        }
        if self.whole.is_empty() {
            self.whole.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.whole.extend_from_slice(&piece);
    }

    pub(super) fn into_bytes(self) -> Bytes {
        if self.whole.is_empty() { self.first } else { self.whole.freeze() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Full};

    use super::*;

    #[tokio::test]
    async fn what_was_read_comes_before_the_rest() {
        let rest = Full::new(Bytes::from("rest"));
        let body = LayerBody::in_parts(Bytes::from("read, "), rest.clone());
        assert_eq!(body.size_hint().exact(), Some(10));
        assert!(!body.is_end_stream());
        assert_eq!(body.collect().await.unwrap().to_bytes(), "read, rest");

        let body = LayerBody::as_it_came(rest);
        assert_eq!(body.collect().await.unwrap().to_bytes(), "rest");

        let empty: LayerBody<Full<Bytes>> = LayerBody::whole(Bytes::new());
        assert!(empty.is_end_stream());
        assert_eq!(empty.size_hint().exact(), Some(0));
    }
}
