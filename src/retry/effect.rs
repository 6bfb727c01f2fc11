//! What is known of the write itself, over all attempts.

use std::fmt;

use super::Known;

/// What is known of the write: whether it may have happened.
///
/// It is said by every report and every error. It speaks of *knowledge*: an
/// `Unknown` write may well have happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// It certainly did not happen through this operation: no attempt reached the server.
    NotSent,
    /// The server told what happened: success, a marked replay, or a refusal.
    Answered,
    /// It may or may not have happened. Ask again with the same key, or reconcile.
    Unknown,
}

impl Effect {
    /// The stable name, in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Effect::NotSent => "not_sent",
            Effect::Answered => "answered",
            Effect::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One attempt's outcome, as far as the effect depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) known: Known,
    /// The status, if a whole answer came.
    pub(crate) status: Option<u16>,
    /// The contract says that this status is given by code that has looked at the key.
    pub(crate) behind_key: bool,
}

impl Answer {
    /// What is known while an attempt is under way, and for good if the call is dropped then.
    const NONE_YET: Answer = Answer { known: Known::Ambiguous, status: None, behind_key: false };
}

/// What the attempts of an operation add up to. Kept for as long as the operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct History {
    /// Of the attempts before the last: one of them may have reached the server.
    sent: bool,
    /// Of the attempts before the last: the server may have carried one of them out.
    may_have_acted: bool,
    last: Option<Answer>,
}

impl History {
    /// Begins an attempt: unless it is told how it ended, it may have done anything.
    pub(crate) fn open(&mut self) {
        if let Some(previous) = self.last {
            self.sent |= !previous.known.is_not_sent();
            self.may_have_acted |= may_have_acted(previous);
        }
        self.last = Some(Answer::NONE_YET);
    }

    /// Ends the attempt that was begun last.
    pub(crate) fn close(&mut self, answer: Answer) {
        self.last = Some(answer);
    }

    /// What is known of the write after all attempts so far.
    pub(crate) fn effect(&self) -> Effect {
        let Some(last) = self.last else { return Effect::NotSent };
        let told = match last.known {
            Known::Replayed | Known::DoneBefore | Known::Rejected => true,
            Known::Mismatch => !self.may_have_acted || last.behind_key,
            // Even a 200 from elsewhere may be a page for people to log in on.
            Known::Redirected => false,
            _ => match last.status {
                Some(200..=299) => true,
                Some(409) | None => false,
                Some(400..=499) => {
                    last.known != Known::InProgress && (!self.may_have_acted || last.behind_key)
                }
                Some(_) => false,
            },
        };
        if told {
            Effect::Answered
        } else if last.known.is_not_sent() && !self.sent {
            Effect::NotSent
        } else {
            Effect::Unknown
        }
    }
}

/// Whether the server may have carried the operation out in this attempt, or be doing so.
fn may_have_acted(answer: Answer) -> bool {
    match answer.known {
        Known::NotSent
        | Known::NotSentPermanent
        | Known::RefusedByProtocol
        | Known::Mismatch
        | Known::Rejected => false,
        Known::InProgress | Known::Redirected => true,
        _ => !matches!(answer.status, Some(400..=408 | 410..=499)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16) -> Answer {
        Answer { known: Known::from_status(status), status: Some(status), behind_key: false }
    }

    fn known(known: Known) -> Answer {
        Answer { known, status: None, behind_key: false }
    }

    fn signalled(known: Known, status: u16) -> Answer {
        Answer { known, status: Some(status), behind_key: false }
    }

    fn effect(answers: &[Answer]) -> Effect {
        let mut history = History::default();
        for answer in answers {
            history.open();
            history.close(*answer);
        }
        history.effect()
    }

    #[test]
    fn effect_follows_from_the_answers() {
        use Effect::{Answered, NotSent, Unknown};
        let lost = known(Known::Ambiguous);
        let refused = known(Known::NotSent);
        let elsewhere = signalled(Known::Redirected, 404);
        let behind_key = Answer { behind_key: true, ..answer(400) };
        let table: &[(&str, &[Answer], Effect)] = &[
            ("nothing was tried", &[], NotSent),
            ("every attempt was not sent", &[refused, refused], NotSent),
            ("a refused stream was not sent", &[known(Known::RefusedByProtocol)], NotSent),
            ("an untrusted certificate", &[known(Known::NotSentPermanent)], NotSent),
            ("lost, then not sent", &[lost, refused], Unknown),
            ("not sent, then lost", &[refused, lost], Unknown),
            ("throttled, then not sent", &[answer(429), refused], Unknown),
            ("not recognised", &[known(Known::Unclassified)], Unknown),
            ("2xx", &[answer(201)], Answered),
            ("2xx after a lost answer", &[lost, answer(201)], Answered),
            ("a 4xx at first", &[answer(400)], Answered),
            ("a 4xx after not sent", &[refused, answer(404)], Answered),
            ("a 429 at first", &[answer(429)], Answered),
            ("a 429 after 429", &[answer(429), answer(429)], Answered),
            ("a 4xx after a lost answer", &[lost, answer(400)], Unknown),
            ("a 4xx after 503", &[answer(503), answer(400)], Unknown),
            ("a 4xx from behind the key, after a lost answer", &[lost, behind_key], Answered),
            ("a bare 409", &[answer(409)], Unknown),
            ("a 4xx after a bare 409", &[answer(409), answer(400)], Unknown),
            ("still in progress", &[signalled(Known::InProgress, 409)], Unknown),
            ("in progress, said with 425", &[signalled(Known::InProgress, 425)], Unknown),
            ("done before, said with 409", &[lost, signalled(Known::DoneBefore, 409)], Answered),
            ("mismatch, said with 409", &[signalled(Known::Mismatch, 409)], Answered),
            ("mismatch after a lost answer", &[lost, signalled(Known::Mismatch, 422)], Unknown),
            ("a marked replay of a 500", &[lost, signalled(Known::Replayed, 500)], Answered),
            ("rejected by the key's layer", &[lost, signalled(Known::Rejected, 412)], Answered),
            ("500", &[answer(500)], Unknown),
            ("503", &[answer(503)], Unknown),
            ("a redirect", &[answer(307)], Unknown),
            ("a 2xx from elsewhere", &[signalled(Known::Redirected, 200)], Unknown),
            ("a 4xx from elsewhere", &[signalled(Known::Redirected, 404)], Unknown),
            ("a 4xx after one from elsewhere", &[elsewhere, answer(404)], Unknown),
        ];
        for (rule, answers, expected) in table {
            assert_eq!(effect(answers), *expected, "{rule}");
        }
    }

    // O-17.
    #[test]
    fn an_attempt_that_was_dropped_may_have_been_carried_out() {
        let mut history = History::default();
        history.open();
        assert_eq!(history.effect(), Effect::Unknown);
        for after in [known(Known::NotSent), answer(400)] {
            history.open();
            history.close(after);
            assert_eq!(history.effect(), Effect::Unknown, "{after:?}");
        }
    }
}
