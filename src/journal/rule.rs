//! What follows from a row: pure functions, without a store and without a clock.

use std::time::Duration;

use super::{Reason, Record, State, To};
use crate::contract::Contract;
use crate::fingerprint::Fingerprint;
use crate::report::{Attempt, Report};
use crate::retry::{Effect, Known};

/// So many claims in a row may end without a recorded outcome before a person must look.
pub(crate) const MOST_LOST: u32 = 20;

/// What a call of an operation's name may do with the row that it found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Go on with it: same key, same stored bytes.
    TakeOver,
    /// Return the stored answer; nothing is sent.
    Replay,
    /// It is another request: refuse.
    Mismatch,
    /// Somebody is at it; nothing is known for so long.
    InFlight(Duration),
    /// Killed attempts used up all that the policy allows: park it, send nothing.
    Spent,
    /// It is unknown, or was given up after it may have been sent: refuse.
    Closed(State),
}

/// Decides what a call may do with the row of its name.
pub(crate) fn admit(record: &Record, fingerprint: &Fingerprint, max_attempts: u32) -> Admission {
    if record.draft.terms.fingerprint != *fingerprint {
        return Admission::Mismatch;
    }
    if let Some(left) = record.ages.lease_left {
        return Admission::InFlight(left);
    }
    match record.state_now() {
        State::Completed => Admission::Replay,
        State::Abandoned if record.ages.first_send.is_none() => Admission::TakeOver,
        closed @ (State::Unknown | State::Abandoned) => Admission::Closed(closed),
        State::Pending | State::Parked(_) if record.ages.clock_went_back => {
            Admission::Closed(State::Parked(Reason::ClockWentBack))
        }
        // Parked so by an earlier call that found it spent: until a person decides.
        State::Parked(Reason::Attempts) => Admission::Spent,
        State::Pending | State::Parked(_) if record.lost >= max_attempts => Admission::Spent,
        State::Pending | State::Parked(_) => Admission::TakeOver,
    }
}

/// What the resumer does with a row that it has claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Send it again.
    Resend,
    /// Leave it to a person.
    Park(Reason),
    /// It can no longer be asked for safely.
    Unknown,
}

/// Decides what the resumer does with a row. The claim itself is counted in `record.lost` already.
pub(crate) fn recover(record: &Record) -> Recovery {
    if record.ages.clock_went_back {
        Recovery::Park(Reason::ClockWentBack)
    } else if record.window_left() == Some(Duration::ZERO) || record.lost > MOST_LOST {
        Recovery::Unknown
    } else {
        Recovery::Resend
    }
}

/// How a call or an attempt of the resumer ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ending {
    pub(crate) known: Known,
    /// The status, if a whole answer came.
    pub(crate) status: Option<u16>,
    pub(crate) effect: Effect,
    /// The contract closes an operation by this status, beyond those that reject for good everywhere.
    pub(crate) closes: bool,
}

impl Ending {
    /// How the last attempt of a call ended.
    pub(crate) fn of(report: &Report, last: &Attempt, contract: &Contract) -> Ending {
        // A head whose body was lost is no answer.
        let status = last.status().filter(|_| last.error().is_none());
        Ending {
            known: last.known(),
            status: status.map(|status| status.as_u16()),
            effect: report.effect(),
            closes: status.is_some_and(|status| contract.closed_by(status)),
        }
    }
}

/// Where the row of an operation goes whose outcome somebody was told.
pub(crate) fn settle(ending: Ending) -> To {
    if closes(ending) {
        return To::Completed;
    }
    To::Parked(match ending.known {
        Known::Redirected => Reason::Redirected,
        Known::InProgress => Reason::InProgress,
        _ if ending.status.is_some() => Reason::Status,
        _ => Reason::NoAnswer,
    })
}

