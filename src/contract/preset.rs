//! The servers that are known. Facts are those of their documentation and SDKs, read 2026-11-29.
//! Where two windows are documented the shorter is taken; what is not verified is generic.

use std::borrow::Cow;
use std::sync::LazyLock;
use std::time::Duration;

use http::{HeaderName, Method};

use super::rule::{Meaning, Rule, Signal};
use super::{Carrier, Contract, ContractBuilder, Terms};
use crate::key::{Alphabet, KeyFormat, KeyRule, UuidRule};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The error type of a key that was used with another request. Of other statuses it is not known.
const STRIPE_MISMATCH: Rule =
    Rule::new(Meaning::Mismatch).statuses(&[400]).body_value("/error/type", "idempotency_error");
/// The error code of a key whose first request is still being worked on. Source: the provider's page
/// of error codes.
const STRIPE_IN_PROGRESS: Rule = Rule::new(Meaning::InProgress)
    .statuses(&[409])
    .body_value("/error/code", "idempotency_key_in_use");
const PAYPAL_MISMATCH: Rule = Rule::new(Meaning::Mismatch).statuses(&[400, 409, 422]);

const MARKED_REPLAYED: Rule =
    Rule::new(Meaning::Replayed).header_values("idempotent-replayed", &["true"]);
const MARKED_REPLAYED_TOO: Rule =
    Rule::new(Meaning::Replayed).header_values("idempotency-replayed", &["true"]);
const STATUS_REPLAYED: Rule =
    Rule::new(Meaning::Replayed).header_values("idempotency-status", &["replayed"]);
const CONFLICT_WITH_A_WAIT: Rule =
    Rule::new(Meaning::InProgress).statuses(&[409]).header("retry-after");

impl Terms {
    pub(super) fn generic() -> Terms {
        let rules = [MARKED_REPLAYED, MARKED_REPLAYED_TOO, STATUS_REPLAYED, CONFLICT_WITH_A_WAIT];
        Terms {
            name: Cow::Borrowed("generic"),
            carrier: Carrier::Header(HeaderName::from_static("idempotency-key")),
            first_sent_header: None,
            format: KeyFormat::Hyphenated,
            keys: KeyRule::any(),
            keyed_methods: Vec::new(),
            window: Some(DAY),
            window_by_path: Vec::new(),
            margin: None,
            signals: rules.map(|rule| Signal::new(rule).expect("each has a header test")).into(),
            retry_hint: None,
            retry_after_ms: None,
            advertised_window: Some(HeaderName::from_static("idempotency-key-lifetime")),
            rejects_behind_key: Vec::new(),
            request_id_headers: ["x-request-id", "request-id"].map(HeaderName::from_static).into(),
            closed_by: Vec::new(),
            operation_headers: Vec::new(),
        }
    }
}

