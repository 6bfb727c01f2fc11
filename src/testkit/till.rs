//! Where charges are written: in memory, or in the database of the keys, in one transaction with their answer.

#[cfg(feature = "sqlite")]
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use thiserror::Error;

use super::answer::Answer;
use super::charges::Charge;
use super::state::State;
#[cfg(feature = "sqlite")]
use super::state::locked;
use crate::server::Claim;
use crate::server::store::ClaimError;

/// Charges beside the keys.
#[derive(Debug)]
pub(super) enum Till {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(Arc<Mutex<rusqlite::Connection>>),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

/// A charge that was not made.
#[derive(Debug, Error)]
pub(super) enum NotCharged {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] sqlx::Error),
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Stopped(#[from] tokio::task::JoinError),
}

impl Till {
    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite(path: &std::path::Path) -> rusqlite::Result<Till> {
        let connection = rusqlite::Connection::open(path)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS post_once_served (
                 number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT, received BLOB NOT NULL)",
        )?;
        Ok(Till::Sqlite(Arc::new(Mutex::new(connection))))
    }

    /// The schema is there, for the keys are in it.
    #[cfg(feature = "postgres")]
    pub(super) async fn postgres(pool: sqlx::PgPool) -> Result<Till, sqlx::Error> {
        sqlx::raw_sql(
            "CREATE TABLE IF NOT EXISTS post_once.served (
                 number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                 key text, received bytea NOT NULL)",
        )
        .execute(&pool)
        .await?;
        Ok(Till::Postgres(pool))
    }

    /// Makes a charge. With a claim its answer is stored with it.
    pub(super) async fn charge(
        &self,
        state: &State,
        claim: Option<Claim>,
        key: Option<&str>,
        body: &Bytes,
    ) -> Result<(String, Answer), NotCharged> {
        match self {
            Till::Memory => {
                // There is no transaction to complete it in: the layer stores the answer.
                drop(claim);
                Ok(state.store().commit(key, body))
            }
            #[cfg(feature = "sqlite")]
            Till::Sqlite(connection) => {
                let (connection, key) = (Arc::clone(connection), key.map(str::to_owned));
                let body = body.clone();
                let work = move || charge_in_sqlite(&connection, claim.as_ref(), key, &body);
                tokio::task::spawn_blocking(work).await?
            }
            #[cfg(feature = "postgres")]
            Till::Postgres(pool) => {
                let mut transaction = pool.begin().await?;
                let insert = "INSERT INTO post_once.served (key, received) VALUES ($1, $2) \
                              RETURNING number";
                let number: i64 = sqlx::query_scalar(insert)
                    .bind(key)
                    .bind(&body[..])
                    .fetch_one(&mut *transaction)
                    .await?;
                let (id, answer) = answered(number, body);
                if let Some(claim) = claim {
                    claim.complete_in(&mut transaction, &answer.response()).await?;
                }
                transaction.commit().await?;
                Ok((id, answer))
            }
        }
    }

    /// All charges so far, also those of a server before this one.
    pub(super) async fn all(&self, state: &State) -> Result<Vec<Charge>, NotCharged> {
        match self {
            Till::Memory => Ok(state.store().charges().to_vec()),
            #[cfg(feature = "sqlite")]
            Till::Sqlite(connection) => {
                let connection = locked(connection);
                let select = "SELECT number, key, received FROM post_once_served ORDER BY number";
                let mut select = connection.prepare(select)?;
                let rows = select.query_map([], |row| {
                    let received: Vec<u8> = row.get(2)?;
                    Ok(Charge::numbered(row.get(0)?, row.get(1)?, received.into()))
                })?;
                Ok(rows.collect::<Result<_, _>>()?)
            }
            #[cfg(feature = "postgres")]
            Till::Postgres(pool) => {
                let select = "SELECT number, key, received FROM post_once.served ORDER BY number";
                let rows: Vec<(i64, Option<String>, Vec<u8>)> =
                    sqlx::query_as(select).fetch_all(pool).await?;
                let charge = |(number, key, received): (_, _, Vec<u8>)| {
                    Charge::numbered(number, key, received.into())
                };
                Ok(rows.into_iter().map(charge).collect())
            }
        }
    }
}

#[cfg(feature = "sqlite")]
fn charge_in_sqlite(
    connection: &Mutex<rusqlite::Connection>,
    claim: Option<&Claim>,
    key: Option<String>,
    body: &Bytes,
) -> Result<(String, Answer), NotCharged> {
    let mut connection = locked(connection);
    let behavior = rusqlite::TransactionBehavior::Immediate;
    let transaction = connection.transaction_with_behavior(behavior)?;
    let insert = "INSERT INTO post_once_served (key, received) VALUES (?1, ?2)";
    transaction.execute(insert, (key, &body[..]))?;
    let (id, answer) = answered(transaction.last_insert_rowid(), body);
    if let Some(claim) = claim {
        claim.complete_in(&transaction, &answer.response())?;
    }
    transaction.commit()?;
    Ok((id, answer))
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn answered(number: i64, body: &Bytes) -> (String, Answer) {
    let id = format!("ch_{number}");
    let answer = Answer::created(&id, body);
    (id, answer)
}
