//! One row per preset.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::*;
use crate::contract::Reading;
use crate::key::IdempotencyKey;
use crate::retry::Known;

const V4: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
const V5: &str = "0f0e0d0c-0b0a-5908-8706-050403020100";

/// What a preset promises that the generic contract does not, or `generic` does itself.
struct Row {
    name: &'static str,
    /// A header, or with a colon before it a body member.
    carrier: &'static str,
    format: KeyFormat,
    /// Seconds; `None` is for ever.
    window: Option<u64>,
    accepted: &'static str,
    refused: Option<String>,
    replay_marker: (&'static str, &'static str),
}

const GENERIC: Row = Row {
    name: "generic",
    carrier: "idempotency-key",
    format: KeyFormat::Hyphenated,
    window: Some(86_400),
    accepted: "order-42",
    refused: None,
    replay_marker: ("idempotent-replayed", "true"),
};

fn row(name: &'static str, carrier: &'static str, window: u64) -> Row {
    Row { name, carrier, window: Some(window), ..GENERIC }
}

fn longer_than(max: usize) -> Option<String> {
    Some("x".repeat(max + 1))
}

fn other_than(key: &str) -> Option<String> {
    Some(key.to_owned())
}

fn rows() -> [Row; 18] {
    const DAY: u64 = 86_400;
    [
        GENERIC,
        Row { format: KeyFormat::Quoted, ..row("ietf", "idempotency-key", DAY) },
        row("stripe", "idempotency-key", DAY),
        row("stripe_v2", "idempotency-key", 30 * DAY),
        Row { refused: longer_than(108), ..row("paypal", "paypal-request-id", 3 * 3_600) },
        Row { refused: longer_than(64), ..row("adyen", "idempotency-key", 7 * DAY) },
        Row { refused: longer_than(50), ..row("plaid", ":idempotency_key", 2 * DAY) },
        Row {
            accepted: V4,
            refused: other_than(V5),
            ..row("checkout_com", "cko-idempotency-key", DAY)
        },
        row("modern_treasury", "idempotency-key", DAY),
        Row { accepted: V5, refused: other_than("k"), ..row("dwolla", "idempotency-key", DAY) },
        Row {
            accepted: V5,
            refused: other_than("k"),
            ..row("klarna", "klarna-idempotency-key", DAY)
        },
        Row {
            format: KeyFormat::Simple,
            window: None,
            accepted: V4,
            refused: other_than("order 42"),
            ..row("amazon_pay", "x-amz-pay-idempotency-key", 0)
        },
        Row {
            accepted: V5,
            refused: other_than("k"),
            ..row("azure_repeatability", "repeatability-request-id", 300)
        },
        row("resend", "idempotency-key", DAY),
        Row { refused: longer_than(254), ..row("zuora", "idempotency-key", DAY) },
        row("qonto", "x-qonto-idempotency-key", 1_800),
        Row {
            accepted: V4,
            refused: other_than(V5),
            ..row("truelayer", "idempotency-key", 6 * 3_600)
        },
        Row {
            replay_marker: ("request-idempotency", "true"),
            ..row("ppro", "request-idempotency-key", DAY)
        },
    ]
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect()
}

fn read(contract: &Contract, status: u16, fields: &[(&'static str, &'static str)]) -> Reading {
    contract.read_head(StatusCode::from_u16(status).unwrap(), &headers(fields), false)
}

