//! A table that the user has partitioned, as the page of the store says.

use libtest_mimic::Failed;
use post_once::server::store::{ClaimStore, Claimed};
use post_once::testkit::claims::{Subject, answer, ask, case, name};
use sqlx::{AssertSqlSafe, PgPool, Row};
use tokio::task::JoinSet;

use super::{far_apart, open, warm, win, yes};
use crate::subject::{LONG, Server};

/// The statements of the page.
const PAGE: &str = include_str!("../../../src/server/store/postgres/partitions.md");

async fn partition(pool: &PgPool, schema: &str) {
    let (_, rest) = PAGE.split_once("```sql\n").unwrap();
    let (sql, _) = rest.split_once("```").unwrap();
    assert!(sql.contains("PARTITION BY HASH (principal, key)"));
    let sql = sql.replace("post_once.", &format!("{schema}."));
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await.unwrap();
}

/// The suite that every store runs, on such a table.
pub(crate) fn run(server: &Server, name: &str) -> Result<(), Failed> {
    server.test(async |schema| {
        let [east, west] = far_apart(server);
        let store = open(&east, schema).await;
        partition(&east, schema).await;
        let other = open(&west, schema).await;
        warm([&store, &other]).await;
        let subject = Subject::in_real_time(store, other, super::UNIT);
        case(name, &subject).await;
    })
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::partitions::a_table_with_keys_is_partitioned_while_servers_run", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            let half_done = win(&claims, &name("half-done")).await;
            let done = win(&claims, &name("done")).await;
            yes(claims.complete(&done, &answer(201, "made"), LONG).await.unwrap());
            let mut tasks = JoinSet::new();
            for task in 0..4 {
                let claims = claims.clone();
                tasks.spawn(async move {
                    for number in 0..100 {
                        let holder = win(&claims, &name(&format!("{task}-{number}"))).await;
                        yes(claims.complete(&holder, &answer(201, "made"), LONG).await.unwrap());
                    }
                });
            }
            partition(&pool, schema).await;
            tasks.join_all().await;
            let again = claims.claim(&ask(&done.name, "{}", LONG, LONG)).await.unwrap();
            assert_eq!(again, Claimed::Answered(answer(201, "made")));
            yes(claims.complete(&half_done, &answer(201, "late"), LONG).await.unwrap());
            for number in 0..400 {
                let name = name(&format!("{}-{}", number / 100, number % 100));
                let row = claims.look(&name).await.unwrap().expect("it was acknowledged");
                assert_eq!((row.seen.runs, row.answer), (1, Some(answer(201, "made"))));
            }
            let spread = format!("SELECT count(DISTINCT tableoid) FROM {schema}.claim");
            let spread = sqlx::query(AssertSqlSafe(spread)).fetch_one(&pool).await.unwrap();
            assert_eq!(spread.get::<i64, _>(0), 4, "they are in all partitions");
        })
    }),
    ("claims::partitions::of_one_key_at_once_one_is_won", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            drop(open(&pool, schema).await);
            partition(&pool, schema).await;
            let stores = [open(&pool, schema).await, open(&pool, schema).await];
            let mut tasks = JoinSet::new();
            for number in 0..600 {
                let claims = stores[number % 2].clone();
                let ask = ask(&name(&format!("order-{}", number % 12)), "{}", LONG, LONG);
                tasks.spawn(async move { claims.claim(&ask).await.unwrap() });
            }
            let claimed = tasks.join_all().await;
            let won = claimed.iter().filter(|claimed| matches!(claimed, Claimed::Won { .. }));
            assert_eq!(won.count(), 12);
        })
    }),
];
