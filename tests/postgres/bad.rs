//! Servers and schemas that cannot be used: an error that says what to do, and nothing written.

use std::time::Duration;

use post_once::journal::{Journal, JournalError, PostgresJournal};
use post_once::testkit::journal::draft;
use sqlx::{AssertSqlSafe, PgPool, Row};

use crate::subject::{LONG, all, begin, open};

async fn refused(pool: &PgPool, schema: &str) -> String {
    let builder = PostgresJournal::builder(pool.clone()).schema(schema);
    match builder.retry_for(Duration::from_secs(1)).build().await {
        Err(JournalError::Unusable(what)) => what,
        other => panic!("must be refused: {other:?}"),
    }
}

async fn run(pool: &PgPool, sql: String) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("bad::an_absent_server_is_named_with_the_reason", |server| {
        server.test(async |schema| {
            let port =
                std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let pool = server.pool_with(|options| options.host("127.0.0.1").port(port));
            let error = refused(&pool, schema).await;
            assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
            assert!(error.contains("refused") && error.contains("see that it runs"), "{error}");
        })
    }),
    ("bad::a_database_that_is_not_there_is_refused_at_once", |server| {
        server.test(async |schema| {
            let pool = server.pool_with(|options| options.database("no_such_database"));
            let error = refused(&pool, schema).await;
            assert!(error.contains("no_such_database"), "{error}");
        })
    }),
    ("bad::a_read_only_server_takes_no_operation_and_can_be_looked_into", |server| {
        server.test(async |schema| {
            let read_only = [("default_transaction_read_only", "on")];
            let reading = server.pool_with(|options| options.options(read_only));
            let error = refused(&reading, schema).await;
            assert!(error.contains("read-only"), "there is no schema yet: {error}");
            begin(&open(&server.pool(), schema).await, &draft(Some("order-1"), "{}")).await;
            let journal = open(&reading, schema).await;
            let error = journal.insert(&draft(Some("order-2"), "{}"), LONG).await.unwrap_err();
            assert!(
                matches!(&error, JournalError::Unusable(what) if what.contains("read-only")),
                "{error}"
            );
            assert_eq!(all(&journal).await.len(), 1);
            assert!(journal.by_name("", "order-1").await.unwrap().is_some());
        })
    }),
    ("bad::a_schema_of_a_newer_program_is_refused_and_left_alone", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            drop(open(&pool, schema).await);
            let newer =
                "INSERT INTO {schema}.migration (component, version) VALUES ('journal', 99)";
            run(&pool, newer.replace("{schema}", schema)).await;
            let error = refused(&pool, schema).await;
            assert!(error.contains("version 99") && error.contains("update"), "{error}");
        })
    }),
    ("bad::a_copy_for_another_environment_does_not_open", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let builder = || PostgresJournal::builder(pool.clone()).schema(schema);
            drop(builder().environment("production").build().await.unwrap());
            let error = builder().environment("staging").build().await.unwrap_err().to_string();
            assert!(error.contains("\"production\"") && error.contains("\"staging\""), "{error}");
            drop(builder().environment("production").build().await.unwrap());
        })
    }),
    ("bad::settings_out_of_range_are_refused", |server| {
        server.test(async |schema| {
            let builder = || PostgresJournal::builder(server.pool()).schema(schema);
            for builder in [
                builder().writers(0),
                builder().writers(33),
                builder().schema("a\"; DROP"),
                builder().environment(""),
            ] {
                let error = builder.build().await.unwrap_err();
                assert!(matches!(error, JournalError::Unusable(_)), "{error}");
            }
        })
    }),
    ("bad::names_that_columns_cannot_hold_are_refused_alone", |server| {
        server.test(async |schema| {
            let journal = open(&server.pool(), schema).await;
            let long = "x".repeat(2001);
            for name in ["a\0b", &long] {
                let (bad, good) = (draft(Some(name), "{}"), draft(None, "{}"));
                let (bad, good) =
                    tokio::join!(journal.insert(&bad, LONG), journal.insert(&good, LONG));
                assert!(matches!(bad, Err(JournalError::Failed(_))));
                good.unwrap();
            }
            assert!(journal.by_name("", "a\0b").await.unwrap().is_none());
            begin(&journal, &draft(Some(&"\u{1F980}x".repeat(400)), "{}")).await;
        })
    }),
    ("bad::opening_is_safe_many_times_and_at_once", |server| {
        server.test(async |schema| {
            let pools: Vec<_> = (0..8).map(|_| server.pool()).collect();
            let mut tasks = tokio::task::JoinSet::new();
            for pool in pools.clone() {
                let schema = schema.to_owned();
                tasks.spawn(async move { drop(open(&pool, &schema).await) });
            }
            tasks.join_all().await;
            drop(open(&pools[0], schema).await);
            let steps = format!("SELECT count(*), max(version) FROM {schema}.migration");
            let row = sqlx::query(AssertSqlSafe(steps)).fetch_one(&pools[0]).await.unwrap();
            assert_eq!((row.get::<i64, _>(0), row.get::<i32, _>(1)), (2, 2));
        })
    }),
];
