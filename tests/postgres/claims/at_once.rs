//! Many at once: on one key exactly one wins.

use std::collections::HashMap;
use std::time::Duration;

use post_once::server::store::{ClaimStore, Claimed, PostgresClaims};
use post_once::testkit::claims::{ask, name};
use sqlx::{AssertSqlSafe, PgPool, Row};
use tokio::task::JoinSet;

use super::{far_apart, open};
use crate::away::with_cluster;
use crate::subject::LONG;

/// How many of these bodies, at once and on these stores in turn, were won, were another request, and
/// came while it was in progress.
async fn claim_all(
    stores: &[PostgresClaims],
    key: &str,
    bodies: impl IntoIterator<Item = String>,
) -> (u32, u32, u32) {
    let mut tasks = JoinSet::new();
    for (body, claims) in bodies.into_iter().zip(stores.iter().cycle()) {
        let (claims, ask) = (claims.clone(), ask(&name(key), &body, LONG, LONG));
        tasks.spawn(async move { claims.claim(&ask).await.unwrap() });
    }
    let mut counts = (0, 0, 0);
    for claimed in tasks.join_all().await {
        match claimed {
            Claimed::Won { run: 1, point: None } => counts.0 += 1,
            Claimed::Mismatch => counts.1 += 1,
            Claimed::InProgress { lease_left } if lease_left <= LONG => counts.2 += 1,
            other => panic!("{other:?}"),
        }
    }
    counts
}

