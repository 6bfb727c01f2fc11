//! Orders in the store's own database, written in one transaction with the answer.

use axum::http::{Response, StatusCode};
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::Claim;
use post_once::server::once::{Once, OnceError, Ran};
use post_once::server::store::ClaimError;
#[cfg(feature = "sqlite")]
use post_once::server::store::SqliteClaims;

use crate::world::{Store, World};

/// How an order ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Committed, and answered with 201.
    Commit,
    /// Committed, and answered with 500, as if the word of the commit was lost.
    CommitAndFail,
    /// Committed, and answered with 202, which is not what was completed.
    CommitAndSayOther,
    /// Committed, and its answer breaks off.
    CommitAndBreak,
    /// Committed, and answered when it is let go on.
    CommitAndLinger,
    /// Committed when it is let go on, and answered.
    LingerAndCommit,
    /// Rolled back, and answered with 503.
    RollBack,
    /// It panics before the commit.
    Panic,
    /// Rolled back, and answered with 201 all the same.
    Lie,
}

/// What becomes of a job that writes an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    Works,
    Fails,
    /// Its claim is nobody's any more when it ends.
    Loses,
    /// Its result cannot be written down.
    Unspeakable,
    /// The keys cannot be found when it ends.
    Hides,
    /// What it wrote cannot be committed.
    Orphans,
}

/// The result of a job: the delivery that did it. Delivery 0 cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct By(pub(crate) u32);

impl serde::Serialize for By {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            0 => Err(serde::ser::Error::custom("told to fail")),
            delivery => serializer.serialize_u32(delivery),
        }
    }
}

impl Job {
    fn end(self, delivery: u32) -> Result<By, &'static str> {
        match self {
            Job::Fails => Err("told to fail"),
            Job::Unspeakable => Ok(By(0)),
            Job::Works | Job::Loses | Job::Hides | Job::Orphans => Ok(By(delivery)),
        }
    }

    /// What it writes, with the keys in this table.
    fn sql(self, orders: &str, keys: &str, key: &IdempotencyKey) -> String {
        let parent = if self == Job::Orphans { "7" } else { "NULL" };
        let also = match self {
            Job::Loses => format!("DELETE FROM {keys} WHERE key = '{key}'"),
            Job::Hides => format!("ALTER TABLE {keys} RENAME TO hidden"),
            _ => String::new(),
        };
        format!("INSERT INTO {orders} VALUES ('job', {parent}); {also}")
    }
}

/// The table of orders.
#[derive(Clone)]
pub(crate) enum Orders {
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool, String),
}

impl Orders {
    pub(crate) async fn new(world: &World) -> Orders {
        match &world.store {
            Store::Memory(_) => panic!("it has no transactions"),
            #[cfg(feature = "sqlite")]
            Store::Sqlite(folder) => {
                let path = folder.path().join("api.db");
                let connection = connect(&path);
                let tables = "CREATE TABLE IF NOT EXISTS parents (id INTEGER PRIMARY KEY); \
                    CREATE TABLE IF NOT EXISTS orders (body TEXT, \
                    parent INTEGER REFERENCES parents DEFERRABLE INITIALLY DEFERRED)";
                connection.execute_batch(tables).unwrap();
                Orders::Sqlite(path)
            }
            #[cfg(feature = "postgres")]
            Store::Postgres(schema) => {
                let (pool, name) = (schema.pool(), schema.name.clone());
                let sql = format!(
                    "CREATE SCHEMA IF NOT EXISTS {name}; \
                     CREATE TABLE IF NOT EXISTS {name}.parents (id int PRIMARY KEY); \
                     CREATE TABLE IF NOT EXISTS {name}.orders (body text, \
                     parent int REFERENCES {name}.parents DEFERRABLE INITIALLY DEFERRED)"
                );
                sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap();
                Orders::Postgres(pool, name)
            }
        }
    }

    pub(crate) async fn count(&self) -> i64 {
        match self {
            #[cfg(feature = "sqlite")]
            Orders::Sqlite(path) => {
                let count = "SELECT count(*) FROM orders";
                connect(path).query_row(count, [], |row| row.get(0)).unwrap()
            }
            #[cfg(feature = "postgres")]
            Orders::Postgres(pool, schema) => {
                let sql = format!("SELECT count(*) FROM {schema}.orders");
                sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(pool).await.unwrap()
            }
        }
    }

