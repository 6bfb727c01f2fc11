//! A client that sends what it is told, byte for byte.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request, as it is sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    method: &'static str,
    target: String,
    fields: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Length(usize),
    Chunked,
}

/// An answer, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Without those of the connection, and without `Date`.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

/// `POST /charges` of JSON under a key.
pub(crate) fn post(key: &str, body: &str) -> Sent {
    Sent::new("POST", "/charges", body).field("Idempotency-Key", key)
}

impl Sent {
    pub(crate) fn new(method: &'static str, target: &str, body: &str) -> Sent {
        let sent = Sent {
            method,
            target: target.to_owned(),
            fields: Vec::new(),
            body: body.as_bytes().to_vec(),
            framing: Framing::Length(body.len()),
        };
        sent.field("Content-Type", "application/json")
    }

    pub(crate) fn field(mut self, name: &str, value: impl AsRef<[u8]>) -> Sent {
        self.fields.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// What the handler is to do, see [`api`](crate::api).
    pub(crate) fn told(self, what: &str) -> Sent {
        self.field("X-Do", what)
    }

    pub(crate) fn without(mut self, name: &str) -> Sent {
        self.fields.retain(|(given, _)| !given.eq_ignore_ascii_case(name));
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Sent {
        self.body = body.into();
        self.framing = Framing::Length(self.body.len());
        self
    }

    /// Declares another length than it has.
    pub(crate) fn declared(mut self, length: usize) -> Sent {
        self.framing = Framing::Length(length);
        self
    }

    pub(crate) fn chunked(mut self) -> Sent {
        self.framing = Framing::Chunked;
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\nHost: a.example\r\n", self.method, self.target);
        bytes += "Connection: close\r\n";
        match self.framing {
            Framing::Length(length) => bytes += &format!("Content-Length: {length}\r\n"),
            Framing::Chunked => bytes += "Transfer-Encoding: chunked\r\n",
        }
        let mut bytes = bytes.into_bytes();
        for (name, value) in &self.fields {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes.extend_from_slice(b"\r\n");
        match self.framing {
            Framing::Length(_) => bytes.extend_from_slice(&self.body),
            Framing::Chunked => {
                for chunk in self.body.chunks(1000) {
                    bytes.extend_from_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                    bytes.extend_from_slice(chunk);
                    bytes.extend_from_slice(b"\r\n");
                }
                bytes.extend_from_slice(b"0\r\n\r\n");
            }
        }
        bytes
    }

    /// Sends it whole, and reads the answer to its end.
    pub(crate) async fn to(&self, address: SocketAddr) -> Answer {
        let mut socket = self.leave_open(address).await;
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        Answer::parse(&bytes)
    }

    /// Sends it, and ends the sending side: a body that is shorter than declared is cut.
    pub(crate) async fn cut_to(&self, address: SocketAddr) -> Answer {
        let mut socket = self.leave_open(address).await;
        socket.shutdown().await.unwrap();
        let mut bytes = Vec::new();
        socket.read_to_end(&mut bytes).await.unwrap();
        Answer::parse(&bytes)
    }

    /// Sends it; whoever drops the socket leaves.
    pub(crate) async fn leave_open(&self, address: SocketAddr) -> TcpStream {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(&self.bytes()).await.unwrap();
        socket
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a whole head");
        let mut lines = bytes[..end].split(|byte| *byte == b'\n');
        let status = String::from_utf8(lines.next().unwrap().to_vec()).unwrap();
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines.map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let colon = line.iter().position(|byte| *byte == b':').unwrap();
            let name = String::from_utf8(line[..colon].to_ascii_lowercase()).unwrap();
            (name, line[colon + 1..].trim_ascii_start().to_vec())
        });
        let fields: Vec<_> = fields.collect();
        let of_connection = ["connection", "content-length", "transfer-encoding", "date"];
        let chunked = fields.iter().any(|(name, _)| name == "transfer-encoding");
        let body = &bytes[end + 4..];
        let body = if chunked { unchunked(body) } else { body.to_vec() };
        let kept = fields.into_iter().filter(|(name, _)| !of_connection.contains(&name.as_str()));
        Answer { status, fields: kept.collect(), body }
    }

    /// The value of a field, if there is exactly one.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.fields.iter().filter(|(given, _)| given == name);
        let value = values.next().map(|(_, value)| std::str::from_utf8(value).unwrap());
        if values.next().is_some() { None } else { value }
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.field("idempotency-replayed") == Some("true")
    }

    /// The last part of the type of a problem document.
    pub(crate) fn problem(&self) -> String {
        assert_eq!(self.field("content-type"), Some("application/problem+json"), "{self:?}");
        let document: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        assert_eq!(document["status"], self.status);
        document["type"].as_str().unwrap().split('#').nth(1).unwrap().to_owned()
    }

    /// The same without the marker of a replay.
    pub(crate) fn unmarked(&self) -> Answer {
        let mut answer = self.clone();
        answer.fields.retain(|(name, _)| name != "idempotency-replayed");
        answer
    }

    /// Which run of the handler it is from.
    pub(crate) fn run(&self) -> u64 {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap();
        body["run"].as_u64().unwrap_or_else(|| panic!("not the handler's: {body}"))
    }
}

fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return body };
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).unwrap(), 16).unwrap();
        if size == 0 {
            return body;
        }
        let chunk = &bytes[end + 2..];
        if chunk.len() < size {
            body.extend_from_slice(chunk);
            return body;
        }
        body.extend_from_slice(&chunk[..size]);
        bytes = &chunk[(size + 2).min(chunk.len())..];
    }
}
