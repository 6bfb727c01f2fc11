//! What happened, in order: for reading one by one, or as lines to compare as a whole.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{Method, StatusCode};

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Received {
    pub(super) connection: u64,
    pub(super) at: Duration,
    pub(super) method: Method,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Received {
    /// The number of the connection that it came on: 1, 2, … in the order of acceptance.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// When its head had arrived, counted from the server's start.
    pub fn at(&self) -> Duration {
        self.at
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Path and query, as sent.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// All header fields.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body, byte for byte, freed of its framing; empty if a fault left it unread.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// One line of the log. Its `Display` is the line: `c1 POST /v1/charges k1 17B`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    connection: u64,
    at: Duration,
    kind: EventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// A request arrived. `key` is its name in this log (`k1`, `k2`, … in order of appearance),
    /// `size` the bytes of its body; `None` if a fault left the body unread.
    #[non_exhaustive]
    Request {
        /// The method.
        method: Method,
        /// Path and query.
        target: String,
        /// The key's name in this log.
        key: Option<String>,
        /// The size of the body in bytes.
        size: Option<usize>,
    },
    /// The effect happened: a charge with this id.
    Effect(String),
    /// The next fault of the script was applied: its text.
    Fault(String),
    /// The key was known: its stored answer with this status was taken.
    Replay(StatusCode),
    /// The key was being worked on.
    InProgress,
    /// The key was known with other bytes.
    Mismatch,
    /// A whole answer went out (is about to: the line is written before the last byte is).
    Answer(StatusCode),
    /// The client gave up the TLS handshake, or never finished it.
    TlsHandshakeFailed,
}

impl Event {
    /// The number of the connection.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// When, counted from the server's start. Not part of the line.
    pub fn at(&self) -> Duration {
        self.at
    }

    /// What.
    pub fn kind(&self) -> &EventKind {
        &self.kind
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{} ", self.connection)?;
        match &self.kind {
            EventKind::Request { method, target, key, size } => {
                write!(f, "{method} {target} {} ", key.as_deref().unwrap_or("-"))?;
                match size {
                    Some(size) => write!(f, "{size}B"),
                    None => f.write_str("unread"),
                }
            }
            EventKind::Effect(id) => write!(f, "effect {id}"),
            EventKind::Fault(fault) => write!(f, "fault {fault}"),
            EventKind::Replay(status) => write!(f, "replay {}", status.as_u16()),
            EventKind::InProgress => f.write_str("in progress"),
            EventKind::Mismatch => f.write_str("mismatch"),
            EventKind::Answer(status) => write!(f, "answer {}", status.as_u16()),
            EventKind::TlsHandshakeFailed => f.write_str("tls handshake failed"),
        }
    }
}

/// The log of one server.
#[derive(Debug)]
pub(super) struct Log {
    started: Instant,
    pub(super) events: Vec<Event>,
    pub(super) requests: Vec<Received>,
    key_names: HashMap<String, usize>,
}

impl Log {
    #[expect(clippy::disallowed_methods, reason = "arrival times on real sockets")]
    pub(super) fn new() -> Self {
        Self {
            started: Instant::now(),
            events: Vec::new(),
            requests: Vec::new(),
            key_names: HashMap::new(),
        }
    }

    /// The time since the start.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed()
    }

    pub(super) fn record(&mut self, connection: u64, kind: EventKind) {
        self.events.push(Event { connection, at: self.now(), kind });
    }

    /// Records a request that carries `key` and whose body has `size` bytes.
    pub(super) fn request(&mut self, request: Received, key: Option<&str>, size: Option<usize>) {
        let kind = EventKind::Request {
            method: request.method.clone(),
            target: request.target.clone(),
            key: key.map(|key| self.name(key)),
            size,
        };
        let event = Event { connection: request.connection, at: request.at, kind };
        self.events.push(event);
        self.requests.push(request);
    }

    fn name(&mut self, key: &str) -> String {
        let next = self.key_names.len() + 1;
        let number = *self.key_names.entry(key.to_owned()).or_insert(next);
        format!("k{number}")
    }
}