    /// Writes an order as a job of a queue does.
    pub(crate) async fn once(
        &self,
        #[cfg_attr(
            not(feature = "postgres"),
            expect(unused_variables, reason = "of no use there")
        )]
        world: &World,
        key: &IdempotencyKey,
        fingerprint: Fingerprint,
        delivery: u32,
        job: Job,
    ) -> Result<Ran<By>, OnceError<&'static str>> {
        match self {
            #[cfg(feature = "sqlite")]
            Orders::Sqlite(path) => {
                let store = SqliteClaims::open(path).await.unwrap();
                let mut connection = connect(path);
                let sql = job.sql("orders", "post_once_claim", key);
                let work = |transaction: &rusqlite::Transaction<'_>| {
                    // Nobody else writes from its start on: what it reads stays so.
                    let other = rusqlite::Connection::open(path).unwrap();
                    other.busy_timeout(std::time::Duration::ZERO).unwrap();
                    assert!(other.execute_batch(&sql).is_err());
                    transaction.execute_batch(&sql).unwrap();
                    job.end(delivery)
                };
                let once = Once::new(store);
                once.run("shop", key, fingerprint, &mut connection, work).await
            }
            #[cfg(feature = "postgres")]
            Orders::Postgres(_, schema) => {
                let Store::Postgres(own) = &world.store else { panic!("of the same kind") };
                let (orders, keys) = (format!("{schema}.orders"), format!("{schema}.claim"));
                let sql = job.sql(&orders, &keys, key);
                let work = async |connection: &mut sqlx::PgConnection| {
                    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(connection).await.unwrap();
                    job.end(delivery)
                };
                Once::new(own.claims().await).run("shop", key, fingerprint, work).await
            }
        }
    }

    /// Writes the order and the answer in one transaction, and ends it so.
    pub(crate) async fn place(
        &self,
        claim: &Claim,
        body: &str,
        end: End,
    ) -> Result<Response<String>, ClaimError> {
        let mut response = Response::new(format!("order of run {}", claim.run()));
        *response.status_mut() = StatusCode::CREATED;
        for (name, value) in [("location", "/orders/1"), ("set-cookie", "session=secret")] {
            response.headers_mut().insert(name, http::HeaderValue::from_static(value));
        }
        let commits = !matches!(end, End::RollBack | End::Panic | End::Lie);
        match self {
            #[cfg(feature = "sqlite")]
            Orders::Sqlite(path) => {
                let mut connection = connect(path);
                let behavior = rusqlite::TransactionBehavior::Immediate;
                let transaction = connection.transaction_with_behavior(behavior).unwrap();
                transaction.execute("INSERT INTO orders VALUES (?1, NULL)", [body]).unwrap();
                claim.complete_in(&transaction, &response)?;
                assert_ne!(end, End::Panic, "the handler was told to panic");
                if commits {
                    transaction.commit().unwrap();
                }
            }
            #[cfg(feature = "postgres")]
            Orders::Postgres(pool, schema) => {
                let mut transaction = pool.begin().await.unwrap();
                let sql = format!("INSERT INTO {schema}.orders VALUES ($1, NULL)");
                let insert = sqlx::query(sqlx::AssertSqlSafe(sql)).bind(body);
                insert.execute(&mut *transaction).await.unwrap();
                claim.complete_in(&mut transaction, &response).await?;
                assert_ne!(end, End::Panic, "the handler was told to panic");
                if commits {
                    transaction.commit().await.unwrap();
                } else {
                    transaction.rollback().await.unwrap();
                }
            }
        }
        *response.status_mut() = match end {
            End::Commit
            | End::CommitAndLinger
            | End::LingerAndCommit
            | End::CommitAndBreak
            | End::Lie => StatusCode::CREATED,
            End::CommitAndSayOther => StatusCode::ACCEPTED,
            End::CommitAndFail => StatusCode::INTERNAL_SERVER_ERROR,
            End::RollBack | End::Panic => StatusCode::SERVICE_UNAVAILABLE,
        };
        Ok(response)
    }
}

#[cfg(feature = "sqlite")]
fn connect(path: &std::path::Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    connection
}
