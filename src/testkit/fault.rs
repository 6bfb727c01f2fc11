//! One entry of the script: what goes wrong with one request.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION, RETRY_AFTER};

use super::answer::Answer;

/// What goes wrong with one request that is not safe (neither GET nor HEAD).
///
/// Made by the functions below; as text by [`FromStr`]: `close`, `cut`, `reset`, `hang=2s`, `503`,
/// `429:ra=2`. [`Display`](fmt::Display) gives the text that the log shows after `fault`.
///
/// *The effect* is a charge, made once per key. "After the effect" means that the charge is made
/// and its answer stored under the key before anything goes wrong, so that a second request with
/// the same key is a replay. If the key is known already there is no new effect, and what goes
/// wrong goes wrong with the replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Answer(Answer),
    ReplayedAnswer(Answer),
    /// The body is left unread.
    Unread(Unread),
    HangBefore(Duration),
    Delay(Duration),
    Duplicate,
    /// The effect, then this.
    After(Delivery),
}

/// How a request ends of which the head was read, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unread {
    Close,
    RefuseStream,
    GoAway,
}

/// How a protocol hands an answer over, if not simply as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    Late(Duration),
    Drip(Duration),
    Cut,
    Endless,
    Close,
    Reset,
    Garbage,
}

/// Without an effect, or before it.
impl Fault {
    /// Answers `code`, with a problem document as body and without an effect.
    ///
    /// # Panics
    /// If `code` is not from 200 to 599.
    pub fn status(code: u16) -> Self {
        Self { kind: Kind::Answer(Answer::refusal(final_status(code))) }
    }

    /// Answers `code` with `Location: location`, without an effect here.
    ///
    /// # Panics
    /// If `code` is not from 300 to 399, or `location` is no header value.
    pub fn redirect(code: u16, location: &str) -> Self {
        assert!((300..400).contains(&code), "{code} is no redirection");
        Self::status(code).header(LOCATION.as_str(), location)
    }

    /// Answers `code` and stores the answer under the key, without an effect: each later request
    /// with the key gets it again, with `Idempotency-Replayed: true`.
    ///
    /// # Panics
    /// If `code` is not from 200 to 599.
    pub fn replayed_status(code: u16) -> Self {
        Self { kind: Kind::ReplayedAnswer(Answer::refusal(final_status(code))) }
    }

    /// Closes the connection as soon as the head of the request is there; its body is not read.
    pub fn close_before_reading() -> Self {
        Self { kind: Kind::Unread(Unread::Close) }
    }

    /// Does nothing for `time`, then serves the request as if nothing had been, even if the client
    /// has left: a request that arrives late.
    pub fn hang_before(time: Duration) -> Self {
        Self { kind: Kind::HangBefore(time) }
    }

    /// Resets the stream with `REFUSED_STREAM`, which promises that nothing was done (RFC 9113
    /// §8.7). Over HTTP/1.1, which cannot say so, the same as [`close_before_reading`].
    ///
    /// [`close_before_reading`]: Self::close_before_reading
    pub fn refuse_stream() -> Self {
        Self { kind: Kind::Unread(Unread::RefuseStream) }
    }

    /// Sends `GOAWAY` with `NO_ERROR` and a last stream below this one (RFC 9113 §6.8), then
    /// closes. Over HTTP/1.1, which cannot say so, the same as [`close_before_reading`].
    ///
    /// [`close_before_reading`]: Self::close_before_reading
    pub fn goaway() -> Self {
        Self { kind: Kind::Unread(Unread::GoAway) }
    }
}

/// With the effect, and something else.
impl Fault {
    /// Takes `time` for the effect, with the key marked as in progress: another request with the
    /// key meets 409 until then. Goes on if the client leaves.
    pub fn delay(time: Duration) -> Self {
        Self { kind: Kind::Delay(time) }
    }

