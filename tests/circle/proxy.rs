//! A proxy between them that breaks things, and counts what it breaks.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::sleep;

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Passed,
    CutBefore,
    CutAfter,
    CutInTheBody,
    Late,
    Answered503,
    Answered429,
    DeliveredTwice,
    /// The server was not there.
    Unreachable,
}

/// Each with its share of a hundred.
const FATES: [(Fate, u32); 8] = [
    (Fate::Passed, 60),
    (Fate::CutBefore, 6),
    (Fate::CutAfter, 9),
    (Fate::CutInTheBody, 5),
    (Fate::Late, 4),
    (Fate::Answered503, 4),
    (Fate::Answered429, 3),
    (Fate::DeliveredTwice, 9),
];

/// Longer than the customer waits.
const LATE: Duration = Duration::from_millis(300);

pub(crate) type Counts = BTreeMap<Fate, u32>;

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    to: u16,
    random: Mutex<SmallRng>,
    script: Mutex<Vec<Fate>>,
    counts: Mutex<Counts>,
}

impl Proxy {
    /// In front of a port of this machine; what it does is drawn by the seed.
    pub(crate) async fn start(to: u16, seed: u64) -> Proxy {
        Proxy::start_with(to, seed, Vec::new()).await
    }

    /// The same; the first requests meet these fates.
    pub(crate) async fn start_with(to: u16, seed: u64, mut script: Vec<Fate>) -> Proxy {
        script.reverse();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            to,
            random: Mutex::new(SmallRng::seed_from_u64(seed)),
            script: Mutex::new(script),
            counts: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&serving);
                tokio::spawn(async move { shared.serve(socket).await });
            }
        });
        Proxy { address, shared }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.shared.counts.lock().unwrap().clone()
    }
}

impl Shared {
    /// One request and one answer; `None` where it breaks off, which is what everybody is used to here.
    async fn serve(&self, mut socket: TcpStream) -> Option<()> {
        let request = read_message(&mut socket).await?;
        let fate = self.draw();
        *self.counts.lock().unwrap().entry(fate).or_default() += 1;
        let answer = match fate {
            Fate::CutBefore => return None,
            Fate::Answered503 => answer("503 Service Unavailable", ""),
            Fate::Answered429 => answer("429 Too Many Requests", "Retry-After: 0\r\n"),
            Fate::DeliveredTwice => {
                let (one, other) = tokio::join!(self.forward(&request), self.forward(&request));
                if self.random.lock().unwrap().random() { one } else { other }?
            }
            _ => match self.forward(&request).await {
                Some(answer) => answer,
                None => {
                    *self.counts.lock().unwrap().entry(Fate::Unreachable).or_default() += 1;
                    return None;
                }
            },
        };
        match fate {
            Fate::CutAfter => return None,
            Fate::CutInTheBody => {
                let most = answer.len().saturating_sub(5);
                socket.write_all(&answer[..most]).await.ok()?;
                return None;
            }
            Fate::Late => sleep(LATE).await,
            _ => {}
        }
        socket.write_all(&answer).await.ok()?;
        socket.shutdown().await.ok()
    }

    fn draw(&self) -> Fate {
        if let Some(fate) = self.script.lock().unwrap().pop() {
            return fate;
        }
        let mut drawn = self.random.lock().unwrap().random_range(0..100);
        for (fate, share) in FATES {
            match drawn < share {
                true => return fate,
                false => drawn -= share,
            }
        }
        unreachable!("the shares are a hundred")
    }

    /// The server's whole answer.
    async fn forward(&self, request: &[u8]) -> Option<Vec<u8>> {
        let mut socket = TcpStream::connect(("127.0.0.1", self.to)).await.ok()?;
        // One answer for each connection, so that its end is seen.
        let line = request.windows(2).position(|two| two == b"\r\n")? + 2;
        socket.write_all(&request[..line]).await.ok()?;
        socket.write_all(b"Connection: close\r\n").await.ok()?;
        socket.write_all(&request[line..]).await.ok()?;
        let answer = read_message(&mut socket).await?;
        (!answer.is_empty()).then_some(answer)
    }
}

fn answer(status: &str, fields: &str) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 0\r\n\r\n");
    head.replacen("Content-Length", "Connection: close\r\nContent-Length", 1).into_bytes()
}

/// A head, and as many bytes as it declares.
async fn read_message(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        if let Some(end) = message.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&message[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.trim().parse().unwrap());
            if message.len() >= end + 4 + length {
                return Some(message);
            }
        }
        if socket.read_buf(&mut message).await.ok()? == 0 {
            return None;
        }
    }
}
