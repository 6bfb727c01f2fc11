//! A server that goes away: what was acknowledged is there, once, and verbs wait for its return.

use std::collections::HashMap;
use std::time::Duration;

use libtest_mimic::Failed;
use post_once::journal::{
    Decision, Inserted, Journal, JournalError, PostgresJournal, State, To, Token,
};
use post_once::testkit::journal::{draft, outcome};
use sqlx::Row;
use tokio::task::JoinSet;

use crate::cluster::Cluster;
use crate::proxy::Proxy;
use crate::subject::{LONG, all, begin, open, runtime, yes};

#[expect(clippy::disallowed_methods, reason = "real servers in real time")]
async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// Begins and ends operations without names, as fast as it goes, until told to stop: the keys.
async fn work(
    journal: PostgresJournal,
    task: usize,
    mut stop: tokio::sync::watch::Receiver<bool>,
) -> Vec<String> {
    let mut keys = Vec::new();
    while !*stop.borrow_and_update() {
        let mut begun = draft(None, "{}");
        begun.key = format!("{task}-{}", keys.len());
        let claim = match journal.insert(&begun, LONG).await.unwrap() {
            Inserted::New(claim) => claim,
            other => panic!("without a name nothing is found: {other:?}"),
        };
        let held = journal.finish(&claim, &outcome(To::Completed)).await.unwrap();
        assert_eq!(held, post_once::journal::Held::Yes(()), "nobody else has it");
        keys.push(begun.key);
    }
    keys
}

/// Every operation has exactly one row, and it has ended.
async fn each_once(journal: &PostgresJournal, keys: Vec<String>) {
    let mut rows: HashMap<_, u32> = HashMap::new();
    for row in all(journal).await {
        assert_eq!((row.state, row.attempts), (State::Completed, 1), "{row:?}");
        *rows.entry(row.draft.key).or_default() += 1;
    }
    assert!(!keys.is_empty());
    assert_eq!(rows.len(), keys.len());
    for key in keys {
        assert_eq!(rows.get(&key), Some(&1), "{key}");
    }
}

async fn while_working(journal: &PostgresJournal, disturb: impl AsyncFnOnce()) {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut tasks = JoinSet::new();
    for task in 0..16 {
        tasks.spawn(work(journal.clone(), task, stopped.clone()));
    }
    disturb().await;
    stop.send(true).unwrap();
    let keys = tasks.join_all().await.concat();
    each_once(journal, keys).await;
}

