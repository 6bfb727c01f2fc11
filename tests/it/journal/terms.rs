//! What is written down with an operation, and comes back with it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http::Method;
use post_once::clock::{Clock, Sleep};
use post_once::journal::{Journal, MemoryJournal, State, To};
use post_once::middleware::{JournalOptions, RequestBuilderExt};
use post_once::report::Source;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Contract, Idempotency, Report};

use super::support::*;

/// A key that stands in the body.
#[tokio::test]
async fn a_body_that_carries_its_key_is_resumed_to_the_byte() {
    let faults = [Fault::hang(MINUTE)];
    let server = Server::builder().faults(faults).key_member("idempotency_key").start().await;
    let server = server.unwrap();
    let (clock, journal) = on_one_clock();
    let client = builder(&clock, journal.clone()).contract(Contract::plaid()).build().unwrap();
    let call = || {
        let once = client.once(Method::POST, server.url("/v1/charges")).operation("order-42");
        once.body("{ \"amount\" : 1.50 }")
    };
    dropped_at(&server, "c1 effect ch_1", call()).await;
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.completed, 1);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body(), requests[1].body());
    let body = String::from_utf8(requests[0].body().to_vec()).unwrap();
    assert!(body.starts_with("{\"idempotency_key\":\"") && body.ends_with(", \"amount\" : 1.50 }"));
    // Whoever calls the name again has no key in the body, and is given the answer all the same.
    let again = call().send().await.unwrap();
    assert_eq!(report(&again).source(), Source::Journal);
    assert_eq!((server.requests().len(), server.charges().len()), (2, 1));
}

/// A clock that goes on by a little with each look at it.
#[derive(Clone, Debug)]
struct Moving(ManualClock);

impl Moving {
    fn goes_on(&self) {
        self.0.advance(Duration::from_millis(13));
    }
}

impl Clock for Moving {
    fn monotonic(&self) -> Duration {
        self.goes_on();
        self.0.monotonic()
    }

    fn wall(&self) -> SystemTime {
        self.goes_on();
        self.0.wall()
    }

    fn sleep(&self, wait: Duration) -> Sleep {
        self.0.sleep(wait)
    }

    fn timer(&self, limit: Duration) -> Sleep {
        self.0.timer(limit)
    }
}

/// A header that says when it was sent first, whoever sends it again, and at whatever part of a second.
#[tokio::test]
async fn the_time_of_the_first_send_is_the_same_on_resume() {
    for phase in 0..20 {
        for begun_by in ["its caller", "the resumer", "a caller after it was enqueued"] {
            let faults = [Fault::hang(MINUTE)];
            let server = Server::builder().faults(faults).key_header("repeatability-request-id");
            let server = server.start().await.unwrap();
            let clock = Moving(ManualClock::new());
            clock.0.advance(Duration::from_millis(50 * phase));
            let journal = MemoryJournal::with_clock(clock.clone());
            let client = builder(&clock.0, journal.clone()).clock(clock.clone());
            let client = client.contract(Contract::azure_repeatability()).build().unwrap();
            let call = || once(&client, &server).operation("order-42");
            let resume = || async { client.resumer().origin(&server.url("/")).once().await };
            if begun_by != "its caller" {
                call().enqueue().await.unwrap();
                clock.0.advance(SECOND * 50);
            }
            if begun_by == "the resumer" {
                tokio::select! {
                    ended = resume() => panic!("it was to be dropped: {ended:?}"),
                    () = logged(&server, "c1 effect ch_1") => {}
                }
            } else {
                dropped_at(&server, "c1 effect ch_1", call()).await;
            }
            clock.0.advance(SECOND * 50);
            assert_eq!(resume().await.unwrap().completed, 1, "{begun_by}, {phase}");
            let sent = header(&server, "repeatability-first-sent");
            assert_eq!(sent.len(), 2);
            assert_eq!(sent[0], sent[1], "{begun_by}, {phase}");
            let kept = row(&journal).await;
            let first = httpdate::fmt_http_date(kept.ages.first_send_at.unwrap());
            assert_eq!(sent[0], first, "{begun_by}, {phase}");
            assert_eq!(header(&server, "repeatability-request-id")[0], kept.draft.key);
        }
    }
}

