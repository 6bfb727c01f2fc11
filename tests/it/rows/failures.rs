//! Rows of attempts without an answer, over HTTP/1.1: not sent, not sent for good, lost, out of time,
//! not recognised.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use http::{Extensions, Method};
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server, refused_url};
use post_once::{Client, Effect, RetryPolicy};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next};

use crate::harness::raw::RawServer;
use crate::harness::{at_once, builder, client, http, known, lines, post, report, settled};

async fn scripted(fault: Fault) -> Server {
    Server::builder().faults([fault]).start().await.unwrap()
}

fn kinds(sent: &crate::harness::Sent) -> Vec<Option<&'static str>> {
    report(sent).attempts().map(|attempt| attempt.error()).collect()
}

#[tokio::test]
async fn refused_connection_is_retried_and_certainly_not_sent() {
    let clock = ManualClock::new();
    let sent = post(&client(&clock), refused_url().unwrap()).await;
    assert_eq!(known(&sent), [Known::NotSent; 5]);
    assert_eq!(kinds(&sent), [Some("connect"); 5]);
    let error = sent.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, Some(Exhausted::Attempts)));
    assert!(error.is_connect() && !error.is_timeout() && !error.is_refused());
    assert_eq!(clock.waits().len(), 4);
}

/// Fails a number of times, then says the address.
struct Resolver {
    failures: AtomicU32,
    address: SocketAddr,
}

impl Resolve for Resolver {
    fn resolve(&self, _: Name) -> Resolving {
        let left = self.failures.load(Ordering::Relaxed);
        self.failures.store(left.saturating_sub(1), Ordering::Relaxed);
        let address = self.address;
        Box::pin(async move {
            if left > 0 {
                return Err(io::Error::other("temporary failure in name resolution").into());
            }
            Ok(Box::new(std::iter::once(address)) as Addrs)
        })
    }
}

async fn post_by_name(server: &Server, failures: u32) -> crate::harness::Sent {
    let address = server.address();
    let resolver = Resolver { failures: AtomicU32::new(failures), address };
    let http = http().dns_resolver(Arc::new(resolver)).build().unwrap();
    let client = Client::builder().http(http).clock(ManualClock::new()).build().unwrap();
    post(&client, format!("http://api.test:{}/v1/charges", address.port())).await
}

// O-07 (b)
#[tokio::test]
async fn name_that_does_not_resolve_is_retried_within_the_budget() {
    let server = Server::start().await.unwrap();
    let sent = post_by_name(&server, 1).await;
    assert_eq!(known(&sent), [Known::NotSent, Known::Final]);
    assert_eq!(report(&sent).effect(), Effect::Answered);
    assert_eq!(settled(&server).await, lines(&[&["effect ch_1", "answer 201"]]));

    let sent = post_by_name(&server, u32::MAX).await;
    assert_eq!(known(&sent), [Known::NotSent; 5]);
    assert_eq!(sent.unwrap_err().effect(), Effect::NotSent);
}

/// Never says the address.
struct Silent;

impl Resolve for Silent {
    fn resolve(&self, _: Name) -> Resolving {
        Box::pin(pending())
    }
}

fn impatient(http: reqwest::ClientBuilder) -> Client {
    let http = http.connect_timeout(Duration::from_millis(50)).build().unwrap();
    let client = Client::builder().http(http).clock(ManualClock::new());
    client.policy(at_once(2)).build().unwrap()
}

#[tokio::test]
async fn connect_timeout_is_retried_and_certainly_not_sent() {
    let client = impatient(http().dns_resolver(Arc::new(Silent)));
    let sent = post(&client, "http://api.test/v1/charges").await;
    assert_eq!(known(&sent), [Known::NotSent; 2]);
    let error = sent.unwrap_err();
    assert_eq!(error.effect(), Effect::NotSent);
    assert!(error.is_connect() && !error.is_timeout());
}

/// A listener whose queue is full answers no further connection: Linux drops what it cannot queue.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn connect_timeout_of_a_silent_peer_is_certainly_not_sent() {
    use std::net::TcpStream;

    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let wait = Duration::from_millis(50);
    let queued: Vec<_> =
        std::iter::from_fn(|| TcpStream::connect_timeout(&address, wait).ok()).take(64).collect();
    assert!(queued.len() < 64, "the queue never filled");

    let sent = post(&impatient(http()), format!("http://{address}/v1/charges")).await;
    assert_eq!(known(&sent), [Known::NotSent; 2]);
    assert_eq!(kinds(&sent), [Some("connect"); 2]);
    assert_eq!(sent.unwrap_err().effect(), Effect::NotSent);
}

/// Sends every request to a URL that reqwest does not take.
struct Astray;

#[async_trait]
impl Middleware for Astray {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        request.url_mut().set_scheme("ftp").unwrap();
        next.run(request, extensions).await
    }
}

#[tokio::test]
async fn request_that_cannot_be_built_stops_at_once_and_was_not_sent() {
    let server = Server::start().await.unwrap();
    let stack = ClientBuilder::new(http().build().unwrap()).with(Astray).build();
    let sent = post(&Client::from(stack), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::NotSentPermanent]);
    assert_eq!(kinds(&sent), [Some("request")]);
    let error = sent.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, None));
    assert!(server.requests().is_empty());
}