pub(crate) fn with_cluster(test: impl AsyncFnOnce(&Cluster)) -> Result<(), Failed> {
    let cluster = Cluster::start()?;
    runtime().block_on(test(&cluster));
    Ok(())
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("away::nothing_is_lost_or_doubled_when_the_server_is_killed_or_restarted", |_| {
        with_cluster(async |cluster| {
            let journal = open(&cluster.pool(), "post_once").await;
            while_working(&journal, async || {
                for round in 0..6 {
                    pause(150).await;
                    if round % 2 == 0 {
                        cluster.kill()
                    } else {
                        cluster.stop()
                    }
                    pause(100).await;
                    tokio::task::block_in_place(|| cluster.run_with(&[]));
                }
                pause(150).await;
            })
            .await;
        })
    }),
    ("away::nothing_is_lost_or_doubled_when_connections_are_cut", |server| {
        server.test(async |schema| {
            let named = server.pool_with(|options| options.application_name(schema));
            let journal = open(&named, schema).await;
            let pool = server.pool();
            while_working(&journal, async || {
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
    ("away::a_session_that_hangs_cannot_write_behind_our_back", |_| {
        with_cluster(async |cluster| {
            let pool = cluster.pool();
            let builder = PostgresJournal::builder(pool.clone()).writers(1);
            let journal = builder.retry_for(Duration::from_secs(8)).build().await.unwrap();
            begin(&journal, &draft(None, "{}")).await;
            let writer = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2";
            let writer: i32 = sqlx::query(writer).fetch_one(&pool).await.unwrap().get(0);
            let signal = |signal: &str| {
                let kill =
                    std::process::Command::new("kill").args([signal, &writer.to_string()]).status();
                assert!(kill.unwrap().success());
            };
            signal("-STOP");
            let mut begun = draft(None, "{}");
            begun.key = "hanging".to_owned();
            let insert = {
                let (journal, begun) = (journal.clone(), begun.clone());
                tokio::spawn(async move { journal.insert(&begun, LONG).await })
            };
            // The first try has been given up by then, and the second waits for its end.
            pause(5_000).await;
            assert!(!insert.is_finished());
            assert!(journal.by_key("hanging").await.unwrap().is_empty());
            signal("-CONT");
            assert!(matches!(insert.await.unwrap(), Ok(Inserted::New(_))));
            assert_eq!(journal.by_key("hanging").await.unwrap().len(), 1);
        })
    }),
    ("away::what_was_committed_is_found_when_its_answer_was_lost", |server| {
        server.test(async |schema| {
            let (host, port) = server.address();
            let proxy = Proxy::to(&host, port).await;
            let pool = server.pool_with(|options| options.host("127.0.0.1").port(proxy.port));
            let builder = PostgresJournal::builder(pool).schema(schema).writers(1);
            let journal = builder.build().await.unwrap();
            // Once as it is, so that all statements are prepared, and once with every answer lost.
            for lost in [false, true] {
                let lose = || {
                    if lost {
                        proxy.lose_the_next_answer();
                    }
                };
                for name in [None, Some(if lost { "order-2" } else { "order-1" })] {
                    let warm = async || {
                        // The connection that replaces the lost one has to prepare them anew.
                        let claim = begin(&journal, &draft(None, "warm")).await;
                        let trail = outcome(To::Completed).trail;
                        yes(journal.attempt(&claim, &trail).await.unwrap());
                        yes(journal.finish(&claim, &outcome(To::Unknown)).await.unwrap());
                        let seen = Token(claim.token.0 + 1);
                        let taken = yes(journal.take(claim.row, seen, LONG).await.unwrap());
                        yes(journal.finish(&taken, &outcome(To::Unknown)).await.unwrap());
                        let seen = Token(taken.token.0 + 1);
                        yes(journal.decide(claim.row, seen, Decision::Abandon).await.unwrap());
                    };
                    warm().await;
                    lose();
                    let claim = begin(&journal, &draft(name, "{}")).await;
                    warm().await;
                    lose();
                    let trail = outcome(To::Completed).trail;
                    yes(journal.attempt(&claim, &trail).await.unwrap());
                    warm().await;
                    lose();
                    yes(journal.finish(&claim, &outcome(To::Unknown)).await.unwrap());
                    warm().await;
                    lose();
                    let seen = Token(claim.token.0 + 1);
                    let taken = yes(journal.take(claim.row, seen, LONG).await.unwrap());
                    yes(journal.finish(&taken, &outcome(To::Unknown)).await.unwrap());
                    warm().await;
                    lose();
                    let seen = Token(taken.token.0 + 1);
                    yes(journal.decide(claim.row, seen, Decision::Completed).await.unwrap());
                    assert!(proxy.has_lost(), "each was lost");
                    let row = journal.by_row(claim.row).await.unwrap().unwrap();
                    assert_eq!((row.token.0, row.state), (5, State::Completed));
                }
            }
            let rows = all(&journal).await;
            let rows = rows.iter().filter(|row| row.draft.request.body == "{}");
            assert_eq!(rows.count(), 4, "each once");
        })
    }),
    ("away::one_that_stays_away_is_a_clear_error", |_| {
        with_cluster(async |cluster| {
            let builder = PostgresJournal::builder(cluster.pool());
            let journal = builder.retry_for(Duration::from_secs(1)).build().await.unwrap();
            let claim = begin(&journal, &draft(Some("order-1"), "{}")).await;
            cluster.kill();
            let error = journal.insert(&draft(None, "{}"), LONG).await.unwrap_err();
            let text = error.to_string();
            assert!(text.contains("127.0.0.1:") && text.contains("see that it runs"), "{text}");
            let error = journal.list(&post_once::testkit::journal::list([], None, None, 1)).await;
            assert!(matches!(error, Err(JournalError::Failed(_))), "{error:?}");
            tokio::task::block_in_place(|| cluster.run_with(&[]));
            let held = journal.finish(&claim, &outcome(To::Completed)).await.unwrap();
            assert_eq!(held, post_once::journal::Held::Yes(()), "it is used again when it is back");
        })
    }),
    ("away::a_server_that_became_read_only_is_named_as_that", |_| {
        with_cluster(async |cluster| {
            let journal = open(&cluster.pool(), "post_once").await;
            begin(&journal, &draft(None, "{}")).await;
            cluster.stop();
            tokio::task::block_in_place(|| cluster.run_with(&["default_transaction_read_only=on"]));
            let error = journal.insert(&draft(None, "{}"), LONG).await.unwrap_err();
            assert!(
                matches!(&error, JournalError::Unusable(what) if what.contains("read-only")),
                "{error}"
            );
            assert_eq!(all(&journal).await.len(), 1);
        })
    }),
];
