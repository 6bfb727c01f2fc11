//! What comes of requests under one key, by what the handlers did and what the clients got.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use post_once::server::store::MemoryClaims;
use ruts::store::moka::MokaStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::load::{Fields, ORDER, new_key};
use crate::peers::{self, Customers, Work};
use crate::{Bench, api};

const AT_ONCE: usize = 50;
/// How long a handler takes.
const TAKES: Duration = Duration::from_millis(200);

struct Peer {
    name: &'static str,
    work: Work,
    address: SocketAddr,
    fields: Fields,
}

/// What a client got: a status, and whether it was marked as a replay.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Got(u16, bool);

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0, if self.1 { " replayed" } else { "" })
    }
}

pub(crate) async fn run(bench: &Bench) {
    let customers = Customers::new(1);
    let store = Arc::new(MokaStore::builder().build());
    peers::log_in(&*store, &customers).await;
    let work: [Work; 3] = std::array::from_fn(|_| Work::taking(TAKES));
    let [ours, theirs, ullun] = work.clone();
    let addresses = [
        bench.there(api::serve(peers::ours(ours, MemoryClaims::new()))).await,
        bench.there(api::serve(peers::axum_idempotent(theirs, store))).await,
        bench.there(peers::serve_ullun(peers::ullun(ullun))).await,
    ];
    let fields = [customers.by_token(), customers.by_cookie(), customers.by_token()];
    let names = ["post-once", "axum-idempotent", "ullun"];
    println!("\none key, in memory, a handler that takes {TAKES:?}");
    for (((name, work), address), fields) in names.into_iter().zip(work).zip(addresses).zip(fields)
    {
        let peer = Peer { name, work, address, fields };
        peer.at_once().await;
        peer.other_body().await;
        peer.client_leaves().await;
    }
}

impl Peer {
    /// So many equal requests, one sent after the other while the handler of the first runs.
    async fn at_once(&self) {
        let (key, before) = (new_key(), self.work.begun());
        let mut asked = JoinSet::new();
        for _ in 0..AT_ONCE {
            let stream = self.send(&key, ORDER).await;
            asked.spawn(answer(stream));
        }
        let mut got = BTreeMap::<Got, usize>::new();
        for answer in asked.join_all().await {
            *got.entry(answer).or_default() += 1;
        }
        let got: Vec<_> = got.iter().map(|(got, times)| format!("{times} × {got}")).collect();
        self.say(&format!("{AT_ONCE} at once"), before, &got.join(", "));
    }

    async fn other_body(&self) {
        let key = new_key();
        answer(self.send(&key, ORDER).await).await;
        let before = self.work.begun();
        let got = answer(self.send(&key, &ORDER.replace("1999", "2999")).await).await;
        self.say("then another body", before, &got.to_string());
    }

    /// The client closes its connection while the handler runs, and asks again when it should have ended.
    async fn client_leaves(&self) {
        let (key, before, ended) = (new_key(), self.work.begun(), self.work.ended());
        let left = self.send(&key, ORDER).await;
        sleep(TAKES / 4).await;
        drop(left);
        sleep(2 * TAKES).await;
        let ended = self.work.ended() - ended;
        let got = answer(self.send(&key, ORDER).await).await;
        self.say("client leaves, returns", before, &format!("{ended} ended without it; {got}"));
    }

    fn say(&self, what: &str, before: usize, got: &str) {
        let ran = self.work.begun() - before;
        println!("{:<22}{what:<26}handler ran {ran} times: {got}", self.name);
    }

    async fn send(&self, key: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "POST /orders HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\
             content-type: application/json\r\n{}idempotency-key: {key}\r\n\
             content-length: {}\r\n\r\n{body}",
            (self.fields)(key),
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

async fn answer(mut stream: TcpStream) -> Got {
    let mut read = String::new();
    stream.read_to_string(&mut read).await.unwrap();
    let (head, _) = read.split_once("\r\n\r\n").unwrap();
    let marked = head.to_ascii_lowercase().contains("\r\nidempotency-replayed: true");
    Got(head[9..12].parse().unwrap(), marked)
}
