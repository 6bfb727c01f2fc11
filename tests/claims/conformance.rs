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
