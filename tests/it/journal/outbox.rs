//! The caller's row and the outgoing call, in one transaction (O-30).

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use post_once::clock::Clock;
use post_once::journal::{Inserted, Reason, SqliteJournal, State, rusqlite};
use post_once::observer::Event;
use post_once::resume::HandlerFailed;
use post_once::testkit::{Fault, ManualClock, Received, Server, refused_url};
use post_once::{Client, Contract, IdempotencyKey};

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
    let pass = || shop.client.resumer().origin(&server.url("/")).once();
    let mut own = shop.own();
    let transaction = own.transaction().unwrap();
    let key = shop.order(&transaction, 1, &server);
    // A pass that begins before the commit knows nothing of the row until then.
    let commits = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(rows(&shop.journal).await.is_empty() && server.requests().is_empty());
        transaction.commit().unwrap();
    };
    let (summary, ()) = tokio::join!(pass(), commits);
    assert_eq!((summary.unwrap().later, shop.orders()), (1, 1));
    for (later, completed) in [(1, 0), (1, 0), (0, 1), (0, 0)] {
        shop.clock.advance(MINUTE);
        let summary = pass().await.unwrap();
        assert_eq!((summary.later, summary.completed), (later, completed));
    }
    assert_eq!(keys(&server), vec![vec![key]; 4]);
    let same = |request: &Received| request.body() == &charge().to_string();
    assert!(server.requests().iter().all(same), "{:?}", server.requests());
    assert_eq!(header(&server, "content-type"), ["application/json"; 4]);
    assert_eq!(server.charges().len(), 1);
    let row = row(&shop.journal).await;
    assert_eq!(row.state, State::Completed);
    assert_eq!(known(&row), ["ambiguous", "unavailable", "ambiguous", "replayed"]);
    assert_eq!(row.draft.terms.context.as_deref(), Some("1"));
    // Delivered twice, the order is still the same one, and is not sent again.
    let transaction = own.transaction().unwrap();
    let draft = once(&shop.client, &server).operation("order-1").draft().unwrap();
    let found = shop.journal.enqueue_in(&transaction, &draft).unwrap();
    assert!(matches!(found, Inserted::Found(found) if found.draft.key == row.draft.key));
    transaction.commit().unwrap();
    assert_eq!(pass().await.unwrap(), Default::default());
    assert_eq!(server.requests().len(), 4);
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

// O-30: messages that always fail, each in its way.
#[tokio::test]
async fn a_row_that_always_fails_does_not_hold_the_others_up() {
    const PASSES: usize = 180;
    let (server, shop) = (scripted([]).await, Shop::open().await);
    let down = scripted((0..PASSES).map(|_| Fault::status(503))).await;
    let forbids = scripted((0..PASSES).map(|_| Fault::status(403))).await;
    let away = refused_url().unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&attempts);
    let observer = move |event: &Event<'_>| {
        if let Event::AttemptStarted { .. } = event {
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    let client = builder(&shop.clock, shop.journal.clone()).contract(shortlived());
    let client = client.observer(observer).build().unwrap();
    let always_fail = [away, down.url("/v1/charges"), forbids.url("/v1/charges")];
    for url in &always_fail {
        client.once(http::Method::POST, url).json(&charge()).enqueue().await.unwrap();
    }
    // Half an hour, with a pass every ten seconds, and an order before each.
    for id in 1..=PASSES {
        shop.committed(id.try_into().unwrap(), &server);
        let resumer = client.resumer().origin(&server.url("/")).concurrency(1);
        let resumer = always_fail.iter().fold(resumer, |resumer, url| resumer.origin(url));
        // One that is due again at once would never let it end.
        let summary = tokio::time::timeout(SECOND * 10, resumer.once()).await.unwrap();
        assert_eq!(summary.unwrap().completed, 1, "pass {id}");
        shop.clock.advance(SECOND * 10);
    }
    assert_eq!(server.charges().len(), PASSES);
    let rows = rows(&shop.journal).await;
    let states: Vec<_> = rows[..3].iter().map(|row| row.state).collect();
    assert_eq!(states, [State::Pending, State::Unknown, State::Parked(Reason::Status)]);
    assert_eq!(forbids.requests().len(), 1);
    // Full jitter up to 1 s, doubled up to 5 min: some 18 attempts, and some 11 in the first ten minutes.
    let on_down = down.requests().len();
    assert!((4..=40).contains(&on_down), "{on_down}");
    let on_away = attempts.load(Ordering::Relaxed) - PASSES - on_down - 1;
    assert!((8..=60).contains(&on_away), "{on_away}");
}

/// A contract whose server forgets a key after ten minutes.
fn shortlived() -> Contract {
    let contract = Contract::generic().to_builder().name("shortlived");
    contract.window(MINUTE * 10).build().unwrap()
}

// O-30: nor do so many that there is always one of them due. Whatever is due longest goes first.
#[tokio::test]
async fn rows_that_always_fail_let_the_others_have_their_turn() {
    const FAIL: usize = 40;
    let (server, shop) = (scripted([]).await, Shop::open().await);
    let away = refused_url().unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let (count, clock) = (Arc::clone(&attempts), shop.clock.clone());
    // Each attempt takes its time.
    let client = builder(&shop.clock, shop.journal.clone()).observer(move |event: &Event<'_>| {
        if let Event::AttemptStarted { .. } = event {
            count.fetch_add(1, Ordering::Relaxed);
            clock.advance(SECOND * 10);
        }
    });
    let client = client.build().unwrap();
    for _ in 0..FAIL {
        client.once(http::Method::POST, &away).json(&charge()).enqueue().await.unwrap();
        shop.clock.advance(SECOND);
    }
    shop.committed(1, &server);
    let done = async {
        while server.charges().is_empty() && shop.clock.monotonic() < MINUTE * 60 {
            tokio::task::yield_now().await;
        }
    };
    let resumer = client.resumer().origin(&server.url("/")).origin(&away).concurrency(1);
    resumer.run(done).await.unwrap();
    assert_eq!((server.charges().len(), attempts.load(Ordering::Relaxed)), (1, FAIL + 1));
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
