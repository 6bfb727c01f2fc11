//! A small server for `check`: it keeps the contract but for one habit.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// How long an effect takes: two at once must meet, and who leaves must have left.
const WORK: Duration = Duration::from_millis(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Strict,
    KeyInBody,
    IgnoresKeys,
    IgnoresKeysAndSaysOk,
    RacesAtOnce,
    /// 409 without a word to wait.
    BareConflict,
    ProcessesAnotherBody,
    ReplaysToAnotherBody,
    /// The effect happens, and the key is let go, where the client has left.
    ForgetsWhoLeft,
    /// The key stays in progress where the client has left.
    SticksWhenLeft,
    StoresFailures,
    SticksAfterFailure,
}

pub(crate) struct Broken {
    url: String,
    state: Arc<State>,
}

struct State {
    habit: Habit,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    count: u64,
    keys: HashMap<String, Known>,
    failed: Vec<String>,
    heads: Vec<String>,
}

struct Known {
    path: String,
    body: Value,
    /// `None` while it is worked on.
    answer: Option<(u16, Value)>,
}

/// Status, body, and a header line.
type Answer = (u16, Value, &'static str);

impl Broken {
    pub(crate) async fn start(habit: Habit) -> Broken {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Arc::new(State { habit, memory: Mutex::default() });
        let serving = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&serving);
                tokio::spawn(async move { state.serve(stream).await });
            }
        });
        Broken { url, state }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The heads of all requests, without their bodies.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.state.memory().heads.clone()
    }
}

impl State {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap()
    }

    /// One request, one answer.
    async fn serve(&self, mut stream: TcpStream) {
        let Some((head, body)) = read(&mut stream).await else { return };
        self.memory().heads.push(head.clone());
        let (status, body, header) = self.answer(&mut stream, &head, &body).await;
        let body = body.to_string();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status} It\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        // Who has left gets nothing.
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    }

    async fn answer(&self, stream: &mut TcpStream, head: &str, body: &[u8]) -> Answer {
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/count" => return (200, json!({ "count": self.memory().count }), ""),
            "/still" => return (200, json!({ "count": 7 }), ""),
            "/" | "/other" | "/failing" => {}
            _ => return (404, json!({}), ""),
        }
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if matches!(self.habit, Habit::IgnoresKeys | Habit::IgnoresKeysAndSaysOk) {
            wait(stream).await;
            let (status, body) = self.effect(&body);
            return (status, body, "");
        }
        let key = match self.habit {
            Habit::KeyInBody => body["idempotency_key"].as_str().map(str::to_owned),
            _ => head.lines().find_map(|line| line.strip_prefix("idempotency-key:")).map(raw),
        };
        let Some(key) = key.filter(|key| (1..=255).contains(&key.len())) else {
            return (400, json!({ "error": "key" }), "");
        };
        if let Some(answer) = self.claim(&key, path, &body) {
            return answer;
        }
        let left = wait(stream).await;
        let (status, answer) = self.effect(&body);
        let mut memory = self.memory();
        match self.habit {
            Habit::ForgetsWhoLeft if left => {
                memory.keys.remove(&key);
            }
            Habit::SticksWhenLeft if left => {}
            _ => {
                let known = memory.keys.get_mut(&key).expect("it was claimed");
                known.answer = Some((status, answer.clone()));
            }
        }
        (status, answer, "")
    }

    /// What is answered instead of working.
    fn claim(&self, key: &str, path: &str, body: &Value) -> Option<Answer> {
        let mut memory = self.memory();
        if let Some(known) = memory.keys.get(key) {
            let other = known.path != path || known.body != *body;
            let conflict = match self.habit {
                Habit::BareConflict => "",
                _ => "retry-after: 0\r\n",
            };
            return match &known.answer {
                _ if other && self.habit == Habit::ProcessesAnotherBody => None,
                _ if other && self.habit != Habit::ReplaysToAnotherBody => {
                    Some((422, json!({ "error": "another request" }), ""))
                }
                None if self.habit == Habit::RacesAtOnce => None,
                None => Some((409, json!({ "error": "in progress" }), conflict)),
                Some((status, body)) => {
                    Some((*status, body.clone(), "idempotency-replayed: true\r\n"))
                }
            };
        }
        let (path, body) = (path.to_owned(), body.clone());
        let failure = (503, json!({ "error": "down" }));
        let fails = path == "/failing" && !memory.failed.iter().any(|failed| failed == key);
        let answer = (fails && self.habit == Habit::StoresFailures).then(|| failure.clone());
        if fails {
            memory.failed.push(key.to_owned());
        }
        let keeps = matches!(self.habit, Habit::StoresFailures | Habit::SticksAfterFailure);
        if !fails || keeps {
            memory.keys.insert(key.to_owned(), Known { path, body, answer });
        }
        fails.then_some((failure.0, failure.1, ""))
    }

    fn effect(&self, body: &Value) -> (u16, Value) {
        let mut memory = self.memory();
        memory.count += 1;
        match self.habit {
            Habit::IgnoresKeysAndSaysOk => (200, json!({ "ok": true })),
            _ => (201, json!({ "id": memory.count, "received": body })),
        }
    }
}

/// A key without its quotes.
fn raw(value: &str) -> String {
    value.trim().trim_matches('"').to_owned()
}

/// Works, and says whether the client has left meanwhile.
#[expect(clippy::disallowed_methods, reason = "a real client leaves in real time")]
async fn wait(stream: &mut TcpStream) -> bool {
    let work = tokio::time::sleep(WORK);
    tokio::pin!(work);
    let mut more = [0];
    tokio::select! {
        () = &mut work => false,
        read = stream.read(&mut more) => {
            work.await;
            !matches!(read, Ok(1..))
        }
    }
}

async fn read(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end + 2]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes.split_off(end + 4)));
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
