//! Connecting can fail for good, or for now.

use post_once::Effect;
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{ManualClock, Server};

use super::support::{Dns, charge, client, policy, report};

// O-07 (a)
#[cfg(feature = "rustls")]
#[tokio::test]
async fn an_untrusted_certificate_is_shown_once() {
    use std::error::Error;

    let server = Server::builder().tls(post_once::testkit::Tls::Untrusted).start().await.unwrap();
    let clock = ManualClock::new();
    let client = client(&clock, policy().max_attempts(5)).build().unwrap();
    let url = server.url("/v1/charges");
    let error = client.post_once(&url, &charge()).await.unwrap_err();

    assert_eq!(
        error.to_string(),
        format!(
            "the server's TLS certificate is not accepted (POST {url}, attempt 1); \
             nothing was sent: it is safe to start again"
        )
    );
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, None));
    let last = error.report().last_attempt().unwrap();
    assert_eq!((last.known(), last.error()), (Known::NotSentPermanent, Some("tls")));
    let source = error.source().unwrap().downcast_ref::<reqwest::Error>().unwrap();
    assert!(source.is_connect(), "the flag alone does not tell it from a refused connection");
    assert!(clock.waits().is_empty());
    server.stop().await;
    assert_eq!(server.transcript(), ["c1 tls handshake failed"]);
}

// O-07 (b)
#[tokio::test]
async fn a_name_that_fails_to_resolve_once_is_looked_up_again() {
    let server = Server::start().await.unwrap();
    let dns = Dns::failing(&server, |look_up| look_up == 1);
    let client = client(&ManualClock::new(), policy()).http(dns.http()).build().unwrap();
    let response = client.post_once(dns.url(), &charge()).await.unwrap();
    assert_eq!(response.status(), 201);
    let known: Vec<_> = report(&response).attempts().map(|attempt| attempt.known()).collect();
    assert_eq!(known, [Known::NotSent, Known::Final]);
    assert_eq!(dns.look_ups(), 2);
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 answer 201"]
    );
}

// O-07
#[tokio::test]
async fn an_unknown_name_stays_within_the_attempts() {
    let server = Server::start().await.unwrap();
    let dns = Dns::failing(&server, |_| true);
    let three = policy().max_attempts(3);
    let client = client(&ManualClock::new(), three).http(dns.http()).build().unwrap();
    let error = client.post_once(dns.url(), &charge()).await.unwrap_err();
    assert!(error.is_connect());
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, Some(Exhausted::Attempts)));
    assert_eq!(dns.look_ups(), 3);
    assert_eq!(server.transcript(), [""; 0]);
}
