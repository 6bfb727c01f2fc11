//! What one request tells the middleware, and what a caller finds in the stack's error.

use std::time::Duration;

use post_once::middleware::{Deadline, RequestBuilderExt};
use post_once::retry::Exhausted;
use post_once::testkit::{Fault, Server, refused_url};
use post_once::{Contract, Effect, Error, IdempotencyKey, RetryPolicy};

use super::{foreign, ours, plain, post, unavailable};
use crate::harness::BODY;

fn key() -> IdempotencyKey {
    IdempotencyKey::parse("order-42").unwrap()
}

fn acme() -> Contract {
    Contract::builder("acme").key_header("Acme-Key").build().unwrap()
}

// O-02
#[tokio::test]
async fn request_brings_its_key_policy_contract_and_deadline() {
    let stack = plain().with(ours(5).build()).build();
    let long = Duration::from_secs(3600);
    for by_extension in [true, false] {
        let server = unavailable(9).await;
        let request = stack.post(server.url("/v1/charges")).body(BODY);
        let request = if by_extension {
            request
                .with_extension(key())
                .with_extension(RetryPolicy::once())
                .with_extension(acme())
                .with_extension(Deadline(long))
        } else {
            request
                .idempotency_key(key())
                .retry_policy(RetryPolicy::once())
                .contract(acme())
                .deadline(long)
        };
        assert_eq!(request.send().await.unwrap().status(), 503);
        let requests = server.requests();
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].headers()["acme-key"], "order-42");
        assert!(!requests[0].headers().contains_key("idempotency-key"));
    }
}

#[tokio::test]
async fn deadline_of_the_request_stops_the_call() {
    for by_extension in [true, false] {
        let faults = [Fault::status(503).retry_after(10)];
        let server = Server::builder().faults(faults).start().await.unwrap();
        let stack = plain().with(ours(5).build()).build();
        let request = stack.post(server.url("/v1/charges")).body(BODY);
        let limit = Duration::from_secs(5);
        let request = if by_extension {
            request.with_extension(Deadline(limit))
        } else {
            request.deadline(limit)
        };
        let answer = request.send().await.unwrap();
        let report = post_once::Report::of(&answer).unwrap();
        assert_eq!(report.exhausted(), Some(Exhausted::Deadline));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn options_of_one_request_are_not_those_of_the_next() {
    let server = Server::start().await.unwrap();
    let stack = plain().with(ours(5).build()).build();
    let request = stack.post(server.url("/v1/charges")).body(BODY);
    request.idempotency_key(key()).send().await.unwrap();
    post(&stack, &server).await.unwrap();
    assert_ne!(server.charges()[1].key(), Some("order-42"));
    assert_eq!(server.charges().len(), 2);
}

#[tokio::test]
async fn our_error_is_found_in_that_of_the_stack() {
    let request = |stack: &reqwest_middleware::ClientWithMiddleware| {
        stack.post(refused_url().unwrap()).body(BODY).idempotency_key(key())
    };
    for (place, stack) in [
        ("alone", plain().with(ours(3).build()).build()),
        ("over a retry middleware", plain().with(ours(3).build()).with(foreign(1)).build()),
        ("below a retry middleware", plain().with(foreign(1)).with(ours(3).build()).build()),
    ] {
        let error = request(&stack).send().await.unwrap_err();
        let found = Error::find(&error).unwrap_or_else(|| panic!("{place}: {error:?}"));
        assert_eq!(found.report().attempts().count(), 3, "{place}");
        assert_eq!(found.effect(), Effect::NotSent, "{place}");
        assert_eq!(found.key(), Some(&key()), "{place}");
        assert!(error.to_string().contains("nothing was sent"), "{place}: {error}");
    }
}

/// The middleware outside repeats after a 503, and wraps the failure of its second call otherwise.
#[tokio::test]
async fn our_error_is_found_after_a_retry_from_outside_too() {
    let server = Server::builder().faults([Fault::status(503), Fault::garbage()]);
    let server = server.start().await.unwrap();
    let stack = plain().with(foreign(1)).with(ours(1).build()).build();
    let error = post(&stack, &server).await.unwrap_err();
    let found = Error::find(&error).unwrap_or_else(|| panic!("{error:?}"));
    assert_eq!((found.effect(), found.exhausted()), (Effect::Unknown, None));
    assert_eq!(server.requests().len(), 2);
}

#[tokio::test]
async fn foreign_error_is_not_taken_for_ours() {
    let stack = plain().with(foreign(1)).build();
    let error = stack.post(refused_url().unwrap()).body(BODY).send().await.unwrap_err();
    assert!(Error::find(&error).is_none());
    let bare = plain().build().post(refused_url().unwrap()).send().await.unwrap_err();
    assert!(Error::find(&bare).is_none());
}