/// What a 4xx with this JSON body is.
fn read_json(contract: &Contract, status: u16, body: &str) -> Known {
    assert_eq!(read(contract, status, &[]), Reading::NeedsBody, "{body}");
    contract.read_body(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
}

#[test]
fn every_preset_keeps_to_its_row() {
    let rows = rows();
    assert!(Contract::presets().map(|p| p.name().to_owned()).eq(rows.iter().map(|r| r.name)));
    for row in rows {
        let preset = Contract::named(row.name).unwrap();
        let carrier = match preset.carrier() {
            Carrier::Header(name) => name.to_string(),
            Carrier::Member(name) => format!(":{name}"),
        };
        assert_eq!(carrier, row.carrier, "{}", row.name);
        assert_eq!(preset.format(), row.format, "{}", row.name);
        let window = preset.window_for("/some/path").map(|window| window.length().as_secs());
        assert_eq!(window, row.window, "{}", row.name);
        let check = |key| preset.keys().check(&IdempotencyKey::parse(key).unwrap(), row.format);
        check(row.accepted).unwrap();
        check(V4).expect("minted keys are accepted everywhere");
        if let Some(refused) = &row.refused {
            assert!(check(refused).is_err(), "{}: {refused}", row.name);
        }
        let conflict = read(&preset, 409, &[("retry-after", "1")]);
        assert_eq!(conflict, Reading::Known(Known::InProgress), "{}", row.name);
        let replay = read(&preset, 500, &[row.replay_marker]);
        assert_eq!(replay, Reading::Known(Known::Replayed), "{}", row.name);
    }
}

#[test]
fn the_longest_key_of_every_length_limit_is_accepted() {
    for (name, max) in [("paypal", 108), ("adyen", 64), ("plaid", 50), ("zuora", 254)] {
        let key = IdempotencyKey::parse(&"x".repeat(max)).unwrap();
        let preset = Contract::named(name).unwrap();
        preset.keys().check(&key, preset.format()).unwrap();
    }
}

#[test]
fn no_preset_takes_a_bare_409_for_a_signal() {
    for preset in Contract::presets() {
        let known = match read(&preset, 409, &[]) {
            Reading::Known(known) => known,
            Reading::NeedsBody => read_json(&preset, 409, "{}"),
        };
        assert_eq!(known, Known::Final, "{}", preset.name());
    }
}

#[test]
fn paypal_windows_are_those_of_the_path() {
    let paypal = Contract::paypal();
    for (path, hours) in [
        ("/v2/checkout/orders", 6),
        ("/v2/checkout/orders/5O1/capture", 6),
        ("/v1/billing/plans", 72),
        ("/v2/payments/captures/2GG/refund", 45 * 24),
        ("/v2/payments/authorizations/0VF/capture", 3),
        ("/v3/vault/setup-tokens", 3),
        ("/v2/checkout/orders-old", 3),
    ] {
        let window = paypal.window_for(path).unwrap();
        assert_eq!(window.length(), hours * HOUR, "{path}");
    }
}

#[test]
fn provider_codes_for_a_mismatch_are_found_in_the_body() {
    for (preset, status, body) in [
        (Contract::stripe(), 400, r#"{"error":{"type":"idempotency_error"}}"#),
        (Contract::stripe_v2(), 400, r#"{"error":{"type":"idempotency_error"}}"#),
        (Contract::paypal(), 422, r#"{"details":[{"issue":"DUPLICATE_REQUEST_ID"}]}"#),
        (Contract::paypal(), 400, r#"{"name":"DUPLICATE_REQUEST_ID"}"#),
        (Contract::amazon_pay(), 400, r#"{"reasonCode":"DuplicateIdempotencyKey"}"#),
    ] {
        assert_eq!(read_json(&preset, status, body), Known::Mismatch, "{body}");
        assert_eq!(read_json(&preset, status, r#"{"error":{}}"#), Known::Final, "{body}");
    }
}

#[test]
fn azure_tells_a_refused_key_from_a_window_that_is_over() {
    let azure = Contract::azure_repeatability();
    let result = |status, value| read(&azure, status, &[("repeatability-result", value)]);
    assert_eq!(azure.first_sent_header().unwrap(), "repeatability-first-sent");
    assert_eq!(result(400, "rejected"), Reading::Known(Known::Rejected));
    assert_eq!(result(412, "rejected"), Reading::Known(Known::Final));
    assert_eq!(result(201, "accepted"), Reading::Known(Known::Final));
    assert_eq!(result(500, "accepted"), Reading::Known(Known::Final));
}

#[test]
fn stripe_hints_are_obeyed_and_only_402_speaks_for_earlier_attempts() {
    for (preset, behind_key) in [(Contract::stripe(), true), (Contract::stripe_v2(), false)] {
        let hint = |value| read(&preset, 500, &[("stripe-should-retry", value)]);
        assert_eq!(hint("true"), Reading::Known(Known::HintedRetry));
        assert_eq!(hint("false"), Reading::Known(Known::HintedStop));
        assert_eq!(preset.rejects_behind_key(StatusCode::PAYMENT_REQUIRED), behind_key);
        assert!(!preset.rejects_behind_key(StatusCode::UNAUTHORIZED));
        assert!(!preset.rejects_behind_key(StatusCode::TOO_MANY_REQUESTS));
    }
}

#[test]
fn delete_takes_a_key_only_at_stripe_v2() {
    for preset in Contract::presets() {
        assert_eq!(preset.wants_key(&Method::DELETE), preset.name() == "stripe_v2");
        assert!(preset.wants_key(&Method::POST));
    }
}

#[test]
fn request_ids_are_read_from_the_header_of_the_provider() {
    for (preset, header) in [
        (Contract::generic(), "x-request-id"),
        (Contract::generic(), "request-id"),
        (Contract::stripe(), "request-id"),
        (Contract::paypal(), "paypal-debug-id"),
        (Contract::checkout_com(), "cko-request-id"),
        (Contract::amazon_pay(), "x-amz-pay-request-id"),
        (Contract::azure_repeatability(), "x-ms-request-id"),
    ] {
        assert_eq!(preset.request_id(&headers(&[(header, "r-1")])), Some("r-1"), "{header}");
        assert_eq!(preset.request_id(&HeaderMap::new()), None);
    }
}

#[test]
fn an_unknown_name_is_no_preset_and_the_default_is_generic() {
    assert_eq!(Contract::named("Stripe"), None);
    assert_eq!(Contract::named("acme"), None);
    assert_eq!(Contract::default(), Contract::generic());
}
