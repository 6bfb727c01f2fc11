//! A server that is not ours: what it sees of an operation, and what its answers come to.

use std::collections::HashSet;
use std::time::Duration;

use post_once::testkit::{Fault, Server};
use post_once::{Client, Effect, Report, RetryPolicy};
use wiremock::matchers::{body_string, header, header_exists, method, path};
use wiremock::{Mock, MockServer, ResponseTemplate};

fn client() -> Client {
    let policy = RetryPolicy::builder().base_delay(Duration::from_millis(1)).build().unwrap();
    Client::builder().policy(policy).build().unwrap()
}

/// Answers `first` so many times, and then 201.
async fn server(first: ResponseTemplate, times: u64) -> MockServer {
    let server = MockServer::start().await;
    let post = || Mock::given(method("POST")).and(path("/charges"));
    post().respond_with(first).up_to_n_times(times).expect(times).mount(&server).await;
    post()
        .and(header_exists("idempotency-key"))
        .and(header("content-type", "application/json"))
        .and(body_string(r#"{"amount":1999}"#))
        .respond_with(ResponseTemplate::new(201).set_body_string("made"))
        .expect(1)
        .mount(&server)
        .await;
    server
}

// O-01, O-04.
#[tokio::test]
async fn each_attempt_of_a_status_script_is_the_same_request() {
    for status in [429, 502, 503, 504] {
        let server = server(ResponseTemplate::new(status).set_body_string("not now"), 2).await;
        let url = format!("{}/charges", server.uri());
        let body = serde_json::json!({ "amount": 1999 });
        let response = client().post_once(&url, &body).await.unwrap();
        let report = Report::of(&response).unwrap();
        let statuses: Vec<_> = report.attempts().filter_map(|a| a.status()).collect();
        assert_eq!(statuses, [status, status, 201]);
        assert_eq!(report.effect(), Effect::Answered);
        assert_eq!(response.text().await.unwrap(), "made");

        let requests = server.received_requests().await.unwrap();
        let keys: HashSet<_> = requests
            .iter()
            .map(|request| {
                let mut keys = request.headers.get_all("idempotency-key").iter();
                let key = keys.next().unwrap().clone();
                assert_eq!(keys.next(), None, "one field, {status}");
                key
            })
            .collect();
        assert_eq!((requests.len(), keys.len()), (3, 1), "{status}");
    }
}

#[tokio::test]
async fn the_last_429_is_returned_as_it_came() {
    let server = MockServer::start().await;
    let busy = ResponseTemplate::new(429).insert_header("x-plan", "free").set_body_string("busy");
    Mock::given(method("POST")).respond_with(busy).expect(5).mount(&server).await;
    let response = client().post_once(server.uri(), "x").await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["x-plan"].to_str().unwrap()),
        (429, "free")
    );
    assert_eq!(response.text().await.unwrap(), "busy");
}

/// An answer that another attempt follows is read to its end, so that its connection serves the next.
#[tokio::test]
async fn retries_go_over_the_connection_that_is_there() {
    let page = Fault::status(503).body(vec![b'x'; 60 * 1024]);
    let server = Server::builder().faults([page, Fault::status(429)]).start().await.unwrap();
    client().post_once(server.url("/v1/charges"), "x").await.unwrap();
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 3B",
            "c1 fault 503",
            "c1 answer 503",
            "c1 POST /v1/charges k1 3B",
            "c1 fault 429",
            "c1 answer 429",
            "c1 POST /v1/charges k1 3B",
            "c1 effect ch_1",
            "c1 answer 201",
        ]
    );
}
