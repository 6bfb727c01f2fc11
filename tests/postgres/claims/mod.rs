//! The keys of the server half. Each test has a schema of its own.

mod at_once;
mod away;
mod bad;
mod complete_in;
mod once;
mod partitions;
mod sweep;

use std::time::Duration;

use libtest_mimic::Failed;
use post_once::server::store::{ClaimStore, Claimed, Held, Holder, Name, PostgresClaims};
use post_once::testkit::claims::{CASES, Subject, ask, case, name};
use sqlx::PgPool;

use crate::subject::{LONG, Server};

pub(crate) fn tests() -> Vec<(&'static str, crate::Test)> {
    [
        at_once::TESTS,
        away::TESTS,
        bad::TESTS,
        complete_in::TESTS,
        once::TESTS,
        partitions::TESTS,
        sweep::TESTS,
    ]
    .concat()
}

pub(crate) fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().copied()
}

/// The unit of time of the suite.
const UNIT: Duration = Duration::from_millis(160);

/// The suite on a table that is partitioned.
pub(crate) fn run_partitioned(server: &Server, name: &str) -> Result<(), Failed> {
    partitions::run(server, name)
}

/// The suite that every store runs. The second handle has a pool of its own, in a far time zone.
pub(crate) fn run(server: &Server, name: &str) -> Result<(), Failed> {
    server.test(async |schema| {
        let [east, west] = far_apart(server);
        let (store, other) = tokio::join!(open(&east, schema), open(&west, schema));
        warm([&store, &other]).await;
        case(name, &Subject::in_real_time(store, other, UNIT)).await;
    })
}

/// Pools whose sessions are in time zones of UTC+14 and UTC−5.
fn far_apart(server: &Server) -> [PgPool; 2] {
    ["Pacific/Kiritimati", "America/Bogota"]
        .map(|zone| server.pool_with(|options| options.options([("TimeZone", zone)])))
}

async fn open(pool: &PgPool, schema: &str) -> PostgresClaims {
    PostgresClaims::builder(pool.clone()).schema(schema).build().await.unwrap()
}

/// Opens the connections, which a short lease must not wait for.
async fn warm(stores: [&PostgresClaims; 2]) {
    let nobody = name("nobody");
    for claims in stores {
        let (one, other) = tokio::join!(claims.look(&nobody), claims.look(&nobody));
        assert_eq!((one.unwrap(), other.unwrap()), (None, None));
    }
}

/// Wins a new key, with a lease that is not over before the test is.
async fn win(claims: &PostgresClaims, name: &Name) -> Holder {
    win_for(claims, name, LONG).await
}

async fn win_for(claims: &PostgresClaims, name: &Name, lease: Duration) -> Holder {
    let ask = ask(name, "{}", lease, LONG);
    match claims.claim(&ask).await.unwrap() {
        Claimed::Won { .. } => ask.holder,
        other => panic!("must be won: {other:?}"),
    }
}

fn yes(held: Held<()>) {
    assert_eq!(held, Held::Yes(()));
}

#[expect(clippy::disallowed_methods, reason = "a real server in real time")]
async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// What comes of it within the time.
#[expect(clippy::disallowed_methods, reason = "a real server in real time")]
async fn within<T>(seconds: u64, work: impl Future<Output = T>) -> T {
    let work = tokio::time::timeout(Duration::from_secs(seconds), work);
    work.await.expect("it does not wait for long")
}
