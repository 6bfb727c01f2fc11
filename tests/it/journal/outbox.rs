//! The caller's row and the outgoing call, in one transaction (O-30).

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use post_once::journal::{Inserted, SqliteJournal, State, rusqlite};
use post_once::resume::HandlerFailed;
use post_once::testkit::{Fault, ManualClock, Server};
use post_once::{Client, IdempotencyKey};

use super::support::*;

/// An order's table and the journal, in one file.
struct Shop {
    clock: ManualClock,
    journal: SqliteJournal,
    client: Client,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Shop {
    async fn open() -> Shop {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("shop.db"), ManualClock::new());
        let journal = SqliteJournal::builder(&path).clock(clock.clone()).open().await.unwrap();
        let client = client(&clock, journal.clone());
        let shop = Shop { clock, journal, client, path, _folder: folder };
        shop.own().execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
        shop
    }

    fn own(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }

    /// An order, and the charge that goes with it; the key.
    fn order(&self, transaction: &rusqlite::Transaction<'_>, id: u32, server: &Server) -> String {
        transaction.execute("INSERT INTO orders VALUES (?1)", [id]).unwrap();
        let call = once(&self.client, server).operation(format!("order-{id}"));
        let draft = call.context(&id).draft().unwrap();
        match self.journal.enqueue_in(transaction, &draft).unwrap() {
            Inserted::New(_) => draft.key,
            found => panic!("{found:?}"),
        }
    }

    fn committed(&self, id: u32, server: &Server) -> String {
        let mut own = self.own();
        let transaction = own.transaction().unwrap();
        let key = self.order(&transaction, id, server);
        transaction.commit().unwrap();
        key
    }

    fn orders(&self) -> u32 {
        self.own().query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap()
    }
}

// O-30.
#[tokio::test]
async fn what_was_rolled_back_is_not_delivered() {
    let (server, shop) = (scripted([]).await, Shop::open().await);
    let mut own = shop.own();
    let transaction = own.transaction().unwrap();
    shop.order(&transaction, 1, &server);
    transaction.rollback().unwrap();
    let summary = shop.client.resumer().origin(&server.url("/")).once().await.unwrap();
    assert_eq!(summary, Default::default());
    assert_eq!((shop.orders(), server.requests().len()), (0, 0));
    assert!(rows(&shop.journal).await.is_empty());
}

// O-30.
#[tokio::test]
async fn what_was_committed_is_delivered_under_one_key_however_often() {
    let faults = [Fault::close(), Fault::status(503), Fault::cut()];
    let (server, shop) = (scripted(faults).await, Shop::open().await);
    let key = shop.committed(1, &server);
    for pass in 1..=4 {
        let summary = shop.client.resumer().origin(&server.url("/")).once().await.unwrap();
        assert_eq!(summary.later + summary.completed, 1, "pass {pass}");
        shop.clock.advance(MINUTE);
    }
    assert_eq!(keys(&server), vec![vec![key]; 4]);
    assert_eq!((shop.orders(), server.charges().len()), (1, 1));
    assert_eq!(states(&shop.journal).await, [State::Completed]);
    // Delivered twice, the order is still the same one.
    let mut own = shop.own();
    let transaction = own.transaction().unwrap();
    let draft = once(&shop.client, &server).operation("order-1").draft().unwrap();
    let found = shop.journal.enqueue_in(&transaction, &draft).unwrap();
    assert!(matches!(found, Inserted::Found(_)), "{found:?}");
}

// O-30: between delivery and mark.
#[tokio::test]
async fn an_outcome_that_could_not_be_handled_is_delivered_again_under_its_key() {
    let (server, shop) = (scripted([]).await, Shop::open().await);
    let key = shop.committed(7, &server);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let pass = async || {
        let seen = Arc::clone(&seen);
        let resumer = shop.client.resumer().origin(&server.url("/")).handler(move |resumed| {
            let mut seen = seen.lock().unwrap();
            let status = resumed.answer.as_ref().unwrap().status;
            seen.push((resumed.record.draft.terms.context.clone().unwrap(), status));
            let failed = if seen.len() < 3 { Err(HandlerFailed) } else { Ok(()) };
            async move { failed }
        });
        let summary = resumer.once().await.unwrap();
        shop.clock.advance(MINUTE);
        (summary.later, summary.completed)
    };
    assert_eq!(
        [pass().await, pass().await, pass().await, pass().await],
        [(1, 0), (1, 0), (0, 1), (0, 0)]
    );
    assert_eq!(*seen.lock().unwrap(), vec![("7".to_owned(), 201); 3]);
    assert_eq!(keys(&server), vec![vec![key]; 3]);
    assert_eq!(server.charges().len(), 1);
}

// O-30: a message that always fails.
#[tokio::test]
async fn a_row_that_always_fails_does_not_hold_the_others_up() {
    let (server, shop) = (scripted([]).await, Shop::open().await);
    let bad = post_once::testkit::refused_url().unwrap();
    let call = shop.client.once(http::Method::POST, &bad).json(&charge());
    call.enqueue().await.unwrap();
    let handled = Arc::new(AtomicUsize::new(0));
    for id in 1..=5 {
        shop.committed(id, &server);
        let handled = Arc::clone(&handled);
        let resumer = shop.client.resumer().origin(&server.url("/")).origin(&bad).concurrency(1);
        let resumer = resumer.handler(move |_| {
            handled.fetch_add(1, Ordering::Relaxed);
            async { Ok(()) }
        });
        let summary = resumer.once().await.unwrap();
        assert_eq!((summary.completed, summary.later), (1, 1));
        shop.clock.advance(MINUTE * 10);
    }
    assert_eq!((handled.load(Ordering::Relaxed), server.charges().len()), (5, 5));
    assert_eq!(rows(&shop.journal).await[0].state, State::Pending);
}

/// A name has one key, whoever enqueues it and how often.
#[tokio::test]
async fn the_same_name_enqueued_twice_has_one_key_and_one_row() {
    let (server, shop) = (scripted([]).await, Shop::open().await);
    let enqueue =
        async || once(&shop.client, &server).operation("order-1").enqueue().await.unwrap();
    let keys: [IdempotencyKey; 2] = [enqueue().await, enqueue().await];
    assert_eq!(keys[0], keys[1]);
    assert_eq!(rows(&shop.journal).await.len(), 1);
    let other = once(&shop.client, &server).operation("order-1").json(&"another").enqueue().await;
    assert!(other.unwrap_err().is_mismatch());
}
