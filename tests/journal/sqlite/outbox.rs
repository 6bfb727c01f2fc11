//! The user's own transaction: business row and outgoing call, together or neither.

use post_once::journal::{Inserted, Journal, JournalError, State, rusqlite};
use post_once::testkit::journal::{draft, due};

use super::{LEASE, Place, all};

#[tokio::test]
async fn a_row_and_its_call_are_committed_together_or_neither() {
    let place = Place::new();
    let journal = place.open().await;
    let mut mine = place.plain();
    mine.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    for (id, keep) in [(1, true), (2, false)] {
        let transaction = mine.transaction().unwrap();
        transaction.execute("INSERT INTO orders (id) VALUES (?1)", [id]).unwrap();
        let name = format!("order-{id}");
        let queued = journal.enqueue_in(&transaction, &draft(Some(&name), "{}")).unwrap();
        assert!(matches!(queued, Inserted::New(_)));
        let again = journal.enqueue_in(&transaction, &draft(Some(&name), "{}")).unwrap();
        assert!(matches!(again, Inserted::Found(_)), "in the same transaction too");
        assert!(journal.by_name("", &name).await.unwrap().is_none(), "not before the commit");
        if keep {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
    }
    let rows = all(&journal).await;
    assert_eq!(rows.len(), 1);
    assert_eq!((rows[0].state, rows[0].attempts), (State::Pending, 0));
    let orders: i64 = mine.query_row("SELECT sum(id) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!(orders, 1);
    let claimed = journal.claim_due(&due(&[], 10), LEASE).await.unwrap();
    assert_eq!(claimed.len(), 1, "the resumer is the relay");
}

#[tokio::test]
async fn a_transaction_on_another_file_is_refused() {
    let place = Place::new();
    let journal = place.open().await;
    let mut elsewhere = rusqlite::Connection::open_in_memory().unwrap();
    let transaction = elsewhere.transaction().unwrap();
    let refused = journal.enqueue_in(&transaction, &draft(None, "{}"));
    assert!(matches!(refused, Err(JournalError::Failed(_))), "{refused:?}");
}
