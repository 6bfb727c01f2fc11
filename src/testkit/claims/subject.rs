//! A store to be tested, and its time.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::make::ask;
use crate::server::claim::RecoveryPoint;
use crate::server::store::{Ask, ClaimStore, Claimed, Held, Holder, Name, Row};
use crate::testkit::ManualClock;

/// A new and empty store: two handles on it, and a way to let time pass.
///
/// Cases measure time in [units](Subject::unit): a lease of one unit is over after a pass of one, and a
/// lease of a thousand is still held at the end of a case.
#[derive(Debug)]
pub struct Subject<S> {
    store: Arc<S>,
    other: Arc<S>,
    time: Time,
    kept: Vec<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
enum Time {
    Manual(ManualClock),
    Real(Duration),
}

impl<S: ClaimStore> Subject<S> {
    /// For a store that judges times by this clock.
    pub fn on_clock(store: S, other: S, clock: ManualClock) -> Subject<S> {
        Subject::new(store, other, Time::Manual(clock))
    }

    /// For a store with a clock of its own, whose time really has to pass. The unit must be long enough
    /// for a few verbs, tens of milliseconds, and tells how long the suite takes.
    pub fn in_real_time(store: S, other: S, unit: Duration) -> Subject<S> {
        Subject::new(store, other, Time::Real(unit))
    }

    fn new(store: S, other: S, time: Time) -> Subject<S> {
        Subject { store: Arc::new(store), other: Arc::new(other), time, kept: Vec::new() }
    }

    /// Keeps something alive as long as the subject: a temporary folder, a schema that is dropped.
    #[must_use]
    pub fn keep(mut self, guard: impl Any + Send + Sync) -> Subject<S> {
        self.kept.push(Box::new(guard));
        self
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The same store, as another process has it open.
    pub fn other(&self) -> &S {
        &self.other
    }

    /// The unit of time.
    pub fn unit(&self) -> Duration {
        match self.time {
            Time::Manual(_) => Duration::from_secs(1),
            Time::Real(unit) => unit,
        }
    }

    /// What is not over before the case is.
    pub fn long(&self) -> Duration {
        self.unit() * 1000
    }

    /// Lets so many units pass.
    pub async fn pass(&self, units: u32) {
        self.pass_for(self.unit() * units).await;
    }

    /// Lets so much time pass.
    pub(super) async fn pass_for(&self, time: Duration) {
        match &self.time {
            Time::Manual(clock) => clock.advance(time),
            Time::Real(_) => really_wait(time).await,
        }
    }

    /// Claims, for the whole case.
    pub(super) async fn claim(&self, name: &Name, body: &str) -> Claimed {
        self.store.claim(&ask(name, body, self.long(), self.long())).await.unwrap()
    }

    /// The same, by the other process.
    pub(super) async fn claim_other(&self, name: &Name, body: &str) -> Claimed {
        self.other.claim(&ask(name, body, self.long(), self.long())).await.unwrap()
    }

    /// Wins a new key, for the whole case.
    pub(super) async fn win(&self, name: &Name) -> Holder {
        self.win_for(name, self.long(), self.long()).await
    }

    /// Wins a new key, for so long.
    pub(super) async fn win_for(
        &self,
        name: &Name,
        lease: Duration,
        retention: Duration,
    ) -> Holder {
        let ask = ask(name, BODY, lease, retention);
        assert_eq!(self.store.claim(&ask).await.unwrap(), fresh(), "a new key is won");
        ask.holder
    }

    /// Wins a new key, and comes so far with it before it dies.
    pub(super) async fn die_at(&self, name: &Name, point: RecoveryPoint) -> Holder {
        let holder = self.win(name).await;
        yes(self.store.checkpoint(&holder, &point, self.unit()).await.unwrap());
        self.pass(1).await;
        holder
    }

    /// Takes a dead claim over, as the other process, for the whole case.
    pub(super) async fn take_over(&self, name: &Name, run: u32) -> Holder {
        let ask = ask(name, BODY, self.long(), self.long());
        match self.other.claim(&ask).await.unwrap() {
            Claimed::Won { run: won, .. } => assert_eq!(won, run, "which run it is"),
            other => panic!("a dead claim is taken over: {other:?}"),
        }
        ask.holder
    }

    /// Claims of these bodies at once, on both handles in turn, and what came of each.
    pub(super) async fn at_once(
        &self,
        name: &Name,
        bodies: impl IntoIterator<Item = String>,
    ) -> Vec<(Ask, Claimed)> {
        let asks = bodies.into_iter().map(|body| ask(name, &body, self.long(), self.long()));
        let handles = [&self.store, &self.other].into_iter().cycle();
        let claims = asks.zip(handles.map(Arc::clone)).map(|(ask, store)| {
            tokio::spawn(async move {
                let claimed = store.claim(&ask).await.unwrap();
                (ask, claimed)
            })
        });
        let claims: Vec<_> = claims.collect();
        let mut all = Vec::with_capacity(claims.len());
        for claim in claims {
            all.push(claim.await.expect("a claim does not panic"));
        }
        all
    }

    /// The row, as the other process sees it.
    pub(super) async fn row(&self, name: &Name) -> Row {
        let row = self.other.look(name).await.unwrap().expect("the row is there");
        assert_eq!(row.holder.name, *name);
        row
    }
}

/// The body of requests that are all the same.
pub(super) const BODY: &str = r#"{"amount":1}"#;

/// A first run.
pub(super) fn fresh() -> Claimed {
    Claimed::Won { run: 1, point: None }
}

/// What must be held.
pub(super) fn yes<T>(held: Held<T>) -> T {
    match held {
        Held::Yes(value) => value,
        Held::Lost => panic!("must be held, and is lost"),
    }
}

/// What must be in progress, and what is left of its lease.
pub(super) fn in_progress(claimed: &Claimed) -> Duration {
    match claimed {
        Claimed::InProgress { lease_left } => *lease_left,
        other => panic!("must be in progress: {other:?}"),
    }
}

#[expect(clippy::disallowed_methods, reason = "a store with a clock of its own needs real time")]
async fn really_wait(time: Duration) {
    // A little more, for the clocks of the two sides count in their own ticks.
    tokio::time::sleep(time + Duration::from_millis(2)).await;
}
