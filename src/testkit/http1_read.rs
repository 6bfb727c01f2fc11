//! Reading HTTP/1.1 requests from a stream (RFC 9112), within bounds.

use bytes::{Bytes, BytesMut};
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, HeaderValue, TRANSFER_ENCODING,
};
use http::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::exchange::BODY_LIMIT;

const HEAD_LIMIT: usize = 64 << 10;
const MAX_FIELDS: usize = 128;

/// The head of a request.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) keep_alive: bool,
    framing: Framing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

/// Why there is no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The client left; nothing to answer.
    Gone,
    /// What it sent gets this status.
    Refused(StatusCode),
}

const MALFORMED: ReadError = ReadError::Refused(StatusCode::BAD_REQUEST);
const TOO_LARGE: ReadError = ReadError::Refused(StatusCode::PAYLOAD_TOO_LARGE);

impl Head {
    /// True if the client waits for `100 Continue` before it sends the body.
    pub(super) fn expects_continue(&self) -> bool {
        has_token(&self.headers, EXPECT, "100-continue") && self.framing != Framing::Length(0)
    }
}

/// Reads up to the end of a head. What follows stays in `buffer`.
pub(super) async fn read_head(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<Head, ReadError> {
    loop {
        if let Some((head, length)) = parse_head(buffer)? {
            let _ = buffer.split_to(length);
            return Ok(head);
        }
        if buffer.len() > HEAD_LIMIT {
            return Err(ReadError::Refused(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        read_more(io, buffer).await?;
    }
}

/// Reads the body that `head` announces.
pub(super) async fn read_body(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    head: &Head,
) -> Result<Bytes, ReadError> {
    match head.framing {
        Framing::Length(length) if length > BODY_LIMIT => Err(TOO_LARGE),
        Framing::Length(length) => take(io, buffer, length).await,
        Framing::Chunked => read_chunks(io, buffer).await,
    }
}

fn parse_head(buffer: &[u8]) -> Result<Option<(Head, usize)>, ReadError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(buffer) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(MALFORMED),
    };
    let mut headers = HeaderMap::new();
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| MALFORMED)?;
        headers.append(name, HeaderValue::from_bytes(field.value).map_err(|_| MALFORMED)?);
    }
    let method = request.method.unwrap_or_default().parse().map_err(|_| MALFORMED)?;
    let keep_alive = match request.version {
        Some(1) => !has_token(&headers, CONNECTION, "close"),
        _ => false,
    };
    let target = request.path.unwrap_or_default().to_owned();
    let framing = framing(&headers)?;
    Ok(Some((Head { method, target, headers, keep_alive, framing }, length)))
}

/// RFC 9112 §6.3. Both framings at once are refused, as a server should.
fn framing(headers: &HeaderMap) -> Result<Framing, ReadError> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = match (lengths.next(), lengths.next()) {
        (None, _) => None,
        (Some(length), None) => {
            let digits = length.to_str().map_err(|_| MALFORMED)?;
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(MALFORMED);
            }
            Some(digits.parse().map_err(|_| TOO_LARGE)?)
        }
        (Some(_), Some(_)) => return Err(MALFORMED),
    };
    let chunked = has_token(headers, TRANSFER_ENCODING, "chunked");
    match (length, headers.contains_key(TRANSFER_ENCODING)) {
        (None, false) => Ok(Framing::Length(0)),
        (Some(length), false) => Ok(Framing::Length(length)),
        (None, true) if chunked => Ok(Framing::Chunked),
        (_, true) => Err(MALFORMED),
    }
}

fn has_token(headers: &HeaderMap, name: HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|item| item.trim().eq_ignore_ascii_case(token))
}

async fn read_chunks(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<Bytes, ReadError> {
    let mut body = BytesMut::new();
    loop {
        let size = loop {
            match httparse::parse_chunk_size(buffer) {
                Ok(httparse::Status::Complete((line, size))) => {
                    let _ = buffer.split_to(line);
                    break usize::try_from(size).map_err(|_| TOO_LARGE)?;
                }
                Ok(httparse::Status::Partial) if buffer.len() <= HEAD_LIMIT => {
                    read_more(io, buffer).await?;
                }
                Ok(httparse::Status::Partial) | Err(_) => return Err(MALFORMED),
            }
        };
        if size == 0 {
            skip_trailers(io, buffer).await?;
            return Ok(body.freeze());
        }
        if size > BODY_LIMIT - body.len() {
            return Err(TOO_LARGE);
        }
        body.extend_from_slice(&take(io, buffer, size).await?);
        if take(io, buffer, 2).await? != "\r\n" {
            return Err(MALFORMED);
        }
    }
}

/// Reads lines up to the empty one.
async fn skip_trailers(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<(), ReadError> {
    loop {
        match buffer.windows(2).position(|pair| pair == b"\r\n") {
            Some(end) => {
                let _ = buffer.split_to(end + 2);
                if end == 0 {
                    return Ok(());
                }
            }
            None if buffer.len() > HEAD_LIMIT => return Err(MALFORMED),
            None => read_more(io, buffer).await?,
        }
    }
}

async fn take(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    length: usize,
) -> Result<Bytes, ReadError> {
    while buffer.len() < length {
        read_more(io, buffer).await?;
    }
    Ok(buffer.split_to(length).freeze())
}

async fn read_more(
    io: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
) -> Result<(), ReadError> {
    match io.read_buf(buffer).await {
        Ok(0) | Err(_) => Err(ReadError::Gone),
        Ok(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(input: &[u8]) -> Result<(Head, Bytes), ReadError> {
        let mut io = input;
        let mut buffer = BytesMut::new();
        let head = read_head(&mut io, &mut buffer).await?;
        let body = read_body(&mut io, &mut buffer, &head).await?;
        Ok((head, body))
    }

    #[tokio::test]
    async fn bodies_are_read_by_length_and_by_chunks() {
        for (input, expected) in [
            (&b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"[..], &b"abc"[..]),
            (b"POST / HTTP/1.1\r\n\r\n", b""),
            (
                b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nT: t\r\n\r\n",
                b"abc",
            ),
        ] {
            assert_eq!(read(input).await.unwrap().1, expected);
        }
    }

    #[tokio::test]
    async fn false_framing_is_refused() {
        for (fields, expected) in [
            ("Content-Length: +3", MALFORMED),
            ("Content-Length: 3\r\nContent-Length: 3", MALFORMED),
            ("Content-Length: 3\r\nTransfer-Encoding: chunked", MALFORMED),
            ("Transfer-Encoding: gzip", MALFORMED),
            ("Content-Length: 67108865", TOO_LARGE),
            ("Content-Length: 99999999999999999999", TOO_LARGE),
            ("Content-Length: 4", ReadError::Gone),
        ] {
            let input = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\nabc");
            assert_eq!(read(input.as_bytes()).await.unwrap_err(), expected, "{fields}");
        }
        let chunks = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n";
        assert_eq!(read(chunks).await.unwrap_err(), TOO_LARGE);
    }

    #[tokio::test]
    async fn connection_is_kept_unless_the_client_says_close_or_speaks_1_0() {
        for (line, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nConnection: Close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\n\r\n", false),
        ] {
            assert_eq!(read(line.as_bytes()).await.unwrap().0.keep_alive, expected, "{line}");
        }
    }
}
