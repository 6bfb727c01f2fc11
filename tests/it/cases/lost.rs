//! The connection is lost in the middle of an exchange.

use std::error::Error;

use post_once::Effect;
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock};

use super::support::{Dns, charge, client, policy, report, scripted};

// O-08
#[tokio::test]
async fn a_lost_answer_is_asked_for_with_the_same_key() {
    for fault in [Fault::close(), Fault::reset()] {
        let server = scripted([fault.clone()]).await;
        let client = client(&ManualClock::new(), policy()).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(report(&response).effect(), Effect::Answered);
        assert_eq!(server.charges().len(), 1);
        assert_eq!(
            server.transcript(),
            [
                "c1 POST /v1/charges k1 15B",
                "c1 effect ch_1",
                &format!("c1 fault {fault}"),
                "c2 POST /v1/charges k1 15B",
                "c2 replay 201",
                "c2 answer 201",
            ]
        );
    }
}

// O-08
#[tokio::test]
async fn answers_that_are_all_lost_leave_the_outcome_unknown() {
    let server = scripted([Fault::close(), Fault::close()]).await;
    let client = client(&ManualClock::new(), policy().max_attempts(2)).build().unwrap();
    let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();
    assert_eq!((error.effect(), error.exhausted()), (Effect::Unknown, Some(Exhausted::Attempts)));
    let source = error.source().unwrap().downcast_ref::<reqwest::Error>().unwrap();
    assert!(!source.is_connect() && !source.is_timeout(), "neither flag is set");
    assert!(error.report().attempts().all(|attempt| attempt.known() == Known::Ambiguous));
    assert_eq!(server.charges().len(), 1);
    assert_eq!(
        server.transcript(),
        [
            "c1 POST /v1/charges k1 15B",
            "c1 effect ch_1",
            "c1 fault close",
            "c2 POST /v1/charges k1 15B",
            "c2 replay 201",
            "c2 fault close",
        ]
    );
}

// O-08: over HTTP/1.1 nobody can say that a request was not processed.
#[tokio::test]
async fn a_connection_that_is_closed_before_the_body_is_read_is_unknown_too() {
    let server = scripted([Fault::close_before_reading()]).await;
    let client = client(&ManualClock::new(), policy().max_attempts(1)).build().unwrap();
    let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 unread", "c1 fault close before reading"]
    );
}

// O-08
#[tokio::test]
async fn not_being_able_to_connect_does_not_undo_what_was_sent() {
    let server = scripted([Fault::close()]).await;
    let dns = Dns::failing(&server, |look_up| look_up > 1);
    let two = policy().max_attempts(2);
    let client = client(&ManualClock::new(), two).http(dns.http()).build().unwrap();
    let error = client.post_once(dns.url(), &charge()).await.unwrap_err();
    assert!(error.is_connect());
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(
        server.transcript(),
        ["c1 POST /v1/charges k1 15B", "c1 effect ch_1", "c1 fault close"]
    );
}

#[cfg(feature = "http2")]
mod http2 {
    use post_once::Client;
    use post_once::testkit::Server;

    use super::super::support::http_builder;
    use super::*;

    async fn scripted(faults: [Fault; 2]) -> Server {
        Server::builder().http2().faults(faults).start().await.unwrap()
    }

    fn two_attempts() -> Client {
        let http = http_builder().http2_prior_knowledge().build().unwrap();
        client(&ManualClock::new(), policy().max_attempts(2)).http(http).build().unwrap()
    }

    // O-08
    #[tokio::test]
    async fn streams_that_the_peer_declares_unprocessed_were_not_sent() {
        for fault in [Fault::refuse_stream(), Fault::goaway()] {
            let server = scripted([fault.clone(), fault.clone()]).await;
            let client = two_attempts();
            let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();
            assert_eq!(error.effect(), Effect::NotSent, "{error:?}");
            assert_eq!(error.exhausted(), Some(Exhausted::Attempts));
            let known: Vec<_> = error.report().attempts().map(|one| one.known()).collect();
            assert_eq!(known, [Known::RefusedByProtocol; 2]);
            assert!(server.charges().is_empty());
            assert_eq!(
                server.transcript(),
                [
                    "c1 POST /v1/charges k1 unread",
                    &format!("c1 fault {fault}"),
                    "c2 POST /v1/charges k1 unread",
                    &format!("c2 fault {fault}"),
                ]
            );
        }
    }

    // O-08
    #[tokio::test]
    async fn a_refused_stream_is_sent_again() {
        let server = scripted([Fault::refuse_stream(), Fault::goaway()]).await;
        let http = http_builder().http2_prior_knowledge().build().unwrap();
        let client = client(&ManualClock::new(), policy()).http(http).build().unwrap();
        let response = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap();
        assert_eq!(response.status(), 201);
        assert_eq!(server.charges().len(), 1);
        assert_eq!(
            server.transcript(),
            [
                "c1 POST /v1/charges k1 unread",
                "c1 fault refuse stream",
                "c2 POST /v1/charges k1 unread",
                "c2 fault goaway",
                "c3 POST /v1/charges k1 15B",
                "c3 effect ch_1",
                "c3 answer 201",
            ]
        );
    }

    // O-08
    #[tokio::test]
    async fn any_other_reset_leaves_the_outcome_unknown() {
        for (second, shown) in [(Fault::reset(), "reset"), (Fault::close(), "close")] {
            let server = scripted([Fault::reset(), second]).await;
            let client = two_attempts();
            let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();
            assert_eq!(error.effect(), Effect::Unknown, "{error:?}");
            assert_eq!(error.exhausted(), Some(Exhausted::Attempts));
            assert_eq!(server.charges().len(), 1);
            assert_eq!(
                server.transcript(),
                [
                    "c1 POST /v1/charges k1 15B",
                    "c1 effect ch_1",
                    "c1 fault reset",
                    "c2 POST /v1/charges k1 15B",
                    "c2 replay 201",
                    &format!("c2 fault {shown}"),
                ]
            );
        }
    }

    // O-08
    #[tokio::test]
    async fn a_refused_stream_does_not_undo_what_was_sent() {
        let server = scripted([Fault::reset(), Fault::refuse_stream()]).await;
        let client = two_attempts();
        let error = client.post_once(server.url("/v1/charges"), &charge()).await.unwrap_err();
        assert_eq!(error.effect(), Effect::Unknown);
        assert_eq!(
            server.transcript(),
            [
                "c1 POST /v1/charges k1 15B",
                "c1 effect ch_1",
                "c1 fault reset",
                "c2 POST /v1/charges k1 unread",
                "c2 fault refuse stream",
            ]
        );
    }
}
