//! What passes through the extensions, and what inner and outer middleware do to a request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http::Extensions;
use post_once::testkit::{ManualClock, Server};
use post_once::{Client, Effect, Report};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientBuilder, Middleware, Next, RequestBuilder};

use super::{foreign, ours, plain, post, unavailable};
use crate::harness::BODY;

/// What the caller put in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tenant(&'static str);

/// What an inner middleware adds, each time.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mark(usize);

/// What an inner middleware adds the first time only.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstOnly;

/// What one attempt saw on its way in.
type Seen = (Option<Tenant>, Option<Mark>, Option<FirstOnly>);

#[derive(Clone, Default)]
struct Inner {
    seen: Arc<Mutex<Vec<Seen>>>,
}

#[async_trait]
impl Middleware for Inner {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let number = {
            let mut seen = self.seen.lock().unwrap();
            let get = |extensions: &Extensions| {
                let (tenant, mark) = (extensions.get().cloned(), extensions.get().cloned());
                (tenant, mark, extensions.get().cloned())
            };
            seen.push(get(extensions));
            seen.len()
        };
        extensions.insert(Mark(number));
        if number == 1 {
            extensions.insert(FirstOnly);
        }
        request.headers_mut().append("x-signature", number.into());
        next.run(request, extensions).await
    }
}

/// What is in the extensions once the call is over.
#[derive(Clone, Default)]
struct Outer(Arc<Mutex<Option<Seen>>>);

#[async_trait]
impl Middleware for Outer {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let answer = next.run(request, extensions).await;
        let (tenant, mark) = (extensions.get().cloned(), extensions.get().cloned());
        *self.0.lock().unwrap() = Some((tenant, mark, extensions.get().cloned()));
        answer
    }
}

fn signatures(server: &Server) -> Vec<Vec<String>> {
    let requests = server.requests();
    let of = |request: &post_once::testkit::Received| {
        let values = request.headers().get_all("x-signature").iter();
        values.map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    requests.iter().map(of).collect()
}

#[tokio::test]
async fn each_attempt_sees_what_the_caller_put_and_nothing_of_the_attempt_before() {
    let server = unavailable(2).await;
    let (inner, outer) = (Inner::default(), Outer::default());
    let stack = plain().with(outer.clone()).with(ours(3).build()).with(inner.clone()).build();
    let request = stack.post(server.url("/v1/charges")).body(BODY);
    request.with_extension(Tenant("a")).send().await.unwrap();
    let tenant = || Some(Tenant("a"));
    assert_eq!(*inner.seen.lock().unwrap(), vec![(tenant(), None, None); 3]);
    let after = outer.0.lock().unwrap().clone();
    assert_eq!(after, Some((tenant(), Some(Mark(3)), None)), "those of the last attempt");
    assert_eq!(signatures(&server), [["1"], ["2"], ["3"]], "signed anew each time");
}

#[tokio::test]
async fn what_the_last_attempt_added_is_seen_outside_after_a_failure_too() {
    let outer = Outer::default();
    let stack = plain().with(outer.clone()).with(ours(2).build()).with(Inner::default()).build();
    let request = stack.post(post_once::testkit::refused_url().unwrap()).body(BODY);
    request.with_extension(Tenant("a")).send().await.unwrap_err();
    let after = outer.0.lock().unwrap().clone();
    assert_eq!(after, Some((Some(Tenant("a")), Some(Mark(2)), None)));
}

#[tokio::test]
async fn client_over_a_stack_signs_anew_each_time() {
    let server = unavailable(2).await;
    let client = Client::builder().stack(plain().with(Inner::default()).build());
    let client = client.clock(ManualClock::new()).build().unwrap();
    crate::harness::post(&client, server.url("/v1/charges")).await.unwrap();
    assert_eq!(signatures(&server), [["1"], ["2"], ["3"]]);
}

/// Counts, and sets a header that a second run would double.
fn initialised(builder: ClientBuilder, runs: &Arc<AtomicUsize>) -> ClientBuilder {
    let runs = Arc::clone(runs);
    builder.with_init(move |request: RequestBuilder| {
        let run = runs.fetch_add(1, Ordering::Relaxed) + 1;
        request.header("x-signature", run).with_extension(Tenant("of the initialiser"))
    })
}

#[tokio::test]
async fn initialiser_runs_once_per_operation() {
    let runs = Arc::new(AtomicUsize::new(0));
    let server = unavailable(2).await;
    let stack = initialised(plain(), &runs).with(foreign(1)).with(ours(2).build()).build();
    assert_eq!(post(&stack, &server).await.unwrap().status(), 201);
    assert_eq!(signatures(&server), [["1"], ["1"], ["1"]]);

    let server = unavailable(2).await;
    let inner = Inner::default();
    let stack = initialised(plain(), &runs).with(inner.clone()).build();
    let client = Client::builder().stack(stack).clock(ManualClock::new()).build().unwrap();
    crate::harness::post(&client, server.url("/v1/charges")).await.unwrap();
    assert_eq!(signatures(&server), [["2", "1"], ["2", "2"], ["2", "3"]]);
    let tenant = Some(Tenant("of the initialiser"));
    assert_eq!(*inner.seen.lock().unwrap(), vec![(tenant, None, None); 3]);
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn report_is_on_the_response_that_leaves_the_stack() {
    let server = unavailable(1).await;
    let stack = plain().with(Outer::default()).with(ours(3).build()).with(foreign(0)).build();
    let answer = post(&stack, &server).await.unwrap();
    let report = Report::of(&answer).expect("every response of ours has one");
    assert_eq!((report.attempts().count(), report.effect()), (2, Effect::Answered));
    assert_eq!(report.key().unwrap().to_string(), server.charges()[0].key().unwrap());
    assert!(report.is_buffered() && report.exhausted().is_none());
    assert_eq!(answer.text().await.unwrap(), r#"{"id":"ch_1","received":{"amount":4200}}"#);

    let bare = reqwest::Client::builder().no_proxy().build().unwrap();
    assert!(Report::of(&bare.get(server.url("/")).send().await.unwrap()).is_none());
}
