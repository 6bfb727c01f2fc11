//! Writes in groups.

use std::collections::{BTreeSet, HashMap};

use post_once::journal::{Held, Inserted, Journal, JournalError, PostgresJournal, State, To};
use post_once::testkit::journal::{draft, outcome};
use sqlx::{AssertSqlSafe, Row};
use tokio::task::JoinSet;

use crate::subject::{LONG, all, begin, open, runtime, yes};

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("group::of_one_name_many_times_in_a_group_one_is_inserted", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = PostgresJournal::builder(pool).schema(schema).writers(1);
            let journal = journal.build().await.unwrap();
            let mut tasks = JoinSet::new();
            for number in 0..600 {
                let journal = journal.clone();
                let begun = draft(Some(&format!("order-{}", number % 3)), "{}");
                tasks.spawn(async move { journal.insert(&begun, LONG).await.unwrap() });
            }
            let mut rows: HashMap<_, (u32, u32)> = HashMap::new();
            for inserted in tasks.join_all().await {
                match inserted {
                    Inserted::New(claim) => rows.entry(claim.row).or_default().0 += 1,
                    Inserted::Found(record) => rows.entry(record.row).or_default().1 += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(rows.into_values().collect::<Vec<_>>(), [(1, 199); 3]);
        })
    }),
    ("group::names_and_rows_in_opposite_orders_never_lock_crosswise", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journals = [open(&pool, schema).await, open(&pool, schema).await];
            for round in 0..10 {
                let mut tasks = JoinSet::new();
                for number in 0..200 {
                    for (side, journal) in journals.iter().cloned().enumerate() {
                        let number = if side == 0 { number } else { 199 - number };
                        let begun = draft(Some(&format!("order-{round}-{number}")), "{}");
                        tasks.spawn(async move {
                            if let Inserted::New(claim) =
                                journal.insert(&begun, LONG).await.unwrap()
                            {
                                yes(journal.renew(&claim, LONG).await.unwrap());
                                let parked = outcome(To::Unknown);
                                yes(journal.finish(&claim, &parked).await.unwrap());
                            }
                        });
                    }
                }
                tasks.join_all().await;
            }
            let rows = all(&journals[0]).await;
            assert_eq!(rows.len(), 2000);
            assert!(rows.iter().all(|row| row.state == State::Unknown));
            let deadlocks =
                "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
            let deadlocks: i64 = sqlx::query(deadlocks).fetch_one(&pool).await.unwrap().get(0);
            assert_eq!(deadlocks, 0);
        })
    }),
    ("group::each_verb_of_a_group_learns_whether_it_held", |server| {
        server.test(async |schema| {
            let journal = open(&server.pool(), schema).await;
            let mut claims = Vec::new();
            for _ in 0..40 {
                claims.push(begin(&journal, &draft(None, "{}")).await);
            }
            for claim in claims.iter().step_by(2) {
                yes(journal.finish(claim, &outcome(To::Unknown)).await.unwrap());
            }
            let mut tasks = JoinSet::new();
            for (number, claim) in claims.into_iter().enumerate() {
                let journal = journal.clone();
                tasks.spawn(async move {
                    let trail = outcome(To::Completed).trail;
                    let attempted = journal.attempt(&claim, &trail).await.unwrap();
                    let renewed = journal.renew(&claim, LONG).await.unwrap();
                    let finished = journal.finish(&claim, &outcome(To::Completed)).await.unwrap();
                    let held = if number % 2 == 0 { Held::Lost } else { Held::Yes(()) };
                    assert_eq!([attempted, renewed, finished], [held; 3], "{number}");
                });
            }
            tasks.join_all().await;
            let completed = all(&journal).await;
            let completed = completed.iter().filter(|row| row.state == State::Completed);
            assert_eq!(completed.count(), 20);
        })
    }),
    ("group::what_is_refused_fails_alone", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            let check = format!("ALTER TABLE {schema}.operation ADD CHECK (key <> 'order-13')");
            sqlx::raw_sql(AssertSqlSafe(check)).execute(&pool).await.unwrap();
            let mut tasks = JoinSet::new();
            for number in 0..100 {
                let journal = journal.clone();
                tasks.spawn(async move {
                    let begun = draft(Some(&format!("order-{number}")), "{}");
                    (number, journal.insert(&begun, LONG).await)
                });
            }
            for (number, inserted) in tasks.join_all().await {
                match inserted {
                    Ok(Inserted::New(_)) => assert_ne!(number, 13),
                    Err(JournalError::Failed(_)) => assert_eq!(number, 13),
                    other => panic!("{number}: {other:?}"),
                }
            }
            assert_eq!(all(&journal).await.len(), 99);
        })
    }),
    ("group::what_was_committed_before_the_group_failed_is_not_written_again", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let builder = PostgresJournal::builder(pool.clone()).schema(schema).writers(1);
            let journal = builder.build().await.unwrap();
            let unreadable = begin(&journal, &draft(Some("order-1"), "{}")).await;
            // Its insert is no error, but the statement that looks for the row of its name is.
            let spoil = format!("UPDATE {schema}.operation SET due = 'infinity'");
            sqlx::raw_sql(AssertSqlSafe(spoil)).execute(&pool).await.unwrap();
            let mut tasks = JoinSet::new();
            for number in 0..200 {
                let journal = journal.clone();
                tasks.spawn(async move {
                    let name = (number % 20 == 0).then_some("order-1");
                    (name, journal.insert(&draft(name, "{}"), LONG).await)
                });
            }
            let mut rows = BTreeSet::new();
            for (name, inserted) in tasks.join_all().await {
                match inserted {
                    Ok(Inserted::New(claim)) => assert!(name.is_none() && rows.insert(claim.row)),
                    Err(JournalError::Failed(_)) => assert!(name.is_some()),
                    other => panic!("{name:?}: {other:?}"),
                }
            }
            let repair = format!("UPDATE {schema}.operation SET due = now()");
            sqlx::raw_sql(AssertSqlSafe(repair)).execute(&pool).await.unwrap();
            let there: BTreeSet<_> = all(&journal).await.iter().map(|row| row.row).collect();
            rows.insert(unreadable.row);
            assert_eq!((rows.len(), there), (191, rows));
        })
    }),
    ("group::what_was_queued_is_written_after_the_last_handle_is_gone", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let journal = open(&pool, schema).await;
            let claim = begin(&journal, &draft(None, "{}")).await;
            journal.finish_soon(claim, outcome(To::Completed));
            drop(journal);
            let journal = open(&pool, schema).await;
            for _ in 0..10_000 {
                if all(&journal).await[0].state == State::Completed {
                    return;
                }
            }
            panic!("it was not written");
        })
    }),
    ("group::a_runtime_that_has_ended_is_an_error_and_no_wait", |server| {
        server.test(async |schema| {
            let pool = server.pool();
            let schema = schema.to_owned();
            let opened = std::thread::spawn(move || {
                runtime().block_on(async { open(&pool, &schema).await })
            });
            let journal = opened.join().unwrap();
            let error = journal.insert(&draft(None, "{}"), LONG).await.unwrap_err();
            assert!(error.to_string().contains("open it again"), "{error}");
        })
    }),
];