/// The contract of a row is found by its name, whatever the client's own is.
#[tokio::test]
async fn a_row_is_resumed_under_the_contract_that_it_was_written_under() {
    let stripe = Contract::stripe();
    // What `stripe` calls worth another attempt is final under the generic contract.
    let again = || Fault::status(500).header("stripe-should-retry", "true");
    let server = scripted([again(), again()]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    once(&client, &server).contract(stripe).enqueue().await.unwrap();
    once(&client, &server).enqueue().await.unwrap();
    let resumer = client.resumer().origin(&server.url("/")).concurrency(1);
    let summary = resumer.once().await.unwrap();
    assert_eq!((summary.later, summary.parked), (1, 1));
    let states = states(&journal).await;
    assert!(matches!(states[..], [State::Pending, State::Parked(_)]), "{states:?}");
}

#[tokio::test]
async fn the_handler_is_given_the_callers_context_and_the_answer() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    let call = once(&client, &server).operation("order-42").context(&[42]);
    let key = call.enqueue().await.unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let resumer = client.resumer().origin(&server.url("/")).handler(move |resumed| {
        log.lock().unwrap().push(resumed);
        async { Ok(()) }
    });
    resumer.once().await.unwrap();
    let seen = seen.lock().unwrap();
    let [resumed] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(resumed.record.draft.terms.context.as_deref(), Some("[42]"));
    assert_eq!(resumed.record.draft.name.as_deref(), Some("order-42"));
    assert_eq!(resumed.record.draft.key, key.to_string());
    assert_eq!((resumed.to, resumed.answer.as_ref().unwrap().status), (To::Completed, 201));
    assert_eq!(resumed.report.as_ref().unwrap().key(), Some(&key));
}

/// Exhausted in front of its caller, and gone on with all the same.
#[tokio::test]
async fn a_kept_operation_is_resumed_after_its_caller_was_told() {
    let server = scripted([Fault::close(), Fault::close()]).await;
    let (clock, journal) = on_one_clock();
    let client = client(&clock, journal.clone());
    once(&client, &server).keep_trying().send().await.unwrap_err();
    assert_eq!(states(&journal).await, [State::Pending]);
    clock.advance(MINUTE);
    let summary = client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary.completed, 1);
    assert_eq!(server.charges().len(), 1);
    let keys = keys(&server);
    assert!(keys.iter().all(|key| *key == keys[0]) && keys.len() == 3, "{keys:?}");
}

#[tokio::test]
async fn the_middleware_writes_down_what_it_is_told() {
    let server = scripted([]).await;
    let (clock, journal) = on_one_clock();
    let layer = Idempotency::builder().clock(clock.clone()).journal(journal.clone()).build();
    let stack = reqwest_middleware::ClientBuilder::new(crate::cases::support::http());
    let stack = stack.with(layer).build();
    let call = async |scope: &str| {
        let options = JournalOptions::default().operation("order-42").scope(scope);
        let request = stack.post(server.url("/v1/charges")).body("a charge");
        request.journal(options.context("{\"n\":1}")).send().await.unwrap()
    };
    let (first, again) = (call("acct_1").await, call("acct_1").await);
    assert_eq!(Report::of(&again).unwrap().source(), Source::Journal);
    assert_eq!(first.bytes().await.unwrap(), again.bytes().await.unwrap());
    assert_eq!(server.requests().len(), 1);
    let kept = row(&journal).await;
    assert_eq!((kept.draft.scope.as_str(), kept.state), ("acct_1", State::Completed));
    assert_eq!(kept.draft.terms.context.as_deref(), Some("{\"n\":1}"));
    // Another account's order of the same number is another operation.
    assert_eq!(Report::of(&call("acct_2").await).unwrap().source(), Source::Network);
    assert_eq!(server.charges().len(), 2);
    assert_eq!(journal.gauges().await.unwrap().completed, 2);
}
