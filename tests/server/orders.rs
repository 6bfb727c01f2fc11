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
    /// Committed, and answered a while after that.
    CommitAndLinger,
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
                connection.execute_batch("CREATE TABLE IF NOT EXISTS orders (body TEXT)").unwrap();
                Orders::Sqlite(path)
            }
            #[cfg(feature = "postgres")]
            Store::Postgres(schema) => {
                let (pool, name) = (schema.pool(), schema.name.clone());
                let sql = format!(
                    "CREATE SCHEMA IF NOT EXISTS {name}; \
                     CREATE TABLE IF NOT EXISTS {name}.orders (body text)"
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
    ) -> Result<Ran<u32>, OnceError<&'static str>> {
        let end = |delivery| if job == Job::Fails { Err("told to fail") } else { Ok(delivery) };
        match self {
            #[cfg(feature = "sqlite")]
            Orders::Sqlite(path) => {
                let store = SqliteClaims::open(path).await.unwrap();
                let mut connection = connect(path);
                let work = |transaction: &rusqlite::Transaction<'_>| {
                    // Nobody else writes from its start on: what it reads stays so.
                    let other = rusqlite::Connection::open(path).unwrap();
                    other.busy_timeout(std::time::Duration::ZERO).unwrap();
                    let order = "INSERT INTO orders VALUES ('job')";
                    assert!(other.execute(order, []).is_err());
                    transaction.execute(order, []).unwrap();
                    if job == Job::Loses {
                        let lose = "DELETE FROM post_once_claim WHERE key = 'm2'";
                        transaction.execute(lose, []).unwrap();
                    }
                    end(delivery)
                };
                let once = Once::new(store);
                once.run("shop", key, fingerprint, &mut connection, work).await
            }
            #[cfg(feature = "postgres")]
            Orders::Postgres(_, schema) => {
                let Store::Postgres(own) = &world.store else { panic!("of the same kind") };
                let lose = match job {
                    Job::Loses => format!("DELETE FROM {schema}.claim WHERE key = 'm2'"),
                    Job::Works | Job::Fails => String::new(),
                };
                let sql = format!("INSERT INTO {schema}.orders VALUES ('job'); {lose}");
                let work = async |connection: &mut sqlx::PgConnection| {
                    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(connection).await.unwrap();
                    end(delivery)
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
                transaction.execute("INSERT INTO orders VALUES (?1)", [body]).unwrap();
                claim.complete_in(&transaction, &response)?;
                assert_ne!(end, End::Panic, "the handler was told to panic");
                if commits {
                    transaction.commit().unwrap();
                }
            }
            #[cfg(feature = "postgres")]
            Orders::Postgres(pool, schema) => {
                let mut transaction = pool.begin().await.unwrap();
                let sql = format!("INSERT INTO {schema}.orders VALUES ($1)");
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
            End::Commit | End::CommitAndLinger | End::CommitAndBreak | End::Lie => {
                StatusCode::CREATED
            }
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
    connection
}
