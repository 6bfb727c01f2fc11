//! HTTP/2 (RFC 9113), with a way around the protocol's own rules for the faults that break them.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::sync::mpsc;

use super::answer::Answer;
use super::exchange::{self, BODY_LIMIT, CUT_AFTER, ENDLESS_INTERVAL, GARBAGE};
use super::fault::{Delivery, Unread};
use super::log::{EventKind, Received};
use super::state::{State, locked, pause};
use super::wire::Wire;

/// How long the client may take to close its end once ours is closed.
const LINGER: Duration = Duration::from_secs(1);

/// Serves streams, at the same time, until the connection ends.
pub(super) async fn serve(state: Arc<State>, io: impl Wire, number: u64) {
    let mut io = Shared(Arc::new(Mutex::new(io)));
    let Ok(mut connection) = h2::server::handshake(io.clone()).await else { return };
    let (end, mut ended) = mpsc::unbounded_channel();
    let last_words = loop {
        tokio::select! {
            // First the protocol: it writes out what was sent before the end was asked for, so
            // that the last words begin where a frame would.
            biased;
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => {
                    let stream = Stream { state: Arc::clone(&state), number, respond, end: end.clone() };
                    state.spawn(stream.serve(request));
                }
                Some(Err(_)) | None => return,
            },
            Some(last_words) = ended.recv() => break last_words,
        }
    };
    // An error is the client leaving before us.
    let _ = io.end_with(&last_words).await;
}

struct Stream {
    state: Arc<State>,
    number: u64,
    respond: SendResponse<Bytes>,
    /// Ends the whole connection with these bytes.
    end: mpsc::UnboundedSender<Bytes>,
}

impl Stream {
    /// An error is the client leaving, or taking the stream back: nothing is left to do for it.
    async fn serve(mut self, request: Request<RecvStream>) {
        let _ = self.try_serve(request).await;
    }

    async fn try_serve(&mut self, request: Request<RecvStream>) -> Result<(), h2::Error> {
        let at = self.state.log().now();
        let (head, mut body) = request.into_parts();
        let method = head.method.clone();
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
        let mut received = Received {
            connection: self.number,
            at,
            method: head.method,
            target: target.to_owned(),
            headers: head.headers,
            body: Bytes::new(),
        };
        let fault = self.state.next_fault(&method);
        if let Some(fault) = &fault
            && let Some(unread) = fault.unread()
        {
            exchange::record_unread(&self.state, received, fault);
            self.leave(unread).await;
            return Ok(());
        }
        let Some(body) = read_body(&mut body).await? else {
            let answer = Answer::refusal(StatusCode::PAYLOAD_TOO_LARGE);
            return self.whole(&method, &answer).await;
        };
        received.body = body;
        let (answer, delivery) = exchange::handle(&self.state, received, fault).await;
        self.deliver(&method, &answer, delivery).await
    }

    async fn leave(&mut self, unread: Unread) {
        match unread {
            Unread::Close => self.end_connection(Bytes::new()).await,
            Unread::RefuseStream => self.respond.send_reset(Reason::REFUSED_STREAM),
            Unread::GoAway => {
                self.end_connection(goaway_below(self.respond.stream_id())).await;
            }
        }
    }

    async fn deliver(
        &mut self,
        method: &Method,
        answer: &Answer,
        delivery: Option<Delivery>,
    ) -> Result<(), h2::Error> {
        match delivery {
            None => self.whole(method, answer).await?,
            Some(Delivery::Late(time)) => {
                pause(time).await;
                self.whole(method, answer).await?;
            }
            Some(Delivery::Drip(interval)) => self.drip(method, answer, interval).await?,
            Some(Delivery::Endless) => self.endless(answer).await?,
            Some(Delivery::Cut) => {
                let kept = CUT_AFTER.min(answer.body.len().saturating_sub(1));
                let mut stream = self.respond.send_response(head(answer), false)?;
                stream.send_data(answer.body.slice(..kept), false)?;
                self.end_connection(Bytes::new()).await;
            }
            Some(Delivery::Garbage) => self.end_connection(Bytes::from_static(GARBAGE)).await,
            Some(Delivery::Reset) => self.respond.send_reset(Reason::INTERNAL_ERROR),
            Some(Delivery::Close) => self.end_connection(Bytes::new()).await,
        }
        Ok(())
    }

