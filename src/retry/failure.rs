//! What is known after an attempt that ended in an error.
//!
//! Read by *type*, never by text: the chain of causes is walked, also into
//! [`std::io::Error::get_ref`] (which `source()` skips) and into errors that a middleware below
//! wrapped. The types of hyper, h2 and rustls are private dependencies of reqwest: should its
//! versions and ours ever part, a downcast misses silently and the failure is
//! [`Known::Unclassified`], which is honest and never retried. One test per row over real sockets
//! shows that they have not parted.
//!
//! A wrapper whose `source()` skips the error that it wraps, and whose type is not known here, hides
//! that error but not its causes. What only the error itself could tell (a timeout of the HTTP
//! client, a request that cannot be built) is then [`Known::Unclassified`] as well.

use std::error::Error as StdError;
use std::io;

use super::Known;

/// Why an attempt failed, in the terms of the decision and of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) known: Known,
    /// A short, stable word for the cause: `connect`, `timeout`, `connection_lost` …
    pub(crate) kind: &'static str,
}

impl Failure {
    /// The attempt's own limit ran out. Whether the request had left by then is not known.
    pub(crate) const TIMEOUT: Failure = Failure { known: Known::Ambiguous, kind: "timeout" };

    /// Reads the error of a bare reqwest client.
    pub(crate) fn of_reqwest(error: &reqwest::Error) -> Failure {
        Clues::of(error).failure()
    }

    /// Reads the error of a body whose head had come. Whatever it says, the request was received.
    pub(crate) fn while_reading(error: &reqwest::Error) -> Failure {
        let failure = Failure::of_reqwest(error);
        let known = if failure.known.is_not_sent() { Known::Ambiguous } else { failure.known };
        Failure { known, ..failure }
    }

    /// Reads the error of a middleware stack, through whatever its middleware wrapped it in.
    pub(crate) fn of_stack(error: &reqwest_middleware::Error) -> Failure {
        Clues::of(error).failure()
    }
}

/// What the chain of causes contains.
#[derive(Default)]
struct Clues {
    builder: bool,
    connect: bool,
    tls: bool,
    timeout: bool,
    refused: bool,
    lost: bool,
}

impl Clues {
    fn of(error: &(dyn StdError + 'static)) -> Clues {
        let mut clues = Clues::default();
        clues.walk(error);
        clues
    }

    fn walk(&mut self, error: &(dyn StdError + 'static)) {
        let mut next = Some(error);
        while let Some(error) = next {
            self.look_at(error);
            next = error.source();
        }
    }

    fn look_at(&mut self, error: &(dyn StdError + 'static)) {
        if let Some(error) = error.downcast_ref::<reqwest_middleware::Error>() {
            // Both variants are transparent: their `source()` skips the error itself.
            match error {
                reqwest_middleware::Error::Middleware(error) => {
                    error.chain().for_each(|cause| self.look_at(cause));
                }
                reqwest_middleware::Error::Reqwest(error) => self.look_at(error),
            }
        } else if let Some(error) = error.downcast_ref::<reqwest::Error>() {
            self.builder |= error.is_builder();
            self.connect |= error.is_connect();
            self.timeout |= error.is_timeout();
        } else if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
            self.connect |= error.is_connect();
        } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
            self.timeout |= error.is_timeout();
            self.lost |= error.is_incomplete_message()
                || error.is_canceled()
                || error.is_closed()
                || error.is_body_write_aborted();
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            self.look_at_io(error);
        } else {
            self.look_at_protocols(error);
        }
    }

    fn look_at_io(&mut self, error: &io::Error) {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, TimedOut, UnexpectedEof,
        };
        match error.kind() {
            TimedOut => self.timeout = true,
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
                self.lost = true;
            }
            _ => {}
        }
        if let Some(inner) = error.get_ref() {
            self.walk(inner);
        }
    }

    #[cfg_attr(
        not(any(feature = "http2", feature = "rustls")),
        expect(unused_variables, clippy::unused_self, reason = "neither protocol is compiled in")
    )]
    fn look_at_protocols(&mut self, error: &(dyn StdError + 'static)) {
        #[cfg(feature = "rustls")]
        if error.is::<rustls::Error>() {
            self.tls = true;
        }
        #[cfg(feature = "http2")]
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            let refused_stream =
                error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            let going_away = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            self.refused |= error.is_remote() && (refused_stream || going_away);
            self.lost |= error.is_reset() || error.is_go_away() || error.is_io();
        }
    }

    fn failure(self) -> Failure {
        let (known, kind) = if self.builder {
            (Known::NotSentPermanent, "request")
        } else if self.connect && self.tls {
            (Known::NotSentPermanent, "tls")
        } else if self.connect {
            (Known::NotSent, "connect")
        } else if self.refused {
            (Known::RefusedByProtocol, "refused_by_protocol")
        } else if self.tls {
            (Known::Unclassified, "tls")
        } else if self.timeout {
            (Known::Ambiguous, "timeout")
        } else if self.lost {
            (Known::Ambiguous, "connection_lost")
        } else {
            (Known::Unclassified, "other")
        };
        Failure { known, kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(error: impl StdError + Send + Sync + 'static) -> Failure {
        Failure::of_stack(&reqwest_middleware::Error::middleware(error))
    }

    #[test]
    fn an_io_error_is_found_inside_another() {
        let lost = io::Error::from(io::ErrorKind::ConnectionReset);
        let wrapped = io::Error::other(io::Error::other(lost));
        assert_eq!(stack(wrapped).known, Known::Ambiguous);
    }

    #[test]
    fn an_error_of_unknown_kind_is_not_classified() {
        assert_eq!(stack(io::Error::other("token endpoint said no")).known, Known::Unclassified);
        assert_eq!(stack(io::Error::from(io::ErrorKind::InvalidData)).known, Known::Unclassified);
    }

    #[cfg(feature = "rustls")]
    #[test]
    fn a_tls_failure_outside_the_connect_is_not_classified() {
        let alert = rustls::Error::AlertReceived(rustls::AlertDescription::DecryptError);
        assert_eq!(
            stack(io::Error::new(io::ErrorKind::InvalidData, alert)).known,
            Known::Unclassified
        );
    }

    #[test]
    fn a_request_that_cannot_be_built_was_not_sent() {
        let error = reqwest::Client::new().get("no url").build().unwrap_err();
        assert_eq!(Failure::of_reqwest(&error).known, Known::NotSentPermanent);
        let wrapped = stack(error);
        assert_eq!(wrapped, Failure { known: Known::NotSentPermanent, kind: "request" });
    }
}
