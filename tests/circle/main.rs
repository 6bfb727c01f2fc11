//! The whole circle: the client half against the server half, in processes of their own, with faults injected
//! between them.
//!
//! A customer posts operations through a proxy that breaks things to a server that fails now and then; customer and
//! server are killed at random moments, and so is the database. At the end each operation has one order, and its
//! customer was told what the server has stored. The children are this same binary, told by the environment what to
//! be.
//!
//! | variable | default | full run |
//! |---|---|---|
//! | `POST_ONCE_CIRCLE_OPERATIONS` | 500 | 20000 |
//! | `POST_ONCE_CIRCLE_SEED` | random, printed | |
//! | `POST_ONCE_CIRCLE_STRANGERS` | unset: no proxy and no package of others | `1`: nginx, haproxy, the stripe package |
//!
//! Those on PostgreSQL make a throw-away cluster, and are ignored where none can be made, unless
//! `POST_ONCE_REQUIRE_POSTGRES=1` makes that a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod child;
#[cfg(feature = "postgres")]
#[path = "../postgres/cluster.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod cluster;
mod customer;
mod database;
mod judge;
mod proxy;
#[cfg(feature = "postgres")]
mod retrying;
mod shop;
mod strangers;
mod trial;

use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    if let Some(role) = child::Role::given() {
        child::run(role);
        return ExitCode::SUCCESS;
    }
    let mut arguments = Arguments::from_args();
    // Each of them keeps the machine busy by itself.
    arguments.test_threads.get_or_insert(1);
    let trials = [trial::trials(), strangers::trials()].into_iter();
    #[cfg(feature = "postgres")]
    let trials = trials.chain([retrying::trials()]);
    libtest_mimic::run(&arguments, trials.flatten().collect()).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "real sockets take real time")]
async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}
