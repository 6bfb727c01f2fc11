//! Enqueuing in the caller's own transaction: from Rust, and from SQL.

use std::time::Duration;

use post_once::journal::{Decision, Draft, Inserted, Journal, Purge, Record, State};
use post_once::testkit::journal::draft;
use sqlx::postgres::PgDatabaseError;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row};

use crate::subject::{LONG, all, open};

/// Calls the function with these arguments, in SQL.
async fn call(
    conn: &mut PgConnection,
    schema: &str,
    arguments: &str,
) -> Result<String, sqlx::Error> {
    let call = format!("SELECT {schema}.enqueue({arguments})");
    sqlx::query(AssertSqlSafe(call)).fetch_one(conn).await?.try_get(0)
}

async fn called(pool: &PgPool, schema: &str, arguments: &str) -> String {
    call(&mut pool.acquire().await.unwrap(), schema, arguments).await.unwrap()
}

fn state(error: &sqlx::Error) -> Option<&str> {
    error.as_database_error().map(|error| error.downcast_ref::<PgDatabaseError>().code())
}

fn found(inserted: Inserted) -> Record {
    match inserted {
        Inserted::Found(record) => *record,
        other => panic!("must be found: {other:?}"),
    }
}

const CHARGE: &str = "method => 'POST', url => 'https://api.example.com/v1/charges', \
    body => convert_to('{\"b\": 1.0, \"a\": 2}', 'UTF8'), \
    headers => '{\"Content-Type\": \"application/json\", \"authorization\": null}'";

