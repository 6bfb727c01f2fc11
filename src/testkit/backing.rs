//! Who keeps the keys of a server: itself, or the layer of the server half on one of its stores.

use std::io;
use std::sync::Arc;

use super::keys::KeyCarrier;
use super::shop::Shop;
use super::state::Options;
use super::till::Till;
use crate::server::store::{ClaimStore, MemoryClaims};

/// Who keeps the keys.
#[derive(Debug)]
pub(super) enum Keys {
    Own,
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(std::path::PathBuf),
    #[cfg(feature = "postgres")]
    Postgres(sqlx::PgPool),
}

impl Keys {
    pub(super) async fn shop(self, options: &Options) -> io::Result<Option<Shop>> {
        let (store, till): (Arc<dyn ClaimStore>, Till) = match self {
            Keys::Own => return Ok(None),
            Keys::Memory => (Arc::new(MemoryClaims::new()), Till::Memory),
            #[cfg(feature = "sqlite")]
            Keys::Sqlite(path) => {
                let store = crate::server::store::SqliteClaims::open(&path);
                let store = store.await.map_err(io::Error::other)?;
                (Arc::new(store), Till::sqlite(&path).map_err(io::Error::other)?)
            }
            #[cfg(feature = "postgres")]
            Keys::Postgres(pool) => {
                let store = crate::server::store::PostgresClaims::connect(pool.clone());
                let store = store.await.map_err(io::Error::other)?;
                (Arc::new(store), Till::postgres(pool).await.map_err(io::Error::other)?)
            }
        };
        let KeyCarrier::Header(field) = &options.keys else {
            let text = "the layer reads the key from a header, not from a member of the body";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let shop = Shop::new(store, till, field.clone(), options.in_progress_retry_after);
        shop.map(Some).map_err(io::Error::other)
    }
}
