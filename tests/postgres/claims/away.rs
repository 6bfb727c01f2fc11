//! A server that goes away: what was acknowledged is there, once, and nothing waits for long.

use std::time::Duration;

use post_once::server::claim::RecoveryPoint;
use post_once::server::store::{ClaimError, ClaimStore, Claimed, Decision, Held, PostgresClaims};
use post_once::testkit::claims::{answer, ask, name};
use sqlx::PgPool;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{open, pause, win, win_for, within, yes};
use crate::away::with_cluster;
use crate::proxy::Proxy;
use crate::subject::LONG;

/// Longer than a restart takes.
const PATIENT: Duration = Duration::from_secs(30);

async fn patient(pool: &PgPool, schema: &str) -> PostgresClaims {
    let builder = PostgresClaims::builder(pool.clone()).schema(schema);
    builder.retry_for(PATIENT).build().await.unwrap()
}

/// Claims each key twice at once and ends whichever was won, until told to stop: how many keys.
async fn work(claims: PostgresClaims, task: usize, mut stop: watch::Receiver<bool>) -> usize {
    let mut count = 0;
    while !*stop.borrow_and_update() {
        let name = name(&format!("{task}-{count}"));
        let asks = [ask(&name, "{}", LONG, LONG), ask(&name, "{}", LONG, LONG)];
        let (one, other) = tokio::join!(claims.claim(&asks[0]), claims.claim(&asks[1]));
        let claimed = [one.unwrap(), other.unwrap()];
        let won: Vec<_> = (0..2)
            .filter(|at| matches!(claimed[*at], Claimed::Won { run: 1, point: None }))
            .collect();
        assert_eq!(won.len(), 1, "{claimed:?}");
        let (holder, body) = (&asks[won[0]].holder, format!("{task}-{count}"));
        assert_eq!(claims.renew(holder, LONG).await.unwrap(), Held::Yes(()));
        let held = claims.complete(holder, &answer(201, body), LONG).await.unwrap();
        assert_eq!(held, Held::Yes(()), "nobody else has it");
        count += 1;
    }
    count
}

