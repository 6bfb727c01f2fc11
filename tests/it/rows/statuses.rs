//! Rows of plain statuses: throttled and unavailable, and every other one.

use std::time::Duration;

use post_once::Effect;
use post_once::retry::{Exhausted, Known};
use post_once::testkit::{Fault, ManualClock, Server};

use crate::harness::{client, keys, known, lines, post, report, settled};

fn retried(status: u16) -> Known {
    if status == 429 { Known::Throttled } else { Known::Unavailable }
}

// O-01
#[tokio::test]
async fn throttled_and_unavailable_are_retried_with_the_same_key() {
    for status in [429, 502, 503, 504] {
        let faults = [Fault::status(status)];
        let server = Server::builder().faults(faults).start().await.unwrap();
        let clock = ManualClock::new();
        let sent = post(&client(&clock), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [retried(status), Known::Final], "{status}");
        assert_eq!(report(&sent).effect(), Effect::Answered);
        assert_eq!(keys(&server), vec![report(&sent).key().unwrap().to_string(); 2]);
        let [wait] = clock.waits()[..] else { panic!("{:?}", clock.waits()) };
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        let (fault, answer) = (format!("fault {status}"), format!("answer {status}"));
        let expected = lines(&[&[&fault, &answer], &["effect ch_1", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

// O-15: the hint is a floor, and the jitter goes on top.
#[tokio::test]
async fn throttled_and_unavailable_are_never_retried_before_retry_after() {
    for status in [429, 502, 503, 504] {
        let faults = [Fault::status(status).retry_after(7)];
        let server = Server::builder().faults(faults).start().await.unwrap();
        let clock = ManualClock::new();
        let sent = post(&client(&clock), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [retried(status), Known::Final], "{status}");
        let first = report(&sent).attempts().next().unwrap();
        assert_eq!(first.retry_after(), Some(Duration::from_secs(7)));
        let [wait] = clock.waits()[..] else { panic!("{:?}", clock.waits()) };
        assert!((7_000..=7_500).contains(&wait.as_millis()), "{wait:?}");
        let (fault, answer) = (format!("fault {status}:ra=7"), format!("answer {status}"));
        let expected = lines(&[&[&fault, &answer], &["effect ch_1", "answer 201"]]);
        assert_eq!(settled(&server).await, expected);
    }
}

#[tokio::test]
async fn last_answer_is_returned_unchanged_when_the_attempts_run_out() {
    for (status, effect) in [
        (429, Effect::Answered),
        (502, Effect::Unknown),
        (503, Effect::Unknown),
        (504, Effect::Unknown),
    ] {
        let faults = (1..=9).map(|n| {
            let answer = Fault::status(status).header("x-line", "a").header("x-line", "b");
            answer.body(format!("no {n}"))
        });
        let server = Server::builder().faults(faults).start().await.unwrap();
        let sent = post(&client(&ManualClock::new()), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [retried(status); 5], "{status}");
        assert_eq!(report(&sent).exhausted(), Some(Exhausted::Attempts));
        assert_eq!(report(&sent).effect(), effect, "{status}");
        let answer = sent.unwrap();
        assert_eq!(answer.status(), status);
        assert_eq!(answer.url().as_str(), server.url("/v1/charges"));
        let values: Vec<_> = answer.headers().get_all("x-line").iter().collect();
        assert_eq!(values, ["a", "b"]);
        assert_eq!(answer.text().await.unwrap(), "no 5");
        let (fault, answer) = (format!("fault {status}"), format!("answer {status}"));
        let attempt: &[&str] = &[&fault, &answer];
        assert_eq!(settled(&server).await, lines(&[attempt; 5]));
    }
}

#[tokio::test]
async fn any_other_status_is_one_request_and_the_callers_unchanged() {
    use Effect::{Answered, Unknown};
    for (status, effect) in [
        (200, Answered),
        (201, Answered),
        (400, Answered),
        (401, Answered),
        (404, Answered),
        (408, Answered),
        (409, Unknown),
        (422, Answered),
        (425, Answered),
        (500, Unknown),
        (501, Unknown),
        (505, Unknown),
    ] {
        let fault = Fault::status(status).header("x-line", "a").body("as it is");
        let server = Server::builder().faults([fault]).start().await.unwrap();
        let clock = ManualClock::new();
        let sent = post(&client(&clock), server.url("/v1/charges")).await;
        assert_eq!(known(&sent), [Known::Final], "{status}");
        assert_eq!(report(&sent).effect(), effect, "{status}");
        assert_eq!(report(&sent).exhausted(), None);
        assert!(clock.waits().is_empty());
        let answer = sent.unwrap();
        assert_eq!(
            (answer.status().as_u16(), &answer.headers()["x-line"]),
            (status, &"a".parse().unwrap())
        );
        assert_eq!(answer.text().await.unwrap(), "as it is");
        let (fault, answer) = (format!("fault {status}"), format!("answer {status}"));
        assert_eq!(settled(&server).await, lines(&[&[&fault, &answer]]));
    }
}
