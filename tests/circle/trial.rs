//! The circle, on each database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::child::{Process, Role};
use crate::database::Database;
use crate::judge::{Verdict, judge};
use crate::proxy::Proxy;
use crate::{pause, runtime};

pub(crate) fn trials() -> Vec<Trial> {
    let sqlite = Trial::test("circle::sqlite", || {
        let folder = tempfile::tempdir()?;
        circle(&Database::Sqlite(folder.path().join("shop.db")), &|| {})
    });
    #[cfg(feature = "postgres")]
    return vec![sqlite, on_postgres()];
    #[cfg(not(feature = "postgres"))]
    vec![sqlite]
}

#[cfg(feature = "postgres")]
fn on_postgres() -> Trial {
    use sqlx::ConnectOptions;

    crate::strangers::with_cluster("circle::postgres_that_is_restarted", |cluster| {
        let database = Database::Postgres(cluster.options().to_url_lossy().to_string());
        circle(&database, &|| {
            cluster.stop();
            pause(Duration::from_millis(100));
            cluster.run_with(&[]);
        })
    })
}

/// A number from the environment.
pub(crate) fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("it is a number"))
}

fn circle(database: &Database, restart: &(dyn Fn() + Sync)) -> Result<(), Failed> {
    let operations = given("POST_ONCE_CIRCLE_OPERATIONS").unwrap_or(500);
    let operations = u32::try_from(operations)?;
    let seed = given("POST_ONCE_CIRCLE_SEED").unwrap_or_else(rand::random);
    println!("POST_ONCE_CIRCLE_SEED={seed}");
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("customer.journal");
    let runtime = runtime();

    let mut shop = Role::Shop { database: database.clone(), port: 0 }.spawn();
    let port: u16 = shop.first_line().parse()?;
    let shop_role = Role::Shop { database: database.clone(), port };
    let proxy = runtime.block_on(Proxy::start(port, seed));
    let url = format!("http://{}", proxy.address);
    let customer_role = Role::Customer { journal: journal.clone(), url, operations };
    let mut customer = customer_role.spawn();

    let over = AtomicBool::new(false);
    let (mut killed_shops, mut killed_customers) = (0, 0);
    let restarts = std::thread::scope(|scope| {
        let restarting = scope.spawn(|| {
            let mut restarts = 0;
            while !over.load(Ordering::Relaxed) {
                for _ in 0..40 {
                    if !over.load(Ordering::Relaxed) {
                        pause(Duration::from_millis(100));
                    }
                }
                if !over.load(Ordering::Relaxed) {
                    restart();
                    restarts += 1;
                }
            }
            restarts
        });
        let _over = AtItsEnd(&over);
        let mut random = SmallRng::seed_from_u64(seed.wrapping_add(1));
        // A long run has its kills further apart, or it would never come to its end.
        let stretch = 1 + operations / 2_000;
        loop {
            let pause = Duration::from_millis(random.random_range(150..800)) * stretch;
            if ends_within(&mut customer, pause) {
                break;
            }
            if random.random_bool(0.6) {
                shop.kill();
                shop = shop_role.spawn();
                killed_shops += 1;
            } else {
                customer.kill();
                customer = customer_role.spawn();
                killed_customers += 1;
            }
        }
        over.store(true, Ordering::Relaxed);
        restarting.join().expect("the database comes back")
    });
    shop.kill();
    let verdict = runtime.block_on(judge(&journal, database, operations));
    println!("{:<28} count", "between them");
    for (fate, count) in proxy.counts() {
        println!("{:<28} {count:>5}", format!("{fate:?}"));
    }
    for (what, count) in [
        ("server killed", killed_shops),
        ("customer killed", killed_customers),
        ("database restarted", if is_postgres(database) { restarts } else { 0 }),
    ] {
        println!("{what:<28} {count:>5}");
    }
    println!("{verdict:?}");
    let sound = Verdict {
        operations: operations as usize,
        attempts: verdict.attempts,
        ..Verdict::default()
    };
    assert_eq!(verdict, sound);
    assert!(operations < 400 || killed_shops + killed_customers >= 4, "hardly anything was killed");
    Ok(())
}

fn is_postgres(database: &Database) -> bool {
    matches!(database, Database::Postgres(_))
}

/// Whether the customer comes to its end within the time.
pub(crate) fn ends_within(customer: &mut Process, time: Duration) -> bool {
    let step = Duration::from_millis(20);
    let mut waited = Duration::ZERO;
    while waited < time {
        if let Some(well) = customer.has_ended() {
            assert!(well, "the customer failed by itself");
            return true;
        }
        pause(step);
        waited += step;
    }
    false
}

/// Says that it is over, also when that is by a panic.
struct AtItsEnd<'a>(&'a AtomicBool);

impl Drop for AtItsEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
