//! Which bodies are the same.

use crate::client::post;
use crate::world::World;

/// O-29
pub(crate) async fn equal_bodies_match_and_others_do_not(world: &World) {
    let api = world.serve().await;
    let first = r#"{"a":1.0,"b":"\u0061","\ufb33":1,"😀":2}"#;
    assert_eq!(post("k", first).to(api.address).await.run(), 1);
    for same in [
        "{\"b\":\"a\",\"a\":1,\"\u{1f600}\":2,\"\u{fb33}\":1}",
        " { \"a\" : 10e-1 , \"b\" : \"\\u0061\" , \"\\ud83d\\ude00\" : 2, \"\\ufb33\" : 1 } ",
    ] {
        assert!(post("k", same).to(api.address).await.is_replay(), "{same}");
    }
    for other in [
        r#"{"a":1.0,"b":"\u0061","\ufb33":1,"😀":3}"#,
        r#"{"a":1.0,"a":1.0,"b":"\u0061","\ufb33":1,"😀":2}"#,
        r#"{"a":1.0,"b":"\u0061","\ufb33":1,"😀":2,}"#,
        "",
    ] {
        let refused = post("k", other).to(api.address).await;
        assert_eq!((refused.status, refused.problem()), (422, "key-reused".into()), "{other}");
    }
    let text = post("k", first).without("content-type").field("Content-Type", "text/plain");
    assert_eq!(text.to(api.address).await.status, 422, "another media type");
    assert_eq!(world.runs.count(), 1);
}

/// O-29: none of them may break the server, and each is itself and nothing else.
pub(crate) async fn strange_json_is_not_dangerous(world: &World) {
    let api = world.serve().await;
    let deep = |inner: &str| format!("{}{inner}{}", "[".repeat(10_000), "]".repeat(10_000));
    for (at, (what, one, other)) in [
        ("repeated names", r#"{"a":1,"a":2}"#.to_owned(), r#"{"a":2}"#.to_owned()),
        ("huge numbers", "[1e400]".to_owned(), "[1e401]".to_owned()),
        ("many digits", "[9007199254740993]".to_owned(), "[9007199254740992]".to_owned()),
        ("lone surrogates", r#"["\ud800"]"#.to_owned(), r#"["\ud801"]"#.to_owned()),
        ("deep nesting", deep("1"), deep("2")),
        ("no JSON", "{".to_owned(), "{ ".to_owned()),
        ("nothing", String::new(), " ".to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{at}");
        let first = post(&key, &one).to(api.address).await;
        assert_eq!((first.status, first.is_replay()), (201, false), "{what}");
        assert!(post(&key, &one).to(api.address).await.is_replay(), "{what}");
        assert_eq!(post(&key, &other).to(api.address).await.status, 422, "{what}");
    }
    assert_eq!(world.runs.count(), 7);
}
