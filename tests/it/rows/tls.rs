//! Rows of TLS: a certificate that is not trusted, the lost connection again, and an alert after the
//! handshake.

use std::sync::Arc;

use post_once::retry::Known;
use post_once::testkit::{Fault, ManualClock, Server, Tls};
use post_once::{Client, Effect};
use rcgen::{CertificateParams, KeyPair};
use reqwest::Certificate;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use crate::harness::{client, http, known, lines, post, report, settled};

fn authority(server: &Server) -> Certificate {
    Certificate::from_pem(server.ca_pem().unwrap().as_bytes()).unwrap()
}

fn trusting(ca: Certificate) -> Client {
    let http = http().tls_certs_only([ca]).build().unwrap();
    Client::builder().http(http).clock(ManualClock::new()).build().unwrap()
}

// O-07 (a)
#[tokio::test]
async fn certificate_that_is_not_trusted_stops_at_once_and_nothing_was_sent() {
    let server = Server::builder().tls(Tls::Untrusted).start().await.unwrap();
    let clock = ManualClock::new();
    let sent = post(&client(&clock), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::NotSentPermanent]);
    let error = sent.unwrap_err();
    assert_eq!(error.report().last_attempt().unwrap().error(), Some("tls"));
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, None));
    assert!(error.is_connect());
    let text = error.to_string();
    assert!(text.contains("certificate") && text.contains("nothing was sent"), "{text}");
    assert!(clock.waits().is_empty());
    assert_eq!(settled(&server).await, ["c1 tls handshake failed"]);
}

#[tokio::test]
async fn connection_lost_under_tls_is_ambiguous_and_retried() {
    for fault in [Fault::close(), Fault::reset(), Fault::cut()] {
        let server = Server::builder().tls(Tls::Trusted).faults([fault.clone()]);
        let server = server.start().await.unwrap();
        let sent = post(&trusting(authority(&server)), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Ambiguous, Known::Replayed], "{fault}");
        assert_eq!(report(&sent).effect(), Effect::Answered);
        let fault = format!("fault {fault}");
        let expected = lines(&[&["effect ch_1", &fault], &["replay 201", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

#[cfg(feature = "http2")]
#[tokio::test]
async fn refused_stream_under_tls_counts_as_not_sent() {
    let server = Server::builder().tls(Tls::Trusted).http2().faults([Fault::refuse_stream()]);
    let server = server.start().await.unwrap();
    let sent = post(&trusting(authority(&server)), server.url("/v1/charges")).await;
    assert_eq!(known(&sent), [Known::RefusedByProtocol, Known::Final]);
    assert_eq!(server.charges().len(), 1);
}

/// Under TLS 1.3 a client has sent its request before it hears that a certificate of its own was
/// wanted (RFC 8446 §4.4.2.4): it cannot know what became of it.
#[tokio::test]
async fn alert_after_the_handshake_is_not_recognised_and_never_retried() {
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate.der().clone()).unwrap();
    let provider = Arc::new(default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/v1/charges", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (socket, _) = listener.accept().await.unwrap();
        let Err((_, mut socket)) = acceptor.accept(socket).into_fallible().await else {
            panic!("a client without a certificate was let in");
        };
        // Closed with bytes unread, the socket would be reset and the alert lost.
        while socket.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {}
        drop(listener);
    });

    let ca = Certificate::from_der(certificate.der()).unwrap();
    let sent = post(&trusting(ca), url).await;
    assert_eq!(known(&sent), [Known::Unclassified]);
    let error = sent.unwrap_err();
    assert_eq!(error.report().last_attempt().unwrap().error(), Some("tls"));
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, None));
    assert!(!error.is_connect());
    server.await.unwrap();
}