    /// Delivers the request twice, as by a proxy that repeats it: the second delivery meets the
    /// first in progress, and its 409 is what the client gets. The effect happens once, at the
    /// latest after the server's own delay; twice if the request has no key.
    pub fn duplicate() -> Self {
        Self { kind: Kind::Duplicate }
    }
}

/// After the effect.
impl Fault {
    /// Closes the connection without a byte of the answer.
    pub fn close() -> Self {
        Self { kind: Kind::After(Delivery::Close) }
    }

    /// Sends the head with the full `Content-Length` and 7 bytes of the body, then closes the
    /// connection.
    pub fn cut() -> Self {
        Self { kind: Kind::After(Delivery::Cut) }
    }

    /// Resets the connection (TCP RST) without a byte of the answer. Over HTTP/2: resets the
    /// stream with `INTERNAL_ERROR`.
    pub fn reset() -> Self {
        Self { kind: Kind::After(Delivery::Reset) }
    }

    /// Waits `time`, then answers.
    pub fn hang(time: Duration) -> Self {
        Self { kind: Kind::After(Delivery::Late(time)) }
    }

    /// Answers with one byte of the body per `interval`.
    pub fn drip(interval: Duration) -> Self {
        Self { kind: Kind::After(Delivery::Drip(interval)) }
    }

    /// Answers with a body that never ends: a byte every 100 ms after the whole answer.
    pub fn endless() -> Self {
        Self { kind: Kind::After(Delivery::Endless) }
    }

    /// Answers bytes that are no HTTP, then closes the connection.
    pub fn garbage() -> Self {
        Self { kind: Kind::After(Delivery::Garbage) }
    }
}

/// What a scripted answer says: for [`status`](Fault::status), [`redirect`](Fault::redirect) and
/// [`replayed_status`](Fault::replayed_status).
///
/// # Panics
/// Each of these if the fault is of another kind, and so has no answer of its own.
impl Fault {
    /// Adds `Retry-After: seconds`. For other forms of the field take [`header`](Self::header).
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.answer().headers.append(RETRY_AFTER, seconds.into());
        self
    }

    /// Adds a field; a second one of the same name is a second line.
    ///
    /// # Panics
    /// If name or value is not permitted in HTTP.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name: HeaderName = name.parse().expect("the caller gives the name of a field");
        let value = HeaderValue::from_bytes(value.as_ref());
        self.answer().headers.append(name, value.expect("the caller gives the value of a field"));
        self
    }

    /// Replaces the body. Its type stays `application/problem+json`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.answer().body = body.into();
        self
    }

    fn answer(&mut self) -> &mut Answer {
        let name = self.to_string();
        match &mut self.kind {
            Kind::Answer(answer) | Kind::ReplayedAnswer(answer) => answer,
            _ => panic!("the fault `{name}` has no answer of its own"),
        }
    }
}

impl Fault {
    /// How the request ends, if its body is to be left unread.
    pub(super) fn unread(&self) -> Option<Unread> {
        match self.kind {
            Kind::Unread(unread) => Some(unread),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Answer(answer) => {
                write!(f, "{}", answer.status.as_u16())?;
                match answer.headers.get(RETRY_AFTER).map(HeaderValue::to_str) {
                    Some(Ok(value)) => write!(f, ":ra={value}"),
                    _ => Ok(()),
                }
            }
            Kind::ReplayedAnswer(answer) => write!(f, "replayed {}", answer.status.as_u16()),
            Kind::Unread(Unread::Close) => f.write_str("close before reading"),
            Kind::Unread(Unread::RefuseStream) => f.write_str("refuse stream"),
            Kind::Unread(Unread::GoAway) => f.write_str("goaway"),
            Kind::HangBefore(time) => write!(f, "hang before={time:?}"),
            Kind::Delay(time) => write!(f, "delay={time:?}"),
            Kind::Duplicate => f.write_str("duplicate"),
            Kind::After(Delivery::Close) => f.write_str("close"),
            Kind::After(Delivery::Cut) => f.write_str("cut"),
            Kind::After(Delivery::Reset) => f.write_str("reset"),
            Kind::After(Delivery::Late(time)) => write!(f, "hang={time:?}"),
            Kind::After(Delivery::Drip(interval)) => write!(f, "drip={interval:?}"),
            Kind::After(Delivery::Endless) => f.write_str("endless"),
            Kind::After(Delivery::Garbage) => f.write_str("garbage"),
        }
    }
}

