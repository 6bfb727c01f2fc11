//! What identifies a claim.

use http::request::Parts;

use crate::client::{Sent, post};
use crate::world::World;

/// O-26
pub(crate) async fn the_principal_and_the_request_belong_to_a_key(world: &World) {
    let api = world.serve().await;
    let of = |account: &str| post("k", "1").field("X-Account", account);
    assert_eq!(of("a").to(api.address).await.run(), 1);
    assert_eq!(of("b").to(api.address).await.run(), 2, "the key of somebody else is another");
    assert_eq!(of("a").to(api.address).await.run(), 1);

    let sent = |method, target| Sent::new(method, target, "1").field("Idempotency-Key", "k2");
    assert_eq!(sent("POST", "/charges?a=1").to(api.address).await.run(), 3);
    for (what, other) in [
        ("method", sent("PATCH", "/charges?a=1")),
        ("path", sent("POST", "/refunds?a=1")),
        ("query", sent("POST", "/charges?a=2")),
        ("no query", sent("POST", "/charges")),
        ("media type", sent("POST", "/charges?a=1").without("content-type")),
    ] {
        let refused = other.to(api.address).await;
        assert_eq!((refused.status, refused.problem()), (422, "key-reused".into()), "{what}");
    }
    assert_eq!(world.runs.count(), 3);
}

/// O-26
pub(crate) async fn quoted_and_raw_are_one_key(world: &World) {
    let api = world.serve().await;
    assert_eq!(post("\"order 42\"", "1").to(api.address).await.run(), 1);
    for same in ["order 42", "\"order 42\"", "\"order 42\";version=1", "  order 42  "] {
        assert!(post(same, "1").to(api.address).await.is_replay(), "{same}");
    }
    let lower = post("k", "1").without("idempotency-key").field("idempotency-key", "order 42");
    assert!(lower.to(api.address).await.is_replay(), "names of fields have no case");
    assert_eq!(world.runs.count(), 1);
}

/// O-26
pub(crate) async fn malformed_keys_are_refused_and_nothing_is_run(world: &World) {
    let api = world.serve().await;
    let long = "k".repeat(256);
    for (what, key) in [
        ("empty", &b""[..]),
        ("empty and quoted", b"\"\""),
        ("half quoted", b"\"k"),
        ("a list", b"\"a\", \"b\""),
        ("too long", long.as_bytes()),
        ("a control character", b"a\tb"),
        ("not ASCII", b"caf\xc3\xa9"),
        ("not UTF-8", b"\xff"),
    ] {
        let sent = post("k", "1").without("idempotency-key").field("Idempotency-Key", key);
        let refused = sent.to(api.address).await;
        assert_eq!((refused.status, refused.problem()), (400, "key-malformed".into()), "{what}");
    }
    for second in ["k", "other", "\"k\""] {
        let twice = post("k", "1").field("idempotency-key", second).to(api.address).await;
        assert_eq!((twice.status, twice.problem()), (400, "key-malformed".into()), "{second}");
    }
    assert_eq!(world.runs.count(), 0);
    let longest = post(&long[..255], "1").to(api.address).await;
    assert_eq!(longest.status, 201);
}

/// O-26
pub(crate) async fn whose_it_is_must_be_known_unless_that_is_waived(world: &World) {
    let account = |parts: &Parts| {
        let account = parts.headers.get("x-account")?;
        Some(account.to_str().unwrap().to_owned())
    };
    let api = world.serve_with(|layer| layer.principal(account)).await;
    let refused = post("k", "1").to(api.address).await;
    assert_eq!((refused.status, refused.problem()), (401, "unidentified".into()));
    assert_eq!(world.runs.count(), 0);
    let of = |account: &str| post("k", "1").field("X-Account", account);
    assert_eq!(of("a").to(api.address).await.run(), 1);

    let waived = world.serve_with(|layer| layer.one_principal()).await;
    assert_eq!(of("a").to(waived.address).await.run(), 2, "it is nobody's in particular");
    assert!(of("b").to(waived.address).await.is_replay(), "all are one");
}
