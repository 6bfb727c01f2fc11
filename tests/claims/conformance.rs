//! Every store does what every store must do.

use post_once::server::store::MemoryClaims;
use post_once::testkit::ManualClock;
use post_once::testkit::claims::Subject;

mod memory {
    use super::*;

    async fn fresh() -> Subject<MemoryClaims> {
        let clock = ManualClock::new();
        let store = MemoryClaims::with_clock(clock.clone());
        Subject::on_clock(store.clone(), store, clock)
    }

    post_once::claims_conformance!(fresh);
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use post_once::server::store::SqliteClaims;

    use super::*;

    async fn fresh() -> Subject<SqliteClaims> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claims");
        let clock = ManualClock::new();
        let open = || SqliteClaims::builder(&path).clock(clock.clone()).open();
        let (store, other) = (open().await.unwrap(), open().await.unwrap());
        Subject::on_clock(store, other, clock).keep(folder)
    }

    post_once::claims_conformance!(fresh);
}
