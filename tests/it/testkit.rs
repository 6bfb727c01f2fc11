//! The testkit: each fault shows the client its symptom, and the whole log says what happened.

mod contract;
mod faults;
#[cfg(feature = "http2")]
mod http2;
#[cfg(feature = "rustls")]
mod tls;

use std::error::Error;
use std::time::Duration;

use post_once::testkit::Server;
use reqwest::{Client, ClientBuilder, Response};

const BODY: &str = r#"{"amount":4200}"#;

/// A client that does what it is told once, and leaves the rest to the test.
fn builder() -> ClientBuilder {
    Client::builder()
        .retry(reqwest::retry::never())
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
}

/// One POST on a connection of its own.
async fn post(server: &Server, key: &str) -> reqwest::Result<Response> {
    let client = builder().build().unwrap();
    client.post(server.url("/v1/charges")).header("idempotency-key", key).body(BODY).send().await
}

/// The first cause of this type, also where an `io::Error` hides it.
fn cause<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<E>() {
            return Some(found);
        }
        let inside = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match inside {
            Some(inside) => Some(inside),
            None => error.source(),
        };
    }
    None
}

/// Waits until the log has `lines` lines, for what happens beside the client.
#[expect(clippy::disallowed_methods, reason = "a real server needs real time")]
async fn lines(server: &Server, lines: usize) {
    for _ in 0..500 {
        if server.log().len() >= lines {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the log never got {lines} lines: {:#?}", server.transcript());
}
