//! Credentials are those of an attempt, not of its row (O-05).

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use http::{Extensions, HeaderMap, HeaderName, HeaderValue};
use post_once::journal::{Journal, Reason, SqliteJournal, State};
use post_once::testkit::{Fault, ManualClock};
use reqwest::{Request, Response};
use reqwest_middleware::{ClientWithMiddleware, Middleware, Next};

use super::support::*;

const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Whether these bytes are in any file of the folder.
fn on_disk(folder: &Path, bytes: &[u8]) -> bool {
    std::fs::read_dir(folder).unwrap().any(|file| {
        let content = std::fs::read(file.unwrap().path()).unwrap();
        content.windows(bytes.len()).any(|window| window == bytes)
    })
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// O-05.
#[tokio::test]
async fn a_credential_is_nowhere_and_the_new_one_is_sent_on_resume() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::new("post_once=trace"))
        .with_span_events(tracing_subscriber::fmt::format::FmtSpan::FULL)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
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
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
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
