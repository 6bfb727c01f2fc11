//! The stores in PostgreSQL, on a real server.
//!
//! `DATABASE_URL` if it is set; else a throw-away cluster from the installed binaries. Without either the
//! tests are listed as ignored, with the reason, unless `POST_ONCE_REQUIRE_POSTGRES=1` makes that a
//! failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod away;
mod bad;
#[cfg(feature = "server")]
mod claims;
mod cluster;
mod conformance;
mod enqueue;
mod group;
mod proxy;
mod subject;
#[cfg(feature = "cli")]
mod tool;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use subject::Server;

/// A test: it gets the server that all share.
type Test = fn(&'static Server) -> Result<(), Failed>;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A few at once are enough for a server that shares the machine.
    arguments.test_threads.get_or_insert(4);
    let (server, missing) = if arguments.list {
        (None, None)
    } else {
        match Server::find() {
            Ok(server) => (Some(&*Box::leak(Box::new(server))), None),
            Err(reason) if std::env::var_os("POST_ONCE_REQUIRE_POSTGRES").is_some() => {
                eprintln!("no Postgres, and POST_ONCE_REQUIRE_POSTGRES is set: {reason}");
                return ExitCode::FAILURE;
            }
            Err(reason) => (None, Some(reason)),
        }
    };
    let trial =
        |name: String, test: Box<dyn FnOnce(&'static Server) -> Result<(), Failed> + Send>| {
            let run = move || test(server.ok_or("there is no server")?);
            let trial = Trial::test(name, run).with_ignored_flag(missing.is_some());
            match &missing {
                Some(reason) => trial.with_kind(reason.clone()),
                None => trial,
            }
        };
    let mut trials: Vec<_> = conformance::cases()
        .map(|name| {
            trial(
                format!("conformance::{name}"),
                Box::new(move |server| conformance::run(server, name)),
            )
        })
        .collect();
    #[cfg(feature = "server")]
    for name in claims::cases() {
        let run = move |server: &'static Server| claims::run(server, name);
        trials.push(trial(format!("claims::conformance::{name}"), Box::new(run)));
        let run = move |server: &'static Server| claims::run_partitioned(server, name);
        trials.push(trial(format!("claims::partitioned::{name}"), Box::new(run)));
    }
    #[cfg_attr(
        not(any(feature = "cli", feature = "server")),
        expect(unused_mut, reason = "neither the tool nor the server half is built")
    )]
    let mut tests = [away::TESTS, bad::TESTS, enqueue::TESTS, group::TESTS].concat();
    #[cfg(feature = "server")]
    tests.extend_from_slice(&claims::tests());
    #[cfg(feature = "cli")]
    tests.extend_from_slice(tool::TESTS);
    for (name, test) in tests {
        trials.push(trial(name.to_owned(), Box::new(test)));
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if let Some(server) = server {
        server.end();
    }
    conclusion.exit_code()
}
