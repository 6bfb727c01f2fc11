//! The store in PostgreSQL: a fleet of servers on one table of keys.
//!
//! The rule:
//!
//! 1. It lives in a schema of its own (`post_once`), in your database, reached through your pool. Each
//!    [`PostgresClaims`] takes a few connections out of the pool for good, its writers; lists borrow
//!    one.
//! 2. What is asked while a writer is busy is its next statement: up to 256 verbs, one round trip. A claim
//!    inserts or reads; a row whose worker is dead is taken over by a second statement that names the token
//!    which was seen.
//! 3. Only the server's clock counts, to the microsecond and without time zones. The moment of a verb is
//!    that of its statement.
//! 4. No writer waits for a row that somebody is writing, which may be a long transaction of yours. A claim
//!    on it is in progress.
//! 5. While the server is away verbs wait, for two seconds unless told otherwise. One whose commit was in
//!    doubt is looked up by its token, never guessed.
//!
//! # Guarantees
//! - Those of [the trait](super), by the commit of the database: `synchronous_commit` is never off on the
//!   writers' connections, whatever the default is.
//! - [`PostgresClaims::complete_in`] commits an answer with the effect that it tells of, or neither: also
//!   where the process dies between them.
//! - Opening is safe twice and at once: migrations run under a lock. A schema of a newer program, a
//!   read-only server, one that is too old: each is refused with what to do.
//!
//! # Not guaranteed
//! - What the server does not keep: `fsync = off`, or a failover to a standby that lags behind, loses what
//!   was acknowledged, and a key that is lost is run again. Keys are read where they are written: point the
//!   pool at the primary.
//! - A pooler between us and the server that hands one session to many clients (transaction pooling)
//!   breaks the session's lock by which what was in doubt is looked up: connect past it.
//! - A transaction of yours that is not `READ COMMITTED` may be refused by the database in
//!   [`PostgresClaims::complete_in`], for the lease was extended since it began. Nothing has happened
//!   then: do it again.
//!
//! ```no_run
//! use post_once::server::store::PostgresClaims;
//! use sqlx::PgPool;
//!
//! # async fn open() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PgPool::connect("postgres://app@db.example/shop").await?;
//! let claims = PostgresClaims::builder(pool).writers(4).build().await?;
//! # let _ = claims; Ok(()) }
//! ```
//!
//! # Partitions
//!
#![doc = include_str!("partitions.md")]

mod builder;
mod claim;
mod row;
mod settle;
mod write;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use thiserror::Error;

use super::{
    Ask, ClaimError, ClaimStore, Claimed, Decision, Held, Holder, Name, Row, Sealed, Token,
};
use crate::clock::{Clock, SystemClock};
use crate::server::answer::StoredAnswer;
use crate::server::claim::RecoveryPoint;
use crate::store::postgres::{Database, Lanes, Schema, Trouble, microseconds};
use write::{Answer, Verb, Writes, Written, Wrote};

pub use builder::PostgresClaimsBuilder;

/// Keys in PostgreSQL. Clones share their writers, which end with the last of them.
#[derive(Clone)]
pub struct PostgresClaims {
    pool: PgPool,
    retry_for: Duration,
    schema: Schema,
    database: Database,
    lanes: Lanes<Writes>,
    complete_in: Arc<str>,
    /// Where the last batch of the sweep ended.
    swept: Arc<AtomicI64>,
}

impl PostgresClaims {
    /// Opens the keys in the schema `post_once`, and makes it when it is not there.
    ///
    /// # Errors
    /// As [`PostgresClaimsBuilder::build`].
    pub async fn connect(pool: PgPool) -> Result<PostgresClaims, ClaimError> {
        PostgresClaims::builder(pool).build().await
    }

    /// Opens the keys with other settings.
    pub fn builder(pool: PgPool) -> PostgresClaimsBuilder {
        PostgresClaimsBuilder::new(pool)
    }

    /// The pool that it was opened with.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Ends the claim with its answer in the caller's own transaction: effect and answer are there when
    /// that commits, and neither when it does not.
    ///
    /// From here to the commit nobody takes the claim over, however late it is.
    ///
    /// # Errors
    /// When the database refuses it. As with [`Held::Lost`] the caller's transaction is then to be rolled
    /// back: another worker has, or will have, the effect.
    pub async fn complete_in(
        &self,
        transaction: &mut PgConnection,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError> {
        fits([&holder.name.principal, &holder.name.key])?;
        let Written { status, lines, body, retention } = Written::new(answer, retention);
        let done = sqlx::query(AssertSqlSafe(Arc::clone(&self.complete_in)))
            .bind(&holder.name.principal)
            .bind(&holder.name.key)
            .bind(holder.token.0)
            .bind(retention)
            .bind(status)
            .bind(lines)
            .bind(body.as_deref())
            .execute(transaction)
            .await
            .map_err(|error| ClaimError::Failed(error.into()))?;
        Ok(if done.rows_affected() == 1 { Held::Yes(()) } else { Held::Lost })
    }

    async fn wrote(&self, verb: Verb) -> Result<Wrote, ClaimError> {
        match self.lanes.ask(verb).await? {
            Answer::Wrote(wrote) => Ok(wrote),
            Answer::Claimed(_) | Answer::Rows(_) => unreachable!("a holder's write is answered so"),
        }
    }

    /// A holder's write, asked for again while its row is being written by somebody else.
    async fn held(&self, verb: impl Fn() -> Verb + Send) -> Result<Held<()>, ClaimError> {
        let began = SystemClock.monotonic();
        let mut wait = FIRST_WAIT;
        loop {
            match self.wrote(verb()).await? {
                Wrote::Yes => return Ok(Held::Yes(())),
                Wrote::Lost => return Ok(Held::Lost),
                Wrote::Busy if SystemClock.monotonic().saturating_sub(began) < self.retry_for => {
                    SystemClock.sleep(wait).await;
                    wait = (wait * 2).min(MOST_WAIT);
                }
                Wrote::Busy => return Err(ClaimError::Failed(Box::new(Busy))),
            }
        }
    }
}

/// The waits for somebody else's write grow from this to the most.
const FIRST_WAIT: Duration = Duration::from_millis(1);
const MOST_WAIT: Duration = Duration::from_millis(50);

#[derive(Debug, Error)]
#[error(
    "its row is locked by a transaction that stays open; end the one that completed this claim, or see \
     what else locks it"
)]
struct Busy;

