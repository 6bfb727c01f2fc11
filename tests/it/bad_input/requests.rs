//! Requests that cannot be sent, and settings that allow none.

use std::time::Duration;

use http::Method;
use post_once::contract::ContractError;
use post_once::middleware::{Deadline, RequestBuilderExt};
use post_once::retry::window::Window;
use post_once::retry::{Exhausted, PolicyError};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Contract, Effect, Error, Idempotency, RetryPolicy};
use reqwest::{Body, Request};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use crate::harness::{BODY, Sent, client, http};

/// A client over a bare HTTP client, and one over a stack.
fn clients() -> [Client; 2] {
    let stack = ClientBuilder::new(http().build().unwrap()).build();
    [client(&ManualClock::new()), Client::from(stack)]
}

fn stack() -> ClientWithMiddleware {
    ClientBuilder::new(http().build().unwrap()).with(Idempotency::new()).build()
}

/// Refused before sending, with a text that says so.
fn is_refused(error: &Error, says: &str) {
    let text = error.to_string();
    assert!(error.is_refused() && !error.is_exhausted(), "{text}");
    assert!(!error.is_connect() && !error.is_timeout() && error.status().is_none());
    assert_eq!(error.effect(), Effect::NotSent, "{text}");
    assert_eq!(error.report().attempts().count(), 0);
    assert!(text.contains(says) && text.ends_with("nothing was sent"), "{says}: {text}");
}

fn refused(sent: Sent, says: &str) {
    is_refused(&sent.unwrap_err(), says);
}

fn refused_by_stack(sent: reqwest_middleware::Result<reqwest::Response>, says: &str) {
    is_refused(Error::find(&sent.unwrap_err()).unwrap(), says);
}

#[tokio::test]
async fn unusable_url_is_refused() {
    for client in clients() {
        for (url, says) in [
            ("", "does not parse"),
            ("no url", "does not parse"),
            ("/v1/charges", "does not parse"),
            ("http://", "does not parse"),
            ("http://[::1", "does not parse"),
            ("http://a b/", "does not parse"),
            ("http://127.0.0.1:99999/", "does not parse"),
            ("http://\u{0}/", "does not parse"),
            ("ftp://127.0.0.1/", "not http or https"),
            ("file:///etc/passwd", "not http or https"),
            ("mailto:a@b.test", "not http or https"),
            ("data:,x", "not http or https"),
            ("ws://127.0.0.1/", "not http or https"),
            ("http://user:word@127.0.0.1/", "user name or password"),
            ("http://user@127.0.0.1/", "user name or password"),
            ("http://:word@127.0.0.1/", "user name or password"),
        ] {
            refused(client.once(Method::POST, url).body(BODY).send().await, says);
            refused(client.post_once(url, BODY).await, says);
            is_refused(&client.once(Method::PATCH, url).prepare().unwrap_err(), says);
        }
    }
}

/// The builder of the stack takes the userinfo of a URL away; a request made otherwise still has it.
#[tokio::test]
async fn unusable_url_is_refused_by_the_middleware_too() {
    let stack = stack();
    refused_by_stack(stack.post("ftp://127.0.0.1/").send().await, "not http or https");
    for url in ["http://user:word@127.0.0.1/", "http://user@127.0.0.1/"] {
        let request = Request::new(Method::POST, url.parse().unwrap());
        refused_by_stack(stack.execute(request).await, "user name or password");
    }
}

#[tokio::test]
async fn header_that_is_none_is_refused() {
    let server = Server::start().await.unwrap();
    for client in clients() {
        let post = || client.once(Method::POST, server.url("/")).body(BODY);
        for (name, value) in [
            ("", "x"),
            ("a b", "x"),
            ("a:", "x"),
            ("é", "x"),
            ("a", "x\n"),
            ("a", "x\r\nb: y"),
            ("a", "\0"),
        ] {
            refused(post().header(name, value).send().await, "a header cannot be sent");
        }
        refused(post().bearer_auth("x\n").send().await, "a header cannot be sent");
        // The first mistake is named, whatever follows.
        let builder = post().header("a b", "x").body("{}").deadline(Duration::ZERO);
        refused(builder.send().await, "a header cannot be sent");
    }
    assert!(server.requests().is_empty());
}

/// A map whose keys are no texts has no JSON, and a bare number is no form.
#[tokio::test]
async fn body_that_cannot_be_written_is_refused() {
    let server = Server::start().await.unwrap();
    let pairs = std::collections::HashMap::from([((1, 2), 3)]);
    for client in clients() {
        refused(client.post_once(server.url("/"), &pairs).await, "cannot be written as JSON");
        let form = client.once(Method::POST, server.url("/")).form(&7);
        refused(form.send().await, "cannot be written as a form");
    }
    assert!(server.requests().is_empty());
}