// O-01, O-08
#[tokio::test]
async fn lost_answer_is_asked_for_again_with_the_same_key() {
    for (fault, status) in [
        (Fault::close(), None),
        (Fault::reset(), None),
        (Fault::cut(), Some(201)), // O-06
    ] {
        let server = scripted(fault.clone()).await;
        let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Ambiguous, Known::Replayed], "{fault}");
        assert_eq!(kinds(&sent), [Some("connection_lost"), None], "{fault}");
        let first = report(&sent).attempts().next().unwrap();
        assert_eq!(first.status().map(|status| status.as_u16()), status, "{fault}");
        assert_eq!(report(&sent).effect(), Effect::Answered, "{fault}");
        assert_eq!(sent.unwrap().text().await.unwrap().len(), 40);
        let fault = format!("fault {fault}");
        let expected = lines(&[&["effect ch_1", &fault], &["replay 201", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

// O-08: lost for good it is unknown, never "not executed".
#[tokio::test]
async fn lost_answer_of_the_last_attempt_leaves_the_effect_unknown() {
    for fault in [Fault::close(), Fault::reset(), Fault::cut(), Fault::close_before_reading()] {
        let server = scripted(fault.clone()).await;
        let client = builder().policy(RetryPolicy::once()).build().unwrap();
        let error = post(&client, server.url("/v1/charges")).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown, "{fault}");
        assert_eq!(error.exhausted(), Some(Exhausted::Attempts), "{fault}");
        assert!(!error.is_connect() && !error.is_timeout(), "{fault}");
        assert_eq!(server.requests().len(), 1, "{fault}");
    }
}

#[tokio::test]
async fn close_before_reading_is_retried_with_the_same_key() {
    let server = scripted(Fault::close_before_reading()).await;
    let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Ambiguous, Known::Final]);
    let mut expected = lines(&[&["fault close before reading"], &["effect ch_1", "answer 201"]]);
    expected[0] = "c1 POST /v1/charges k1 unread".to_owned();
    assert_eq!(settled(&server).await, expected);
}

#[tokio::test]
async fn body_that_is_refused_on_its_way_up_is_ambiguous() {
    let server = scripted(Fault::close_before_reading()).await;
    let client = client(&ManualClock::new());
    let body = vec![b' '; 6 << 20];
    let sent = client.once(Method::POST, server.url("/v1/charges")).body(body).send().await;
    assert_eq!(known(&sent), [Known::Ambiguous, Known::Final]);
    assert_eq!(kinds(&sent), [Some("connection_lost"), None]);
    assert_eq!(server.requests().len(), 2);
}

// O-06, and RFC 9112 §8.
#[tokio::test]
async fn incomplete_answer_is_ambiguous_wherever_it_ends() {
    const WHOLE: &str = "HTTP/1.1 201 Created\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
    for cut in [
        "",
        "HTTP/1.1 201 Cre",
        "HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n",
        "HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{\"id\":\"",
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n",
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"i",
        "HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n",
    ] {
        let server = RawServer::start([cut.into(), WHOLE.into()]).await;
        let sent = post(&client(&ManualClock::new()), server.url()).await;
        assert_eq!(known(&sent), [Known::Ambiguous, Known::Final], "{cut:?}");
        assert_eq!(kinds(&sent), [Some("connection_lost"), None], "{cut:?}");
        assert_eq!(server.requests(), 2);
        assert_eq!(sent.unwrap().text().await.unwrap(), "{}");
    }
}

// O-16
#[tokio::test]
async fn attempt_that_runs_out_of_time_is_ambiguous_and_retried() {
    for (fault, status) in [
        (Fault::hang(Duration::from_secs(5)), None),
        (Fault::drip(Duration::from_millis(50)), Some(201)),
    ] {
        let server = scripted(fault.clone()).await;
        let policy = at_once(2).to_builder().attempt_timeout(Duration::from_millis(300));
        let client = builder().policy(policy.build().unwrap()).build().unwrap();
        let sent = post(&client, server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Ambiguous, Known::Replayed], "{fault}");
        assert_eq!(kinds(&sent), [Some("timeout"), None]);
        let first = report(&sent).attempts().next().unwrap();
        assert_eq!(first.status().map(|status| status.as_u16()), status, "{fault}");
        let fault = format!("fault {fault}");
        let expected = lines(&[&["effect ch_1", &fault], &["replay 201", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

#[tokio::test]
async fn timeout_of_the_http_client_after_the_connect_is_ambiguous_too() {
    let server = scripted(Fault::hang(Duration::from_secs(5))).await;
    let http = http().timeout(Duration::from_millis(300)).build().unwrap();
    let client = Client::builder().http(http).clock(ManualClock::new()).build().unwrap();
    let sent = post(&client, server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Ambiguous, Known::Replayed]);
    assert_eq!(kinds(&sent), [Some("timeout"), None]);
    let expected = lines(&[&["effect ch_1", "fault hang=5s"], &["replay 201", "answer 201"]]);
    assert_eq!(settled(&server).await, expected);
}

#[tokio::test]
async fn answer_that_is_no_http_is_not_recognised_and_never_retried() {
    let server = scripted(Fault::garbage()).await;
    let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::Unclassified]);
    assert_eq!(kinds(&sent), [Some("other")]);
    let error = sent.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, None));
    assert_eq!(settled(&server).await, lines(&[&["effect ch_1", "fault garbage"]]));
}
