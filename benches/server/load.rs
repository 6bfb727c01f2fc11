//! A client that costs little: connections that stay open, one request at a time on each.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// So many are in flight.
pub(crate) const CONNECTIONS: usize = 64;

/// What is ordered, the same each time.
pub(crate) const ORDER: &str = r#"{"amount":1999,"currency":"eur","customer":"cus_9f8e7d6c5b4a","description":"one order of the benchmark, about two hundred bytes","metadata":{"order":"order-42","shop":"a.example"}}"#;

/// Under which keys requests are sent.
#[derive(Clone)]
pub(crate) enum Keys {
    /// Each under one of its own.
    New,
    /// Each under one of these, which was answered before.
    Answered(Arc<[String]>),
}

/// More fields of a request under this key, each with its line's end.
pub(crate) type Fields = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Connections to one API.
pub(crate) struct Load {
    connections: Vec<Connection>,
    keys: Keys,
    next: Arc<AtomicUsize>,
}

struct Connection {
    stream: TcpStream,
    sent: Vec<u8>,
    read: Vec<u8>,
    fields: Fields,
}

impl Load {
    pub(crate) async fn on(address: SocketAddr, keys: Keys) -> Load {
        Load::with_fields(address, keys, Arc::new(|_| String::new())).await
    }

    /// The same, with more fields in each request.
    pub(crate) async fn with_fields(address: SocketAddr, keys: Keys, fields: Fields) -> Load {
        let mut connections = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let stream = TcpStream::connect(address).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (sent, read) = (Vec::with_capacity(1024), Vec::with_capacity(4096));
            connections.push(Connection { stream, sent, read, fields: Arc::clone(&fields) });
        }
        Load { connections, keys, next: Arc::default() }
    }

    /// Requests per second, in so long.
    pub(crate) async fn rate(&mut self, time: Duration) -> f64 {
        let started = Instant::now();
        let mut running = JoinSet::new();
        for mut connection in self.connections.drain(..) {
            let (keys, next) = (self.keys.clone(), Arc::clone(&self.next));
            running.spawn(async move {
                let mut done = 0_u32;
                while started.elapsed() < time {
                    match &keys {
                        Keys::New => connection.exchange(&new_key(), false).await,
                        Keys::Answered(keys) => {
                            let at = next.fetch_add(1, Ordering::Relaxed) % keys.len();
                            connection.exchange(&keys[at], true).await;
                        }
                    }
                    done += 1;
                }
                (connection, done)
            });
        }
        let mut done = 0;
        while let Some(ended) = running.join_next().await {
            let (connection, of_it) = ended.unwrap();
            self.connections.push(connection);
            done += of_it;
        }
        f64::from(done) / started.elapsed().as_secs_f64()
    }

    /// Sends one request under each of so many new keys, and returns the keys.
    pub(crate) async fn answered(&mut self, count: usize) -> Keys {
        let keys: Vec<_> = (0..count).map(|_| new_key()).collect();
        for key in &keys {
            self.connections[0].exchange(key, false).await;
        }
        Keys::Answered(keys.into())
    }
}

impl Connection {
    /// One request, and the whole of its answer, which is a 201 and a replay or not as expected.
    async fn exchange(&mut self, key: &str, replay: bool) {
        let Connection { stream, sent, read, fields } = self;
        sent.clear();
        for part in [
            "POST /orders HTTP/1.1\r\nhost: a.example\r\ncontent-type: application/json\r\n",
            &fields(key),
            "idempotency-key: ",
            key,
            "\r\ncontent-length: ",
            &ORDER.len().to_string(),
            "\r\n\r\n",
            ORDER,
        ] {
            sent.extend_from_slice(part.as_bytes());
        }
        stream.write_all(sent).await.unwrap();
        read.clear();
        let head = loop {
            assert_ne!(stream.read_buf(read).await.unwrap(), 0, "the API closed the connection");
            if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let shown = std::str::from_utf8(&read[..head]).unwrap().to_ascii_lowercase();
        let field = |name: &str| {
            let mut fields = shown.lines().filter_map(|line| line.split_once(": "));
            fields.find(|(given, _)| *given == name).map(|(_, value)| value)
        };
        assert!(shown.starts_with("http/1.1 201"), "{}", String::from_utf8_lossy(read));
        let marked = field("idempotency-replayed").is_some();
        assert_eq!(marked, replay, "{shown}");
        let length: usize = field("content-length").unwrap().parse().unwrap();
        while read.len() < head + length {
            assert_ne!(stream.read_buf(read).await.unwrap(), 0, "the API closed the connection");
        }
    }
}

/// A key that nobody has had.
pub(crate) fn new_key() -> String {
    format!("{:032x}", rand::random::<u128>())
}
