//! What a claim and the sweep of a row cost beside a thousand keys, and beside a million.
//!
//! What is claimed may be forgotten at once, and is swept before the next round: the stores keep their size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, Method, StatusCode};
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::answer::StoredAnswer;
use post_once::server::store::{
    Ask, ClaimStore, Claimed, Held, Holder, MemoryClaims, Name, PostgresClaims, SqliteClaims, Token,
};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;

use crate::Bench;
use crate::compare::{load_average, median};
use crate::load::{CONNECTIONS, ORDER, new_key};

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];
/// So many are claimed in a round, and swept in batches.
const CLAIMS: usize = 2_048;
const BATCH: u32 = 512;
const ROUNDS: usize = 15;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) async fn memory(bench: &Bench) {
    let sizes = sizes(bench);
    let sized = async move {
        let mut stores: Vec<Arc<dyn ClaimStore>> = Vec::new();
        for &size in &sizes {
            let store: Arc<dyn ClaimStore> = Arc::new(MemoryClaims::new());
            fill(&store, size).await;
            stores.push(store);
        }
        measure("memory", &sizes, &stores).await;
    };
    bench.there(sized).await;
}

pub(crate) async fn sqlite(bench: &Bench) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().to_owned();
    let sizes = sizes(bench);
    let sized = async move {
        let mut stores: Vec<Arc<dyn ClaimStore>> = Vec::new();
        for &size in &sizes {
            let store = SqliteClaims::open(path.join(size.to_string())).await.unwrap();
            let store: Arc<dyn ClaimStore> = Arc::new(store);
            fill(&store, size).await;
            stores.push(store);
        }
        measure("SQLite", &sizes, &stores).await;
    };
    bench.there(sized).await;
}

pub(crate) async fn postgres(bench: &Bench) {
    let options = bench.postgres.clone().unwrap();
    let sizes = sizes(bench);
    let sized = async move {
        let pool = PgPoolOptions::new().max_connections(10).connect_with(options).await.unwrap();
        let mut stores: Vec<Arc<dyn ClaimStore>> = Vec::new();
        let schema = |size| format!("post_once_size_{}_{size}", std::process::id());
        for &size in &sizes {
            let schema = schema(size);
            let store =
                PostgresClaims::builder(pool.clone()).schema(&schema).build().await.unwrap();
            let store: Arc<dyn ClaimStore> = Arc::new(store);
            fill(&store, 1).await;
            // More of the same.
            let sql = format!(
                "INSERT INTO {schema}.claim (principal, key, fingerprint, token, locked_until, \
                 expires_at, created_at, status, header_lines, body) \
                 SELECT principal, md5(number::text), fingerprint, token, locked_until, \
                 expires_at, created_at, status, header_lines, body \
                 FROM {schema}.claim, generate_series(2, {size}) number; \
                 VACUUM ANALYZE {schema}.claim"
            );
            for sql in sql.split("; ") {
                sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&pool).await.unwrap();
            }
            stores.push(store);
        }
        measure("PostgreSQL", &sizes, &stores).await;
        for &size in &sizes {
            let clean = format!("DROP SCHEMA {} CASCADE", schema(size));
            sqlx::raw_sql(AssertSqlSafe(clean)).execute(&pool).await.unwrap();
        }
    };
    bench.there(sized).await;
}

fn sizes(bench: &Bench) -> Vec<usize> {
    SIZES.into_iter().filter(|size| *size <= bench.largest).collect()
}

async fn measure(name: &str, sizes: &[usize], stores: &[Arc<dyn ClaimStore>]) {
    let before = load_average();
    let mut claims = vec![Vec::new(); stores.len()];
    let mut sweeps = vec![Vec::new(); stores.len()];
    for round in 0..=ROUNDS {
        for turn in 0..stores.len() {
            let at = (round + turn) % stores.len();
            let claim = per_row(claim_all(&stores[at], CLAIMS, Duration::ZERO)).await;
            let sweep = per_row(sweep_all(&stores[at])).await;
            // The first round warms up.
            if round > 0 {
                claims[at].push(claim);
                sweeps[at].push(sweep);
            }
        }
    }
    println!("\n{name}, by size: {ROUNDS} rounds, load {before} to {}", load_average());
    println!(
        "{:>10}{:>12}{:>16}{:>12}{:>16}",
        "keys", "µs/claim", "÷ smallest", "µs/sweep", "÷ smallest"
    );
    for (at, size) in sizes.iter().enumerate() {
        let ratio = |times: &[Vec<f64>]| {
            median(times[at].iter().zip(&times[0]).map(|(this, least)| this / least).collect())
        };
        println!(
            "{size:>10}{:>12.2}{:>16.2}{:>12.2}{:>16.2}",
            median(claims[at].clone()),
            ratio(&claims),
            median(sweeps[at].clone()),
            ratio(&sweeps)
        );
    }
}

/// Microseconds per row, of `CLAIMS` rows.
async fn per_row(work: impl Future<Output = ()>) -> f64 {
    let started = Instant::now();
    work.await;
    started.elapsed().as_secs_f64() * 1e6 / CLAIMS as f64
}

async fn sweep_all(store: &Arc<dyn ClaimStore>) {
    let mut swept = 0;
    while swept < CLAIMS as u64 {
        let of_batch = store.sweep(BATCH).await.unwrap();
        assert_ne!(of_batch, 0, "all that was claimed can be forgotten");
        swept += of_batch;
    }
    assert_eq!(swept, CLAIMS as u64, "nothing else can");
}

/// Answered keys, kept for a day.
async fn fill(store: &Arc<dyn ClaimStore>, size: usize) {
    claim_all(store, size, DAY).await;
}

/// Claims so many new keys, many at a time; answers those that are kept.
async fn claim_all(store: &Arc<dyn ClaimStore>, count: usize, kept_for: Duration) {
    let workers = if kept_for.is_zero() { CONNECTIONS } else { 8 * CONNECTIONS };
    let mut running = JoinSet::new();
    for worker in 0..workers {
        let store = Arc::clone(store);
        running.spawn(async move {
            for _ in (worker..count).step_by(workers) {
                let holder = claim(&*store, kept_for).await;
                if !kept_for.is_zero() {
                    answer(&*store, &holder, kept_for).await;
                }
            }
        });
    }
    running.join_all().await;
}

async fn claim(store: &dyn ClaimStore, kept_for: Duration) -> Holder {
    let name = Name::new("acct_1", &IdempotencyKey::parse(&new_key()).unwrap());
    let holder = Holder::new(name, Token::mint());
    let json = Some("application/json");
    let fingerprint = Fingerprint::new(&Method::POST, "/orders", json, ORDER.as_bytes());
    let ask = Ask::new(holder.clone(), fingerprint, kept_for, kept_for);
    let claimed = store.claim(&ask).await.unwrap();
    assert_eq!(claimed, Claimed::Won { run: 1, point: None });
    holder
}

async fn answer(store: &dyn ClaimStore, holder: &Holder, kept_for: Duration) {
    let answer = StoredAnswer::new(StatusCode::CREATED, HeaderMap::new(), Some(ORDER.into()));
    let held = store.complete(holder, &answer, kept_for).await.unwrap();
    assert_eq!(held, Held::Yes(()));
}
