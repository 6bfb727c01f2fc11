//! A retry middleware outside ours, inside it, and on both sides; and two of ours.

use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, Contract, Effect, Error, Idempotency, Report, RetryPolicy};
use reqwest::{Request, Response};
use reqwest_middleware::{Middleware, Next};

use super::{foreign, ours, plain, post, unavailable};
use crate::harness::{BODY, lines, settled};

const UNAVAILABLE: &[&str] = &["fault 503", "answer 503"];
const CHARGED: &[&str] = &["effect ch_1", "answer 201"];

fn numbers(response: &Response) -> Vec<u32> {
    Report::of(response).unwrap().attempts().map(|attempt| attempt.number()).collect()
}

// O-01
#[tokio::test]
async fn retry_middleware_outside_keeps_the_key_and_the_count_goes_on() {
    let server = unavailable(3).await;
    let stack = plain().with(foreign(2)).with(ours(2).build()).build();
    let answer = post(&stack, &server).await.unwrap();
    assert_eq!(answer.status(), 201);
    assert_eq!(numbers(&answer), [3, 4], "the report is that of the last call");
    let expected = lines(&[UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, CHARGED]);
    assert_eq!(settled(&server).await, expected);
}

// O-01
#[tokio::test]
async fn retry_middleware_inside_sends_the_same_key() {
    let server = unavailable(3).await;
    let stack = plain().with(ours(2).build()).with(foreign(1)).build();
    let answer = post(&stack, &server).await.unwrap();
    assert_eq!(numbers(&answer), [1, 2]);
    let expected = lines(&[UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, CHARGED]);
    assert_eq!(settled(&server).await, expected);
}

// O-01
#[tokio::test]
async fn retry_middleware_on_both_sides_is_one_key_still() {
    let server = unavailable(7).await;
    let stack = plain().with(foreign(1)).with(ours(2).build()).with(foreign(1)).build();
    let answer = post(&stack, &server).await.unwrap();
    assert_eq!(numbers(&answer), [3, 4]);
    let mut attempts = vec![UNAVAILABLE; 7];
    attempts.push(CHARGED);
    assert_eq!(settled(&server).await, lines(&attempts));
}

// O-01, O-08
#[tokio::test]
async fn answer_lost_below_a_retry_middleware_inside_is_one_effect() {
    let server = Server::builder().faults([Fault::close(), Fault::reset(), Fault::close()]);
    let server = server.start().await.unwrap();
    let stack = plain().with(ours(2).build()).with(foreign(1)).build();
    assert_eq!(post(&stack, &server).await.unwrap().status(), 201);
    let expected = lines(&[
        &["effect ch_1", "fault close"],
        &["replay 201", "fault reset"],
        &["replay 201", "fault close"],
        &["replay 201", "answer 201"],
    ]);
    assert_eq!(settled(&server).await, expected);
}

/// Lets each attempt take four seconds on the clock.
struct Slow(ManualClock);

#[async_trait]
impl Middleware for Slow {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let answer = next.run(request, extensions).await;
        self.0.advance(Duration::from_secs(4));
        answer
    }
}

/// Window 10 s, margin 1 s, attempts at 0, 4 and 8 s. At 12 s the window is closed, whoever asks.
// O-18
#[tokio::test]
async fn window_goes_on_over_the_retries_of_a_middleware_outside() {
    let server = unavailable(20).await;
    let clock = ManualClock::new();
    let contract = Contract::builder("acme").window(Duration::from_secs(10)).build().unwrap();
    let ours = Idempotency::builder().policy(RetryPolicy::once()).contract(contract);
    let ours = ours.clock(clock.clone()).build();
    let stack = plain().with(foreign(9)).with(ours).with(Slow(clock)).build();
    let error = post(&stack, &server).await.unwrap_err();
    let error = Error::find(&error).expect("ours is in there");
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Window)));
    assert_eq!(error.report().attempts().count(), 0, "the last call sent nothing");
    assert_eq!(settled(&server).await, lines(&[UNAVAILABLE; 3]));
}

/// Repeats every call once, after its failure too, with the same extensions.
struct Repeat;

#[async_trait]
impl Middleware for Repeat {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let again = request.try_clone().unwrap();
        let _ = next.clone().run(request, extensions).await;
        next.run(again, extensions).await
    }
}

#[tokio::test]
async fn effect_covers_what_an_earlier_call_of_the_same_operation_sent() {
    let server = Server::builder().faults([Fault::close(), Fault::status(400)]);
    let server = server.start().await.unwrap();
    let stack = plain().with(Repeat).with(ours(1).build()).build();
    let answer = post(&stack, &server).await.unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(Report::of(&answer).unwrap().effect(), Effect::Unknown);
    let expected = lines(&[&["effect ch_1", "fault close"], &["fault 400", "answer 400"]]);
    assert_eq!(settled(&server).await, expected);
}

/// Sends another body after the first call, with the same extensions.
struct Change;

#[async_trait]
impl Middleware for Change {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let mut other = request.try_clone().unwrap();
        *other.body_mut() = Some("{}".into());
        next.clone().run(request, extensions).await?;
        next.run(other, extensions).await
    }
}

#[tokio::test]
async fn other_request_in_the_same_extensions_is_a_new_operation() {
    let server = Server::start().await.unwrap();
    let stack = plain().with(Change).with(ours(1).build()).build();
    let answer = post(&stack, &server).await.unwrap();
    assert_eq!(numbers(&answer), [1]);
    assert_eq!(
        settled(&server).await,
        [
            "c1 POST /v1/charges k1 15B",
            "c1 effect ch_1",
            "c1 answer 201",
            "c2 POST /v1/charges k2 2B",
            "c2 effect ch_2",
            "c2 answer 201",
        ]
    );
}

#[tokio::test]
async fn of_two_of_ours_the_inner_one_passes_through() {
    let server = unavailable(9).await;
    let stack = plain().with(ours(2).build()).with(ours(5).build()).build();
    let answer = post(&stack, &server).await.unwrap();
    assert_eq!(answer.status(), 503);
    assert_eq!(numbers(&answer), [1, 2]);
    assert_eq!(settled(&server).await, lines(&[UNAVAILABLE; 2]));
}

#[tokio::test]
async fn ours_below_a_client_of_ours_passes_through() {
    let server = unavailable(9).await;
    let stack = plain().with(ours(5).build()).build();
    let policy = RetryPolicy::builder().max_attempts(2).build().unwrap();
    let client = Client::builder().stack(stack).policy(policy).clock(ManualClock::new());
    let sent = crate::harness::post(&client.build().unwrap(), server.url("/v1/charges")).await;
    assert_eq!(crate::harness::known(&sent), [Known::Unavailable; 2]);
    assert_eq!(settled(&server).await, lines(&[UNAVAILABLE; 2]));
}

#[tokio::test]
async fn operations_of_one_stack_do_not_share_a_key() {
    let server = Server::start().await.unwrap();
    let stack = plain().with(foreign(1)).with(ours(2).build()).build();
    for _ in 0..3 {
        post(&stack, &server).await.unwrap();
    }
    assert_eq!(server.charges().len(), 3);
    assert!(server.charges().iter().all(|charge| charge.received() == BODY));
}
