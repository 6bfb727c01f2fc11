//! The tables, and what binds a file to its environment.

use rusqlite::{Connection, OptionalExtension};

use crate::store::sqlite::{Migration, StoreError, migrate};

/// The component whose versions these are.
const COMPONENT: &str = "journal";

/// A version once published is never changed; a later one only adds.
///
/// What is settled is counted by triggers: to count the rows is to read all of them.
///
/// A row is in the index of what is due while it is pending: `due_at` is then the end of its lease, or
/// when it is due; and NULL otherwise. The columns behind it are what the gauges and a claim by scope
/// need, so that they read no rows. Operations without a name are in no other index, and no operation
/// that goes well is ever in the third one. A number is never given to a second row, for a late claim would fit
/// it: so the last row is never deleted, but emptied, and `purged`. (AUTOINCREMENT costs one more page for
/// each commit.) No condition of an index is an IN: of three texts SQLite makes a table, each time a row is
/// written.
const MIGRATIONS: &[Migration] = &["
    CREATE TABLE post_once_operations (
        id INTEGER PRIMARY KEY,
        scope TEXT NOT NULL,
        name TEXT,
        key TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        reason TEXT,
        token INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 0,
        lost INTEGER NOT NULL DEFAULT 0,
        sent INTEGER NOT NULL DEFAULT 0,
        claimed INTEGER NOT NULL DEFAULT 0,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        first_send_at INTEGER,
        due_at INTEGER,
        usable_ms INTEGER,
        request_sum INTEGER NOT NULL,
        answer_sum INTEGER,
        answer_status INTEGER,
        head TEXT NOT NULL,
        trail TEXT,
        answer_head TEXT,
        answer_body BLOB,
        body BLOB NOT NULL
    );
    CREATE UNIQUE INDEX post_once_names ON post_once_operations (scope, name)
        WHERE name IS NOT NULL;
    CREATE INDEX post_once_due
        ON post_once_operations (due_at, scope, created_at, first_send_at, usable_ms)
        WHERE due_at IS NOT NULL;
    CREATE INDEX post_once_unsettled
        ON post_once_operations (state, created_at, first_send_at, usable_ms)
        WHERE state = 'parked' OR state = 'unknown' OR state = 'purged';
    CREATE TABLE post_once_counts (state TEXT NOT NULL UNIQUE, rows INTEGER NOT NULL);
    INSERT INTO post_once_counts (state, rows) VALUES ('completed', 0), ('abandoned', 0);
    CREATE TRIGGER post_once_closed AFTER UPDATE OF state ON post_once_operations
        WHEN new.state <> old.state AND (new.state = 'completed' OR new.state = 'abandoned')
        BEGIN UPDATE post_once_counts SET rows = rows + 1 WHERE state = new.state; END;
    CREATE TRIGGER post_once_opened AFTER UPDATE OF state ON post_once_operations
        WHEN new.state <> old.state AND (old.state = 'completed' OR old.state = 'abandoned')
        BEGIN UPDATE post_once_counts SET rows = rows - 1 WHERE state = old.state; END;
    CREATE TRIGGER post_once_deleted AFTER DELETE ON post_once_operations
        WHEN old.state = 'completed' OR old.state = 'abandoned'
        BEGIN UPDATE post_once_counts SET rows = rows - 1 WHERE state = old.state; END;
    CREATE TABLE post_once_settings (name TEXT NOT NULL UNIQUE, value TEXT NOT NULL);
"];

/// Checks that there is a journal, of whatever version.
pub(super) fn is_there(connection: &Connection) -> Result<(), StoreError> {
    let table = "SELECT 1 FROM sqlite_schema WHERE name = 'post_once_operations'";
    match connection.query_row(table, [], |_| Ok(())).optional()? {
        Some(()) => Ok(()),
        None => Err(StoreError::Unusable("the database holds no journal".to_owned())),
    }
}

/// Brings the tables up to date and checks that they belong to this environment.
pub(super) fn prepare(connection: &mut Connection, environment: &str) -> Result<(), StoreError> {
    migrate(connection, COMPONENT, MIGRATIONS)?;
    let bound = |connection: &Connection| {
        let sql = "SELECT value FROM post_once_settings WHERE name = 'environment'";
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.next().transpose()
    };
    let owner = match bound(connection)? {
        Some(owner) => owner,
        None => {
            connection.execute(
                "INSERT INTO post_once_settings (name, value) VALUES ('environment', ?1)
                 ON CONFLICT DO NOTHING",
                [environment],
            )?;
            bound(connection)?.unwrap_or_default()
        }
    };
    if owner == environment {
        return Ok(());
    }
    Err(StoreError::Unusable(format!(
        "this journal belongs to environment {owner:?} and was opened for {environment:?}: a copy of it \
         must not send; open it for {owner:?} if it is the original, or begin an empty one"
    )))
}
