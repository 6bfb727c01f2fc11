//! The sweep: by its index, in batches that all cost the same, and in nobody's way.

use std::time::Duration;

use post_once::server::store::{ClaimStore, PostgresClaims};
use post_once::testkit::claims::{answer, name};
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row};
use tokio::task::JoinSet;

use super::{open, pause, win, win_for, within, yes};
use crate::subject::LONG;

/// So many rows of each: answered and over, half done and over, and live.
async fn fill(pool: &PgPool, schema: &str, over: u32, half_done: u32, live: u32) {
    let fill = format!(
        "INSERT INTO {schema}.claim (principal, key, fingerprint, token, locked_until, expires_at, \
         created_at, status, header_lines, point_name) \
         SELECT 'acct_1', kind || '-' || number, 'v1:' || repeat('0', 64), number, now(), \
         now() + CASE WHEN kind = 'live' THEN 3600 ELSE -number END * interval '1 second', now(), \
         CASE WHEN kind <> 'half' THEN 201 END, CASE WHEN kind <> 'half' THEN ''::bytea END, \
         CASE WHEN kind = 'half' THEN 'charged' END \
         FROM (VALUES ('over', {over}), ('half', {half_done}), ('live', {live})) AS k(kind, count), \
         generate_series(1, count) AS number"
    );
    sqlx::raw_sql(AssertSqlSafe(fill)).execute(pool).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(format!("ANALYZE {schema}.claim"))).execute(pool).await.unwrap();
}

/// How often the index was begun with, and how many of its entries were read; and how many rows were read
/// without any index.
async fn used(pool: &PgPool, schema: &str) -> (i64, i64, i64) {
    let used = "SELECT i.idx_scan, i.idx_tup_read, t.seq_tup_read \
                FROM pg_stat_user_indexes i JOIN pg_stat_user_tables t USING (relid) \
                WHERE i.schemaname = $1 AND i.indexrelname = 'claim_expires'";
    let row = sqlx::query(used).bind(schema).fetch_one(pool).await.unwrap();
    (row.get(0), row.get(1), row.get(2))
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::sweep::each_batch_reads_what_it_deletes_from_the_index_and_no_more", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            drop(open(&pool, schema).await);
            fill(&pool, schema, 3_000, 3_000, 20_000).await;
            // Whoever has an old snapshot keeps all that is deleted in the table and its indexes.
            let mut old = PgConnection::connect_with(&pool.connect_options()).await.unwrap();
            let snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1";
            sqlx::raw_sql(snapshot).execute(&mut old).await.unwrap();
            let sweeping = server.pool();
            let claims = open(&sweeping, schema).await;
            for batch in 0..30 {
                assert_eq!(claims.sweep(100).await.unwrap(), 100, "batch {batch}");
            }
            assert_eq!(claims.sweep(100).await.unwrap(), 0);
            // A session tells of what it has read when it ends.
            drop(claims);
            sweeping.close().await;
            let mut read = (0, 0, 0);
            for _ in 0..100 {
                read = used(&pool, schema).await;
                if read.0 >= 32 {
                    break;
                }
                pause(50).await;
            }
            // 30 batches, and twice to see that there is nothing left: the second time from the start.
            assert_eq!((read.0, read.2), (32, 0), "by the index, once for each");
            assert!((3_000..3_000 + 30 + 3_000 + 100).contains(&read.1), "{read:?}");
            let left = format!("SELECT count(*) FROM {schema}.claim");
            let left = sqlx::query(AssertSqlSafe(left)).fetch_one(&pool).await.unwrap();
            assert_eq!(left.get::<i64, _>(0), 23_000);
        })
    }),
    ("claims::sweep::a_large_limit_is_kept_in_batches", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            fill(&pool, schema, 1_800, 100, 100).await;
            for (limit, swept) in [(0, 0), (1_201, 1_201), (1_000, 599), (1_000, 0)] {
                assert_eq!(claims.sweep(limit).await.unwrap(), swept, "{limit}");
            }
        })
    }),
    ("claims::sweep::what_somebody_writes_is_left_for_the_next_time", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            fill(&pool, schema, 10, 0, 0).await;
            let mut tx = pool.begin().await.unwrap();
            let lock = format!("SELECT FROM {schema}.claim WHERE key = 'over-5' FOR UPDATE");
            sqlx::query(AssertSqlSafe(lock)).execute(&mut *tx).await.unwrap();
            assert_eq!(within(5, claims.sweep(100)).await.unwrap(), 9, "it waits for nobody");
            tx.rollback().await.unwrap();
            assert_eq!(claims.sweep(100).await.unwrap(), 1);
        })
    }),
    ("claims::sweep::many_sweepers_delete_each_row_once", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let stores = [open(&pool, schema).await, open(&pool, schema).await];
            fill(&pool, schema, 2_000, 100, 100).await;
            let mut tasks = JoinSet::new();
            for claims in stores.iter().cycle().take(4) {
                let claims: PostgresClaims = claims.clone();
                tasks.spawn(async move {
                    let mut sum = 0;
                    for _ in 0..40 {
                        sum += claims.sweep(50).await.unwrap();
                    }
                    sum
                });
            }
            assert_eq!(tasks.join_all().await.into_iter().sum::<u64>(), 2_000);
        })
    }),
    ("claims::sweep::what_was_not_to_be_swept_yet_is_swept_by_the_same_store_later", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            // Over, but somebody works on it: it lies before what is swept meanwhile.
            let ask = post_once::testkit::claims::ask(&name("order-1"), "{}", LONG, Duration::ZERO);
            claims.claim(&ask).await.unwrap();
            let done = win(&claims, &name("order-2")).await;
            yes(claims.complete(&done, &answer(201, "{}"), Duration::ZERO).await.unwrap());
            assert_eq!(claims.sweep(1).await.unwrap(), 1);
            yes(claims.complete(&ask.holder, &answer(201, "{}"), Duration::ZERO).await.unwrap());
            assert_eq!(claims.sweep(1).await.unwrap(), 1);
            let half_done = win_for(&claims, &name("order-3"), LONG).await;
            assert_eq!(claims.sweep(1).await.unwrap(), 0);
            yes(claims.release(&half_done).await.unwrap());
        })
    }),
];