#[test]
fn policy_that_allows_no_attempt_is_refused_when_it_is_built() {
    let policy = RetryPolicy::builder;
    let zero = Duration::ZERO;
    assert_eq!(policy().max_attempts(0).build(), Err(PolicyError::NoAttempt));
    for refused in [policy().attempt_timeout(zero).build(), policy().deadline(zero).build()] {
        assert!(matches!(refused, Err(PolicyError::NoTime(_))), "{refused:?}");
    }
}

#[test]
fn window_not_longer_than_its_margin_is_refused_when_it_is_built() {
    let second = Duration::from_secs(1);
    assert!(Window::with_margin(second, second).is_err());
    assert!(Window::new(Duration::ZERO).is_err());
    let contract = || Contract::builder("acme").margin(second);
    for refused in [
        contract().window(second),
        contract().window(Duration::ZERO),
        contract().window_for_path("/short", second / 2),
        Contract::builder("acme").window(Duration::ZERO),
    ] {
        let error = refused.build().unwrap_err();
        assert!(matches!(error, ContractError::Window(_)), "{error:?}");
    }
    assert!(contract().window(2 * second).build().is_ok());
}

#[tokio::test]
async fn zero_deadline_is_refused() {
    let server = Server::start().await.unwrap();
    for client in clients() {
        let post = client.once(Method::POST, server.url("/")).body(BODY);
        refused(post.deadline(Duration::ZERO).send().await, "deadline is zero");
    }
    let stack = stack();
    let post = || stack.post(server.url("/")).body(BODY);
    refused_by_stack(post().deadline(Duration::ZERO).send().await, "deadline is zero");
    let extension = post().with_extension(Deadline(Duration::ZERO));
    refused_by_stack(extension.send().await, "deadline is zero");
    assert!(server.requests().is_empty());
}

/// Less than an attempt can use, and less than 100 ms: not started.
#[tokio::test]
async fn deadline_too_short_for_any_attempt_sends_nothing() {
    let server = Server::start().await.unwrap();
    let client = client(&ManualClock::new());
    let post = client.once(Method::POST, server.url("/")).body(BODY);
    let error = post.deadline(Duration::from_millis(99)).send().await.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::NotSent, Some(Exhausted::Deadline)));
    assert!(!error.is_refused() && error.key().is_some());
    assert!(error.to_string().starts_with("no time is left for an attempt"), "{error}");
    assert!(server.requests().is_empty());
}

/// A body that is read piece by piece, and once only.
fn stream() -> Body {
    Body::wrap(Body::from(BODY))
}

// O-04 (b), (c)
#[tokio::test]
async fn stream_is_sent_once_and_never_again() {
    for (fault, status) in [(None, 201), (Some(Fault::status(503)), 503)] {
        for client in clients() {
            let server = Server::builder().faults(fault.clone()).start().await.unwrap();
            let post = client.once(Method::POST, server.url("/")).body(stream());
            let answer = post.send().await.unwrap();
            assert_eq!(answer.status(), status);
            let exhausted = post_once::Report::of(&answer).unwrap().exhausted();
            assert_eq!(exhausted, fault.as_ref().map(|_| Exhausted::Body));
            assert_eq!(server.requests().len(), 1);
            assert_eq!(server.requests()[0].body(), BODY);
        }
    }
}

/// Sent and lost, it may have happened: what refuses to send it again may not say otherwise.
#[tokio::test]
async fn stream_sent_again_is_refused_with_the_effect_of_what_was_sent() {
    for (fault, effect) in [
        (Some(Fault::close()), Effect::Unknown),
        (Some(Fault::status(503)), Effect::Unknown),
        (None, Effect::Answered),
    ] {
        for client in clients() {
            let server = Server::builder().faults(fault.clone()).start().await.unwrap();
            let post = client.once(Method::POST, server.url("/")).body(stream());
            let mut operation = post.prepare().unwrap();
            let key = operation.key().cloned();
            let _ = client.send(&mut operation).await;
            let error = client.send(&mut operation).await.unwrap_err();
            assert!(error.is_refused());
            assert_eq!((error.effect(), error.key().cloned()), (effect, key));
            let text = error.to_string();
            assert!(text.contains("was sent already"), "{text}");
            assert!(!text.contains("nothing was sent"), "{text}");
            assert_eq!(server.requests().len(), 1);
        }
    }
}
