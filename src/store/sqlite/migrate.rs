//! Bringing tables up to date.
//!
//! Each component (the journal, the claims of a server) has versions of its own in one table. The rule:
//!
//! 1. A migration only adds: a program of an older version, still running, goes on as before.
//! 2. All that are missing are applied in one transaction that holds the write lock, so that it does not
//!    matter how many processes do it at once, or whether one is killed meanwhile.
//! 3. A file of a newer version is refused: its rows may mean what this program does not know.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::StoreError;

/// One step; its version is its place in the list, from 1.
pub(crate) type Migration = &'static str;

/// Applies what is missing.
pub(crate) fn migrate(
    connection: &mut Connection,
    component: &str,
    migrations: &[Migration],
) -> Result<(), StoreError> {
    let known = migrations.len();
    if version(connection, component)? == known {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute_batch(
        "CREATE TABLE IF NOT EXISTS post_once_migrations (
            component TEXT NOT NULL, version INTEGER NOT NULL,
            applied_at INTEGER NOT NULL DEFAULT (unixepoch()), UNIQUE (component, version))",
    )?;
    let found = version(&transaction, component)?;
    if found > known {
        return Err(StoreError::Unusable(format!(
            "its tables have version {found}, and this program knows up to {known}: update the \
             program, or give it another file"
        )));
    }
    for (number, migration) in migrations.iter().enumerate().skip(found) {
        transaction.execute_batch(migration)?;
        transaction.execute(
            "INSERT INTO post_once_migrations (component, version) VALUES (?1, ?2)",
            (component, number as i64 + 1),
        )?;
    }
    transaction.commit().map_err(StoreError::from)
}

/// The version of a component; 0 when it has no tables yet.
fn version(connection: &Connection, component: &str) -> Result<usize, StoreError> {
    let table = "SELECT 1 FROM sqlite_schema WHERE name = 'post_once_migrations'";
    if connection.query_row(table, [], |_| Ok(())).optional()?.is_none() {
        return Ok(0);
    }
    let version = connection.query_row(
        "SELECT coalesce(max(version), 0) FROM post_once_migrations WHERE component = ?1",
        [component],
        |row| row.get::<_, i64>(0),
    )?;
    Ok(usize::try_from(version).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "CREATE TABLE one (x)";
    const TWO: &str = "ALTER TABLE one ADD COLUMN y; CREATE TABLE two (x)";

    fn columns(connection: &Connection) -> i64 {
        let sql = "SELECT count(*) FROM pragma_table_info('one')";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn each_step_is_applied_once_and_components_do_not_mix() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "a", &[ONE]).unwrap();
        migrate(&mut connection, "a", &[ONE]).unwrap();
        migrate(&mut connection, "b", &["CREATE TABLE other (x)"]).unwrap();
        migrate(&mut connection, "a", &[ONE, TWO]).unwrap();
        assert_eq!(columns(&connection), 2);
        assert_eq!(version(&connection, "a").unwrap(), 2);
        assert_eq!(version(&connection, "b").unwrap(), 1);
    }

    #[test]
    fn a_step_that_fails_leaves_nothing_behind() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "a", &[ONE]).unwrap();
        let broken = "ALTER TABLE one ADD COLUMN y; CREATE TABLE one (x)";
        assert!(migrate(&mut connection, "a", &[ONE, broken]).is_err());
        assert_eq!((columns(&connection), version(&connection, "a").unwrap()), (1, 1));
    }

    #[test]
    fn a_newer_version_is_refused_and_left_alone() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, "a", &[ONE, TWO]).unwrap();
        let refused = migrate(&mut connection, "a", &[ONE]);
        assert!(matches!(refused, Err(StoreError::Unusable(_))));
        assert_eq!(version(&connection, "a").unwrap(), 2);
    }
}
