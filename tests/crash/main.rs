//! What survives: processes killed at any point, the power failing, a disk that fails, a server that was away.
//!
//! The children of these tests are this same binary, told by the environment what to be. How much is done:
//!
//! | variable | default | full run |
//! |---|---|---|
//! | `POST_ONCE_CRASH_KILLS` | 56 | 500 |
//! | `POST_ONCE_CRASH_CUTS` | 200 | 2000 |
//! | `POST_ONCE_CRASH_ROWS` | 20000 | 1000000 |
//! | `POST_ONCE_CRASH_SEED` | random, printed | |
//!
//! Those on PostgreSQL make a throw-away cluster, and are ignored where none can be made, unless
//! `POST_ONCE_REQUIRE_POSTGRES=1` makes that a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod child;
#[cfg(feature = "postgres")]
#[path = "../postgres/cluster.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod cluster;
#[cfg(feature = "postgres")]
mod database;
mod doubt;
#[cfg(feature = "server")]
mod keys;
mod kills;
mod outage;
mod point;
mod power;
mod recorder;
mod server;
mod store;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;
use rand::SeedableRng;
use rand::rngs::SmallRng;

fn main() -> ExitCode {
    if let Some(role) = child::Role::given() {
        child::run(role);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // Each of them keeps the machine busy by itself.
    arguments.test_threads.get_or_insert(1);
    let trials = [kills::trials(), outage::trials(), power::trials(), doubt::trials()].into_iter();
    #[cfg(feature = "postgres")]
    let trials = trials.chain([database::trials()]);
    #[cfg(feature = "server")]
    let trials = trials.chain([keys::trials()]);
    libtest_mimic::run(&arguments, trials.flatten().collect()).exit_code()
}

/// A number from the environment.
fn how_many(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().expect("it is a number"))
}

/// A source of randomness that can be had again.
fn random() -> SmallRng {
    let seed = std::env::var("POST_ONCE_CRASH_SEED").ok();
    let seed: u64 = seed.map_or_else(rand::random, |text| text.parse().expect("it is a number"));
    println!("POST_ONCE_CRASH_SEED={seed}");
    SmallRng::seed_from_u64(seed)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}