/// Waits until somebody waits for a lock of a transaction in this schema's table.
async fn until_one_waits(pool: &PgPool, schema: &str) {
    let waiting = "SELECT EXISTS (SELECT FROM pg_stat_activity \
                   WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%')";
    loop {
        let row = sqlx::query(waiting).bind(schema).fetch_one(pool).await.unwrap();
        if row.get(0) {
            return;
        }
    }
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::at_once::of_fifty_equal_claims_in_far_time_zones_one_is_won", |server| {
        server.test(async |schema| {
            let [east, west] = far_apart(server);
            let stores = [open(&east, schema).await, open(&west, schema).await];
            for round in 0..20 {
                let bodies = (0..50).map(|_| "{}".to_owned());
                let counts = claim_all(&stores, &format!("order-{round}"), bodies).await;
                assert_eq!(counts, (1, 0, 49), "round {round}");
            }
        })
    }),
    ("claims::at_once::of_fifty_different_requests_under_one_key_one_is_won", |server| {
        server.test(async |schema| {
            let [east, west] = far_apart(server);
            let stores = [open(&east, schema).await, open(&west, schema).await];
            let bodies = (0..50).map(|number| format!("{{\"amount\":{number}}}"));
            assert_eq!(claim_all(&stores, "order-1", bodies).await, (1, 49, 0));
        })
    }),
    ("claims::at_once::of_one_key_many_times_in_a_group_one_is_won", |server| {
        server.test(async |schema| {
            let builder = PostgresClaims::builder(server.pool()).schema(schema).writers(1);
            let claims = builder.build().await.unwrap();
            // The second time they are taken over instead of inserted.
            for run in 1..=2 {
                let mut tasks = JoinSet::new();
                for number in 0..600 {
                    let claims = claims.clone();
                    let key = format!("order-{}", number % 3);
                    let ask = ask(&name(&key), "{}", LONG, LONG);
                    tasks.spawn(async move {
                        let claimed = claims.claim(&ask).await.unwrap();
                        (key, ask.holder, claimed)
                    });
                }
                let mut winners = HashMap::new();
                for (key, holder, claimed) in tasks.join_all().await {
                    match claimed {
                        Claimed::Won { run: won, .. } => {
                            assert_eq!(won, run);
                            assert!(winners.insert(key, holder).is_none(), "two have won");
                        }
                        Claimed::InProgress { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(winners.len(), 3);
                for holder in winners.values() {
                    let row = claims.look(&holder.name).await.unwrap().unwrap();
                    assert_eq!((row.holder, row.seen.runs), (holder.clone(), run));
                    let renewed = claims.renew(holder, Duration::ZERO).await.unwrap();
                    assert_eq!(renewed, post_once::server::store::Held::Yes(()));
                }
            }
        })
    }),
    ("claims::at_once::names_in_opposite_orders_never_lock_crosswise", |_| {
        with_cluster(async |cluster| {
            let pool = cluster.pool();
            let stores = [open(&pool, "post_once").await, open(&pool, "post_once").await];
            for round in 0..10 {
                let mut tasks = JoinSet::new();
                for number in 0..400 {
                    for (which, claims) in stores.iter().cloned().enumerate() {
                        let number = if which == 0 { number } else { 399 - number };
                        let ask = ask(&name(&format!("{round}-{number}")), "{}", LONG, LONG);
                        tasks.spawn(async move {
                            let claimed = claims.claim(&ask).await.unwrap();
                            matches!(claimed, Claimed::Won { .. })
                        });
                    }
                }
                let won = tasks.join_all().await.into_iter().filter(|won| *won);
                assert_eq!(won.count(), 400);
            }
            let deadlocks =
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
            let deadlocks: i64 = sqlx::query(deadlocks).fetch_one(&pool).await.unwrap().get(0);
            assert_eq!(deadlocks, 0);
        })
    }),
    ("claims::at_once::a_rivals_row_that_cannot_be_seen_yet_is_waited_for", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            for (key, commit) in [("order-1", true), ("order-2", false)] {
                let ask = ask(&name(key), "{}", LONG, LONG);
                let mut rival = pool.begin().await.unwrap();
                let insert = format!(
                    "INSERT INTO {schema}.claim \
                     (principal, key, fingerprint, token, locked_until, expires_at, created_at) \
                     VALUES ($1, $2, $3, 1, now() + interval '900 s', now() + interval '1 day', now())"
                );
                sqlx::query(AssertSqlSafe(insert))
                    .bind(&ask.holder.name.principal)
                    .bind(&ask.holder.name.key)
                    .bind(ask.fingerprint.to_string())
                    .execute(&mut *rival)
                    .await
                    .unwrap();
                let claim = {
                    let claims = claims.clone();
                    tokio::spawn(async move { claims.claim(&ask).await.unwrap() })
                };
                until_one_waits(&pool, schema).await;
                if commit {
                    rival.commit().await.unwrap();
                    let seen = |left: &Duration| *left > Duration::from_secs(800);
                    let claimed = claim.await.unwrap();
                    assert!(
                        matches!(&claimed, Claimed::InProgress { lease_left } if seen(lease_left)),
                        "{claimed:?}"
                    );
                } else {
                    rival.rollback().await.unwrap();
                    assert_eq!(claim.await.unwrap(), Claimed::Won { run: 1, point: None });
                }
            }
        })
    }),
    ("claims::at_once::what_is_neither_inserted_nor_seen_is_never_won", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let claims = open(&pool, schema).await;
            let nothing = format!(
                "CREATE FUNCTION {schema}.nothing() RETURNS trigger LANGUAGE plpgsql \
                 AS 'BEGIN RETURN NULL; END'; \
                 CREATE TRIGGER nothing BEFORE INSERT ON {schema}.claim \
                 FOR EACH ROW EXECUTE FUNCTION {schema}.nothing()"
            );
            sqlx::raw_sql(AssertSqlSafe(nothing)).execute(&pool).await.unwrap();
            let claimed = claims.claim(&ask(&name("order-1"), "{}", LONG, LONG)).await.unwrap();
            let short = |left: &Duration| !left.is_zero() && *left < Duration::from_secs(1);
            assert!(
                matches!(&claimed, Claimed::InProgress { lease_left } if short(lease_left)),
                "{claimed:?}"
            );
            assert_eq!(claims.look(&name("order-1")).await.unwrap(), None);
        })
    }),
];
