//! What is refused, or parked, before anything is sent.

use http::Method;
use post_once::journal::{Journal, Reason, State};
use post_once::{Client, Effect};
use reqwest::Body;

use super::support::*;

/// Frames without a declared length, up to `bytes`.
fn stream(bytes: usize) -> Body {
    struct Frames(usize);
    impl http_body::Body for Frames {
        type Data = bytes::Bytes;
        type Error = std::convert::Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
            let next = (self.0 > 0).then(|| Ok(http_body::Frame::data("x".into())));
            self.0 = self.0.saturating_sub(1);
            std::task::Poll::Ready(next)
        }
    }
    Body::wrap(Frames(bytes))
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_before_it_is_sent() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).request_limit(10).build().unwrap();
    let url = server.url("/v1/charges");
    for body in [Body::from("01234567890"), stream(11)] {
        let error = client.once(Method::POST, &url).body(body).send().await.unwrap_err();
        assert!(error.is_refused(), "{error}");
        assert!(error.to_string().contains("above the journal's limit"), "{error}");
        assert_eq!(error.effect(), Effect::NotSent);
    }
    let error = client.once(Method::POST, &url).body("01234567890").enqueue().await.unwrap_err();
    assert!(error.is_refused(), "{error}");
    assert!(server.requests().is_empty() && rows(&journal).await.is_empty());
}

#[tokio::test]
async fn a_stream_up_to_the_limit_is_written_down_and_can_be_sent_again() {
    let server = scripted([post_once::testkit::Fault::close()]).await;
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).request_limit(10).build().unwrap();
    let call = client.once(Method::POST, server.url("/v1/charges")).body(stream(10));
    assert_eq!(call.send().await.unwrap().status(), 201);
    let bodies: Vec<_> = server.requests().iter().map(|r| r.body().clone()).collect();
    assert_eq!(bodies, ["xxxxxxxxxx"; 2]);
    assert_eq!(row(&journal).await.draft.request.body, "xxxxxxxxxx");
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn a_resumer_without_an_origin_or_a_journal_is_refused() {
    let (clock, journal) = on_one_clock();
    let error = client(&clock, journal).resumer().once().await.unwrap_err();
    assert!(error.is_refused() && error.to_string().contains("origin"), "{error}");
    let error = Client::new().unwrap().resumer().origin("http://a.test").once().await;
    let error = error.unwrap_err();
    assert!(error.is_refused() && error.to_string().contains("journal"), "{error}");
}

/// Parked, and each goes on once what was missing is there.
#[tokio::test]
async fn a_row_that_may_not_be_sent_is_parked_with_its_reason_and_not_lost() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let call = || once(&client, &server);
    call().scope("acct_2").enqueue().await.unwrap();
    call().header("x-api-key", "A").enqueue().await.unwrap();
    let foreign = client.once(Method::POST, "http://elsewhere.test/v1/charges").json(&charge());
    foreign.enqueue().await.unwrap();
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.parked, 3);
    let reasons = [Reason::NoClient, Reason::MissingHeader, Reason::ForeignOrigin];
    assert_eq!(states(&journal).await, reasons.map(State::Parked));
    assert!(server.requests().is_empty());
    for row in rows(&journal).await {
        assert_eq!((row.attempts, row.ages.first_send), (0, None));
        let retry = journal.decide(row.row, row.token, post_once::journal::Decision::Retry);
        assert_eq!(retry.await.unwrap(), post_once::journal::Held::Yes(()));
    }
    let resumer = client.resumer().origin(&server.url("/"));
    let resumer = resumer.scope("acct_2", client.clone(), http::HeaderMap::new());
    let key = http::HeaderValue::from_static("B");
    let summary = resumer.header(http::HeaderName::from_static("x-api-key"), key).once().await;
    let summary = summary.unwrap();
    assert_eq!((summary.completed, summary.parked), (2, 1));
    assert_eq!(server.charges().len(), 2);
}
