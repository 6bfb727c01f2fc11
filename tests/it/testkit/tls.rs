//! TLS with a certificate to trust, and with one not to.

use post_once::testkit::{Fault, Server, Tls};
use reqwest::Certificate;

use super::{BODY, builder, post};

#[tokio::test]
async fn trusted_server_speaks_to_a_client_that_knows_its_authority() {
    let faults = [Fault::close(), Fault::reset()];
    let server = Server::builder().tls(Tls::Trusted).faults(faults).start().await.unwrap();
    let ca = Certificate::from_pem(server.ca_pem().unwrap().as_bytes()).unwrap();
    for expected in [None, None, Some(201)] {
        let client = builder().tls_certs_only([ca.clone()]).build().unwrap();
        let request = client.post(server.url("/")).header("idempotency-key", "a").body(BODY);
        match (request.send().await, expected) {
            (Ok(answer), Some(status)) => assert_eq!(answer.status(), status),
            (Err(error), None) => assert!(!error.is_connect(), "{error:?}"),
            (result, _) => panic!("{result:?}"),
        }
    }
    server.stop().await;
    assert_eq!(
        server.transcript(),
        [
            "c1 POST / k1 15B",
            "c1 effect ch_1",
            "c1 fault close",
            "c2 POST / k1 15B",
            "c2 replay 201",
            "c2 fault reset",
            "c3 POST / k1 15B",
            "c3 replay 201",
            "c3 answer 201",
        ]
    );
}

// O-07
#[tokio::test]
async fn untrusted_server_is_left_in_the_handshake() {
    let server = Server::builder().tls(Tls::Untrusted).start().await.unwrap();
    assert_eq!(server.ca_pem(), None);
    let error = post(&server, "a").await.unwrap_err();
    assert!(error.is_connect());
    server.stop().await;
    assert_eq!(server.transcript(), ["c1 tls handshake failed"]);
}
