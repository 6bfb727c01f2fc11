//! What the children do.

use std::collections::{HashSet, VecDeque};
use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use http::Method;
use post_once::clock::{Clock, SystemClock};
use post_once::observer::Event;
use post_once::testkit::{Fault, Server};
use post_once::{Client, RetryPolicy};
use serde::{Deserialize, Serialize};

use crate::doubt::{Act, Then};
use crate::point::{Killer, Plan, Point};
use crate::runtime;
use crate::server::Seen;
use crate::store::{Opened, Store};

const ROLE: &str = "POST_ONCE_CRASH_ROLE";

/// How long the server takes for each effect.
pub(crate) const WORK: Duration = Duration::from_millis(15);
/// How long a claim is held without a sign of life.
const LEASE: Duration = Duration::from_secs(1);
/// The operations that a worker leaves to the resumer before it does anything else.
const ENQUEUED: u32 = 12;
/// The operations that a worker posts.
const POSTED: u32 = 32;
/// So many of them at once.
const AT_ONCE: usize = 8;

/// What a child is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Serves, in a process that outlives all the others. Tells what it has seen for each line of input.
    Server,
    /// Serves at this port, and keeps the contract. Tells how many effects it has had, and under how many keys.
    Counter { port: u16 },
    /// Posts operations, those of the other workers whose names are known among them.
    Worker { task: Task, name: String, again: Vec<String> },
    /// Goes on with what others left, until nothing is pending.
    Resumer { task: Task },
    /// Begins and ends operations, for the recorder.
    Recorder { path: PathBuf },
    /// Claims and answers keys, one after the other, for the recorder.
    #[cfg(feature = "server")]
    Answerer { path: PathBuf },
    /// Works on a journal whose flushes fail.
    Doubter { path: PathBuf, url: String, act: Act, then: Then },
}

/// What worker and resumer are given.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Task {
    pub(crate) store: Store,
    pub(crate) url: String,
    pub(crate) kill: Option<Plan>,
}

impl Role {
    /// What this process is, if it is a child.
    pub(crate) fn given() -> Option<Role> {
        let text = std::env::var(ROLE).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    /// Starts a child.
    pub(crate) fn spawn(&self) -> Child {
        self.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, serde_json::to_string(self).unwrap());
        command
    }
}

/// One line for each thing that the parent may rely on: at once in the pipe, whatever happens next.
fn say(what: &str, operation: &str) {
    println!("{what} {operation}");
}

pub(crate) fn run(role: Role) {
    match &role {
        Role::Recorder { path } => return crate::power::record(path),
        #[cfg(feature = "server")]
        Role::Answerer { path } => return crate::keys::record(path),
        Role::Doubter { path, url, act, then } => {
            return crate::doubt::work(path, url, *act, *then);
        }
        _ => {}
    }
    // One thread: while it is killed at a point, no operation goes on.
    runtime().block_on(async {
        match role {
            Role::Server => serve().await,
            Role::Counter { port } => count(port).await,
            Role::Worker { task, name, again } => work(&task, &name, &again).await,
            Role::Resumer { task } => resume(&task).await,
            _ => unreachable!("it has a runtime of its own"),
        }
    });
}

/// Every tenth request goes wrong.
async fn serve() {
    let well = || std::iter::repeat_n(Fault::delay(WORK), 9);
    let bad = [Fault::status(503), Fault::close(), Fault::reset(), Fault::cut()];
    let round = bad.into_iter().flat_map(|fault| well().chain([fault]));
    let server = Server::builder().delay(WORK).in_progress_retry_after(None).start().await.unwrap();
    println!("{}", server.url("/v1/charges"));
    let round: Vec<_> = round.collect();
    let mut pushed = 0;
    loop {
        // The script is kept longer than all that can come before the next line.
        while pushed < server.requests().len() + 200_000 {
            server.push(round.iter().cloned());
            pushed += round.len();
        }
        let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next());
        if line.await.unwrap().is_none() {
            return server.stop().await;
        }
        println!("{}", serde_json::to_string(&Seen::by(&server)).unwrap());
    }
}

async fn count(port: u16) {
    let server = Server::builder().port(port).start().await.unwrap();
    println!("{}", server.url("/v1/charges"));
    loop {
        let line = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next());
        if line.await.unwrap().is_none() {
            return server.stop().await;
        }
        let effects = server.charges();
        let keys: HashSet<_> = effects.iter().map(|charge| charge.key()).collect();
        println!("{}", serde_json::to_string(&(effects.len(), keys.len())).unwrap());
    }
}

fn client(opened: &Opened, killer: &Killer) -> Client {
    let policy = RetryPolicy::builder()
        .base_delay(Duration::from_millis(40))
        .max_delay(Duration::from_millis(200))
        .build()
        .unwrap();
    let killer = killer.clone();
    opened
        .clone()
        .give(Client::builder())
        .policy(policy)
        .lease(LEASE)
        .observer(move |event: &Event<'_>| killer.observe(event))
        .build()
        .unwrap()
}

async fn work(task: &Task, name: &str, again: &[String]) {
    let killer = Killer::new(task.kill.clone());
    let client = client(&task.store.open().await, &killer);
    let once = |operation: &str| {
        let body = serde_json::json!({ "operation": operation });
        let once = client.once(Method::POST, &task.url).json(&body).keep_trying();
        // Every other one has a name, and can be called again by it.
        let named = operation.ends_with(['0', '2', '4', '6', '8']);
        if named { once.operation(operation) } else { once }
    };
    for number in 0..ENQUEUED {
        let operation = format!("{name}-enqueued-{number}");
        once(&operation).enqueue().await.unwrap();
        say("enqueued", &operation);
    }
    let named = (0..POSTED).step_by(2);
    let former = again.iter().flat_map(|name| named.clone().map(move |n| format!("{name}-{n}")));
    let own = (0..POSTED).map(|number| format!("{name}-{number}"));
    let queue: VecDeque<_> = former.chain(own).collect();
    let queue = Mutex::new(queue);
    let one_after_the_other = async || {
        loop {
            let Some(operation) = queue.lock().unwrap().pop_front() else { return };
            killer.at(Point::Begin);
            match once(&operation).send().await {
                Ok(response) if response.status().is_success() => {
                    say("answered", &operation);
                    killer.at(Point::Returned);
                }
                // It is pending, and the resumer's.
                Ok(_) | Err(_) => {}
            }
        }
    };
    let lanes: [_; AT_ONCE] = std::array::from_fn(|_| one_after_the_other());
    all(lanes).await;
}

/// Runs futures that borrow, at once.
pub(crate) async fn all<F: Future<Output = ()>>(futures: impl IntoIterator<Item = F>) {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

async fn resume(task: &Task) {
    let killer = Killer::new(task.kill.clone());
    let opened = task.store.open().await;
    let client = client(&opened, &killer);
    let idle = Duration::from_millis(30);
    let nothing_pending = async {
        while opened.journal().gauges().await.unwrap().pending > 0 {
            SystemClock.sleep(idle).await;
        }
    };
    let resumer = client.resumer().origin(&task.url).idle(idle).handler(move |_| {
        killer.at(Point::Returned);
        async { Ok(()) }
    });
    resumer.run(nothing_pending).await.unwrap();
}
