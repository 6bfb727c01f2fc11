//! Secrets in every place that a request and an answer have, through failures of every kind: none of
//! them in a log line, in a `Debug` output, or in the text of an error and its causes.

mod stacks;

use std::error::Error as StdError;
use std::fmt::Debug;
use std::time::{Duration, SystemTime};

use http::Method;
use post_once::client::OperationBuilder;
use post_once::clock::{Clock, Sleep};
use post_once::observer::Event;
use post_once::testkit::{Fault, ManualClock, Server, refused_url};
use post_once::{Client, ClientBuilder, Contract, Idempotency, Report, RetryPolicy};

use crate::harness::traced::{Lines, Listening};
use crate::harness::{Sent, http};

/// Every secret of these tests holds the first; the second is that of the basic credentials.
const SECRETS: [&str; 2] = ["s3cret", "dXNlcjpz"];

/// `user:s3cret-basic`.
const BASIC: &str = "Basic dXNlcjpzM2NyZXQtYmFzaWM=";

/// Everything that was shown, in one text.
#[derive(Clone, Default)]
struct Shown(Lines);

impl Shown {
    fn add_debug(&self, value: &dyn Debug) {
        self.0.add(format!("{value:?}\n{value:#?}"));
    }

    /// An error with all its causes, in every form.
    fn add_error(&self, error: &(dyn StdError + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.0.add(error.to_string());
            self.add_debug(&error);
            next = error.source();
        }
    }

    fn add_sent(&self, sent: &Sent) {
        match sent {
            Ok(answer) => self.add_debug(Report::of(answer).unwrap()),
            Err(error) => {
                self.add_error(error);
                self.add_debug(error.report());
            }
        }
    }

    fn text(&self) -> String {
        self.0.text()
    }

    fn holds_no_secret(&self, what: &str) {
        let text = self.text();
        for secret in SECRETS {
            let at = text.lines().find(|line| line.contains(secret));
            assert_eq!(at, None, "{what}");
        }
    }

    /// Takes in what is traced for as long as the guard lives.
    fn trace(&self) -> Listening {
        self.0.listen()
    }

    fn observer(&self) -> impl Fn(&Event<'_>) + Send + Sync + 'static {
        let shown = self.clone();
        move |event| shown.add_debug(event)
    }
}

/// An operation with a secret in every place.
fn operation<'a>(client: &'a Client, url: &str) -> OperationBuilder<'a> {
    client
        .once(Method::POST, format!("{url}?api_key=s3cret-query&n=1#s3cret-fragment"))
        .header("x-api-key", "s3cret-header")
        .header("cookie", "session=s3cret-cookie")
        .header("proxy-authorization", BASIC)
        .bearer_auth("s3cret-bearer")
        .body(r#"{"card":"s3cret-body"}"#)
}

/// Sends it, and shows all that there is to be seen.
async fn send(client: ClientBuilder, url: &str, shown: &Shown) -> Sent {
    let client = client.observer(shown.observer());
    shown.add_debug(&client);
    let client = client.build().unwrap();
    shown.add_debug(&client);
    let builder = operation(&client, url);
    shown.add_debug(&builder);
    let mut operation = builder.prepare().unwrap();
    shown.add_debug(&operation);
    let sent = client.send(&mut operation).await;
    shown.add_debug(&operation);
    shown.add_sent(&sent);
    sent
}

fn default_headers() -> http::HeaderMap {
    [(http::header::USER_AGENT, "s3cret-agent".parse().unwrap())].into_iter().collect()
}

fn quick() -> RetryPolicy {
    let policy = RetryPolicy::builder().max_attempts(2).base_delay(Duration::ZERO);
    let policy = policy.attempt_timeout(Duration::from_millis(100));
    policy.in_progress_budget(Duration::ZERO).build().unwrap()
}

/// The ways to fail, and to answer with secrets in the answer.
fn faults() -> Vec<Fault> {
    let told = |fault: Fault| {
        let fault = fault.header("set-cookie", "id=s3cret-set-cookie");
        fault.header("location", "/?s3cret-location").body("s3cret-answer")
    };
    vec![
        Fault::close(),
        Fault::close_before_reading(),
        Fault::reset(),
        Fault::cut(),
        Fault::garbage(),
        Fault::endless(),
        Fault::hang(Duration::from_secs(9)),
        told(Fault::status(200)),
        told(Fault::status(307)),
        told(Fault::status(401)),
        told(Fault::status(409)),
        told(Fault::status(409).retry_after(1)),
        told(Fault::status(503)),
        told(Fault::status(503).retry_after(3600)),
    ]
}

#[tokio::test]
async fn no_secret_is_shown_of_an_operation_that_fails_in_any_way() {
    for fault in faults() {
        let shown = Shown::default();
        let server = Server::builder().faults([fault.clone(), fault.clone()]);
        let server = server.start().await.unwrap();
        let traced = shown.trace();
        let http = http().default_headers(default_headers()).build().unwrap();
        let client = Client::builder().http(http).policy(quick());
        let sent = send(client, &server.url("/v1/charges"), &shown).await;
        drop(traced);
        let key = crate::harness::report(&sent).key().unwrap().to_string();
        let text = shown.text();
        for expected in
            ["post_once.operation", "post_once.attempt", "http.request.method=POST", &key]
        {
            assert!(text.contains(expected), "{fault}: nothing was shown of {expected}");
        }
        shown.holds_no_secret(&fault.to_string());
        let received = format!("{:?}", server.requests());
        assert!(SECRETS.iter().all(|secret| received.contains(secret)), "they were sent");
    }
}