/// Whether nothing more needs to be sent: success, a marked replay, done before, or a rejection for
/// good.
fn closes(ending: Ending) -> bool {
    if ending.effect != Effect::Answered {
        return false;
    }
    match (ending.known, ending.status) {
        (Known::Replayed | Known::DoneBefore, _) | (_, Some(200..=299)) => true,
        (_, Some(400 | 402 | 404 | 410 | 413 | 415 | 422)) => true,
        _ => ending.closes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(known: Known, status: Option<u16>, effect: Effect) -> Ending {
        Ending { known, status, effect, closes: false }
    }

    #[test]
    fn only_an_answer_that_says_what_happened_closes() {
        let answered = |status| ending(Known::from_status(status), Some(status), Effect::Answered);
        for status in [200, 201, 204, 400, 402, 404, 410, 413, 415, 422] {
            assert_eq!(settle(answered(status)), To::Completed, "{status}");
        }
        for status in [401, 403, 405, 409, 429] {
            assert_eq!(settle(answered(status)), To::Parked(Reason::Status), "{status}");
        }
        assert_eq!(settle(Ending { closes: true, ..answered(409) }), To::Completed);
        let replayed = ending(Known::Replayed, Some(500), Effect::Answered);
        assert_eq!(settle(replayed), To::Completed);
        let table = [
            (ending(Known::Final, Some(400), Effect::Unknown), Reason::Status),
            (ending(Known::Unavailable, Some(503), Effect::Unknown), Reason::Status),
            (ending(Known::Redirected, Some(307), Effect::Unknown), Reason::Redirected),
            (ending(Known::InProgress, Some(409), Effect::Unknown), Reason::InProgress),
            (ending(Known::Ambiguous, None, Effect::Unknown), Reason::NoAnswer),
            (ending(Known::NotSent, None, Effect::NotSent), Reason::NoAnswer),
        ];
        for (ending, reason) in table {
            assert_eq!(settle(ending), To::Parked(reason), "{ending:?}");
        }
    }

    fn record(state: State) -> Record {
        let draft = crate::journal::Draft::read(
            String::new(),
            Some("order-42".into()),
            "order-42".into(),
            r#"{"v":1,"method":"POST","url":"http://a.test/","headers":[],"contract":"generic",
                "window_ms":100000,"margin_ms":10000}"#,
            bytes::Bytes::new(),
        );
        Record {
            row: crate::journal::RowId(1),
            token: crate::journal::Token(1),
            state,
            draft: draft.unwrap(),
            attempts: 1,
            lost: 0,
            trail: crate::journal::Trail::default(),
            answer: None,
            ages: crate::journal::Ages::default(),
        }
    }

    fn sent(state: State, seconds: u64) -> Record {
        let mut record = record(state);
        record.ages.first_send = Some(Duration::from_secs(seconds));
        record
    }

    #[test]
    fn a_name_admits_by_its_row() {
        let held = |mut record: Record| {
            record.ages.lease_left = Some(Duration::from_secs(7));
            record
        };
        let lost = |mut record: Record, times| {
            record.lost = times;
            record
        };
        let back = |mut record: Record| {
            record.ages.clock_went_back = true;
            record
        };
        let parked = State::Parked(Reason::Status);
        let table = [
            ("completed", record(State::Completed), Admission::Replay),
            ("pending, nobody at it", sent(State::Pending, 5), Admission::TakeOver),
            ("parked inside its window", sent(parked, 89), Admission::TakeOver),
            ("parked, window closed", sent(parked, 90), Admission::Closed(State::Unknown)),
            ("parked, never sent", record(parked), Admission::TakeOver),
            ("held", held(sent(State::Pending, 5)), Admission::InFlight(Duration::from_secs(7))),
            (
                "held past its window",
                held(sent(State::Pending, 95)),
                Admission::InFlight(Duration::from_secs(7)),
            ),
            ("unknown", sent(State::Unknown, 5), Admission::Closed(State::Unknown)),
            (
                "given up after a send",
                sent(State::Abandoned, 5),
                Admission::Closed(State::Abandoned),
            ),
            ("given up unsent", record(State::Abandoned), Admission::TakeOver),
            ("killed below the limit", lost(sent(State::Pending, 5), 2), Admission::TakeOver),
            ("killed up to the limit", lost(sent(State::Pending, 5), 3), Admission::Spent),
            ("spent before", sent(State::Parked(Reason::Attempts), 5), Admission::Spent),
            (
                "sent in the future",
                back(sent(State::Pending, 0)),
                Admission::Closed(State::Parked(Reason::ClockWentBack)),
            ),
        ];
        for (rule, record, expected) in table {
            let fingerprint = record.draft.terms.fingerprint;
            assert_eq!(admit(&record, &fingerprint, 3), expected, "{rule}");
        }
        let other = Fingerprint::new(&http::Method::POST, "http://b.test/", None, b"");
        assert_eq!(admit(&record(State::Completed), &other, 3), Admission::Mismatch);
    }

    #[test]
    fn the_resumer_resends_only_inside_the_window() {
        assert_eq!(recover(&record(State::Pending)), Recovery::Resend);
        assert_eq!(recover(&sent(State::Pending, 89)), Recovery::Resend);
        assert_eq!(recover(&sent(State::Pending, 90)), Recovery::Unknown);
        let mut killed = sent(State::Pending, 5);
        killed.lost = MOST_LOST;
        assert_eq!(recover(&killed), Recovery::Resend, "the claim itself is counted");
        killed.lost = MOST_LOST + 1;
        assert_eq!(recover(&killed), Recovery::Unknown);
        let mut back = sent(State::Pending, 0);
        back.ages.clock_went_back = true;
        assert_eq!(recover(&back), Recovery::Park(Reason::ClockWentBack));
    }
}
