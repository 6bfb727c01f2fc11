//! Those that are not of this crate: two servers at once on one database, and clients of others.

use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::child::{Process, Role};
use crate::database::Database;
use crate::proxy::{Fate, Proxy};
use crate::runtime;

pub(crate) fn trials() -> Vec<Trial> {
    let curl = Trial::test("strangers::curl_that_retries_orders_once", || {
        let folder = tempfile::tempdir()?;
        curl(&Database::Sqlite(folder.path().join("shop.db")))
    });
    let curl = where_there_is(curl, "curl", "--version");
    let stripe = Trial::test("strangers::the_stripe_package_pays_once", || {
        let folder = tempfile::tempdir()?;
        stripe(&Database::Sqlite(folder.path().join("shop.db")), folder.path())
    });
    let stripe = is_asked_for(stripe, "python3", "--version");
    #[cfg(feature = "postgres")]
    return vec![curl, stripe, at_once()];
    #[cfg(not(feature = "postgres"))]
    vec![curl, stripe]
}

/// Ignored where a program is not installed.
fn where_there_is(trial: Trial, program: &str, flag: &str) -> Trial {
    if Command::new(program).arg(flag).output().is_ok() {
        return trial;
    }
    trial.with_ignored_flag(true).with_kind(format!("there is no {program}"))
}

/// A trial of the full run: ignored unless it is asked for.
pub(crate) fn is_asked_for(trial: Trial, program: &str, flag: &str) -> Trial {
    if std::env::var_os("POST_ONCE_CIRCLE_STRANGERS").is_some() {
        return where_there_is(trial, program, flag);
    }
    trial.with_ignored_flag(true).with_kind("POST_ONCE_CIRCLE_STRANGERS is not set")
}

/// A trial on a throw-away cluster; ignored where none can be made.
#[cfg(feature = "postgres")]
pub(crate) fn with_cluster(
    name: &str,
    test: impl FnOnce(&crate::cluster::Cluster) -> Result<(), Failed> + Send + 'static,
) -> Trial {
    use std::sync::OnceLock;

    use crate::cluster::Cluster;

    static CAN_BE_MADE: OnceLock<bool> = OnceLock::new();
    let listing = std::env::args().any(|argument| argument == "--list");
    let required = std::env::var_os("POST_ONCE_REQUIRE_POSTGRES").is_some();
    let made = || listing || required || Cluster::start().is_ok();
    let missing = !*CAN_BE_MADE.get_or_init(made);
    let trial = Trial::test(name, move || test(&Cluster::start()?)).with_ignored_flag(missing);
    if missing { trial.with_kind("no Postgres can be started") } else { trial }
}

fn shop(database: &Database) -> Result<(Process, u16), Failed> {
    let mut shop = Role::Shop { database: database.clone(), port: 0 }.spawn();
    let port = shop.first_line().parse()?;
    Ok((shop, port))
}