#[tokio::test]
async fn no_secret_is_shown_of_an_operation_that_cannot_connect() {
    let shown = Shown::default();
    let traced = shown.trace();
    let client = Client::builder().http(http().build().unwrap()).policy(quick());
    send(client, &refused_url().unwrap(), &shown).await.unwrap_err();
    drop(traced);
    assert!(shown.text().contains("could not connect"));
    shown.holds_no_secret("refused");
}

#[cfg(feature = "rustls")]
#[tokio::test]
async fn no_secret_is_shown_of_a_server_that_is_not_trusted() {
    use post_once::testkit::Tls;

    let server = Server::builder().tls(Tls::Untrusted).start().await.unwrap();
    let shown = Shown::default();
    let traced = shown.trace();
    let client = Client::builder().http(http().build().unwrap());
    send(client, &server.url("/v1/charges"), &shown).await.unwrap_err();
    drop(traced);
    shown.holds_no_secret("not trusted");
}

#[cfg(feature = "http2")]
#[tokio::test]
async fn no_secret_is_shown_of_a_stream_that_fails() {
    for fault in [Fault::refuse_stream(), Fault::goaway(), Fault::reset(), Fault::cut()] {
        let server = Server::builder().http2().faults([fault.clone(), fault.clone()]);
        let server = server.start().await.unwrap();
        let shown = Shown::default();
        let traced = shown.trace();
        let http = http().http2_prior_knowledge().build().unwrap();
        let client = Client::builder().http(http).policy(quick());
        send(client, &server.url("/v1/charges"), &shown).await.unwrap_err();
        drop(traced);
        shown.holds_no_secret(&fault.to_string());
    }
}

/// Oversleeps by a minute.
#[derive(Debug)]
struct Tired(ManualClock);

impl Clock for Tired {
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.0.wall()
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        self.0.sleep(wait + Duration::from_secs(60))
    }

    fn timer(&self, limit: Duration) -> Sleep {
        self.0.timer(limit)
    }
}

#[tokio::test]
async fn no_secret_is_shown_when_time_runs_out_between_attempts() {
    let server = Server::builder().faults([Fault::cut()]).start().await.unwrap();
    let shown = Shown::default();
    let traced = shown.trace();
    let contract = Contract::builder("acme").window(Duration::from_secs(10)).build().unwrap();
    let client = Client::builder().http(http().build().unwrap()).contract(contract);
    let client = client.clock(Tired(ManualClock::new()));
    let error = send(client, &server.url("/v1/charges"), &shown).await.unwrap_err();
    drop(traced);
    assert!(error.to_string().starts_with("no time is left"), "{error}");
    shown.holds_no_secret("out of time");
}

/// What is refused is named by what is wrong with it, not by its text.
#[tokio::test]
async fn no_secret_is_shown_of_input_that_is_refused() {
    let server = Server::start().await.unwrap();
    let address = server.address();
    let url = server.url("/v1/charges");
    let client = Client::builder().http(http().build().unwrap()).build().unwrap();
    let post = |url: &str| client.once(Method::POST, url);
    let plaid = Contract::plaid();
    for (what, builder) in [
        ("password", post(&format!("http://user:s3cret@{address}/"))),
        ("user name", post(&format!("http://s3cret@{address}/"))),
        ("no URL", post("s3cret://s3cret:s3cret@s3cret:s3cret/?s3cret")),
        ("another scheme", post("ftp://127.0.0.1/?s3cret")),
        ("header value", post(&url).header("x-api-key", "s3cret\n")),
        ("header name", post(&url).header("s3cret header", "x")),
        ("token", post(&url).bearer_auth("s3cret\u{e9}\n")),
        ("no JSON object", post(&url).contract(plaid.clone()).body("[\"s3cret\"]")),
        ("broken JSON", post(&url).contract(plaid).body("{\"card\":\"s3cret\"")),
    ] {
        let shown = Shown::default();
        let traced = shown.trace();
        shown.add_debug(&builder);
        let sent = builder.send().await;
        shown.add_sent(&sent);
        drop(traced);
        assert!(sent.unwrap_err().is_refused(), "{what}");
        shown.holds_no_secret(what);
    }
    assert!(server.requests().is_empty());
}

#[test]
fn no_secret_is_shown_of_a_client_or_a_middleware() {
    let shown = Shown::default();
    let http = || http().default_headers(default_headers()).build().unwrap();
    let stack = reqwest_middleware::ClientBuilder::new(http()).build();
    shown.add_debug(&Client::from(http()));
    shown.add_debug(&Client::from(stack.clone()));
    shown.add_debug(&Client::builder().stack(stack));
    shown.add_debug(&Idempotency::new());
    shown.add_debug(&Idempotency::builder().observer(|_: &Event<'_>| {}));
    shown.holds_no_secret("a client");
}
