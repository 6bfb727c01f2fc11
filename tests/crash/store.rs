//! The journals that the children share.

use std::path::PathBuf;

use post_once::ClientBuilder;
use post_once::journal::{Journal, Record, SqliteJournal};
use post_once::testkit::journal::list;
use serde::{Deserialize, Serialize};

/// Where a journal is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Store {
    Sqlite(PathBuf),
    #[cfg(feature = "postgres")]
    Postgres {
        url: String,
        schema: String,
    },
}

/// An open journal.
#[derive(Clone)]
pub(crate) enum Opened {
    Sqlite(SqliteJournal),
    #[cfg(feature = "postgres")]
    Postgres(post_once::journal::PostgresJournal),
}

impl Store {
    pub(crate) async fn open(&self) -> Opened {
        match self {
            Store::Sqlite(path) => Opened::Sqlite(SqliteJournal::open(path).await.unwrap()),
            #[cfg(feature = "postgres")]
            Store::Postgres { url, schema } => {
                let pool = sqlx::postgres::PgPoolOptions::new().max_connections(4);
                let pool = pool.connect_lazy(url).unwrap();
                let journal = post_once::journal::PostgresJournal::builder(pool).schema(schema);
                Opened::Postgres(journal.build().await.unwrap())
            }
        }
    }

    /// All its rows.
    pub(crate) async fn rows(&self) -> Vec<Record> {
        let opened = self.open().await;
        opened.journal().list(&list([], None, None, u32::MAX)).await.unwrap()
    }
}

impl Opened {
    pub(crate) fn journal(&self) -> &dyn Journal {
        match self {
            Opened::Sqlite(journal) => journal,
            #[cfg(feature = "postgres")]
            Opened::Postgres(journal) => journal,
        }
    }

    pub(crate) fn give(self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Opened::Sqlite(journal) => builder.journal(journal),
            #[cfg(feature = "postgres")]
            Opened::Postgres(journal) => builder.journal(journal),
        }
    }
}