/// O-23: 50 equal requests at once on two server processes.
#[cfg(feature = "postgres")]
fn at_once() -> Trial {
    use sqlx::ConnectOptions;

    with_cluster("strangers::of_50_equal_requests_on_two_processes_one_is_run", |cluster| {
        let database = Database::Postgres(cluster.options().to_url_lossy().to_string());
        let (shops, ports): (Vec<_>, Vec<_>) =
            [shop(&database)?, shop(&database)?].into_iter().unzip();
        let runtime = runtime();
        let statuses = runtime.block_on(async {
            let client = reqwest::Client::new();
            let post = |at: usize| {
                let url = format!("http://127.0.0.1:{}/orders", ports[at % 2]);
                let request = client.post(url).header("idempotency-key", "k");
                request.body(r#"{"operation":"one"}"#).send()
            };
            let mut asked = tokio::task::JoinSet::new();
            for at in 0..50 {
                let request = post(at);
                asked.spawn(async move { request.await.unwrap().status().as_u16() });
            }
            asked.join_all().await
        });
        assert!(
            statuses.iter().all(|status| [201, 409, 503, 500].contains(status)),
            "{statuses:?}"
        );
        let orders = runtime.block_on(database.orders());
        assert!(orders.len() <= 1, "{orders:?}");
        // Its handler fails now and then: then it is none, and asked again it is one.
        let again = runtime.block_on(async {
            let url = format!("http://127.0.0.1:{}/orders", ports[0]);
            let client = reqwest::Client::new();
            loop {
                let request = client.post(&url).header("idempotency-key", "k");
                let answer = request.body(r#"{"operation":"one"}"#).send().await.unwrap();
                if answer.status() == 201 {
                    return answer.headers().contains_key("idempotency-replayed");
                }
            }
        });
        assert!(again || orders.is_empty());
        assert_eq!(runtime.block_on(database.orders()).len(), 1);
        drop(shops);
        Ok(())
    })
}

/// curl, which knows of keys only that it was given a field.
fn curl(database: &Database) -> Result<(), Failed> {
    let (_shop, port) = shop(database)?;
    let runtime = runtime();
    let script = vec![Fate::CutAfter, Fate::Answered503, Fate::CutInTheBody, Fate::Passed];
    let proxy = runtime.block_on(Proxy::start_with(port, 0, script));
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--retry", "20", "--retry-all-errors"])
        .args(["--retry-delay", "1", "--fail", "--data", r#"{"operation":"by curl"}"#])
        .args(["--header", "Idempotency-Key: order-42"])
        .arg(format!("http://{}/orders", proxy.address))
        .output()?;
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(told.contains("by curl"), "{told}");
    let orders = runtime.block_on(database.orders());
    assert_eq!(orders, [("by curl".to_owned(), "order-42".to_owned())]);
    println!("curl met {:?}", proxy.counts());
    Ok(())
}

/// The published package of a payment provider, pointed at our server. It mints its own keys.
const PAYING: &str = r#"
import sys, stripe
stripe.api_key = "sk_test_none"
stripe.api_base = sys.argv[1]
stripe.max_network_retries = 8
intent = stripe.PaymentIntent.create(amount=4200, currency="eur", description="by stripe")
again = stripe.PaymentIntent.create(
    amount=4200, currency="eur", description="by hand", idempotency_key="order-42")
twice = stripe.PaymentIntent.create(
    amount=4200, currency="eur", description="by hand", idempotency_key="order-42")
assert again["receipt"] == twice["receipt"], "the same key is the same payment"
try:
    stripe.PaymentIntent.create(
        amount=1, currency="eur", description="by hand", idempotency_key="order-42")
    sys.exit("another request under the same key was taken")
except stripe.StripeError as error:
    assert error.http_status == 422, error
print(intent["operation"], twice["operation"])
"#;

fn stripe(database: &Database, folder: &std::path::Path) -> Result<(), Failed> {
    let python = folder.join("venv").join("bin").join("python");
    let run = |command: &mut Command| -> Result<String, Failed> {
        let output = command.output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let why = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(said) } else { Err(format!("{said}{why}").into()) }
    };
    run(Command::new("python3").args(["-m", "venv"]).arg(folder.join("venv")))?;
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "stripe"]))?;

    let (_shop, port) = shop(database)?;
    let runtime = runtime();
    // An answer that is cut in its body it hands to its caller, and does not send again.
    let script = vec![Fate::CutAfter, Fate::Answered503, Fate::CutAfter, Fate::Passed];
    let script = [script, vec![Fate::Passed, Fate::Passed, Fate::Passed]].concat();
    let proxy = runtime.block_on(Proxy::start_with(port, 0, script));
    let url = format!("http://{}", proxy.address);
    let said = run(Command::new(&python).args(["-c", PAYING, &url]))?;
    assert_eq!(said.trim(), "by stripe by hand");
    let orders = runtime.block_on(database.orders());
    let mut orders: Vec<_> = orders.into_iter().map(|(operation, _)| operation).collect();
    orders.sort();
    assert_eq!(orders, ["by hand", "by stripe"]);
    println!("the package met {:?}", proxy.counts());
    Ok(())
}
