//! What a journal costs, against what the disk can do.
//!
//! ```text
//! cargo bench --bench journal --features sqlite,testkit [-- PART…]
//! parts: begin life group claim processes cost open, and count for callgrind
//! ```
//!
//! Each part runs the store and its reference in turn, several rounds in one run; what counts is the
//! ratio, for a disk is never the same twice. For slow syncs run it under
//! `strace -f --seccomp-bpf -e inject=fsync,fdatasync:delay_exit=2000 -e trace=fsync,fdatasync`, which
//! hits both sides alike.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]
#![allow(clippy::disallowed_methods, reason = "a measurement is of the real time")]

mod claim;
mod cost;
mod count;
mod life;
mod log;
mod open;
mod processes;

use std::sync::LazyLock;
use std::time::Duration;

use post_once::journal::{Claim, Draft, Inserted, Journal, SqliteJournal};
use post_once::testkit::journal::draft;

/// The size of a body.
const BODY: usize = 1024;
/// How many wait at a time.
const TASKS: [usize; 4] = [1, 16, 64, 256];

fn main() {
    if let Some(path) = std::env::var_os("POST_ONCE_BENCH_CHILD") {
        open::child(path.as_ref());
    }
    if let Some(path) = std::env::var_os(processes::CHILD) {
        return runtime().block_on(processes::child(path.as_ref()));
    }
    let named: Vec<_> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let runtime = runtime();
    if wanted("begin") {
        runtime.block_on(life::begin());
    }
    if wanted("life") {
        runtime.block_on(life::life());
    }
    if wanted("group") {
        runtime.block_on(life::group());
    }
    if wanted("claim") {
        runtime.block_on(claim::claim());
    }
    if wanted("processes") {
        runtime.block_on(processes::processes());
    }
    if wanted("cost") {
        runtime.block_on(cost::cost());
    }
    // Not one of those that run unasked.
    if named.iter().any(|name| name == "count") {
        runtime.block_on(count::count());
    }
    if wanted("open") {
        runtime.block_on(open::open());
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// An operation without a name, its body as large as all of them. Its making is not measured: a caller
/// has to make one with and without a journal.
fn operation() -> Draft {
    static DRAFT: LazyLock<Draft> = LazyLock::new(|| draft(None, vec![b'x'; BODY]));
    DRAFT.clone()
}

async fn begin(journal: &SqliteJournal, lease: Duration) -> Claim {
    match journal.insert(&operation(), lease).await.unwrap() {
        Inserted::New(claim) => claim,
        other => panic!("without a name everything is new: {other:?}"),
    }
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The value below which all but this part of a thousand are.
fn quantile(values: &mut [Duration], thousandths: usize) -> Duration {
    values.sort_unstable();
    values[(values.len() * thousandths / 1000).min(values.len() - 1)]
}
