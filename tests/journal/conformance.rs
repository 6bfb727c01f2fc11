//! Every store does what every store must do.

use post_once::journal::MemoryJournal;
use post_once::testkit::ManualClock;
use post_once::testkit::journal::Subject;

mod memory {
    use super::*;

    async fn fresh() -> Subject<MemoryJournal> {
        let clock = ManualClock::new();
        let journal = MemoryJournal::with_clock(clock.clone());
        Subject::on_clock(journal.clone(), journal, clock)
    }

    post_once::journal_conformance!(fresh);
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use post_once::journal::SqliteJournal;

    use super::*;

    async fn fresh() -> Subject<SqliteJournal> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let clock = ManualClock::new();
        let open = || SqliteJournal::builder(&path).clock(clock.clone()).open();
        let (journal, other) = (open().await.unwrap(), open().await.unwrap());
        Subject::on_clock(journal, other, clock).keep(folder)
    }

    post_once::journal_conformance!(fresh);
}
