//! What each case gets: an empty store of one kind, and servers on it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::IdempotencyLayerBuilder;
use post_once::server::store::{
    Ask, ClaimStore, Claimed, Held, Holder, MemoryClaims, Name, Row, Token,
};

use crate::api::{self, Api, Runs};

/// An empty store, and what was done on it.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) runs: Runs,
}

/// A kind of store.
pub(crate) enum Store {
    Memory(MemoryClaims),
    #[cfg(feature = "sqlite")]
    Sqlite(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Postgres(crate::database::Schema),
}

impl World {
    pub(crate) fn in_memory() -> World {
        World::on(Store::Memory(MemoryClaims::new()))
    }

    pub(crate) fn on(store: Store) -> World {
        World { store, runs: Runs::default() }
    }

    /// The store, as one more process opens it.
    pub(crate) async fn store(&self) -> Arc<dyn ClaimStore> {
        match &self.store {
            Store::Memory(store) => Arc::new(store.clone()),
            #[cfg(feature = "sqlite")]
            Store::Sqlite(folder) => {
                let path = folder.path().join("api.db");
                Arc::new(post_once::server::store::SqliteClaims::open(path).await.unwrap())
            }
            #[cfg(feature = "postgres")]
            Store::Postgres(schema) => Arc::new(schema.claims().await),
        }
    }

    /// A server on the store.
    pub(crate) async fn serve(&self) -> Api {
        self.serve_with(|layer| layer).await
    }

    pub(crate) async fn serve_with(
        &self,
        with: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> Api {
        self.serve_on(self.store().await, with).await
    }

    pub(crate) async fn serve_on(
        &self,
        store: Arc<dyn ClaimStore>,
        with: impl FnOnce(IdempotencyLayerBuilder) -> IdempotencyLayerBuilder,
    ) -> Api {
        Api::start(with(api::layer(store)), self.runs.clone()).await
    }

    /// A worker that claims the key of `POST /charges` and is never heard of again: its claim lives as long as its
    /// lease.
    pub(crate) async fn killed_worker(&self, key: &str, body: &str, lease: Duration) -> Holder {
        let holder = Holder::new(name(key), Token::mint());
        let json = Some("application/json");
        let fingerprint = Fingerprint::new(&Method::POST, "/charges", json, body.as_bytes());
        let ask = Ask::new(holder.clone(), fingerprint, lease, Duration::from_secs(3600));
        let claimed = self.store().await.claim(&ask).await.unwrap();
        assert!(matches!(claimed, Claimed::Won { .. }), "{claimed:?}");
        holder
    }

    /// Waits until the handler was run so often: the last run is under way.
    pub(crate) async fn begun(&self, runs: u64) {
        until(|| async { self.runs.count() == runs }).await;
    }
}

/// The name of a key of nobody in particular.
pub(crate) fn name(key: &str) -> Name {
    Name::new("none", &IdempotencyKey::parse(key).unwrap())
}

/// The row of such a key.
pub(crate) async fn look(store: &dyn ClaimStore, key: &str) -> Row {
    store.look(&name(key)).await.unwrap().unwrap_or_else(|| panic!("there is no key {key}"))
}

/// From now on there is so much left of the lease of whoever works on this key.
pub(crate) async fn shorten(store: &dyn ClaimStore, key: &str, left: Duration) {
    let holder = look(store, key).await.holder;
    assert_eq!(store.renew(&holder, left).await.unwrap(), Held::Yes(()));
}

/// As a person does who takes its worker for dead: the key is given back.
pub(crate) async fn take_away(store: &dyn ClaimStore, key: &str) {
    let holder = look(store, key).await.holder;
    assert_eq!(store.release(&holder).await.unwrap(), Held::Yes(()));
}

/// Whether so much is left of it, but for what a busy machine takes. A store that counts whole milliseconds has an end
/// begin the next one, so that in the one in which it was set one more is left.
pub(crate) fn is_about(left: Duration, whole: Duration) -> bool {
    left <= whole + Duration::from_millis(1) && left + Duration::from_secs(8) > whole
}

/// What does not come soon does not come.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::select! {
        done = work => done,
        () = api::sleep(15_000) => panic!("it does not end"),
    }
}

/// Asks again until it is so, for ten seconds at most.
pub(crate) async fn until<F: Future<Output = bool>>(mut so: impl FnMut() -> F) {
    for _ in 0..1_000 {
        if so().await {
            return;
        }
        api::sleep(10).await;
    }
    panic!("it did not come to that");
}
