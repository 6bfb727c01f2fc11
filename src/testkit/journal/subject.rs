//! A journal to be tested, and its time.

use std::any::Any;
use std::time::Duration;

use crate::journal::{Claim, Draft, Held, Inserted, Journal, Record, RowId};
use crate::testkit::ManualClock;

/// A new and empty journal: two handles on it, and a way to let time pass.
///
/// Cases measure time in [units](Subject::unit): a lease of one unit is over after a pass of one, and a
/// lease of a thousand is still held at the end of a case.
#[derive(Debug)]
pub struct Subject<J> {
    journal: J,
    other: J,
    time: Time,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
enum Time {
    Manual(ManualClock),
    Real(Duration),
}

impl<J: Journal> Subject<J> {
    /// For a store that judges times by this clock.
    pub fn on_clock(journal: J, other: J, clock: ManualClock) -> Subject<J> {
        Subject { journal, other, time: Time::Manual(clock), kept: Vec::new() }
    }

    /// For a store with a clock of its own, whose time really has to pass. The unit must be long enough
    /// for a few verbs, tens of milliseconds, and tells how long the suite takes.
    pub fn in_real_time(journal: J, other: J, unit: Duration) -> Subject<J> {
        Subject { journal, other, time: Time::Real(unit), kept: Vec::new() }
    }

    /// Keeps something alive as long as the subject: a temporary folder, a schema that is dropped.
    #[must_use]
    pub fn keep(mut self, guard: impl Any + Send + Sync) -> Subject<J> {
        self.kept.push(Box::new(guard));
        self
    }

    /// The journal.
    pub fn journal(&self) -> &J {
        &self.journal
    }

    /// The same journal, as another process has it open.
    pub fn other(&self) -> &J {
        &self.other
    }

    /// The unit of time.
    pub fn unit(&self) -> Duration {
        match self.time {
            Time::Manual(_) => Duration::from_secs(1),
            Time::Real(unit) => unit,
        }
    }

    /// A lease that is not over before the case is.
    pub fn long(&self) -> Duration {
        self.unit() * 1000
    }

    /// Lets so many units pass.
    pub async fn pass(&self, units: u32) {
        let time = self.unit() * units;
        match &self.time {
            Time::Manual(clock) => clock.advance(time),
            Time::Real(_) => really_wait(time).await,
        }
    }

    /// Begins an operation with a long lease.
    pub(super) async fn begin(&self, draft: &Draft) -> Claim {
        self.begin_for(draft, self.long()).await
    }

    /// Begins an operation with this lease.
    pub(super) async fn begin_for(&self, draft: &Draft, lease: Duration) -> Claim {
        new(self.journal.insert(draft, lease).await.expect("a row can be inserted"))
    }

    /// The row, as the other process reads it.
    pub(super) async fn row(&self, row: RowId) -> Record {
        let filter = super::list([], None, Some(RowId(row.0 - 1)), 1);
        let mut rows = self.other.list(&filter).await.expect("rows can be listed");
        let record = rows.pop().expect("the row is there");
        assert_eq!(record.row, row);
        record
    }
}

/// The claim on what must be new.
pub(super) fn new(inserted: Inserted) -> Claim {
    match inserted {
        Inserted::New(claim) => claim,
        Inserted::Found(record) => panic!("must be new, and is there: {record:?}"),
    }
}

/// What must be found.
pub(super) fn found(inserted: Inserted) -> Record {
    match inserted {
        Inserted::New(claim) => panic!("must be found, and was inserted: {claim:?}"),
        Inserted::Found(record) => *record,
    }
}

/// What must be held.
pub(super) fn yes<T>(held: Held<T>) -> T {
    match held {
        Held::Yes(value) => value,
        Held::Lost => panic!("must be held, and is lost"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a store with a clock of its own needs real time")]
async fn really_wait(time: Duration) {
    // A little more, for the clocks of the two sides count in their own ticks.
    tokio::time::sleep(time + Duration::from_millis(2)).await;
}
