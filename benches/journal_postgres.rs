//! The store in PostgreSQL beside what it could at best be, and what it replaces; one run, one server.
//!
//! *Bare* is a batched insert without a journal: the same number of writers, rows of 16 random bytes and
//! 1 KiB through `UNNEST`. *Pooled* is a pool of 16 with one transaction per operation. Each figure is the
//! best of a few short rounds, which the variants take in turn. `DATABASE_URL`, or a throw-away cluster.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![allow(clippy::disallowed_methods, reason = "a measurement is of the real time")]

#[path = "../tests/postgres/cluster.rs"]
#[allow(dead_code, reason = "the tests stop and kill their servers, too")]
mod cluster;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use post_once::journal::{Held, Inserted, Journal, PostgresJournal, To};
use post_once::testkit::journal::{draft, due, outcome};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;

const RECORD: usize = 1024;
const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 6;
const LEASE: Duration = Duration::from_secs(600);
const WRITERS: usize = 2;
const TASKS: [usize; 4] = [1, 16, 64, 256];
const CLAIMED: usize = 20_000;
const CLAIM_ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (cluster, options) = match std::env::var("DATABASE_URL") {
        Ok(url) => (None, url.parse::<PgConnectOptions>()?),
        Err(_) => {
            let cluster = cluster::Cluster::start()?;
            let options = cluster.options();
            (Some(cluster), options)
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(run(options))?;
    drop(runtime);
    drop(cluster);
    Ok(())
}

async fn run(options: PgConnectOptions) -> Result<(), Box<dyn std::error::Error>> {
    let pool = PgPoolOptions::new().max_connections(16).connect_with(options).await?;
    let schema = format!("post_once_bench_{}", std::process::id());
    let journal =
        PostgresJournal::builder(pool.clone()).schema(&schema).writers(WRITERS).build().await?;
    let bare = format!("CREATE TABLE {schema}.bare (key bytea PRIMARY KEY, record bytea NOT NULL)");
    sqlx::raw_sql(AssertSqlSafe(bare)).execute(&pool).await?;

    println!("inserts per second, best of {ROUNDS} rounds of {ROUND:?}, records of {RECORD} bytes");
    println!(
        "{:>5} {:>9} {:>9} {:>9} {:>10} {:>12} {:>13}",
        "tasks", "store", "bare", "pooled", "whole life", "store/bare", "store/pooled"
    );
    for tasks in TASKS {
        let one = "INSERT INTO {schema}.bare (key, record) VALUES ($1, $2)";
        let many = "INSERT INTO {schema}.bare (key, record) SELECT * FROM unnest($1::bytea[], $2::bytea[])";
        let [one, many]: [Arc<str>; 2] =
            [one, many].map(|sql| sql.replace("{schema}", &schema).into());
        let batched = batched(&pool, &many);
        let mut best = [0.0_f64; 4];
        for _ in 0..ROUNDS {
            let rates = [
                rate(tasks, with(&journal, begin)).await,
                rate(tasks, with(&batched, hand_over)).await,
                rate(tasks, with(&(pool.clone(), one.clone()), insert_one)).await,
                rate(tasks, with(&journal, live)).await,
            ];
            for (best, rate) in best.iter_mut().zip(rates) {
                *best = best.max(rate);
            }
        }
        let [store, bare, pooled, whole] = best;
        println!(
            "{tasks:>5} {store:>9.0} {bare:>9.0} {pooled:>9.0} {whole:>10.0} {:>12.2} {:>13.2}",
            store / bare,
            store / pooled
        );
    }
    claims(&pool, &schema).await?;
    let clean = format!("DROP SCHEMA {schema} CASCADE");
    sqlx::raw_sql(AssertSqlSafe(clean)).execute(&pool).await?;
    Ok(())
}

/// So many tasks do the same again and again: how often per second.
async fn rate<F>(tasks: usize, one: impl Fn() -> F + Clone + Send + 'static) -> f64
where
    F: Future<Output = ()> + Send,
{
    let done = Arc::new(AtomicU64::new(0));
    let started = now();
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        let (done, one) = (Arc::clone(&done), one.clone());
        set.spawn(async move {
            while started.elapsed() < ROUND {
                one().await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    set.join_all().await;
    done.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64()
}

/// What to do with a handle, each time with a clone of it.
fn with<H: Clone + Send + 'static, F>(
    handle: &H,
    one: fn(H) -> F,
) -> impl Fn() -> F + Clone + Send + 'static
where
    F: Future<Output = ()> + Send + 'static,
{
    let handle = handle.clone();
    move || one(handle.clone())
}

async fn begin(journal: PostgresJournal) {
    let begun = draft(None, vec![b'x'; RECORD]);
    let Inserted::New(_) = journal.insert(&begun, LEASE).await.expect("it can be inserted") else {
        panic!("without a name nothing is found");
    };
}

async fn live(journal: PostgresJournal) {
    let begun = draft(None, vec![b'x'; RECORD]);
    let Inserted::New(claim) = journal.insert(&begun, LEASE).await.expect("it can be inserted")
    else {
        panic!("without a name nothing is found");
    };
    let ended = journal.finish(&claim, &outcome(To::Completed)).await.expect("it can be ended");
    assert_eq!(ended, Held::Yes(()));
}

fn record() -> (Vec<u8>, Vec<u8>) {
    (rand::random::<[u8; 16]>().to_vec(), vec![b'x'; RECORD])
}

async fn insert_one((pool, sql): (PgPool, Arc<str>)) {
    let (key, record) = record();
    let insert = sqlx::query(AssertSqlSafe(sql)).bind(key).bind(record);
    insert.execute(&pool).await.expect("it can be inserted");
}

type Waiting = (Vec<u8>, Vec<u8>, oneshot::Sender<()>);

async fn hand_over(batched: mpsc::Sender<Waiting>) {
    let (key, record) = record();
    let (done, wait) = oneshot::channel();
    batched.send((key, record, done)).await.expect("writers live as long as this");
    wait.await.expect("it was written");
}

/// Writers that take what is there, up to 256.
fn batched(pool: &PgPool, sql: &Arc<str>) -> mpsc::Sender<Waiting> {
    let (send, receive) = mpsc::channel::<Waiting>(1024);
    let receive = Arc::new(Mutex::new(receive));
    for _ in 0..WRITERS {
        let (pool, sql, receive) = (pool.clone(), Arc::clone(sql), Arc::clone(&receive));
        tokio::spawn(async move {
            let mut conn = pool.acquire().await.expect("the pool has one").detach();
            let mut waiting = Vec::new();
            while receive.lock().await.recv_many(&mut waiting, 256).await > 0 {
                let keys: Vec<_> = waiting.iter().map(|(key, ..)| key.as_slice()).collect();
                let records: Vec<_> =
                    waiting.iter().map(|(_, record, _)| record.as_slice()).collect();
                let insert = sqlx::query(AssertSqlSafe(Arc::clone(&sql))).bind(keys).bind(records);
                insert.execute(&mut conn).await.expect("they can be inserted");
                for (.., done) in waiting.drain(..) {
                    let _ = done.send(());
                }
            }
        });
    }
    send
}

async fn claims(pool: &PgPool, schema: &str) -> Result<(), Box<dyn std::error::Error>> {
    println!("\nclaims per second, of {CLAIMED} rows, best of {CLAIM_ROUNDS} rounds");
    println!("{:>5} {:>9} {:>9}", "batch", "1 worker", "4 workers");
    for batch in [1, 32, 128] {
        let mut best = [0.0_f64; 2];
        for _ in 0..CLAIM_ROUNDS {
            for (best, workers) in best.iter_mut().zip([1, 4]) {
                let builder = PostgresJournal::builder(pool.clone()).schema(schema);
                let journal = builder.writers(workers).build().await?;
                let clean = format!("TRUNCATE {schema}.operation");
                sqlx::raw_sql(AssertSqlSafe(clean)).execute(pool).await?;
                let rows = if batch == 1 { CLAIMED / 5 } else { CLAIMED };
                fill(&journal, rows).await;
                *best = best.max(drain(&journal, workers, batch, rows).await);
            }
        }
        println!("{batch:>5} {:>9.0} {:>9.0}", best[0], best[1]);
    }
    Ok(())
}

async fn fill(journal: &PostgresJournal, rows: usize) {
    let mut set = JoinSet::new();
    for _ in 0..rows {
        let journal = journal.clone();
        set.spawn(async move {
            journal.enqueue(&draft(None, vec![b'x'; RECORD])).await.expect("it is enqueued")
        });
    }
    set.join_all().await;
}

/// Claims all of them: how many per second.
async fn drain(journal: &PostgresJournal, workers: usize, batch: u32, rows: usize) -> f64 {
    let started = now();
    let mut set = JoinSet::new();
    for _ in 0..workers {
        let journal = journal.clone();
        set.spawn(async move {
            let mut claimed = 0;
            loop {
                let some = journal.claim_due(&due(&[], batch), LEASE).await;
                match some.expect("they can be claimed").len() {
                    0 => break claimed,
                    some => claimed += some,
                }
            }
        });
    }
    let claimed: usize = set.join_all().await.into_iter().sum();
    assert_eq!(claimed, rows, "each once");
    rows as f64 / started.elapsed().as_secs_f64()
}

#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
fn now() -> Instant {
    Instant::now()
}
