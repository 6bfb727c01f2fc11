//! The thread that reads: on its own connection, so that a long listing holds up no commit.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{PoisonError, RwLock};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::StoreError;

type Query = Box<dyn FnOnce(&Connection) + Send>;

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Reader {
    queries: RwLock<Option<Sender<Query>>>,
}

impl Reader {
    pub(super) fn new(queries: Sender<Query>) -> Reader {
        Reader { queries: RwLock::new(Some(queries)) }
    }

    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let query: Query = Box::new(move |connection| {
            // Whoever went away has no use for it.
            let (Ok(()) | Err(_)) = reply.send(query(connection));
        });
        let sent = match &*self.queries.read().unwrap_or_else(PoisonError::into_inner) {
            Some(queries) => queries.send(query).is_ok(),
            None => false,
        };
        if !sent {
            return Err(StoreError::closed());
        }
        answer.await.map_err(StoreError::failed)?.map_err(StoreError::from)
    }

    pub(super) fn stop(&self) {
        *self.queries.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Answers until nobody can ask any more.
pub(super) fn work(connection: &Connection, queries: &Receiver<Query>) {
    for query in queries {
        query(connection);
    }
}