/// What the function writes for it, as a draft.
fn charge(name: &str, body: &'static str) -> Draft {
    let mut draft = draft(Some(name), body);
    draft.terms.keep_trying = true;
    draft
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("enqueue::a_row_commits_and_rolls_back_with_the_callers", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            let orders = format!("CREATE TABLE {schema}.orders (id bigint)");
            sqlx::raw_sql(AssertSqlSafe(orders)).execute(&pool).await.unwrap();
            for (name, committed) in [("order-1", false), ("order-2", true)] {
                let mut tx = pool.begin().await.unwrap();
                let order = format!("INSERT INTO {schema}.orders VALUES (1)");
                sqlx::raw_sql(AssertSqlSafe(order)).execute(&mut *tx).await.unwrap();
                let inserted = journal.enqueue_in(&mut tx, &draft(Some(name), "{}")).await.unwrap();
                assert!(matches!(inserted, Inserted::New(_)));
                let again = journal.enqueue_in(&mut tx, &draft(Some(name), "{}")).await.unwrap();
                assert_eq!(found(again).draft.name.as_deref(), Some(name));
                let in_sql = format!("{CHARGE}, name => '{name}-sql'");
                call(&mut tx, schema, &in_sql).await.unwrap();
                assert!(
                    journal.by_name("", name).await.unwrap().is_none(),
                    "not before the commit"
                );
                if committed {
                    tx.commit().await.unwrap()
                } else {
                    tx.rollback().await.unwrap()
                }
                let sql = journal.by_name("", &format!("{name}-sql")).await.unwrap();
                let rust = journal.by_name("", name).await.unwrap();
                assert_eq!((rust.is_some(), sql.is_some()), (committed, committed));
            }
            let everything = post_once::testkit::journal::due(&[], 9);
            let claimed = journal.claim_due(&everything, LONG).await.unwrap();
            assert_eq!(claimed.len(), 2);
        })
    }),
    ("enqueue::sql_writes_the_row_that_rust_writes", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            let key = called(&pool, schema, &format!("{CHARGE}, key => 'order-1'")).await;
            assert_eq!(key, "order-1");
            // The same JSON, spelled in another way.
            let begun = charge("order-1", r#"{"a":2,"b":1}"#);
            let record = found(journal.insert(&begun, LONG).await.unwrap());
            assert_eq!(record.draft.terms, begun.terms, "the fingerprint among them");
            let mut sent = charge("order-1", r#"{"b": 1.0, "a": 2}"#);
            sent.terms.fingerprint = begun.terms.fingerprint;
            assert_eq!(record.draft.request, sent.request);
            assert_eq!((record.state, record.attempts, record.lost), (State::Pending, 0, 0));
            assert_eq!((record.draft.scope, record.draft.name), (sent.scope, sent.name));
            let other = charge("order-1", r#"{"a":3}"#);
            let record = found(journal.insert(&other, LONG).await.unwrap());
            assert_ne!(record.draft.terms.fingerprint, other.terms.fingerprint);
        })
    }),
    ("enqueue::every_argument_arrives", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            let key = called(
                &pool,
                schema,
                "method => 'PATCH', url => 'https://api.example.com', scope => 'acct_1', \
                 contract => 'ietf', valid_for => NULL, context => '{\"order\": 42}', \
                 key_header => 'X-Key', key_format => 'quoted', stored => '{Stripe-Account}', \
                 headers => '{\"stripe-account\": \"é\", \"X-Api-Key\": \"secret\", \"user-agent\": \"x\"}'",
            )
            .await;
            let record = journal.by_key(&key).await.unwrap().pop().unwrap();
            let draft = &record.draft;
            assert_eq!((&*draft.scope, &draft.name, &*draft.request.method), ("acct_1", &None, "PATCH"));
            let quoted = format!("\"{key}\"").into_bytes();
            let headers =
                [("stripe-account".to_owned(), "é".into()), ("x-key".to_owned(), quoted)];
            assert_eq!(draft.request.headers, headers);
            assert_eq!(draft.terms.missing, ["x-api-key"]);
            assert_eq!((&*draft.terms.contract, draft.terms.window), ("ietf", None));
            assert_eq!(draft.terms.context.as_deref(), Some(r#"{"order": 42}"#));
            assert!(draft.terms.keep_trying && draft.request.body.is_empty());
            let head = format!("SELECT head FROM {schema}.operation");
            let head: String = sqlx::query(AssertSqlSafe(head)).fetch_one(&pool).await.unwrap().get(0);
            assert!(!head.contains("secret"), "a credential is not stored");
            for (valid_for, window) in [("10 minutes", (600, 60)), ("1 day", (86_400, 300))] {
                let key = called(&pool, schema, &format!("{CHARGE}, valid_for => '{valid_for}'")).await;
                assert_eq!(key.len(), 36);
                let record = journal.by_key(&key).await.unwrap().pop().unwrap();
                let seconds = |(window, margin)| {
                    (Duration::from_secs(window), Duration::from_secs(margin))
                };
                assert_eq!(record.draft.terms.window, Some(seconds(window)));
            }
            let simple = called(&pool, schema, &format!("{CHARGE}, key_format => 'simple'")).await;
            let record = journal.by_key(&simple).await.unwrap().pop().unwrap();
            let (_, spelled) = record.draft.request.headers.last().unwrap();
            assert_eq!(*spelled, simple.replace('-', "").into_bytes());
        })
    }),
    (
        "enqueue::a_name_of_another_request_is_refused_and_one_of_the_same_returns_its_key",
        |server| {
            server.test(async |schema| {
                let pool = server.pool();
                let journal = open(&pool, schema).await;
                let key = called(&pool, schema, &format!("{CHARGE}, name => 'order-1'")).await;
                assert_eq!(
                    called(&pool, schema, &format!("{CHARGE}, name => 'order-1'")).await,
                    key
                );
                let mut conn = pool.acquire().await.unwrap();
                for other in [
                    CHARGE.replace("1.0", "2"),
                    CHARGE.replace("/charges", "/refunds"),
                    CHARGE.replace("POST", "PUT"),
                ] {
                    let refused =
                        call(&mut conn, schema, &format!("{other}, name => 'order-1'")).await;
                    assert_eq!(state(&refused.unwrap_err()), Some("23505"), "{other}");
                }
                assert_eq!(all(&journal).await.len(), 1);
            })
        },
    ),
    ("enqueue::arguments_that_cannot_be_sent_are_refused", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            let mut conn = pool.acquire().await.unwrap();
            for (arguments, expected) in [
                ("'', 'https://a.example'", "22023"),
                ("'PO ST', 'https://a.example'", "22023"),
                ("NULL, 'https://a.example'", "22023"),
                ("'POST', 'ftp://a.example'", "22023"),
                ("'POST', '/v1/charges'", "22023"),
                ("'POST', 'https://user:pass@a.example/'", "22023"),
                ("'POST', 'https://a.example/a b'", "22023"),
                ("'POST', 'https://a.example', NULL", "22004"),
                ("'POST', 'https://a.example', valid_for => '0 s'", "22023"),
                ("'POST', 'https://a.example', key => ''", "22023"),
                ("'POST', 'https://a.example', key => 'ключ'", "22023"),
                ("'POST', 'https://a.example', key => repeat('k', 256)", "22023"),
                ("'POST', 'https://a.example', key_format => 'raw'", "22023"),
                ("'POST', 'https://a.example', name => repeat('n', 2001)", "22023"),
                ("'POST', 'https://a.example', headers => '{\"idempotency-key\": \"k\"}'", "22023"),
            ] {
                let refused = call(&mut conn, schema, arguments).await.unwrap_err();
                assert_eq!(state(&refused), Some(expected), "{arguments}: {refused}");
            }
            assert!(all(&journal).await.is_empty());
        })
    }),
    ("enqueue::a_fingerprint_outlives_the_body_it_follows_from", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            called(&pool, schema, &format!("{CHARGE}, key => 'order-1'")).await;
            let before = journal.by_name("", "order-1").await.unwrap().unwrap();
            let abandon =
                journal.decide(before.row, before.token, Decision::Abandon).await.unwrap();
            assert_eq!(abandon, post_once::journal::Held::Yes(()));
            let purged = journal.purge(Duration::ZERO, Purge::Bodies, 10).await.unwrap();
            assert_eq!(purged, 1);
            let after = journal.by_name("", "order-1").await.unwrap().unwrap();
            assert!(after.draft.request.body.is_empty());
            assert_eq!(after.draft.terms, before.draft.terms);
            assert_eq!(
                called(&pool, schema, &format!("{CHARGE}, key => 'order-1'")).await,
                "order-1"
            );
        })
    }),
];
