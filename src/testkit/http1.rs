//! HTTP/1.1, written byte by byte so that an answer can end exactly where a fault wants it to.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::answer::Answer;
use super::exchange::{self, CUT_AFTER, ENDLESS_INTERVAL, GARBAGE};
use super::fault::Delivery;
use super::http1_read::{Head, ReadError, read_body, read_head};
use super::log::{EventKind, Received};
use super::state::{State, pause};
use super::wire::Wire;

/// Serves requests one after the other until the connection ends.
pub(super) async fn serve(state: Arc<State>, io: impl Wire, number: u64) {
    let mut connection = Connection { state, io, number, buffer: BytesMut::new() };
    // An error here is the client leaving: nothing is left to do for it.
    while let Ok(Next::Request) = connection.serve_one().await {}
}

struct Connection<W> {
    state: Arc<State>,
    io: W,
    number: u64,
    /// Read, but not part of a request yet.
    buffer: BytesMut,
}

/// What comes after an answer.
#[derive(Clone, Copy)]
enum Next {
    Request,
    Close,
}

/// What of the request shapes its answer.
struct Reply {
    method: Method,
    next: Next,
}

impl<W: Wire> Connection<W> {
    async fn serve_one(&mut self) -> io::Result<Next> {
        let head = match read_head(&mut self.io, &mut self.buffer).await {
            Ok(head) => head,
            Err(error) => return self.refuse(error).await,
        };
        let at = self.state.log().now();
        let fault = match self.state.next_fault(&head.method) {
            Some(fault) if fault.unread().is_some() => {
                let request = self.received(head, Bytes::new(), at);
                exchange::record_unread(&self.state, request, &fault);
                return Ok(Next::Close);
            }
            fault => fault,
        };
        if head.expects_continue() {
            self.io.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            self.io.flush().await?;
        }
        let body = match read_body(&mut self.io, &mut self.buffer, &head).await {
            Ok(body) => body,
            Err(error) => return self.refuse(error).await,
        };
        let next = if head.keep_alive { Next::Request } else { Next::Close };
        let reply = Reply { method: head.method.clone(), next };
        let request = self.received(head, body, at);
        let (answer, delivery) = exchange::handle(&self.state, request, fault).await;
        self.deliver(&reply, &answer, delivery).await
    }

    fn received(&self, head: Head, body: Bytes, at: Duration) -> Received {
        let Head { method, target, headers, .. } = head;
        Received { connection: self.number, at, method, target, headers, body }
    }

    async fn refuse(&mut self, error: ReadError) -> io::Result<Next> {
        if let ReadError::Refused(status) = error {
            let reply = Reply { method: Method::POST, next: Next::Close };
            self.whole(&reply, &Answer::refusal(status)).await?;
        }
        Ok(Next::Close)
    }

    async fn deliver(
        &mut self,
        reply: &Reply,
        answer: &Answer,
        delivery: Option<Delivery>,
    ) -> io::Result<Next> {
        match delivery {
            None => return self.whole(reply, answer).await,
            Some(Delivery::Late(time)) => {
                pause(time).await;
                return self.whole(reply, answer).await;
            }
            Some(Delivery::Drip(interval)) => return self.drip(reply, answer, interval).await,
            Some(Delivery::Endless) => return self.endless(answer).await,
            Some(Delivery::Cut) => {
                let kept = CUT_AFTER.min(answer.body.len().saturating_sub(1));
                self.write(&head(answer, reply, Length::Known)).await?;
                self.write(&answer.body[..kept]).await?;
            }
            Some(Delivery::Garbage) => self.write(GARBAGE).await?,
            Some(Delivery::Reset) => self.io.reset_on_drop(),
            Some(Delivery::Close) => {}
        }
        Ok(Next::Close)
    }

    async fn whole(&mut self, reply: &Reply, answer: &Answer) -> io::Result<Next> {
        let mut bytes = head(answer, reply, Length::Known);
        if has_body(reply, answer) {
            bytes.put_slice(&answer.body);
        }
        self.finish(reply, answer, &bytes).await
    }

    async fn drip(
        &mut self,
        reply: &Reply,
        answer: &Answer,
        interval: Duration,
    ) -> io::Result<Next> {
        let Some((last, first)) = answer.body.split_last() else {
            return self.whole(reply, answer).await;
        };
        self.write(&head(answer, reply, Length::Known)).await?;
        for byte in first {
            pause(interval).await;
            self.write(&[*byte]).await?;
        }
        pause(interval).await;
        self.finish(reply, answer, &[*last]).await
    }

    /// Ends when the client leaves or the server stops.
    async fn endless(&mut self, answer: &Answer) -> io::Result<Next> {
        let reply = Reply { method: Method::POST, next: Next::Close };
        self.write(&head(answer, &reply, Length::Endless)).await?;
        let mut chunk = answer.body.clone();
        loop {
            self.write(format!("{:x}\r\n", chunk.len()).as_bytes()).await?;
            self.write(&chunk).await?;
            self.write(b"\r\n").await?;
            chunk = Bytes::from_static(b" ");
            pause(ENDLESS_INTERVAL).await;
        }
    }

    /// Writes the last bytes of an answer. It counts as answered if the client is still there.
    async fn finish(&mut self, reply: &Reply, answer: &Answer, last: &[u8]) -> io::Result<Next> {
        if self.client_is_there().await {
            self.state.record(self.number, EventKind::Answer(answer.status));
        }
        self.write(last).await?;
        if let Next::Close = reply.next {
            self.io.shutdown().await?;
        }
        Ok(reply.next)
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.io.write_all(bytes).await?;
        self.io.flush().await
    }

    /// One look at the stream without waiting. What the client sent meanwhile is kept.
    async fn client_is_there(&mut self) -> bool {
        let mut read = pin!(self.io.read_buf(&mut self.buffer));
        poll_fn(|context| {
            Poll::Ready(match read.as_mut().poll(context) {
                Poll::Pending => true,
                Poll::Ready(read) => read.is_ok_and(|length| length > 0),
            })
        })
        .await
    }
}

/// How the head announces the body.
enum Length {
    Known,
    Endless,
}

fn head(answer: &Answer, reply: &Reply, length: Length) -> BytesMut {
    let status = answer.status;
    let reason = status.canonical_reason().unwrap_or_default();
    let mut head = BytesMut::new();
    head.put_slice(format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).as_bytes());
    for (name, value) in &answer.headers {
        head.put_slice(name.as_str().as_bytes());
        head.put_slice(b": ");
        head.put_slice(value.as_bytes());
        head.put_slice(b"\r\n");
    }
    match length {
        Length::Known if answer.may_have_body() => {
            head.put_slice(format!("content-length: {}\r\n", answer.body.len()).as_bytes());
        }
        Length::Known => {}
        Length::Endless => head.put_slice(b"transfer-encoding: chunked\r\n"),
    }
    if let Next::Close = reply.next {
        head.put_slice(b"connection: close\r\n");
    }
    head.put_slice(b"\r\n");
    head
}

fn has_body(reply: &Reply, answer: &Answer) -> bool {
    reply.method != Method::HEAD && answer.may_have_body()
}
