//! What an operation costs above the bare stack, side by side in one process; see `README.md` here.

#![expect(clippy::disallowed_methods, reason = "the real time is what is measured")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use post_once::key::{IdempotencyKey, KeyFormat};
use post_once::{Client, Idempotency, RetryPolicy, reqwest_builder};
use reqwest::StatusCode;
use reqwest::header::CONTENT_TYPE;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{self, Runtime};

/// The limit on one attempt, the same for all.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Operations of each variant in one round.
const OPERATIONS: usize = 200;
const ROUNDS: usize = 60;
const WARM_UP_ROUNDS: usize = 5;

const ANSWER: &[u8] = b"HTTP/1.1 201 Created\r\ncontent-type: application/json\r\n\
    content-length: 50\r\n\r\n{\"id\":\"ch_1a2b3c4d5e6f\",\"status\":\"accepted\",\"n\":1}";

const USAGE: &str = "usage: overhead [--rounds N]
       overhead --serve
       overhead --variant bare|retry|keyed|middleware|client --count N --server ADDRESS";

fn main() -> Result<(), Box<dyn Error>> {
    match Task::from_args()? {
        Task::Compare { rounds } => compare(rounds),
        Task::Serve => serve(|address| println!("{address}")),
        Task::Repeat { variant, count, server } => {
            let stacks = Stacks::new(server)?;
            single_threaded()?.block_on(async {
                for _ in 0..count {
                    stacks.once(variant).await?;
                }
                Ok(())
            })
        }
    }
}

/// What the arguments ask for.
enum Task {
    /// Measure all variants in turn.
    Compare { rounds: usize },
    /// Be the server, until killed.
    Serve,
    /// Run one variant and measure nothing, for an instruction counter around the process.
    Repeat { variant: Variant, count: usize, server: SocketAddr },
}

impl Task {
    fn from_args() -> Result<Task, Box<dyn Error>> {
        let (mut rounds, mut variant, mut count, mut server) = (ROUNDS, None, None, None);
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            match arg.as_str() {
                // Cargo says this to every benchmark.
                "--bench" => {}
                "--serve" => return Ok(Task::Serve),
                "--rounds" => rounds = value()?.parse()?,
                "--count" => count = Some(value()?.parse()?),
                "--server" => server = Some(value()?.parse()?),
                "--variant" => {
                    let name = value()?;
                    let known = Variant::ALL.into_iter().find(|known| known.name() == name);
                    variant = Some(known.ok_or(USAGE)?);
                }
                _ => return Err(USAGE.into()),
            }
        }
        match (variant, count, server) {
            (None, None, None) => Ok(Task::Compare { rounds }),
            (Some(variant), Some(count), Some(server)) => {
                Ok(Task::Repeat { variant, count, server })
            }
            _ => Err(USAGE.into()),
        }
    }
}

#[derive(Clone, Copy)]
enum Variant {
    Bare,
    Retry,
    Keyed,
    Middleware,
    Client,
}

impl Variant {
    const ALL: [Variant; 5] =
        [Variant::Bare, Variant::Retry, Variant::Keyed, Variant::Middleware, Variant::Client];

    fn name(self) -> &'static str {
        match self {
            Variant::Bare => "bare",
            Variant::Retry => "retry",
            Variant::Keyed => "keyed",
            Variant::Middleware => "middleware",
            Variant::Client => "client",
        }
    }
}

/// The ways to post the same body, each client with connections of its own.
struct Stacks {
    url: String,
    order: Value,
    bare: ClientWithMiddleware,
    retry: ClientWithMiddleware,
    middleware: ClientWithMiddleware,
    client: Client,
}

impl Stacks {
    fn new(server: SocketAddr) -> Result<Stacks, Box<dyn Error>> {
        let stack = || Ok::<_, reqwest::Error>(ClientBuilder::new(reqwest_builder().build()?));
        let backoff = ExponentialBackoff::builder().build_with_max_retries(4);
        let policy = RetryPolicy::builder().attempt_timeout(ATTEMPT_TIMEOUT).build()?;
        Ok(Stacks {
            url: format!("http://{server}/v1/charges"),
            order: json!({
                "amount": 1999,
                "currency": "eur",
                "customer": "cus_9f8e7d6c5b4a",
                "description": "one order of the benchmark, about two hundred bytes of it",
                "metadata": { "order": "order-42", "shop": "a.example", "note": "leave at door" },
            }),
            bare: stack()?.build(),
            retry: stack()?.with(RetryTransientMiddleware::new_with_policy(backoff)).build(),
            middleware: stack()?
                .with(Idempotency::builder().policy(policy.clone()).build())
                .build(),
            client: Client::builder().http(reqwest_builder().build()?).policy(policy).build()?,
        })
    }