macro_rules! presets {
    ($($(#[$doc:meta])* $name:ident => $terms:expr;)*) => {
        impl Contract {
            $($(#[$doc])*
            #[must_use]
            pub fn $name() -> Contract {
                static PRESET: LazyLock<Contract> =
                    LazyLock::new(|| preset(stringify!($name), $terms));
                PRESET.clone()
            })*
        }

        const PRESETS: &[(&str, fn() -> Contract)] = &[$((stringify!($name), Contract::$name)),*];
    };
}

presets! {
    /// A server of which nothing is known but that it takes keys: `Idempotency-Key` as it is, 24
    /// hours, in progress by a 409 with `Retry-After`, the usual three replay markers, and the
    /// window that it advertises in `Idempotency-Key-Lifetime`. All other presets start from here.
    generic => |generic| generic;

    /// draft-ietf-httpapi-idempotency-key-header-07: the key is a quoted string (§2.1).
    ///
    /// The draft says 409 for "in progress" and 422 for "used with another request", but both
    /// statuses have other meanings too: a 409 needs `Retry-After`, and a 422 stays the caller's.
    /// It gives no window: 24 hours. Read 2026-11-29.
    ietf => |generic| generic.format(KeyFormat::Quoted);

    /// Stripe, API v1: 24 hours ("at least", then a new request).
    ///
    /// `Stripe-Should-Retry` is obeyed. A stored answer, a 500 included, comes back marked. A 402
    /// is the outcome of an execution, and so tells what became of earlier attempts; 401 and 429
    /// come before the keys are looked at, and of 400 and 404 it is not verified. Source:
    /// documentation and SDK, 2026-11-29.
    stripe => |generic| generic
        .rule(STRIPE_MISMATCH)
        .rule(STRIPE_IN_PROGRESS)
        .retry_hint("stripe-should-retry")
        .rejects_behind_key([402])
        .operation_header("stripe-account")
        .operation_header("stripe-version")
        .request_id_header("request-id");

    /// Stripe, API v2: 30 days, and DELETE takes a key too.
    ///
    /// Work that failed is taken up again by a retry instead of being replayed. Not verified: the
    /// signals for "in progress" and mismatch (those of v1 and the generic ones are used). Source:
    /// documentation and SDK, 2026-11-29.
    stripe_v2 => |generic| generic
        .keyed_methods([Method::DELETE])
        .window(30 * DAY)
        .rule(STRIPE_MISMATCH)
        .rule(STRIPE_IN_PROGRESS)
        .retry_hint("stripe-should-retry")
        .operation_header("stripe-account")
        .operation_header("stripe-context")
        .operation_header("stripe-version")
        .request_id_header("request-id");

    /// PayPal: `PayPal-Request-Id`, 1 to 108 characters. The window is that of the path: 6 hours
    /// for orders, 72 hours for plans, 45 days for captures, and 3 hours everywhere else.
    ///
    /// A repetition gets the latest status of the first request, not its bytes. "May fail the
    /// second" of two at once has no documented signal: the generic one is used. Not verified:
    /// where in the body `DUPLICATE_REQUEST_ID` stands (both places of its error format are
    /// looked at). Source: documentation and SDK, 2026-11-29.
    paypal => |generic| generic
        .key_header("paypal-request-id")
        .keys(KeyRule::any().max_len(108))
        .window(3 * HOUR)
        .window_for_path("/v2/checkout/orders", 6 * HOUR)
        .window_for_path("/v1/billing/plans", 72 * HOUR)
        .window_for_path("/v2/payments/captures", 45 * DAY)
        .rule(PAYPAL_MISMATCH.body_value("/name", "DUPLICATE_REQUEST_ID"))
        .rule(PAYPAL_MISMATCH.body_value("/details/0/issue", "DUPLICATE_REQUEST_ID"))
        .request_id_header("paypal-debug-id");

    /// Adyen: at most 64 characters, 7 days.
    ///
    /// Older pages promise 31 days or more; the shorter is taken. Keys count per company account
    /// and region. Not verified: the signals, the generic ones are used. Source: documentation,
    /// 2026-11-29.
    adyen => |generic| generic.keys(KeyRule::any().max_len(64)).window(7 * DAY);

    /// Plaid: the body member `idempotency_key`, at most 50 characters, 48 hours.
    ///
    /// Not verified: the signals, the generic ones are used. Source: documentation and SDK,
    /// 2026-11-29.
    plaid => |generic| generic
        .key_member("idempotency_key")
        .keys(KeyRule::any().max_len(50))
        .window(2 * DAY);

    /// Checkout.com: `Cko-Idempotency-Key`, a UUIDv4, 24 hours.
    ///
    /// Another page says 72 hours; the shorter is taken. Only successes are kept, so a request
    /// that was refused runs again. Not verified: the signals, the generic ones are used. Source:
    /// documentation, 2026-11-29.
    checkout_com => |generic| generic
        .key_header("cko-idempotency-key")
        .keys(KeyRule::any().uuid(UuidRule::V4))
        .request_id_header("cko-request-id");

    /// Modern Treasury: 24 hours.
    ///
    /// A key counts whatever the route, so a key used for two endpoints replays the first. It
    /// counts per API key: a rotated credential runs the operation again. Only successes are kept.
    /// Not verified: which keys are accepted. Source: documentation, 2026-11-29.
    modern_treasury => |generic| generic;

    /// Dwolla: a UUID, 24 hours.
    ///
    /// After a 500 a key has been seen stuck in progress for the whole 24 hours. Source:
    /// documentation, 2026-11-29.
    dwolla => |generic| generic.keys(KeyRule::any().uuid(UuidRule::Any));

    /// Klarna: `Klarna-Idempotency-Key`, a UUID, 24 hours.
    ///
    /// Klarna asks for version 5, made from your own identifiers: bring such a key if you can; a
    /// minted one is of version 4. Not verified: the signals, the generic ones are used. Source:
    /// documentation, 2026-11-29.
    klarna => |generic| generic
        .key_header("klarna-idempotency-key")
        .keys(KeyRule::any().uuid(UuidRule::Any));

    /// Amazon Pay: `x-amz-pay-idempotency-key`, at most 32 characters of `A-Z a-z 0-9 _ -` and so
    /// a UUID without its hyphens; kept for ever.
    ///
    /// Keys count per merchant account. Not verified: the signal for "in progress", the generic
    /// one is used. Source: documentation, 2026-11-29.
    amazon_pay => |generic| generic
        .key_header("x-amz-pay-idempotency-key")
        .format(KeyFormat::Simple)
        .keys(KeyRule::any().max_len(32).alphabet(Alphabet::Token))
        .no_window()
        .rule(
            Rule::new(Meaning::Mismatch)
                .statuses(&[400])
                .body_value("/reasonCode", "DuplicateIdempotencyKey"),
        )
        .request_id_header("x-amz-pay-request-id");

    /// Azure services with repeatable requests (OASIS Repeatable Requests 1.0):
    /// `Repeatability-Request-ID`, a GUID, with `Repeatability-First-Sent`; 5 minutes.
    ///
    /// `Repeatability-Result: rejected` with 400 means that nothing was done under this key. With
    /// 412 it means that the window is over, which says nothing about earlier attempts: such an
    /// answer stays the caller's. `accepted` comes with first executions too and marks no replay.
    /// Source: documentation and specification, 2026-11-29.
    azure_repeatability => |generic| generic
        .key_header("repeatability-request-id")
        .first_sent_header("repeatability-first-sent")
        .keys(KeyRule::any().uuid(UuidRule::Any))
        .window(5 * MINUTE)
        .rule(
            Rule::new(Meaning::Rejected)
                .statuses(&[400])
                .header_values("repeatability-result", &["rejected"]),
        )
        .request_id_header("x-ms-request-id");

    /// Resend: 24 hours, at most 256 characters (255 here, the most of any key).
    ///
    /// Not verified: what its 409 means, the generic signals are used. Source: documentation,
    /// 2026-11-29.
    resend => |generic| generic;

    /// Zuora: less than 255 characters, 24 hours; every answer is kept, failures too.
    ///
    /// A 422 may be a mismatch or a plain refusal, and stays the caller's. Source: documentation,
    /// 2026-11-29.
    zuora => |generic| generic.keys(KeyRule::any().max_len(254));

    /// Qonto: `X-Qonto-Idempotency-Key`, 30 minutes, then a new resource.
    ///
    /// The body is not compared: a key that is used again replays the first answer, whatever is
    /// sent. Only successes are kept. Not verified: which keys are accepted, and the signals.
    /// Source: documentation, 2026-11-29.
    qonto => |generic| generic.key_header("x-qonto-idempotency-key").window(30 * MINUTE);

    /// TrueLayer: a UUIDv4, 6 hours.
    ///
    /// Other pages say 30 days; the shorter is taken. The key is part of what the request
    /// signature covers: sign inside, once per attempt. Not verified: the signals, the generic
    /// ones are used. Source: documentation, 2026-11-29.
    truelayer => |generic| generic
        .keys(KeyRule::any().uuid(UuidRule::V4))
        .window(6 * HOUR);

    /// PPRO: `Request-Idempotency-Key`, 24 hours; a stored answer says `Request-Idempotency: true`.
    ///
    /// A 4xx is not kept. Not verified: which keys are accepted. Source: documentation,
    /// 2026-11-29.
    ppro => |generic| generic
        .key_header("request-idempotency-key")
        .rule(Rule::new(Meaning::Replayed).header_values("request-idempotency", &["true"]));
}

fn preset(name: &str, terms: fn(ContractBuilder) -> ContractBuilder) -> Contract {
    terms(Contract::builder(name)).build().expect("every preset is built by a test")
}

impl Contract {
    /// The preset of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Contract> {
        PRESETS.iter().find(|(other, _)| *other == name).map(|(_, preset)| preset())
    }

    /// All presets, from the most general to the particular.
    pub fn presets() -> impl Iterator<Item = Contract> {
        PRESETS.iter().map(|(_, preset)| preset())
    }
}

#[cfg(test)]
#[path = "preset_tests.rs"]
mod tests;
