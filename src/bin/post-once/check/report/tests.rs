//! Whether a client may retry, and which preset is nearest.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use super::super::verdict::Finding;
use super::*;
use Verdict::{Broken, Kept, NotOffered, NotTried};

#[test]
fn a_retry_is_safe_iff_the_three_are_kept_and_a_changed_body_is_not_processed() {
    for ([twice, at_once, changed, cut], https, expected) in [
        ([Kept, Kept, Kept, Kept], false, true),
        ([Kept, Kept, NotOffered, Kept], false, true),
        ([Kept, Kept, NotTried, Kept], false, true),
        ([Kept, Kept, Kept, NotTried], true, true),
        ([Kept, Kept, Kept, NotTried], false, false),
        ([Kept, Kept, Broken, Kept], false, false),
        ([Broken, Kept, Kept, Kept], false, false),
        ([NotOffered, Kept, Kept, Kept], false, false),
        ([NotTried, Kept, Kept, Kept], false, false),
        ([Kept, Broken, Kept, Kept], false, false),
        ([Kept, NotOffered, Kept, Kept], false, false),
        ([Kept, Kept, Kept, Broken], false, false),
        ([Kept, NotTried, Kept, NotTried], true, false),
    ] {
        let made = [(TWICE, twice), (AT_ONCE, at_once), (CHANGED, changed), (CUT, cut)];
        let made = made.map(|(name, verdict)| Trial { name, finding: Finding::new(verdict, "") });
        let (safe, sentence) = safety(&made, https);
        assert_eq!(safe, expected, "{made:?} {https}");
        assert_eq!(sentence.starts_with("A client may retry safely"), safe, "{sentence}");
        assert_eq!(sentence.contains("https"), safe && https, "{sentence}");
    }
}

#[test]
fn the_sentence_names_what_stands_against_it() {
    let made = [(TWICE, Kept), (AT_ONCE, Broken), (CHANGED, Broken), (CUT, NotTried)];
    let made = made.map(|(name, verdict)| Trial { name, finding: Finding::new(verdict, "") });
    let (_, sentence) = safety(&made, false);
    assert_eq!(sentence, "A client may not retry safely: broken are two at once, changed body.");
}

fn answer(status: u16, header: Option<(&'static str, &'static str)>, body: &str) -> Option<Answer> {
    let field = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let headers: HeaderMap = header.map(field).into_iter().collect();
    Some(Answer { status, headers, body: body.into(), marked: false, in_progress: false })
}

#[test]
fn the_nearest_preset_reads_what_was_seen_and_carries_the_key_as_it_was() {
    let stripe_mismatch = || answer(400, None, r#"{"error":{"type":"idempotency_error"}}"#);
    let duplicate = || answer(422, None, r#"{"name":"DUPLICATE_REQUEST_ID"}"#);
    let nothing = Traits::default;
    for (traits, used, expected) in [
        (nothing(), Contract::generic(), "generic"),
        (nothing(), Contract::paypal(), "paypal"),
        (nothing(), Contract::plaid(), "plaid"),
        (Traits { mismatch: answer(422, None, ""), ..nothing() }, Contract::generic(), "generic"),
        (
            Traits { mismatch: answer(422, None, ""), quoted: true, ..nothing() },
            Contract::generic(),
            "ietf",
        ),
        (Traits { quoted: true, ..nothing() }, Contract::generic(), "generic"),
        (Traits { mismatch: stripe_mismatch(), ..nothing() }, Contract::generic(), "stripe"),
        (Traits { mismatch: duplicate(), ..nothing() }, Contract::paypal(), "paypal"),
        (Traits { mismatch: duplicate(), ..nothing() }, Contract::generic(), "generic"),
        (
            Traits { replay: answer(201, Some(("request-idempotency", "true")), ""), ..nothing() },
            Contract::ppro(),
            "ppro",
        ),
    ] {
        assert_eq!(nearest(&traits, &used).name(), expected, "{traits:?} {}", used.name());
    }
}
