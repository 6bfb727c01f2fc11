//! An answer that commits with its effect. Effects are counted in a table of the user's.

use std::time::Duration;

use post_once::server::store::{ClaimError, ClaimStore, Claimed, Held, PostgresClaims};
use post_once::testkit::claims::{answer, ask, name};
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row};

use super::{open, pause, win, win_for};
use crate::subject::LONG;

async fn effects(pool: &PgPool, schema: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {schema}.charge");
    sqlx::query(AssertSqlSafe(count)).fetch_one(pool).await.unwrap().get(0)
}

async fn make_table(pool: &PgPool, schema: &str) {
    let table = format!("CREATE TABLE {schema}.charge (id bigint GENERATED ALWAYS AS IDENTITY)");
    sqlx::raw_sql(AssertSqlSafe(table)).execute(pool).await.unwrap();
}

async fn charge(conn: &mut PgConnection, schema: &str) {
    let charge = format!("INSERT INTO {schema}.charge DEFAULT VALUES");
    sqlx::query(AssertSqlSafe(charge)).execute(conn).await.unwrap();
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::complete_in::effect_and_answer_commit_together", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            make_table(&pool, schema).await;
            let holder = win(&claims, &name("order-1")).await;
            let mut tx = claims.pool().begin().await.unwrap();
            charge(&mut tx, schema).await;
            let kept = LONG / 10;
            let held = claims.complete_in(&mut tx, &holder, &answer(201, "made"), kept).await;
            assert_eq!(held.unwrap(), Held::Yes(()));
            assert!(!claims.look(&holder.name).await.unwrap().unwrap().seen.answered);
            tx.commit().await.unwrap();
            let left = claims.look(&holder.name).await.unwrap().unwrap().seen.retention_left;
            assert!((kept / 2..=kept).contains(&left), "from its answer on: {left:?}");
            let again = claims.claim(&ask(&holder.name, "{}", LONG, LONG)).await.unwrap();
            assert_eq!(again, Claimed::Answered(answer(201, "made")));
            assert_eq!(effects(&pool, schema).await, 1);
            let late = claims.complete(&holder, &answer(500, "late"), LONG).await.unwrap();
            assert_eq!(late, Held::Lost, "it is answered");
        })
    }),
    ("claims::complete_in::what_is_rolled_back_is_neither_done_nor_answered", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            make_table(&pool, schema).await;
            let holder = win(&claims, &name("order-1")).await;
            let mut tx = pool.begin().await.unwrap();
            charge(&mut tx, schema).await;
            let held = claims.complete_in(&mut tx, &holder, &answer(201, "made"), LONG).await;
            assert_eq!(held.unwrap(), Held::Yes(()));
            tx.rollback().await.unwrap();
            let claimed = claims.claim(&ask(&holder.name, "{}", LONG, LONG)).await.unwrap();
            assert!(matches!(claimed, Claimed::InProgress { .. }), "{claimed:?}");
            assert_eq!(effects(&pool, schema).await, 0);
            let held = claims.complete(&holder, &answer(409, "no"), LONG).await.unwrap();
            assert_eq!(held, Held::Yes(()), "it is still held");
        })
    }),
    ("claims::complete_in::a_worker_that_lost_its_claim_is_told_before_it_commits", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            make_table(&pool, schema).await;
            let late = win_for(&claims, &name("order-1"), Duration::ZERO).await;
            let mut tx = pool.begin().await.unwrap();
            charge(&mut tx, schema).await;
            let second = win(&claims, &late.name).await;
            let mut other = pool.begin().await.unwrap();
            charge(&mut other, schema).await;
            let held = claims.complete_in(&mut other, &second, &answer(201, "second"), LONG).await;
            assert_eq!(held.unwrap(), Held::Yes(()));
            other.commit().await.unwrap();
            let held = claims.complete_in(&mut tx, &late, &answer(201, "late"), LONG).await;
            assert_eq!(held.unwrap(), Held::Lost);
            tx.rollback().await.unwrap();
            assert_eq!(effects(&pool, schema).await, 1);
            let again = claims.claim(&ask(&late.name, "{}", LONG, LONG)).await.unwrap();
            assert_eq!(again, Claimed::Answered(answer(201, "second")));
        })
    }),
    ("claims::complete_in::an_open_transaction_holds_its_claim_and_holds_nobody_up", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let builder = PostgresClaims::builder(pool.clone()).schema(schema).writers(1);
            // What waited for the transaction would fail.
            let claims = builder.retry_for(Duration::from_millis(300)).build().await.unwrap();
            let short = Duration::from_millis(100);
            let holder = win_for(&claims, &name("order-1"), short).await;
            let mut tx = pool.begin().await.unwrap();
            let held = claims.complete_in(&mut tx, &holder, &answer(201, "made"), LONG).await;
            assert_eq!(held.unwrap(), Held::Yes(()));
            let same = ask(&holder.name, "{}", LONG, LONG);
            for wait in [0, 150] {
                pause(wait).await;
                // The second time its lease is over.
                let claimed = claims.claim(&same).await.unwrap();
                assert!(matches!(claimed, Claimed::InProgress { .. }), "{claimed:?}");
                win(&claims, &name(&format!("other-{wait}"))).await;
            }
            assert_eq!(claims.sweep(10).await.unwrap(), 0);
            let another = ask(&holder.name, "another", LONG, LONG);
            assert_eq!(claims.claim(&another).await.unwrap(), Claimed::Mismatch);
            assert_eq!(claims.renew(&holder, short).await.unwrap(), Held::Yes(()));
            let error = claims.complete(&holder, &answer(201, "twice"), LONG).await.unwrap_err();
            assert!(
                matches!(&error, ClaimError::Failed(why) if why.to_string().contains("locked")),
                "{error}"
            );
            tx.commit().await.unwrap();
            let claimed = claims.claim(&same).await.unwrap();
            assert_eq!(claimed, Claimed::Answered(answer(201, "made")));
        })
    }),
];