async fn while_working(claims: &PostgresClaims, disturb: impl AsyncFnOnce()) {
    let (stop, stopped) = watch::channel(false);
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        let (claims, stopped) = (claims.clone(), stopped.clone());
        tasks.spawn(async move { (task, work(claims, task, stopped).await) });
    }
    disturb().await;
    stop.send(true).unwrap();
    let counts = tasks.join_all().await;
    assert!(counts.iter().any(|(_, count)| *count > 0));
    for (task, count) in counts {
        for number in 0..count {
            let key = format!("{task}-{number}");
            let row = claims.look(&name(&key)).await.unwrap().expect("it was acknowledged");
            assert_eq!((row.seen.runs, row.answer), (1, Some(answer(201, key))));
        }
    }
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::away::nothing_is_lost_or_doubled_when_the_server_is_killed_or_restarted", |_| {
        with_cluster(async |cluster| {
            let claims = patient(&cluster.pool(), "post_once").await;
            while_working(&claims, async || {
                for round in 0..4 {
                    pause(150).await;
                    if round % 2 == 0 {
                        cluster.kill();
                    } else {
                        cluster.stop();
                    }
                    pause(100).await;
                    tokio::task::block_in_place(|| cluster.run_with(&[]));
                }
                pause(150).await;
            })
            .await;
        })
    }),
    ("claims::away::nothing_is_lost_or_doubled_when_connections_are_cut", |server| {
        server.test(async |schema| {
            let named = server.pool_with(|options| options.application_name(schema));
            let claims = patient(&named, schema).await;
            let pool = server.pool();
            while_working(&claims, async || {
                for _ in 0..40 {
                    pause(20).await;
                    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                               WHERE application_name = $1";
                    sqlx::query(cut).bind(schema).execute(&pool).await.unwrap();
                }
            })
            .await;
        })
    }),
    ("claims::away::what_was_committed_is_found_when_its_answer_was_lost", |server| {
        server.test(async |schema| {
            let (host, port) = server.address();
            let proxy = Proxy::to(&host, port).await;
            let pool = server.pool_with(|options| options.host("127.0.0.1").port(proxy.port));
            let builder = PostgresClaims::builder(pool).schema(schema).writers(1);
            let claims = builder.retry_for(PATIENT).build().await.unwrap();
            let point = RecoveryPoint::unconfirmed("charging", None);
            let (none, done) = (Duration::ZERO, answer(201, "made"));
            // Once as it is, so that all statements are prepared, and once with each answer lost.
            for lost in [false, true] {
                let key = |verb: &str| name(&format!("{verb}-{lost}"));
                let warm = async |verb: &str| {
                    // The connection that replaces the lost one has to prepare them anew.
                    for round in 0..2 {
                        let warm = name(&format!("warm-{verb}-{lost}-{round}"));
                        win_for(&claims, &warm, none).await;
                        let holder = win(&claims, &warm).await;
                        yes(claims.renew(&holder, LONG).await.unwrap());
                        yes(claims.checkpoint(&holder, &point, none).await.unwrap());
                        yes(claims.settle(&holder, &Decision::RunAgain).await.unwrap());
                        let holder = win(&claims, &warm).await;
                        yes(claims.release(&holder).await.unwrap());
                        let holder = win(&claims, &warm).await;
                        yes(claims.complete(&holder, &done, LONG).await.unwrap());
                        let dead = name(&format!("dead-{verb}-{lost}-{round}"));
                        let dead = win_for(&claims, &dead, none).await;
                        yes(claims.settle(&dead, &Decision::Forget).await.unwrap());
                    }
                    if lost {
                        proxy.lose_the_next_answer();
                    }
                };
                warm("claim").await;
                let holder = win(&claims, &key("order")).await;
                warm("renew").await;
                yes(claims.renew(&holder, LONG).await.unwrap());
                warm("checkpoint").await;
                yes(claims.checkpoint(&holder, &point, none).await.unwrap());
                warm("settle").await;
                yes(claims.settle(&holder, &Decision::RunAgain).await.unwrap());
                let holder = win(&claims, &key("order")).await;
                warm("release").await;
                yes(claims.release(&holder).await.unwrap());
                let holder = win(&claims, &key("order")).await;
                warm("complete").await;
                yes(claims.complete(&holder, &done, LONG).await.unwrap());
                let bare = win(&claims, &key("bare")).await;
                warm("gone").await;
                yes(claims.release(&bare).await.unwrap());
                assert!(claims.look(&bare.name).await.unwrap().is_none());
                let dead = win_for(&claims, &key("forgotten"), none).await;
                warm("forget").await;
                yes(claims.settle(&dead, &Decision::Forget).await.unwrap());
                assert!(proxy.has_lost(), "each was lost");
                let row = claims.look(&key("order")).await.unwrap().unwrap();
                assert_eq!((row.seen.runs, row.answer), (2, Some(done.clone())));
            }
        })
    }),
    ("claims::away::a_take_over_whose_answer_was_lost_is_ours", |server| {
        server.test(async |schema| {
            let (host, port) = server.address();
            let proxy = Proxy::to(&host, port).await;
            let far = server.pool_with(|options| options.host("127.0.0.1").port(proxy.port));
            let far = PostgresClaims::builder(far).schema(schema).writers(1).retry_for(PATIENT);
            let (far, near) = (far.build().await.unwrap(), open(&server.pool(), schema).await);
            for number in 0..20 {
                let dead = win_for(&near, &name(&format!("order-{number}")), Duration::ZERO).await;
                // The first of its statements looks, and the second takes over: either is lost.
                let before = far.look(&dead.name).await.unwrap();
                assert!(before.is_some());
                proxy.lose_the_next_answer();
                let ask = ask(&dead.name, "{}", LONG, LONG);
                let claimed = far.claim(&ask).await.unwrap();
                assert_eq!(claimed, Claimed::Won { run: 2, point: None });
                assert!(proxy.has_lost());
                let row = near.look(&dead.name).await.unwrap().unwrap();
                assert_eq!((row.holder, row.seen.runs), (ask.holder, 2));
            }
        })
    }),
    ("claims::away::one_that_stays_away_is_an_error_soon", |_| {
        with_cluster(async |cluster| {
            let claims = open(&cluster.pool(), "post_once").await;
            let holder = win(&claims, &name("order-1")).await;
            cluster.kill();
            let mut tasks = JoinSet::new();
            for number in 0..5_000 {
                let claims = claims.clone();
                let ask = ask(&name(&format!("late-{number}")), "{}", LONG, LONG);
                tasks.spawn(async move { claims.claim(&ask).await });
            }
            for claimed in within(12, tasks.join_all()).await {
                let error = claimed.unwrap_err();
                let text = error.to_string();
                assert!(matches!(error, ClaimError::Failed(_) | ClaimError::InDoubt(_)), "{text}");
                assert!(text.contains("127.0.0.1:") && text.contains("see that it runs"), "{text}");
            }
            tokio::task::block_in_place(|| cluster.run_with(&[]));
            let held = claims.complete(&holder, &answer(201, "{}"), LONG).await.unwrap();
            assert_eq!(held, Held::Yes(()), "it is used again when it is back");
        })
    }),
];
