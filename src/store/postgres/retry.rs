//! A database that may be away for a while.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use std::{fmt, future, io};

use rand::RngExt;
use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::{
    Arguments, AssertSqlSafe, ConnectOptions, Encode, PgConnection, PgPool, Postgres, Type,
};

use super::Trouble;
use super::trouble::{Away, Class, class, read_only};
use crate::clock::{Clock, Sleep, SystemClock};

/// The waits between tries grow from this to the most, with full jitter.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const MOST_WAIT: Duration = Duration::from_secs(1);
/// One try to get a connection.
const MOST_CONNECT: Duration = Duration::from_secs(5);

/// A connection of ours is never one of the pool's again, so that its settings are ours alone.
///
/// Joins of a group with its rows must go row by row through the index: in the order of the group, so
/// that two groups never wait for each other crosswise, and whatever the planner believed of a table
/// that was still small. So there is one plan for any group, and to make it anew for each costs as much as
/// executing it. And what is acknowledged must be on disk, whatever the user's default is.
const OURS: &str = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; \
    SET enable_mergejoin = off; SET jit = off; SET plan_cache_mode = force_generic_plan; \
    SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// Ends the session that holds a mark, for its connection is lost but the server may not know.
const END: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' \
    AND classid = $1::oid AND objid = $2::oid AND objsubid = 2 AND granted AND pid <> pg_backend_pid()";

/// A connection that is ours alone.
pub(super) struct Open {
    pub(super) conn: PgConnection,
    pub(super) mark: Mark,
}

/// An advisory lock that a session holds until its end: whoever gets it knows that no statement of that
/// session will be executed any more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark(i32, i32);

impl Mark {
    async fn hold(self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        let hold = sqlx::query("SELECT pg_advisory_lock($1, $2)").bind(self.0).bind(self.1);
        hold.execute(conn).await.map(drop)
    }

    async fn await_end(self, conn: &mut PgConnection) -> Result<(), sqlx::Error> {
        sqlx::query(END).bind(self.0).bind(self.1).execute(&mut *conn).await?;
        self.hold(&mut *conn).await?;
        let release = sqlx::query("SELECT pg_advisory_unlock($1, $2)").bind(self.0).bind(self.1);
        release.execute(conn).await.map(drop)
    }
}

/// The user's pool, and how long we go on when it has no connection to give.
#[derive(Clone)]
pub(crate) struct Database {
    pool: PgPool,
    retry_for: Duration,
    place: Arc<str>,
}

/// A statement with its arguments, to be sent as often as it takes.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) sql: Arc<str>,
    arguments: PgArguments,
}

impl Statement {
    pub(crate) fn new(sql: Arc<str>) -> Statement {
        Statement { sql, arguments: PgArguments::default() }
    }

    /// With one more argument.
    #[must_use]
    pub(crate) fn with<'q, T>(mut self, value: T) -> Statement
    where
        T: Encode<'q, Postgres> + Type<Postgres>,
    {
        self.arguments.add(value).expect("numbers, texts and lists of them can be written");
        self
    }

    pub(crate) async fn rows(&self, conn: &mut PgConnection) -> Result<Vec<PgRow>, sqlx::Error> {
        let sql = AssertSqlSafe(Arc::clone(&self.sql));
        sqlx::query_with(sql, self.arguments.clone()).fetch_all(conn).await
    }
}

impl Database {
    pub(crate) fn new(pool: PgPool, retry_for: Duration) -> Database {
        let place = place(&pool.connect_options()).into();
        Database { pool, retry_for, place }
    }

    /// The rows of a statement that changes nothing, or the same however often it is sent.
    pub(crate) async fn rows(&self, statement: &Statement) -> Result<Vec<PgRow>, Trouble> {
        let mut tries = self.tries();
        loop {
            let sent = async {
                let mut conn = self.pool.acquire().await?;
                statement.rows(&mut conn).await
            };
            match self.within(tries.limit(), sent).await {
                Ok(rows) => return Ok(rows),
                Err(error) => tries.again(error).await?,
            }
        }
    }

