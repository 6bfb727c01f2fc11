//! Credentials are those of an attempt, not of its row (O-05).

use std::path::Path;
use std::sync::Mutex;

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue, Method};
use post_once::journal::{Journal, Reason, SqliteJournal, State};
use post_once::testkit::{Fault, ManualClock, refused_url};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next};

use super::support::*;
use crate::harness::traced::Lines;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Whether these bytes are in any file of the folder.
fn on_disk(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|file| {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

// O-05.
#[tokio::test]
async fn a_credential_is_nowhere_and_the_new_one_is_sent_on_resume() {
    let log = Lines::default();
    let _listening = log.listen();
    let server = scripted([Fault::hang(MINUTE)]).await;
    let folder = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let path = folder.path().join("orders.journal");
    let journal = SqliteJournal::builder(path).clock(clock.clone()).open().await.unwrap();
    let client = client(&clock, journal.clone());
    let call = once(&client, &server).bearer_auth("s3cret-A").header(X_API_KEY, "s3cret-A2");
    dropped_at(&server, "c1 effect ch_1", call).await;
    journal.flush().await;
    assert!(on_disk(folder.path(), b"x-api-key"), "its name is kept");
    let is_on_disk = || on_disk(folder.path(), b"s3cret");
    assert!(!is_on_disk());

    let resumer = client
        .resumer()
        .origin(&server.url("/"))
        .header(http::header::AUTHORIZATION, HeaderValue::from_static("Bearer s3cret-B"))
        .header(X_API_KEY, HeaderValue::from_static("s3cret-B2"));
    assert_eq!(resumer.once().await.unwrap().completed, 1);
    assert_eq!(header(&server, "authorization"), ["Bearer s3cret-A", "Bearer s3cret-B"]);
    assert_eq!(header(&server, "x-api-key"), ["s3cret-A2", "s3cret-B2"]);
    assert_eq!(keys(&server)[0], keys(&server)[1]);
    assert_eq!(server.requests()[0].body(), server.requests()[1].body());
    journal.close().await;
    assert!(!is_on_disk());
    let log = log.text();
    assert!(log.contains("post_once.attempt") && !log.contains("s3cret"), "{log}");
}

/// O-05: what is traced of a resumed row, however it ends, tells it from others by its key, and by nothing
/// that is in its headers, its body or the rest of its URL.
#[tokio::test]
async fn a_resumed_row_is_traced_without_its_secrets() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let url = server.url("/v1/charges?api_key=s3cret-query#s3cret-fragment");
    let refused = refused_url().unwrap();
    let resumer = || {
        let key = HeaderValue::from_static("s3cret-key");
        let resumer = client.resumer().origin(&url).origin(&refused).header(X_API_KEY, key);
        resumer.header(http::header::AUTHORIZATION, HeaderValue::from_static("Basic czNjcmV0"))
    };
    let mut attempts = 0;
    for (url, faults, ends) in [
        (&url, vec![Fault::close(), Fault::status(503)], "http.response.status_code=201"),
        (&url, vec![Fault::status(401)], "http.response.status_code=401"),
        (&refused, vec![], "error.type=\"connect\""),
    ] {
        server.push(faults);
        let call = client.once(Method::POST, url).header(X_API_KEY, "s3cret").body("s3cret-body");
        let mut draft = call.bearer_auth("s3cret").context(&"s3cret").draft().unwrap();
        // No call of ours writes a userinfo down; another program may.
        draft.request.url = draft.request.url.replace("http://", "http://s3cret:s3cret@");
        journal.enqueue(&draft).await.unwrap();
        let log = Lines::default();
        let listening = log.listen();
        while !log.text().contains(ends) {
            let summary = resumer().once().await.unwrap();
            assert_ne!(summary, Default::default());
            clock.advance(MINUTE * 10);
            attempts += 1;
            assert!(attempts < 10, "{}", log.text());
        }
        drop(listening);
        let log = log.text();
        for expected in ["post_once.operation", "post_once.attempt", "post_once.effect", &draft.key]
        {
            assert!(log.contains(expected), "nothing was traced of {expected}: {log}");
        }
        for secret in ["s3cret", "czNjcmV0", "api_key"] {
            assert!(!log.contains(secret), "{log}");
        }
    }
}

// O-05: never without it.
#[tokio::test]
async fn a_row_whose_credential_is_not_supplied_again_is_parked_not_sent() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    dropped_at(&server, "c1 effect ch_1", once(&client, &server).header(X_API_KEY, "A")).await;
    let resumer = || client.resumer().origin(&server.url("/"));
    assert_eq!(resumer().once().await.unwrap().parked, 1);
    let parked = row(&journal).await;
    assert_eq!(parked.state, State::Parked(Reason::MissingHeader));
    assert_eq!(parked.draft.terms.missing, ["x-api-key"]);
    assert_eq!(server.requests().len(), 1);

    let decided = journal.decide(parked.row, parked.token, post_once::journal::Decision::Retry);
    assert_eq!(decided.await.unwrap(), post_once::journal::Held::Yes(()));
    let resumer = resumer().header(X_API_KEY, HeaderValue::from_static("B"));
    assert_eq!(resumer.once().await.unwrap().completed, 1);
    assert_eq!(header(&server, "x-api-key"), ["A", "B"]);
}

/// Signs each attempt with its number.
#[derive(Default)]
struct Sign(Mutex<u32>);

#[async_trait]
impl Middleware for Sign {
    async fn handle(
        &self,
        mut request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> reqwest_middleware::Result<Response> {
        let number = {
            let mut number = self.0.lock().unwrap();
            *number += 1;
            *number
        };
        request.headers_mut().insert("x-signature", number.into());
        next.run(request, extensions).await
    }
}

// O-05: what the stack sets anew is neither stored nor missed, even if the caller set it too.
#[tokio::test]
async fn what_the_stack_reapplies_is_made_anew_on_resume() {
    let server = scripted([Fault::hang(MINUTE)]).await;
    let (clock, journal) = on_one_clock();
    let stack: ClientWithMiddleware =
        reqwest_middleware::ClientBuilder::new(crate::cases::support::http())
            .with(Sign::default())
            .build();
    let signature = HeaderName::from_static("x-signature");
    let client = builder(&clock, journal.clone())
        .stack(stack)
        .reapplied_by_stack(signature.clone())
        .build()
        .unwrap();
    dropped_at(&server, "c1 effect ch_1", once(&client, &server).header(&signature, "0")).await;
    assert!(row(&journal).await.draft.terms.missing.is_empty());
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.completed, 1);
    assert_eq!(header(&server, "x-signature"), ["1", "2"]);
}

// O-05: each scope has its own client and its own credentials.
#[tokio::test]
async fn each_scope_is_sent_by_its_own_client() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    for scope in ["acct_1", "acct_2"] {
        let call = once(&client, &server).scope(scope).operation("order-42");
        call.header(X_API_KEY, "first").enqueue().await.unwrap();
    }
    let with =
        |value: &'static str| HeaderMap::from_iter([(X_API_KEY, HeaderValue::from_static(value))]);
    let resumer = client.resumer().origin(&server.url("/")).concurrency(1);
    let resumer = resumer.scope("acct_1", client.clone(), with("one"));
    let summary = resumer.scope("acct_2", client.clone(), with("two")).once().await.unwrap();
    assert_eq!(summary.completed, 2);
    let mut sent = header(&server, "x-api-key");
    sent.sort();
    assert_eq!(sent, ["one", "two"]);
    assert_eq!(server.charges().len(), 2, "names count per scope");
}
