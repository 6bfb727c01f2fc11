//! The database of the server: its keys, and its orders in two tables.

use std::path::PathBuf;
use std::sync::Arc;

use post_once::server::Claim;
use post_once::server::store::{ClaimStore, SqliteClaims};
use rusqlite::TransactionBehavior;
use serde::{Deserialize, Serialize};

/// Where it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Database {
    Sqlite(PathBuf),
    Postgres(String),
}

/// An order: what was asked for, and the key that it was asked under.
pub(crate) type Order = (String, String);

/// How an order ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    RollBack,
    /// The handler panics where it would have committed.
    Panic,
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS orders (operation text NOT NULL, key text NOT NULL);
    CREATE TABLE IF NOT EXISTS upserts (operation text NOT NULL, key text PRIMARY KEY)";

impl Database {
    pub(crate) async fn claims(&self) -> Result<Arc<dyn ClaimStore>, String> {
        match self {
            Database::Sqlite(path) => {
                let store = SqliteClaims::open(path).await.map_err(|error| error.to_string())?;
                Ok(Arc::new(store))
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => {
                let store = post_once::server::store::PostgresClaims::connect(self.pool());
                Ok(Arc::new(store.await.map_err(|error| error.to_string())?))
            }
            #[cfg(not(feature = "postgres"))]
            Database::Postgres(_) => unreachable!("it is not built"),
        }
    }

    /// Makes the tables.
    pub(crate) async fn prepare(&self) -> Result<(), String> {
        match self {
            Database::Sqlite(path) => {
                connect(path).execute_batch(TABLES).map_err(|error| error.to_string())
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => {
                let made = sqlx::raw_sql(TABLES).execute(&self.pool()).await;
                made.map(drop).map_err(|error| error.to_string())
            }
            #[cfg(not(feature = "postgres"))]
            Database::Postgres(_) => unreachable!("it is not built"),
        }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn pool(&self) -> sqlx::PgPool {
        let Database::Postgres(url) = self else { panic!("it is not PostgreSQL") };
        let limit = std::time::Duration::from_secs(5);
        let options = sqlx::postgres::PgPoolOptions::new().max_connections(12);
        options.acquire_timeout(limit).connect_lazy(url).unwrap()
    }

    /// All orders, of both tables.
    pub(crate) async fn orders(&self) -> Vec<Order> {
        let select =
            "SELECT operation, key FROM orders UNION ALL SELECT operation, key FROM upserts";
        match self {
            Database::Sqlite(path) => {
                let connection = connect(path);
                let mut select = connection.prepare(select).unwrap();
                let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
                rows.collect::<Result<_, _>>().unwrap()
            }
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => sqlx::query_as(select).fetch_all(&self.pool()).await.unwrap(),
            #[cfg(not(feature = "postgres"))]
            Database::Postgres(_) => unreachable!("it is not built"),
        }
    }
}

/// What the handlers write with.
#[derive(Clone)]
pub(crate) enum Desk {
    Sqlite(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

/// An answer that is made, and was committed with its order.
pub(crate) type Answer = http::Response<String>;

impl Desk {
    pub(crate) fn new(database: &Database) -> Desk {
        match database {
            Database::Sqlite(path) => Desk::Sqlite(path.clone()),
            #[cfg(feature = "postgres")]
            Database::Postgres(_) => Desk::Postgres(database.pool()),
            #[cfg(not(feature = "postgres"))]
            Database::Postgres(_) => unreachable!("it is not built"),
        }
    }

    /// Writes the order and the answer in one transaction.
    pub(crate) async fn order(
        &self,
        claim: Claim,
        operation: String,
        answer: Answer,
        end: End,
    ) -> Result<Answer, String> {
        match self {
            Desk::Sqlite(path) => {
                let path = path.clone();
                let work = move || order_in_sqlite(&path, &claim, &operation, answer, end);
                tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
            }
            #[cfg(feature = "postgres")]
            Desk::Postgres(pool) => {
                let order = async {
                    let mut transaction = pool.begin().await?;
                    sqlx::query("INSERT INTO orders VALUES ($1, $2)")
                        .bind(operation)
                        .bind(claim.key().to_string())
                        .execute(&mut *transaction)
                        .await?;
                    let completed = claim.complete_in(&mut transaction, &answer).await;
                    if let Err(error) = completed {
                        return Ok(Err(error.to_string()));
                    }
                    assert_ne!(end, End::Panic, "the handler is to panic");
                    if end == End::RollBack {
                        transaction.rollback().await?;
                        return Ok(Err("it was rolled back".to_owned()));
                    }
                    transaction.commit().await?;
                    Ok(Ok(answer))
                };
                order.await.unwrap_or_else(|error: sqlx::Error| Err(error.to_string()))
            }
        }
    }

    /// Writes the order so that a second run finds it, and leaves the answer to the layer.
    pub(crate) async fn upsert(&self, claim: &Claim, operation: String) -> Result<(), String> {
        let sql = "INSERT INTO upserts VALUES ($1, $2) ON CONFLICT (key) DO NOTHING";
        let key = claim.key().to_string();
        match self {
            Desk::Sqlite(path) => {
                let path = path.clone();
                let work = move || connect(&path).execute(sql, [operation, key]).map(drop);
                let written = tokio::task::spawn_blocking(work).await.unwrap();
                written.map_err(|error| error.to_string())
            }
            #[cfg(feature = "postgres")]
            Desk::Postgres(pool) => {
                let written = sqlx::query(sql).bind(operation).bind(key).execute(pool).await;
                written.map(drop).map_err(|error| error.to_string())
            }
        }
    }
}

fn order_in_sqlite(
    path: &std::path::Path,
    claim: &Claim,
    operation: &str,
    answer: Answer,
    end: End,
) -> Result<Answer, String> {
    let mut connection = connect(path);
    let order = || -> rusqlite::Result<Result<Answer, String>> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let key = claim.key().to_string();
        transaction.execute("INSERT INTO orders VALUES (?1, ?2)", [operation, &key])?;
        if let Err(error) = claim.complete_in(&transaction, &answer) {
            return Ok(Err(error.to_string()));
        }
        assert_ne!(end, End::Panic, "the handler is to panic");
        if end == End::RollBack {
            transaction.rollback()?;
            return Ok(Err("it was rolled back".to_owned()));
        }
        transaction.commit()?;
        Ok(Ok(answer))
    };
    order().unwrap_or_else(|error| Err(error.to_string()))
}

fn connect(path: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection
}
