//! The same on PostgreSQL, on a throw-away cluster: also while that is killed and comes back.

use std::env;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use sqlx::ConnectOptions;

use crate::cluster::Cluster;
use crate::kills::kill_and_check;
use crate::pause;
use crate::store::Store;

pub(crate) fn trials() -> Vec<Trial> {
    let listing = env::args().any(|argument| argument == "--list");
    let required = env::var_os("POST_ONCE_REQUIRE_POSTGRES").is_some();
    let missing = !listing && !required && Cluster::start().is_err();
    let trial = |name: &str, test: fn(&Cluster) -> Result<(), Failed>| {
        let trial = Trial::test(name, move || test(&Cluster::start()?));
        let trial = trial.with_ignored_flag(missing);
        if missing { trial.with_kind("no Postgres can be started") } else { trial }
    };
    vec![
        trial("kills::postgres_every_begun_operation_happens_exactly_once", |cluster| {
            kill_and_check(|number| on(cluster, number))
        }),
        trial("kills::postgres_that_is_killed_itself_loses_and_doubles_nothing", |cluster| {
            let over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let killer = scope.spawn(|| {
                    let mut times = 0;
                    while !over.load(Ordering::Relaxed) {
                        pause(Duration::from_millis(2_500));
                        cluster.kill();
                        pause(Duration::from_millis(200));
                        cluster.run_with(&[]);
                        times += 1;
                    }
                    times
                });
                let ended = {
                    let _over = AtItsEnd(&over);
                    kill_and_check(|number| on(cluster, number))
                };
                let times = killer.join().expect("the cluster comes back");
                println!("meanwhile the database was killed {times} times");
                assert!(times > 1);
                ended
            })
        }),
    ]
}

fn on(cluster: &Cluster, number: usize) -> Store {
    let url = cluster.options().to_url_lossy().to_string();
    Store::Postgres { url, schema: format!("episode_{number}") }
}

/// Says that it is over, also when that is by a panic.
struct AtItsEnd<'a>(&'a AtomicBool);

impl Drop for AtItsEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
