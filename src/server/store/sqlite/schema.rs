//! The table.

use rusqlite::Connection;

use crate::store::sqlite::{Migration, StoreError, migrate};

/// The component whose versions these are.
const COMPONENT: &str = "claims";

/// A version once published is never changed; a later one only adds.
///
/// What goes well is in two indexes: that of the names, and that of what may be forgotten some day. The third
/// one has what has a recovery point or was run more than once, of which some waits for a person. No row
/// is in it that goes well at once.
const MIGRATIONS: &[Migration] = &["
    CREATE TABLE post_once_claim (
        id INTEGER PRIMARY KEY,
        principal TEXT NOT NULL,
        key TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        token INTEGER NOT NULL,
        locked_until INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        runs INTEGER NOT NULL,
        point TEXT,
        point_data TEXT,
        point_unconfirmed INTEGER NOT NULL DEFAULT 0,
        status INTEGER,
        answer_sum INTEGER,
        sum INTEGER NOT NULL,
        header_lines BLOB,
        body BLOB
    );
    CREATE UNIQUE INDEX post_once_claim_name ON post_once_claim (principal, key);
    CREATE INDEX post_once_claim_expiry ON post_once_claim (expires_at)
        WHERE status IS NOT NULL OR point IS NULL;
    CREATE INDEX post_once_claim_unfinished ON post_once_claim (principal, key)
        WHERE status IS NULL AND (point IS NOT NULL OR runs > 1);
"];

/// Brings the table up to date.
pub(super) fn prepare(connection: &mut Connection) -> Result<(), StoreError> {
    migrate(connection, COMPONENT, MIGRATIONS)
}
