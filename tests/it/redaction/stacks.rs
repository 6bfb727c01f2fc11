//! The same through stacks, whose middleware wraps the errors of the HTTP client with their URL.

use std::time::Duration;

use async_trait::async_trait;
use http::Extensions;
use post_once::testkit::{Fault, Server, refused_url};
use post_once::{Client, Error, Idempotency, Report};
use reqwest::{Request, Response, Url};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware, Middleware, Next};
use reqwest_retry::RetryTransientMiddleware;
use reqwest_retry::policies::ExponentialBackoff;

use super::{BASIC, Shown, http, quick, send};

/// Wraps an error in one of its own.
#[derive(Clone, Copy, Debug)]
enum Wrapper {
    /// Its text names the URL.
    Names,
    /// Its text names the query.
    NamesQuery,
    /// Its text says nothing, but its `Debug` output holds all.
    Holds,
    /// Its text says nothing, its cause all.
    Causes,
}

#[derive(Debug, thiserror::Error)]
enum Wrapped {
    #[error("cannot reach {0}")]
    Names(Url),
    #[error("failed with {0}")]
    NamesQuery(String),
    #[error("the gateway is down")]
    Holds(reqwest_middleware::Error, Url),
    #[error("the gateway is down")]
    Causes(#[source] reqwest_middleware::Error),
}

#[async_trait]
impl Middleware for Wrapper {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let url = request.url().clone();
        next.run(request, extensions).await.map_err(|error| {
            reqwest_middleware::Error::middleware(match self {
                Wrapper::Names => Wrapped::Names(url),
                Wrapper::NamesQuery => {
                    Wrapped::NamesQuery(url.query().unwrap_or_default().to_owned())
                }
                Wrapper::Holds => Wrapped::Holds(error, url),
                Wrapper::Causes => Wrapped::Causes(error),
            })
        })
    }
}

fn retrying(retries: u32) -> RetryTransientMiddleware<ExponentialBackoff> {
    let backoff = ExponentialBackoff::builder()
        .retry_bounds(Duration::from_millis(1), Duration::from_millis(2))
        .build_with_max_retries(retries);
    RetryTransientMiddleware::new_with_policy(backoff)
}

/// A stack below a client of ours, with something in it that wraps.
fn stacks() -> Vec<(String, ClientWithMiddleware)> {
    let plain = || ClientBuilder::new(http().build().unwrap());
    let mut stacks = vec![
        ("nothing in it".to_owned(), plain().build()),
        ("a retry that did not".to_owned(), plain().with(retrying(0)).build()),
        ("a retry".to_owned(), plain().with(retrying(1)).build()),
    ];
    for wrapper in [Wrapper::Names, Wrapper::NamesQuery, Wrapper::Holds, Wrapper::Causes] {
        let stack = plain().with(retrying(0)).with(wrapper).build();
        stacks.push((format!("{wrapper:?} below a retry"), stack));
        stacks.push((format!("{wrapper:?}"), plain().with(wrapper).build()));
    }
    stacks
}

#[tokio::test]
async fn no_secret_is_shown_through_a_stack_that_wraps_errors() {
    for (name, stack) in stacks() {
        let shown = Shown::default();
        let server = Server::builder().faults(std::iter::repeat_n(Fault::close(), 4));
        let server = server.start().await.unwrap();
        let traced = shown.trace();
        for url in [server.url("/v1/charges"), refused_url().unwrap()] {
            let client = Client::builder().stack(stack.clone()).policy(quick());
            let error = send(client, &url, &shown).await.unwrap_err();
            assert!(!error.is_refused(), "{name}");
        }
        drop(traced);
        assert!(shown.text().contains("post_once.attempt"));
        shown.holds_no_secret(&name);
    }
}

/// What the user of the middleware gets is the stack's error, with ours in it.
#[tokio::test]
async fn no_secret_is_shown_by_the_error_of_a_stack_with_ours_in_it() {
    for (name, outer) in [("outermost", None), ("below a retry", Some(retrying(0)))] {
        for wrapper in [Wrapper::Names, Wrapper::NamesQuery, Wrapper::Holds, Wrapper::Causes] {
            for fault in [Fault::close(), Fault::cut(), Fault::garbage()] {
                let shown = Shown::default();
                let faults = std::iter::repeat_n(fault.clone(), 4);
                let server = Server::builder().faults(faults).start().await.unwrap();
                let ours = Idempotency::builder().policy(quick()).observer(shown.observer());
                let mut stack = ClientBuilder::new(http().build().unwrap());
                if outer.is_some() {
                    stack = stack.with(retrying(0));
                }
                let stack = stack.with(ours.build()).with(wrapper).build();
                let traced = shown.trace();
                let request = stack
                    .post(server.url("/v1/charges?api_key=s3cret-query"))
                    .header("x-api-key", "s3cret-header")
                    .header("authorization", BASIC)
                    .body("s3cret-body");
                match request.send().await {
                    Ok(answer) => shown.add_debug(Report::of(&answer).unwrap()),
                    Err(error) => {
                        shown.add_error(&error);
                        shown.add_error(Error::find(&error).unwrap());
                    }
                }
                drop(traced);
                shown.holds_no_secret(&format!("{name}, {wrapper:?}, {fault}"));
            }
        }
    }
}