    /// One operation, from the value to the bytes of the answer.
    async fn once(&self, variant: Variant) -> Result<(), Box<dyn Error>> {
        let request = |stack: &ClientWithMiddleware| {
            let body = serde_json::to_vec(&self.order)?;
            let request = stack.post(self.url.as_str());
            Ok::<_, serde_json::Error>(request.header(CONTENT_TYPE, "application/json").body(body))
        };
        let response = match variant {
            Variant::Bare => request(&self.bare)?.timeout(ATTEMPT_TIMEOUT).send().await?,
            Variant::Retry => request(&self.retry)?.timeout(ATTEMPT_TIMEOUT).send().await?,
            Variant::Keyed => {
                let key = IdempotencyKey::mint()?.to_header_value(KeyFormat::Hyphenated);
                let request = request(&self.retry)?.header("idempotency-key", key);
                request.timeout(ATTEMPT_TIMEOUT).send().await?
            }
            Variant::Middleware => request(&self.middleware)?.send().await?,
            Variant::Client => self.client.post_once(&self.url, &self.order).await?,
        };
        assert_eq!(response.status(), StatusCode::CREATED);
        let body: Bytes = response.bytes().await?;
        assert!(ANSWER.ends_with(&body) && !body.is_empty());
        Ok(())
    }
}

/// Runs all variants in turn against a server in a thread of its own, and prints what they took.
fn compare(rounds: usize) -> Result<(), Box<dyn Error>> {
    let (told, address) = mpsc::channel();
    std::thread::spawn(move || {
        let served = serve(|address| told.send(address).expect("the main thread waits for it"));
        eprintln!("the server ended: {served:?}");
    });
    let stacks = Stacks::new(address.recv()?)?;
    let mut rounds_taken: [Vec<Vec<Duration>>; 5] = Default::default();
    single_threaded()?.block_on(async {
        for round in 0..WARM_UP_ROUNDS + rounds {
            for turn in 0..Variant::ALL.len() {
                let variant = Variant::ALL[(round + turn) % Variant::ALL.len()];
                let mut taken = Vec::with_capacity(OPERATIONS);
                for _ in 0..OPERATIONS {
                    let start = Instant::now();
                    stacks.once(variant).await?;
                    taken.push(start.elapsed());
                }
                if round >= WARM_UP_ROUNDS {
                    rounds_taken[variant as usize].push(taken);
                }
            }
        }
        Ok::<_, Box<dyn Error>>(())
    })?;
    print(&rounds_taken);
    Ok(())
}

fn print(rounds: &[Vec<Vec<Duration>>; 5]) {
    let medians = |variant: Variant| {
        let rounds = rounds[variant as usize].iter();
        rounds.map(|round| quantile(micros(round), 0.5)).collect::<Vec<f64>>()
    };
    println!(
        "{:<12}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "", "p50 µs", "p99 µs", "÷ bare", "÷ retry", "÷ keyed"
    );
    for variant in Variant::ALL {
        let all = micros(rounds[variant as usize].iter().flatten());
        let ratio_to = |other| {
            let (ours, theirs) = (medians(variant), medians(other));
            quantile(ours.iter().zip(theirs).map(|(a, b)| a / b).collect(), 0.5)
        };
        println!(
            "{:<12}{:>10.2}{:>10.2}{:>10.3}{:>10.3}{:>10.3}",
            variant.name(),
            quantile(all.clone(), 0.5),
            quantile(all, 0.99),
            ratio_to(Variant::Bare),
            ratio_to(Variant::Retry),
            ratio_to(Variant::Keyed),
        );
    }
}

fn micros<'a>(taken: impl IntoIterator<Item = &'a Duration>) -> Vec<f64> {
    taken.into_iter().map(|taken| taken.as_secs_f64() * 1e6).collect()
}

/// The nearest-rank quantile.
fn quantile(mut values: Vec<f64>, rank: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * rank).round() as usize]
}

fn single_threaded() -> std::io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_all().build()
}

/// A server that answers every request on a connection with the same 201, until the process ends.
fn serve(tell: impl FnOnce(SocketAddr)) -> Result<(), Box<dyn Error>> {
    single_threaded()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        tell(listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(answer_all(stream));
        }
    })
}

async fn answer_all(mut stream: TcpStream) -> std::io::Result<()> {
    let mut pending = Vec::with_capacity(4096);
    while stream.read_buf(&mut pending).await? > 0 {
        while let Some(length) = request_length(&pending) {
            pending.drain(..length);
            stream.write_all(ANSWER).await?;
        }
    }
    Ok(())
}

/// The length of the first request in these bytes, head and body, once all of it is there.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let lines = std::str::from_utf8(&bytes[..head]).ok()?.lines();
    let mut fields = lines.filter_map(|line| line.split_once(':'));
    let (_, length) = fields.find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    let whole = head + length.trim().parse::<usize>().ok()?;
    (bytes.len() >= whole).then_some(whole)
}
