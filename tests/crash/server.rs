//! The server: a process of its own, which is the only witness of what happened.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Mutex;

use post_once::testkit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::child::Role;

/// What the server has seen: the key and the operation of each.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) effects: Vec<(String, String)>,
    pub(crate) requests: Vec<(String, String)>,
}

impl Seen {
    pub(crate) fn by(server: &testkit::Server) -> Seen {
        let effects = server.charges();
        let effects = effects.iter().map(|charge| {
            (charge.key().unwrap_or("none").to_owned(), operation(charge.received()))
        });
        let key = |headers: &http::HeaderMap| {
            headers.get("idempotency-key").map_or("none", |key| key.to_str().unwrap()).to_owned()
        };
        let requests = server.requests();
        let requests = requests.iter().filter(|request| !request.body().is_empty());
        let requests = requests.map(|request| (key(request.headers()), operation(request.body())));
        Seen { effects: effects.collect(), requests: requests.collect() }
    }
}

/// The operation that a body names.
pub(crate) fn operation(body: &[u8]) -> String {
    let body: serde_json::Value = serde_json::from_slice(body).unwrap();
    body["operation"].as_str().unwrap().to_owned()
}

/// The process of the server; killed with its value.
pub(crate) struct ServerProcess {
    pub(crate) url: String,
    child: Child,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
}

impl ServerProcess {
    pub(crate) fn start(role: &Role) -> ServerProcess {
        let mut child = role.spawn();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut url = String::new();
        output.read_line(&mut url).unwrap();
        let input = child.stdin.take().unwrap();
        ServerProcess { url: url.trim().to_owned(), child, pipes: Mutex::new((input, output)) }
    }

    /// What it tells of what it has seen so far.
    pub(crate) fn tells<T: DeserializeOwned>(&self) -> T {
        let (input, output) = &mut *self.pipes.lock().unwrap();
        writeln!(input, "tell").unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