    /// A connection that is ours alone. Those that were lost in the middle of something have come to
    /// their end then.
    pub(super) async fn connect(
        &self,
        limit: Duration,
        lost: &mut Vec<Mark>,
    ) -> Result<Open, sqlx::Error> {
        let connect = async {
            let mut conn = self.pool.acquire().await?.detach();
            sqlx::raw_sql(OURS).execute(&mut conn).await?;
            Ok(conn)
        };
        let mut conn = match self.within(limit.min(MOST_CONNECT), connect).await {
            Ok(conn) => conn,
            // The pool hides why.
            Err(error) if is_late(&error) => return Err(self.reason(error).await),
            Err(error) => return Err(error),
        };
        let mark = Mark(rand::random::<i32>() & i32::MAX, rand::random::<i32>() & i32::MAX);
        self.within(limit, mark.hold(&mut conn)).await?;
        while let Some(gone) = lost.last().copied() {
            self.within(limit, gone.await_end(&mut conn)).await?;
            lost.pop();
        }
        Ok(Open { conn, mark })
    }

    /// Why the pool has no connection to give, as far as a connection of its kind tells.
    async fn reason(&self, late: sqlx::Error) -> sqlx::Error {
        let options = self.pool.connect_options();
        let direct = async { options.connect().await.map(drop) };
        match self.within(MOST_WAIT, direct).await {
            Ok(()) => sqlx::Error::PoolTimedOut,
            Err(error) if is_late(&error) => late,
            Err(error) => error,
        }
    }

    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, sqlx::Error>> + Send,
    ) -> Result<T, sqlx::Error> {
        let mut work = pin!(work);
        let mut limit = pin!(SystemClock.timer(limit));
        future::poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => limit.as_mut().poll(cx).map(|()| Err(late())),
        })
        .await
    }

    pub(super) fn tries(&self) -> Tries<'_> {
        self.tries_since(SystemClock.monotonic())
    }

    /// For what has been waiting since then.
    pub(super) fn tries_since(&self, started: Duration) -> Tries<'_> {
        Tries { database: self, started, waits: 0, sent: false, in_doubt: false, lost: Vec::new() }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("place", &self.place).finish_non_exhaustive()
    }
}

/// The tries of one thing to do.
pub(super) struct Tries<'a> {
    database: &'a Database,
    started: Duration,
    waits: u32,
    /// There was a try before, of which something may have been executed.
    pub(super) sent: bool,
    /// And we have not heard what.
    pub(super) in_doubt: bool,
    /// The connections on which that may have been.
    pub(super) lost: Vec<Mark>,
}

impl Tries<'_> {
    /// What is left for a try, so that one that hangs leaves time for another.
    pub(super) fn limit(&self) -> Duration {
        (self.left() / 2).max(MOST_WAIT)
    }

    fn left(&self) -> Duration {
        self.database.retry_for.saturating_sub(self.waited())
    }

    fn waited(&self) -> Duration {
        SystemClock.monotonic().saturating_sub(self.started)
    }

    /// Waits until it is time to try again after this error, or says why there is no use.
    pub(super) async fn again(&mut self, error: sqlx::Error) -> Result<(), Trouble> {
        match class(&error) {
            Class::Gone | Class::Again if !self.left().is_zero() => {
                self.pause().await;
                Ok(())
            }
            Class::Gone | Class::Again => {
                let place = self.database.place.to_string();
                Err(self.end(Arc::new(Away { place, waited: self.waited(), last: error })))
            }
            Class::ReadOnly => Err(read_only(&self.database.place)),
            Class::Refused => Err(self.end(Arc::new(error))),
        }
    }

    fn pause(&mut self) -> Sleep {
        let most = FIRST_WAIT.saturating_mul(1 << self.waits.min(10)).min(MOST_WAIT);
        self.waits += 1;
        SystemClock.sleep(most.mul_f64(rand::rng().random::<f64>()))
    }

    fn end(&self, error: Arc<dyn std::error::Error + Send + Sync>) -> Trouble {
        if self.in_doubt { Trouble::InDoubt(error) } else { Trouble::Failed(error) }
    }
}

/// Where the database is, without who we are.
fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or_else(|| options.get_username());
    match options.get_socket() {
        Some(socket) => format!("{} (database {database:?})", socket.display()),
        None => format!("{}:{} (database {database:?})", options.get_host(), options.get_port()),
    }
}

/// A try that took too long; what it did is not known.
fn late() -> sqlx::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time").into()
}

fn is_late(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(error) => error.kind() == io::ErrorKind::TimedOut,
        error => matches!(error, sqlx::Error::PoolTimedOut),
    }
}
