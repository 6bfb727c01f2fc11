//! The exit codes.
//!
//! An answer on the last attempt decides, whatever is known of the effect; without one, whether the
//! request was certainly not sent.

use std::process::ExitCode;

use http::StatusCode;
use post_once::Effect;

/// The codes as the help of `send` shows them.
pub(crate) const HELP: &str = "\
Exit codes:
    0  answered 2xx
    3  answered 3xx (redirects are not followed)
    4  answered 4xx
    5  answered 5xx
    6  no answer, and the write may have happened (also: still in progress,
       in flight elsewhere, parked or unknown in the journal); standard error names
       the key and the command that goes on
    7  no answer, and this command certainly sent nothing
    2  a flag, URL, key, header or body was refused, or the operation's name stands
       for another request; nothing was sent
    8  the journal failed, the HTTP client could not be set up, or the output not
       be written
  130  interrupted; standard error names the key and the command that goes on";

/// The codes as the help of `resume` shows them.
pub(crate) const RESUME_HELP: &str = "\
Exit codes:
    0  done, or stopped by SIGTERM while watching
    6  an operation that was touched ended parked or unknown; standard error
       names its key and the command that goes on
    2  something given was refused; nothing was sent
    8  the journal failed, or the HTTP client could not be set up
  130  interrupted; what was under way is released";

/// The codes as the help of `check` shows them.
pub(crate) const CHECK_HELP: &str = "\
Exit codes:
    0  a client may retry safely: the same request twice, two at once and a cut
       connection (over plain http) end in one effect and one answer, and a
       changed body is not processed
    9  the contract is not kept, or that it is kept was not shown
    3  the first request was answered 3xx; nothing more was tried
    4  the first request was answered 4xx; nothing more was tried
    5  the first request was answered 5xx; nothing more was tried
    6  the first request had no answer, and may have happened
    7  the server cannot be reached; nothing was sent
    2  a flag, URL, header or body was refused, or the number to count effects by
       is not there; nothing was sent
    8  the HTTP client could not be set up, or the output not be written";

/// How the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: answered by a 2xx; or what was asked for is done.
    Success,
    /// 2: something given was refused, and nothing was sent.
    Refused,
    /// 3: answered by a 3xx.
    Redirected,
    /// 4: answered by a 4xx.
    ClientError,
    /// 5: answered by a 5xx.
    ServerError,
    /// 6: no answer, and the write may have happened.
    Unknown,
    /// 7: no answer, and certainly not sent by this command.
    NotSent,
    /// 8: the surroundings do not allow it: journal, client, port, output.
    Environment,
    /// 9: the contract is not kept, or not shown to be.
    NotKept,
    /// 130: interrupted.
    Interrupted,
}

impl Exit {
    /// After an answer on the last attempt.
    pub(crate) fn after_answer(status: StatusCode) -> Exit {
        match status.as_u16() {
            200..=299 => Exit::Success,
            300..=399 => Exit::Redirected,
            400..=499 => Exit::ClientError,
            _ => Exit::ServerError,
        }
    }

    /// Without an answer.
    pub(crate) fn without_answer(effect: Effect) -> Exit {
        match effect {
            Effect::NotSent => Exit::NotSent,
            _ => Exit::Unknown,
        }
    }

    fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Refused => 2,
            Exit::Redirected => 3,
            Exit::ClientError => 4,
            Exit::ServerError => 5,
            Exit::Unknown => 6,
            Exit::NotSent => 7,
            Exit::Environment => 8,
            Exit::NotKept => 9,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_decides_by_its_class() {
        for (status, code) in [
            (200, 0),
            (201, 0),
            (299, 0),
            (300, 3),
            (307, 3),
            (400, 4),
            (409, 4),
            (429, 4),
            (500, 5),
            (503, 5),
            (599, 5),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(Exit::after_answer(status).code(), code, "{status}");
        }
    }

    #[test]
    fn without_an_answer_only_certainty_is_not_sent() {
        for (effect, code) in [(Effect::NotSent, 7), (Effect::Unknown, 6), (Effect::Answered, 6)] {
            assert_eq!(Exit::without_answer(effect).code(), code, "{effect}");
        }
    }

    #[test]
    fn every_code_stands_in_the_help_and_no_two_are_the_same() {
        let all = [
            Exit::Success,
            Exit::Redirected,
            Exit::ClientError,
            Exit::ServerError,
            Exit::Unknown,
            Exit::NotSent,
            Exit::Refused,
            Exit::Environment,
            Exit::Interrupted,
        ];
        let documented = |help: &str| -> Vec<u8> {
            help.lines().skip(1).filter_map(|line| line.get(..5)?.trim().parse().ok()).collect()
        };
        assert_eq!(documented(HELP), all.map(Exit::code));
        let of_check = [
            Exit::Success,
            Exit::NotKept,
            Exit::Redirected,
            Exit::ClientError,
            Exit::ServerError,
            Exit::Unknown,
            Exit::NotSent,
            Exit::Refused,
            Exit::Environment,
        ];
        assert_eq!(documented(CHECK_HELP), of_check.map(Exit::code));
    }
}
