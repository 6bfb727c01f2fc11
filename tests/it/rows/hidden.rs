//! Rows again, below a middleware that wraps every error: looked through, and classified alike.

use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use post_once::retry::Known;
use post_once::testkit::{Fault, ManualClock, Server, refused_url};
use post_once::{Client, Effect, RetryPolicy};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Error, Middleware, Next};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

use crate::harness::{Sent, http, known, post, report};

/// A stack whose middleware wraps errors: as they are without retries, with their number after.
fn wrapping(retries: u32, http: reqwest::ClientBuilder) -> ClientWithMiddleware {
    let bounds = (Duration::from_millis(1), Duration::from_millis(2));
    let backoff = ExponentialBackoff::builder().retry_bounds(bounds.0, bounds.1);
    let backoff = backoff.build_with_max_retries(retries);
    ClientBuilder::new(http.build().unwrap())
        .with(RetryTransientMiddleware::new_with_policy(backoff))
        .build()
}

async fn send(stack: ClientWithMiddleware, url: &str) -> Sent {
    let client = Client::builder().stack(stack).policy(RetryPolicy::once());
    post(&client.clock(ManualClock::new()).build().unwrap(), url).await
}

fn says(sent: &Sent, expected: Known, kind: &str, effect: Effect) {
    assert_eq!(known(sent), [expected]);
    assert_eq!(report(sent).last_attempt().unwrap().error(), Some(kind));
    assert_eq!(report(sent).effect(), effect);
}

#[tokio::test]
async fn refused_connection_is_seen_through_the_wrapper() {
    for retries in [0, 1] {
        let sent = send(wrapping(retries, http()), &refused_url().unwrap()).await;
        says(&sent, Known::NotSent, "connect", Effect::NotSent);
    }
}

#[tokio::test]
async fn lost_answer_is_seen_through_the_wrapper() {
    for fault in [Fault::close(), Fault::reset()] {
        for retries in [0, 1] {
            let faults = std::iter::repeat_n(fault.clone(), 2);
            let server = Server::builder().faults(faults).start().await.unwrap();
            let sent = send(wrapping(retries, http()), &server.url("/v1/charges")).await;
            says(&sent, Known::Ambiguous, "connection_lost", Effect::Unknown);
            assert_eq!(server.charges().len(), 1, "one key for all that the wrapper sent");
        }
    }
}

#[tokio::test]
async fn timeout_after_the_connect_is_seen_through_the_wrapper() {
    let faults = std::iter::repeat_n(Fault::hang(Duration::from_secs(5)), 2);
    let server = Server::builder().faults(faults).start().await.unwrap();
    let http = http().timeout(Duration::from_millis(100));
    let sent = send(wrapping(1, http), &server.url("/v1/charges")).await;
    says(&sent, Known::Ambiguous, "timeout", Effect::Unknown);
}

/// What it did not retry the middleware wraps so that reqwest's own error cannot be reached, only
/// its causes; a timeout of the HTTP client has none that could be told by type.
#[tokio::test]
async fn what_a_wrapper_hides_altogether_stays_unrecognised_and_is_never_called_not_sent() {
    let faults = [Fault::hang(Duration::from_secs(5))];
    let server = Server::builder().faults(faults).start().await.unwrap();
    let http = http().timeout(Duration::from_millis(100));
    let sent = send(wrapping(0, http), &server.url("/v1/charges")).await;
    says(&sent, Known::Unclassified, "other", Effect::Unknown);
    assert_eq!(server.charges().len(), 1);
}

/// Passes errors of the HTTP client on as its own, and sends to a URL that it does not take if told.
struct Relay {
    scheme: &'static str,
}

#[async_trait]
impl Middleware for Relay {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        request.url_mut().set_scheme(self.scheme).unwrap();
        next.run(request, extensions).await.map_err(|error| match error {
            Error::Reqwest(error) => Error::middleware(error),
            error => error,
        })
    }
}

#[tokio::test]
async fn error_that_a_middleware_passes_on_as_its_own_is_seen() {
    let stack = |scheme, http: reqwest::ClientBuilder| {
        ClientBuilder::new(http.build().unwrap()).with(Relay { scheme }).build()
    };
    let faults = [Fault::hang(Duration::from_secs(5))];
    let server = Server::builder().faults(faults).start().await.unwrap();
    let impatient = http().timeout(Duration::from_millis(100));
    let sent = send(stack("http", impatient), &server.url("/v1/charges")).await;
    says(&sent, Known::Ambiguous, "timeout", Effect::Unknown);

    let sent = send(stack("ftp", http()), &server.url("/v1/charges")).await;
    says(&sent, Known::NotSentPermanent, "request", Effect::NotSent);
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn answer_that_is_no_http_stays_unrecognised_below_the_wrapper() {
    for retries in [0, 1] {
        let faults = std::iter::repeat_n(Fault::garbage(), 2);
        let server = Server::builder().faults(faults).start().await.unwrap();
        let sent = send(wrapping(retries, http()), &server.url("/v1/charges")).await;
        says(&sent, Known::Unclassified, "other", Effect::Unknown);
    }
}

#[cfg(feature = "rustls")]
#[tokio::test]
async fn certificate_that_is_not_trusted_is_seen_through_the_wrapper() {
    use post_once::testkit::Tls;

    for retries in [0, 1] {
        let server = Server::builder().tls(Tls::Untrusted).start().await.unwrap();
        let sent = send(wrapping(retries, http()), &server.url("/v1/charges")).await;
        says(&sent, Known::NotSentPermanent, "tls", Effect::NotSent);
    }
}

#[cfg(feature = "http2")]
#[tokio::test]
async fn http2_refusals_and_resets_are_seen_through_the_wrapper() {
    for (fault, expected, kind, effect) in [
        (Fault::refuse_stream(), Known::RefusedByProtocol, "refused_by_protocol", Effect::NotSent),
        (Fault::goaway(), Known::RefusedByProtocol, "refused_by_protocol", Effect::NotSent),
        (Fault::reset(), Known::Ambiguous, "connection_lost", Effect::Unknown),
    ] {
        for retries in [0, 1] {
            let faults = std::iter::repeat_n(fault.clone(), 2);
            let server = Server::builder().http2().faults(faults).start().await.unwrap();
            let http = http().http2_prior_knowledge();
            let sent = send(wrapping(retries, http), &server.url("/v1/charges")).await;
            says(&sent, expected, kind, effect);
        }
    }
}
