//! How a claim ends.

use std::time::Duration;

use super::make::{answer, decided, draft, due, outcome, past, trail};
use super::subject::{Subject, found, yes};
use crate::journal::{Journal, Outcome, Reason, State, StoredAnswer, To, Trail};

pub(super) async fn an_answer_is_kept_whole<J: Journal>(subject: &Subject<J>) {
    let bytes: Vec<u8> = (0..=255).collect();
    let cases = [
        answer(201, bytes.clone()),
        answer(204, ""),
        StoredAnswer {
            status: 200,
            headers: vec![
                ("location".to_owned(), b"/v1/charges/ch_1".to_vec()),
                ("link".to_owned(), bytes[1..].to_vec()),
                ("link".to_owned(), Vec::new()),
            ],
            body: None,
            replayed: true,
        },
    ];
    for (number, kept) in cases.into_iter().enumerate() {
        let begun = draft(Some(&format!("order-{number}")), "{}");
        let claim = subject.begin(&begun).await;
        let done = decided(To::Completed, kept.clone());
        yes(subject.journal().finish(&claim, &done).await.unwrap());
        let record = found(subject.other().insert(&begun, subject.long()).await.unwrap());
        assert_eq!((record.state, record.trail), (State::Completed, done.trail));
        let read = record.answer.expect("it was kept");
        assert!(read == kept, "{read:?} is not {kept:?}");
        assert_eq!((record.attempts, record.lost, record.ages.lease_left), (1, 0, None));
    }
}

pub(super) async fn an_outcome_without_an_answer_keeps_the_last_one<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = subject.begin(&draft(None, "{}")).await;
    let throttled = decided(To::Later(Duration::ZERO), answer(429, "slow down"));
    yes(subject.journal().finish(&claim, &throttled).await.unwrap());
    let claimed = subject.other().claim_due(&due(&[], 1), subject.long()).await.unwrap();
    let (claim, record) = &claimed[0];
    assert!(record.answer == throttled.answer);
    let reset = Outcome {
        to: To::Parked(Reason::NoAnswer),
        trail: trail([past(1, Some(429)), past(2, None)]),
        answer: None,
    };
    yes(subject.other().finish(claim, &reset).await.unwrap());
    let row = subject.row(claim.row).await;
    assert!(row.answer == throttled.answer);
    assert_eq!(row.trail, reset.trail);
}

pub(super) async fn each_outcome_has_its_state<J: Journal>(subject: &Subject<J>) {
    let reasons = [
        Reason::Status,
        Reason::NoAnswer,
        Reason::Attempts,
        Reason::InProgress,
        Reason::Redirected,
        Reason::MissingHeader,
        Reason::ForeignOrigin,
        Reason::NoClient,
        Reason::ClockWentBack,
    ];
    let parked = reasons.map(|reason| (To::Parked(reason), State::Parked(reason)));
    let others = [
        (To::Completed, State::Completed),
        (To::Unknown, State::Unknown),
        (To::Later(subject.unit()), State::Pending),
        (To::Released, State::Pending),
    ];
    for (to, state) in parked.into_iter().chain(others) {
        let claim = subject.begin(&draft(None, "{}")).await;
        yes(subject.journal().finish(&claim, &outcome(to)).await.unwrap());
        let row = subject.row(claim.row).await;
        assert_eq!(row.state, state, "{to:?}");
        assert_eq!((row.lost, row.ages.lease_left), (0, None), "{to:?}");
        assert!(row.ages.first_send.is_some(), "{to:?}: something was sent");
        let unsent = subject.begin(&draft(None, "{}")).await;
        let nothing = Trail { attempts: vec![past(1, None)], sent: false };
        let refused = Outcome { to, trail: nothing, answer: None };
        yes(subject.journal().finish(&unsent, &refused).await.unwrap());
        let row = subject.row(unsent.row).await;
        assert_eq!((row.state, row.ages.first_send), (state, None), "{to:?}: nothing was sent");
    }
}

pub(super) async fn an_outcome_that_nobody_waits_for_takes_effect<J: Journal>(
    subject: &Subject<J>,
) {
    let claim = subject.begin(&draft(Some("order-1"), "{}")).await;
    subject.journal().finish_soon(claim, decided(To::Completed, answer(201, "done")));
    let mut row = subject.row(claim.row).await;
    for _ in 0..20_000 {
        if row.state == State::Completed {
            break;
        }
        tokio::task::yield_now().await;
        row = subject.row(claim.row).await;
    }
    assert_eq!(row.state, State::Completed);
    assert!(row.token > claim.token && row.answer.is_some());
}

/// O-18: pending and parked turn into unknown by age alone, in every reading.
pub(super) async fn a_window_that_closed_is_unknown_by_age_alone<J: Journal>(subject: &Subject<J>) {
    let unit = subject.unit();
    let mut begun = draft(Some("sent"), "{}");
    begun.terms.window = Some((unit * 4, unit * 2));
    let sent = subject.begin(&begun).await;
    yes(subject.journal().finish(&sent, &outcome(To::Parked(Reason::NoAnswer))).await.unwrap());
    begun.name = Some("refused".to_owned());
    let refused = subject.begin(&begun).await;
    let nothing = Trail { attempts: vec![past(1, None)], sent: false };
    let unsent = Outcome { to: To::Parked(Reason::NoAnswer), trail: nothing, answer: None };
    yes(subject.journal().finish(&refused, &unsent).await.unwrap());
    subject.pass(2).await;
    let row = subject.row(sent.row).await;
    assert_eq!(row.state, State::Parked(Reason::NoAnswer), "as stored");
    assert_eq!(row.state_now(), State::Unknown);
    let row = subject.row(refused.row).await;
    assert_eq!((row.state_now(), row.window_left()), (State::Parked(Reason::NoAnswer), None));
}

/// A claim that ends without having sent anything has counted nothing, wherever its row goes.
pub(super) async fn the_attempts_are_those_of_the_trail<J: Journal>(subject: &Subject<J>) {
    let held = subject.begin(&draft(None, "{}")).await;
    let nothing = Trail { attempts: Vec::new(), sent: false };
    let parked = To::Parked(Reason::MissingHeader);
    yes(subject
        .journal()
        .finish(&held, &Outcome { to: parked, trail: nothing, answer: None })
        .await
        .unwrap());
    let row = subject.row(held.row).await;
    assert_eq!((row.attempts, row.lost, row.ages.first_send), (0, 0, None));
    let held = yes(subject.journal().take(row.row, row.token, subject.long()).await.unwrap());
    yes(subject.journal().finish(&held, &outcome(To::Completed)).await.unwrap());
    let row = subject.row(held.row).await;
    assert_eq!(row.attempts, row.trail.count());
}
