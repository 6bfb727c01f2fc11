//! The server that tests share, and what each has of its own on it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use libtest_mimic::Failed;
use post_once::journal::{Claim, Draft, Held, Inserted, Journal, List, PostgresJournal, Record};
use post_once::testkit::journal::list;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};
use tokio::runtime::Runtime;

use crate::cluster::Cluster;

/// The server that all tests share.
#[derive(Debug)]
pub(crate) struct Server {
    options: PgConnectOptions,
    cluster: Mutex<Option<Cluster>>,
}

impl Server {
    pub(crate) fn find() -> Result<Server, String> {
        if let Ok(url) = std::env::var("DATABASE_URL") {
            let options = url.parse().map_err(|error| format!("DATABASE_URL: {error}"))?;
            return Ok(Server { options, cluster: Mutex::new(None) });
        }
        let cluster = Cluster::start()?;
        Ok(Server { options: cluster.options(), cluster: Mutex::new(Some(cluster)) })
    }

    /// Stops and removes it, if it is ours.
    pub(crate) fn end(&self) {
        *self.cluster.lock().unwrap() = None;
    }

    pub(crate) fn address(&self) -> (String, u16) {
        (self.options.get_host().to_owned(), self.options.get_port())
    }

    /// A URL of a database on it.
    #[cfg(feature = "cli")]
    pub(crate) fn url(&self, database: &str) -> String {
        use sqlx::ConnectOptions as _;
        let url = self.options.clone().database(database).to_url_lossy();
        url.to_string()
    }

    pub(crate) fn pool(&self) -> PgPool {
        self.pool_with(|options| options)
    }

    pub(crate) fn pool_with(&self, with: impl Fn(PgConnectOptions) -> PgConnectOptions) -> PgPool {
        PgPoolOptions::new().max_connections(6).connect_lazy_with(with(self.options.clone()))
    }

    /// Runs a test with a schema of its own, which is dropped afterwards.
    pub(crate) fn test(&self, test: impl AsyncFnOnce(&str)) -> Result<(), Failed> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let schema = format!("post_once_test_{}_{number}", std::process::id());
        runtime().block_on(async {
            test(&schema).await;
            let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
            sqlx::raw_sql(AssertSqlSafe(drop)).execute(&self.pool()).await.unwrap();
        });
        Ok(())
    }
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub(crate) async fn open(pool: &PgPool, schema: &str) -> PostgresJournal {
    PostgresJournal::builder(pool.clone()).schema(schema).build().await.unwrap()
}

pub(crate) const LONG: Duration = Duration::from_secs(1000);

pub(crate) async fn begin(journal: &PostgresJournal, draft: &Draft) -> Claim {
    match journal.insert(draft, LONG).await.unwrap() {
        Inserted::New(claim) => claim,
        Inserted::Found(record) => panic!("must be new: {record:?}"),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn yes<T: std::fmt::Debug>(held: Held<T>) -> T {
    match held {
        Held::Yes(value) => value,
        Held::Lost => panic!("must be held, and is lost"),
    }
}

pub(crate) async fn all(journal: &PostgresJournal) -> Vec<Record> {
    let everything: List = list([], None, None, u32::MAX);
    journal.list(&everything).await.unwrap()
}