    async fn whole(&mut self, method: &Method, answer: &Answer) -> Result<(), h2::Error> {
        if poll_once(|context| self.respond.poll_reset(context)).await {
            self.record_answer(answer);
        }
        let bodiless = *method == Method::HEAD || answer.body.is_empty();
        let mut stream = self.respond.send_response(head(answer), bodiless)?;
        if !bodiless {
            stream.send_data(answer.body.clone(), true)?;
        }
        Ok(())
    }

    async fn drip(
        &mut self,
        method: &Method,
        answer: &Answer,
        interval: Duration,
    ) -> Result<(), h2::Error> {
        if answer.body.is_empty() {
            return self.whole(method, answer).await;
        }
        let mut stream = self.respond.send_response(head(answer), false)?;
        let last = answer.body.len() - 1;
        for index in 0..=last {
            pause(interval).await;
            if index == last && is_open(&mut stream).await {
                self.record_answer(answer);
            }
            stream.send_data(answer.body.slice(index..=index), index == last)?;
        }
        Ok(())
    }

    /// Ends when the client takes the stream back or leaves, or the server stops.
    async fn endless(&mut self, answer: &Answer) -> Result<(), h2::Error> {
        let mut head = head(answer);
        head.headers_mut().remove(CONTENT_LENGTH);
        let mut stream = self.respond.send_response(head, false)?;
        stream.send_data(answer.body.clone(), false)?;
        while is_open(&mut stream).await {
            pause(ENDLESS_INTERVAL).await;
            stream.send_data(Bytes::from_static(b" "), false)?;
        }
        Ok(())
    }

    fn record_answer(&self, answer: &Answer) {
        self.state.record(self.number, EventKind::Answer(answer.status));
    }

    /// Returns when the connection has ended: a stream that is dropped before that is reset, and
    /// the client would see this in place of the last words.
    async fn end_connection(&self, last_words: Bytes) {
        if self.end.send(last_words).is_ok() {
            self.end.closed().await;
        }
    }
}

async fn is_open(stream: &mut SendStream<Bytes>) -> bool {
    poll_once(|context| stream.poll_reset(context)).await
}

/// True if there is nothing yet: the stream is neither reset nor lost.
async fn poll_once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> bool {
    poll_fn(|context| Poll::Ready(poll(context).is_pending())).await
}

/// `None` if it is above the limit.
async fn read_body(stream: &mut RecvStream) -> Result<Option<Bytes>, h2::Error> {
    let mut body = BytesMut::new();
    while let Some(chunk) = stream.data().await {
        let chunk = chunk?;
        if chunk.len() > BODY_LIMIT - body.len() {
            return Ok(None);
        }
        stream.flow_control().release_capacity(chunk.len())?;
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body.freeze()))
}

fn head(answer: &Answer) -> Response<()> {
    let mut head = Response::new(());
    *head.status_mut() = answer.status;
    *head.headers_mut() = answer.headers.clone();
    if answer.may_have_body() {
        head.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(answer.body.len()));
    }
    head
}

/// A GOAWAY frame (RFC 9113 §6.8) with `NO_ERROR`, that counts `stream` as never processed. The
/// protocol's implementation cannot send it: it has seen the stream.
fn goaway_below(stream: h2::StreamId) -> Bytes {
    const HEADER: [u8; 9] = [0, 0, 8, 7, 0, 0, 0, 0, 0];
    let last = u32::from(stream).saturating_sub(2);
    let mut frame = BytesMut::from(&HEADER[..]);
    frame.extend_from_slice(&last.to_be_bytes());
    frame.extend_from_slice(&u32::from(Reason::NO_ERROR).to_be_bytes());
    frame.freeze()
}

/// The connection's bytes, in the hands of the protocol until it is ended over its head.
struct Shared<W>(Arc<Mutex<W>>);

impl<W: Wire> Shared<W> {
    /// Writes, closes our end, and gives the client the time to see it: closed at once with bytes
    /// of the client unread, the socket would be reset and the last words could be lost.
    async fn end_with(&mut self, last_words: &[u8]) -> io::Result<()> {
        self.write_all(last_words).await?;
        self.shutdown().await?;
        let mut unread = [0; 1024];
        tokio::select! {
            () = pause(LINGER) => Ok(()),
            result = async { while self.read(&mut unread).await? > 0 {} Ok(()) } => result,
        }
    }
}

impl<W> Clone for Shared<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Wire> AsyncRead for Shared<W> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_read(context, buffer)
    }
}

impl<W: Wire> AsyncWrite for Shared<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *locked(&self.0)).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *locked(&self.0)).poll_shutdown(context)
    }
}