impl fmt::Debug for PostgresClaims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresClaims")
            .field("schema", &self.schema.name())
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl From<Trouble> for ClaimError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Unusable(what) => ClaimError::Unusable(what),
            Trouble::Failed(error) => ClaimError::Failed(Box::new(error)),
            Trouble::InDoubt(error) => ClaimError::InDoubt(Box::new(error)),
        }
    }
}

impl Written {
    fn new(answer: &StoredAnswer, retention: Duration) -> Written {
        Written {
            status: i16::try_from(answer.status.as_u16()).expect("a status is below 1000"),
            lines: answer.header_lines(),
            body: answer.body.clone(),
            retention: microseconds(retention),
        }
    }
}

/// Principal and key together, in bytes: what an index entry holds.
const LONGEST_NAME: usize = 2000;

fn is_storable<'a>(texts: impl IntoIterator<Item = &'a str>) -> bool {
    texts.into_iter().all(|text| !text.contains('\0'))
}

/// What the columns can hold, asked before it is queued among others.
fn fits(name: [&String; 2]) -> Result<(), ClaimError> {
    if !is_storable(name.map(|text| &**text)) {
        let what = "a principal or key with a NUL cannot be stored in Postgres: leave it out";
        return Err(ClaimError::Failed(what.into()));
    }
    if name.map(String::len).iter().sum::<usize>() > LONGEST_NAME {
        let what = format!(
            "principal and key have at most {LONGEST_NAME} bytes in Postgres together: take a hash of a \
             longer principal"
        );
        return Err(ClaimError::Failed(what.into()));
    }
    Ok(())
}

impl Sealed for PostgresClaims {
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[async_trait]
impl ClaimStore for PostgresClaims {
    async fn claim(&self, ask: &Ask) -> Result<Claimed, ClaimError> {
        fits([&ask.holder.name.principal, &ask.holder.name.key])?;
        match self.lanes.ask(Verb::Claim(ask.clone())).await? {
            Answer::Claimed(claimed) => claimed,
            Answer::Wrote(_) | Answer::Rows(_) => unreachable!("a claim is answered as one"),
        }
    }

    async fn renew(&self, holder: &Holder, lease: Duration) -> Result<Held<()>, ClaimError> {
        fits([&holder.name.principal, &holder.name.key])?;
        let verb = Verb::Renew { holder: holder.clone(), lease: microseconds(lease) };
        Ok(match self.wrote(verb).await? {
            // It is being completed, and nobody takes over what is being written.
            Wrote::Yes | Wrote::Busy => Held::Yes(()),
            Wrote::Lost => Held::Lost,
        })
    }

    async fn checkpoint(
        &self,
        holder: &Holder,
        point: &RecoveryPoint,
        lease: Duration,
    ) -> Result<Held<()>, ClaimError> {
        fits([&holder.name.principal, &holder.name.key])?;
        if !is_storable([&*point.name, point.data.as_deref().unwrap_or_default()]) {
            let what = "a recovery point with a NUL cannot be stored in Postgres: leave it out";
            return Err(ClaimError::Failed(what.into()));
        }
        let lease = microseconds(lease);
        let verb = || Verb::Checkpoint { holder: holder.clone(), lease, point: point.clone() };
        self.held(verb).await
    }

    async fn complete(
        &self,
        holder: &Holder,
        answer: &StoredAnswer,
        retention: Duration,
    ) -> Result<Held<()>, ClaimError> {
        fits([&holder.name.principal, &holder.name.key])?;
        let answer = Written::new(answer, retention);
        self.held(|| Verb::Complete { holder: holder.clone(), answer: answer.clone() }).await
    }

    async fn release(&self, holder: &Holder) -> Result<Held<()>, ClaimError> {
        fits([&holder.name.principal, &holder.name.key])?;
        let next = Token::mint().0;
        self.held(|| Verb::Release { holder: holder.clone(), next }).await
    }

    async fn look(&self, name: &Name) -> Result<Option<Row>, ClaimError> {
        settle::look(self, name).await
    }

    async fn list(&self, after: Option<&Name>, limit: u32) -> Result<Vec<Row>, ClaimError> {
        settle::list(self, after, limit).await
    }

    async fn settle(&self, seen: &Holder, decision: &Decision) -> Result<Held<()>, ClaimError> {
        settle::settle(self, seen, decision).await
    }

    async fn sweep(&self, limit: u32) -> Result<u64, ClaimError> {
        settle::sweep(self, &self.swept, limit).await
    }
}