/// The text names no fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no fault; there are: close, cut, reset, hang=TIME (500ms, 2s, 1m, 1h), \
     a status from 200 to 599, and a status with Retry-After as in 429:ra=2"
)]
pub struct FaultError(String);

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parsed(text).ok_or_else(|| FaultError(text.to_owned()))
    }
}

fn parsed(text: &str) -> Option<Fault> {
    match text {
        "close" => return Some(Fault::close()),
        "cut" => return Some(Fault::cut()),
        "reset" => return Some(Fault::reset()),
        _ => {}
    }
    if let Some(time) = text.strip_prefix("hang=") {
        return duration(time).map(Fault::hang);
    }
    let (code, retry_after) = match text.split_once(":ra=") {
        Some((code, seconds)) => (code, Some(digits(seconds)?)),
        None => (text, None),
    };
    let code = u16::try_from(digits(code)?).ok().filter(|code| (200..600).contains(code))?;
    let fault = Fault::status(code);
    Some(match retry_after {
        Some(seconds) => fault.retry_after(seconds),
        None => fault,
    })
}

/// `500ms`, `2s`, `1m`, `1h`.
fn duration(text: &str) -> Option<Duration> {
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(unit);
    let number = digits(number)?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

/// Digits only: `parse` alone would take a sign.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn final_status(code: u16) -> StatusCode {
    assert!((200..600).contains(&code), "{code} is no final status: 200 to 599");
    StatusCode::from_u16(code).expect("200 to 599 is a status")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_form_is_read() {
        for (text, expected) in [
            ("close", Fault::close()),
            ("cut", Fault::cut()),
            ("reset", Fault::reset()),
            ("hang=500ms", Fault::hang(Duration::from_millis(500))),
            ("hang=2s", Fault::hang(Duration::from_secs(2))),
            ("hang=1m", Fault::hang(Duration::from_secs(60))),
            ("hang=1h", Fault::hang(Duration::from_secs(3600))),
            ("503", Fault::status(503)),
            ("429:ra=2", Fault::status(429).retry_after(2)),
            ("429:ra=0", Fault::status(429).retry_after(0)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_and_the_error_lists_the_forms() {
        for text in [
            "",
            "Close",
            "close ",
            "hang",
            "hang=",
            "hang=2",
            "hang=s",
            "hang=+2s",
            "hang=2d",
            "hang=18446744073709551615m",
            "99",
            "199",
            "600",
            "+503",
            "503:",
            "503:ra=",
            "503:ra=-1",
            "503:ra=x",
            "70000",
        ] {
            assert_eq!(text.parse::<Fault>(), Err(FaultError(text.to_owned())), "{text}");
        }
        assert_eq!(
            FaultError("boom".to_owned()).to_string(),
            "`boom` is no fault; there are: close, cut, reset, hang=TIME (500ms, 2s, 1m, 1h), \
             a status from 200 to 599, and a status with Retry-After as in 429:ra=2"
        );
    }

    #[test]
    fn text_that_can_be_read_is_shown_as_it_was() {
        for text in ["close", "cut", "reset", "hang=500ms", "hang=2s", "503", "429:ra=2"] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
    }

    #[test]
    #[should_panic(expected = "no answer of its own")]
    fn field_on_a_fault_without_an_answer_panics() {
        let _ = Fault::close().retry_after(1);
    }
}
