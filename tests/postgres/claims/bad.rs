//! Servers, schemas and values that cannot be used: an error that says what to do, and nothing written.

use post_once::journal::{Journal, PostgresJournal};
use post_once::server::store::{ClaimError, ClaimStore, PostgresClaims};
use post_once::testkit::claims::{ask, name};
use sqlx::{AssertSqlSafe, PgPool, Row};

use super::{open, win, within};
use crate::subject::{LONG, begin};

async fn refused(pool: &PgPool, schema: &str) -> String {
    match PostgresClaims::builder(pool.clone()).schema(schema).build().await {
        Err(ClaimError::Unusable(what)) => what,
        other => panic!("must be refused: {other:?}"),
    }
}

async fn run(pool: &PgPool, schema: &str, sql: &str) {
    let sql = sql.replace("{schema}", schema);
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::bad::opening_is_safe_many_times_and_at_once", |server| {
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
            assert_eq!((row.get::<i64, _>(0), row.get::<i32, _>(1)), (1, 1));
        })
    }),
    ("claims::bad::a_table_of_a_newer_program_is_refused_and_left_alone", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            drop(open(&pool, schema).await);
            let newer = "INSERT INTO {schema}.migration (component, version) VALUES ('claims', 99)";
            run(&pool, schema, newer).await;
            let error = refused(&pool, schema).await;
            assert!(error.contains("version 99") && error.contains("update"), "{error}");
        })
    }),
    ("claims::bad::a_journal_may_live_in_the_same_schema", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let (claims, journal) =
                tokio::join!(open(&pool, schema), crate::subject::open(&pool, schema));
            win(&claims, &name("order-1")).await;
            let draft = post_once::testkit::journal::draft(Some("order-1"), "{}");
            begin(&journal, &draft).await;
            drop((claims, journal));
            assert!(claims_and_journal(&pool, schema).await);
        })
    }),
    ("claims::bad::one_that_must_be_there_is_not_made", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let existing = || PostgresClaims::builder(pool.clone()).schema(schema).existing();
            let error = existing().build().await.unwrap_err();
            assert!(error.to_string().contains("holds no keys"), "{error}");
            let there = "SELECT to_regnamespace($1) IS NOT NULL";
            let there = sqlx::query(there).bind(schema).fetch_one(&pool).await.unwrap();
            assert!(!there.get::<bool, _>(0), "nothing was made");
            drop(open(&pool, schema).await);
            existing().build().await.unwrap();
        })
    }),
    ("claims::bad::a_read_only_server_takes_no_claim_and_can_be_looked_into", |server| {
        server.test(async |schema| {
            let read_only = [("default_transaction_read_only", "on")];
            let reading = server.pool_with(|options| options.options(read_only));
            let error = refused(&reading, schema).await;
            assert!(error.contains("read-only"), "there is no schema yet: {error}");
            win(&open(&server.pool(), schema).await, &name("order-1")).await;
            let claims = open(&reading, schema).await;
            let error = claims.claim(&ask(&name("order-2"), "{}", LONG, LONG)).await.unwrap_err();
            assert!(
                matches!(&error, ClaimError::Unusable(what) if what.contains("read-only")),
                "{error}"
            );
            assert!(claims.look(&name("order-1")).await.unwrap().is_some());
        })
    }),
    ("claims::bad::settings_out_of_range_are_refused", |server| {
        server.test(async |schema| {
            let builder = || PostgresClaims::builder(server.pool()).schema(schema);
            for builder in
                [builder().writers(0), builder().writers(33), builder().schema("a\"; DROP")]
            {
                let error = builder.build().await.unwrap_err();
                assert!(matches!(error, ClaimError::Unusable(_)), "{error}");
            }
        })
    }),
    ("claims::bad::names_that_columns_cannot_hold_are_refused_alone", |server| {
        server.test(async |schema| {
            let claims = open(&server.pool(), schema).await;
            for principal in ["a\0b".to_owned(), "x".repeat(2001)] {
                let mut bad = ask(&name("order-1"), "{}", LONG, LONG);
                bad.holder.name.principal = principal;
                let good = ask(&name(&format!("good-{}", bad.holder.token.0)), "{}", LONG, LONG);
                let (refused, good) = tokio::join!(claims.claim(&bad), claims.claim(&good));
                assert!(matches!(refused, Err(ClaimError::Failed(_))), "{refused:?}");
                good.unwrap();
                assert!(claims.look(&bad.holder.name).await.unwrap().is_none());
            }
        })
    }),
    ("claims::bad::a_row_that_cannot_be_read_is_an_error_for_its_key_alone", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let builder = PostgresClaims::builder(pool.clone()).schema(schema).writers(1);
            let claims = builder.build().await.unwrap();
            win(&claims, &name("order-1")).await;
            run(&pool, schema, "UPDATE {schema}.claim SET fingerprint = 'v9:?'").await;
            let (bad, good) =
                (ask(&name("order-1"), "{}", LONG, LONG), ask(&name("order-2"), "{}", LONG, LONG));
            let (bad, good) = tokio::join!(claims.claim(&bad), claims.claim(&good));
            let error = bad.unwrap_err();
            assert!(
                matches!(&error, ClaimError::Corrupt { key, .. } if key == "order-1"),
                "{error}"
            );
            good.unwrap();
        })
    }),
    ("claims::bad::what_the_database_refuses_fails_alone", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            run(&pool, schema, "ALTER TABLE {schema}.claim ADD CHECK (key <> 'order-13')").await;
            let mut tasks = tokio::task::JoinSet::new();
            for number in 0..100 {
                let claims = claims.clone();
                let ask = ask(&name(&format!("order-{number}")), "{}", LONG, LONG);
                tasks.spawn(async move { (number, claims.claim(&ask).await) });
            }
            for (number, claimed) in tasks.join_all().await {
                match claimed {
                    Ok(_) => assert_ne!(number, 13),
                    Err(ClaimError::Failed(_)) => assert_eq!(number, 13),
                    other => panic!("{number}: {other:?}"),
                }
            }
        })
    }),
    ("claims::bad::a_server_that_is_not_there_is_named_soon", |server| {
        server.test(async |schema| {
            let port =
                std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let pool = server.pool_with(|options| options.host("127.0.0.1").port(port));
            let error = within(10, refused(&pool, schema)).await;
            assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
        })
    }),
];

/// Whether both are there and open again.
async fn claims_and_journal(pool: &PgPool, schema: &str) -> bool {
    let claims = open(pool, schema).await.look(&name("order-1")).await.unwrap();
    let journal = PostgresJournal::builder(pool.clone()).schema(schema).build().await.unwrap();
    claims.is_some() && journal.by_name("", "order-1").await.unwrap().is_some()
}
