//! What is known after one attempt.

use std::fmt;

/// What one attempt taught us, in the order in which it is looked for.
///
/// The text of each value ([`Display`](fmt::Display), [`Known::as_str`]) is stable: it is the
/// `known` of the command line's JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Known {
    /// A 3xx, or an answer from another URL than the one the request was sent to.
    Redirected,
    /// The server marked the answer as the stored one. It cannot change: final.
    Replayed,
    /// The server is still working on an earlier attempt under this key.
    InProgress,
    /// The operation had been carried out before; the answer names the resource.
    DoneBefore,
    /// The key was used with another request.
    Mismatch,
    /// The server said that it looked at the key and refused: nothing was done by this request.
    Rejected,
    /// The server asked for a retry by a header that its contract names.
    HintedRetry,
    /// The server asked for no retry by a header that its contract names.
    HintedStop,
    /// 429.
    Throttled,
    /// 502, 503 or 504.
    Unavailable,
    /// Any other status: the caller's.
    Final,
    /// No byte of the request went out, and that may change: refused, DNS, no route, connect
    /// timeout.
    NotSent,
    /// No byte of the request went out, and that will not change by itself: an untrusted
    /// certificate, an unusable URL.
    NotSentPermanent,
    /// The HTTP/2 peer declared the request unprocessed (RFC 9113 §8.7).
    RefusedByProtocol,
    /// The request may have been carried out: the connection or the answer was lost, or the time
    /// ran out.
    Ambiguous,
    /// A failure that is not recognised. It may have been carried out, and whether a retry could
    /// help is not known.
    Unclassified,
}

impl Known {
    const ALL: [Known; 16] = [
        Known::Redirected,
        Known::Replayed,
        Known::InProgress,
        Known::DoneBefore,
        Known::Mismatch,
        Known::Rejected,
        Known::HintedRetry,
        Known::HintedStop,
        Known::Throttled,
        Known::Unavailable,
        Known::Final,
        Known::NotSent,
        Known::NotSentPermanent,
        Known::RefusedByProtocol,
        Known::Ambiguous,
        Known::Unclassified,
    ];

    /// Reads a stable name back. One of a newer version is not recognised, which claims nothing.
    pub(crate) fn from_name(name: &str) -> Known {
        let mut all = Known::ALL.into_iter();
        all.find(|known| known.as_str() == name).unwrap_or(Known::Unclassified)
    }

    /// The stable name, in snake case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Known::Redirected => "redirected",
            Known::Replayed => "replayed",
            Known::InProgress => "in_progress",
            Known::DoneBefore => "done_before",
            Known::Mismatch => "mismatch",
            Known::Rejected => "rejected",
            Known::HintedRetry => "hinted_retry",
            Known::HintedStop => "hinted_stop",
            Known::Throttled => "throttled",
            Known::Unavailable => "unavailable",
            Known::Final => "final",
            Known::NotSent => "not_sent",
            Known::NotSentPermanent => "not_sent_permanent",
            Known::RefusedByProtocol => "refused_by_protocol",
            Known::Ambiguous => "ambiguous",
            Known::Unclassified => "unclassified",
        }
    }

    /// What a status says when nothing else does.
    #[must_use]
    pub const fn from_status(status: u16) -> Known {
        match status {
            300..=399 => Known::Redirected,
            429 => Known::Throttled,
            502..=504 => Known::Unavailable,
            _ => Known::Final,
        }
    }

    /// What this asks for, limits aside.
    pub(crate) const fn wish(self) -> Wish {
        match self {
            Known::InProgress => Wish::Wait,
            Known::HintedRetry
            | Known::Throttled
            | Known::Unavailable
            | Known::NotSent
            | Known::RefusedByProtocol
            | Known::Ambiguous => Wish::Retry,
            Known::Redirected
            | Known::Replayed
            | Known::DoneBefore
            | Known::Mismatch
            | Known::Rejected
            | Known::HintedStop
            | Known::Final
            | Known::NotSentPermanent
            | Known::Unclassified => Wish::Stop,
        }
    }

    /// Whether no other attempt follows, whatever the limits.
    pub(crate) const fn is_the_end(self) -> bool {
        matches!(self.wish(), Wish::Stop)
    }

    /// Whether it speaks of the request's key, which not every request has.
    pub(crate) const fn is_about_keys(self) -> bool {
        matches!(
            self,
            Known::Replayed
                | Known::InProgress
                | Known::DoneBefore
                | Known::Mismatch
                | Known::Rejected
        )
    }

    /// Whether it is certain that the peer did not act on the request.
    pub(crate) const fn is_not_sent(self) -> bool {
        matches!(self, Known::NotSent | Known::NotSentPermanent | Known::RefusedByProtocol)
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an outcome asks for before any limit is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Stop,
    Retry,
    Wait,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_429_502_503_504_are_retried_by_status_alone() {
        let retried: Vec<u16> =
            (100..=599).filter(|s| Known::from_status(*s).wish() == Wish::Retry).collect();
        assert_eq!(retried, [429, 502, 503, 504]);
        assert!((100..=599).all(|s| Known::from_status(s).wish() != Wish::Wait));
    }

    #[test]
    fn names_are_read_back() {
        for known in Known::ALL {
            assert_eq!(Known::from_name(known.as_str()), known);
        }
        assert_eq!(Known::from_name("of a newer version"), Known::Unclassified);
    }

    #[test]
    fn every_3xx_is_a_redirect() {
        let redirects: Vec<u16> =
            (100..=599).filter(|s| Known::from_status(*s) == Known::Redirected).collect();
        assert_eq!(redirects, (300..=399).collect::<Vec<_>>());
    }
}
