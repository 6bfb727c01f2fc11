//! Jobs whose transaction has no connection, or loses it: before the commit, or with its answer.

use std::time::Duration;

use http::Method;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::once::{Once, OnceError, Ran};
use post_once::server::store::PostgresClaims;
use post_once::testkit::claims::name;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Row};

use super::{open, win, within};
use crate::proxy::Proxy;
use crate::subject::Server;

/// How long one waits for a connection.
const SHORT: Duration = Duration::from_millis(300);

fn message(id: &str) -> (IdempotencyKey, Fingerprint) {
    let fingerprint = Fingerprint::new(&Method::POST, "invoices", None, id.as_bytes());
    (IdempotencyKey::parse(id).unwrap(), fingerprint)
}

async fn invoices(pool: &PgPool, schema: &str) -> i64 {
    let count = format!("SELECT count(*) FROM {schema}.invoice");
    sqlx::query(AssertSqlSafe(count)).fetch_one(pool).await.unwrap().get(0)
}

/// A delivery whose connection is lost as told, just before the work ends; and how many invoices there are then.
async fn deliver(
    server: &Server,
    schema: &str,
    lost: impl Fn(&Proxy),
) -> (Result<Ran<u32>, OnceError<String>>, i64) {
    let pool = server.pool();
    drop(open(&pool, schema).await);
    let table = format!("CREATE TABLE {schema}.invoice (of int)");
    sqlx::raw_sql(AssertSqlSafe(table)).execute(&pool).await.unwrap();
    let (host, port) = server.address();
    let proxy = Proxy::to(&host, port).await;
    let far = server.pool_with(|options| options.host("127.0.0.1").port(proxy.port));
    let once = Once::new(PostgresClaims::builder(far).schema(schema).build().await.unwrap());
    let insert = format!("INSERT INTO {schema}.invoice VALUES (1)");
    let work = async |connection: &mut PgConnection| {
        sqlx::raw_sql(AssertSqlSafe(insert)).execute(connection).await.unwrap();
        lost(&proxy);
        Ok::<_, String>(1)
    };
    let (key, fingerprint) = message("m1");
    let ran = within(10, once.run("billing", &key, fingerprint, work)).await;
    assert!(proxy.has_lost(), "it was lost");
    let count = invoices(&pool, schema).await;
    (ran, count)
}

/// The next delivery, on a connection that is not lost.
async fn again(server: &Server, schema: &str) -> Ran<u32> {
    let once = Once::new(open(&server.pool(), schema).await);
    let (key, fingerprint) = message("m1");
    let work = async |_: &mut PgConnection| Ok::<_, String>(2);
    once.run("billing", &key, fingerprint, work).await.unwrap()
}

pub(crate) const TESTS: &[(&str, crate::Test)] = &[
    ("claims::once::a_commit_whose_word_was_lost_was_done", |server| {
        server.test(async |schema| {
            let lost = |proxy: &Proxy| proxy.lose_the_answer_to("COMMIT");
            let (ran, count) = deliver(server, schema, lost).await;
            assert!(matches!(ran, Ok(Ran::Now(1))), "{ran:?}");
            assert_eq!(count, 1);
            assert_eq!(again(server, schema).await, Ran::Before(1));
        })
    }),
    ("claims::once::a_commit_that_did_not_arrive_is_done_by_the_next_delivery", |server| {
        server.test(async |schema| {
            for (at, before) in ["COMMIT", "UPDATE"].into_iter().enumerate() {
                let schema = format!("{schema}_{at}");
                let lost = |proxy: &Proxy| proxy.cut_before(before);
                let (ran, count) = deliver(server, &schema, lost).await;
                assert!(matches!(ran, Err(OnceError::Store(_))), "{ran:?}");
                assert_eq!(count, 0, "{before}");
                assert_eq!(again(server, &schema).await, Ran::Now(2), "{before}");
                let drop = format!("DROP SCHEMA {schema} CASCADE");
                sqlx::raw_sql(AssertSqlSafe(drop)).execute(&server.pool()).await.unwrap();
            }
        })
    }),
    ("claims::once::a_job_without_a_connection_is_done_by_the_next_delivery", |server| {
        server.test(async |schema| {
            let small = PgPoolOptions::new().max_connections(1).acquire_timeout(SHORT);
            let small = small.connect_lazy_with((*server.pool().connect_options()).clone());
            let claims = PostgresClaims::builder(small.clone()).schema(schema).writers(1);
            let claims = claims.build().await.unwrap();
            // Its writer has a connection of its own from then on.
            win(&claims, &name("warm")).await;
            let once = Once::new(claims);
            let taken = small.acquire().await.unwrap();
            let (key, fingerprint) = message("m1");
            let never = async |_: &mut PgConnection| -> Result<u32, String> { panic!("run") };
            let refused = within(10, once.run("billing", &key, fingerprint, never)).await;
            assert!(matches!(refused, Err(OnceError::Store(_))), "{refused:?}");
            assert_eq!(again(server, schema).await, Ran::Now(2));
            drop(taken);
        })
    }),
];
