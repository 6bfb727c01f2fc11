//! The PostgreSQL server that tests share, and the schema that each has on it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use post_once::server::store::PostgresClaims;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, PgPool};

use crate::cluster::Cluster;

#[derive(Debug)]
pub(crate) struct Server {
    options: PgConnectOptions,
    cluster: Mutex<Option<Cluster>>,
}

impl Server {
    /// `DATABASE_URL`, or a throw-away cluster; none is started only to list the tests.
    pub(crate) fn find(only_listed: bool) -> Result<&'static Server, String> {
        let server = match std::env::var("DATABASE_URL") {
            Ok(url) => {
                let options = url.parse().map_err(|error| format!("DATABASE_URL: {error}"))?;
                Server { options, cluster: Mutex::new(None) }
            }
            Err(_) if only_listed => {
                Server { options: PgConnectOptions::new(), cluster: Mutex::new(None) }
            }
            Err(_) => {
                let cluster = Cluster::start()?;
                Server { options: cluster.options(), cluster: Mutex::new(Some(cluster)) }
            }
        };
        Ok(Box::leak(Box::new(server)))
    }

    /// A schema that nobody else has; it is left behind in a server that is not ours, and dropped by the next
    /// run of the same number.
    pub(crate) fn schema(&'static self) -> Schema {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Schema { server: self, name: format!("post_once_server_{}_{number}", std::process::id()) }
    }

    /// Removes what was made.
    pub(crate) fn end(&self) {
        let drop_all = async {
            let pool = self.pool();
            let ours = format!("post_once_server_{}_%", std::process::id());
            let of = "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE $1";
            let names: Vec<String> =
                sqlx::query_scalar(of).bind(ours).fetch_all(&pool).await.unwrap();
            for name in names {
                let sql = format!("DROP SCHEMA {name} CASCADE");
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&pool).await.unwrap();
            }
        };
        crate::runtime().block_on(drop_all);
        *self.cluster.lock().unwrap() = None;
    }

    fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(6).connect_lazy_with(self.options.clone())
    }
}

/// A schema of a test's own.
#[derive(Debug)]
pub(crate) struct Schema {
    server: &'static Server,
    pub(crate) name: String,
}

impl Schema {
    pub(crate) fn pool(&self) -> PgPool {
        self.server.pool()
    }

    pub(crate) async fn claims(&self) -> PostgresClaims {
        PostgresClaims::builder(self.pool()).schema(&self.name).build().await.unwrap()
    }
}
