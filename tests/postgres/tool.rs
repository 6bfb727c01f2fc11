//! The command-line tool on a journal in PostgreSQL.

use std::process::Command;

use libtest_mimic::Failed;
use post_once::testkit::{Fault, Server as Charges};
use sqlx::AssertSqlSafe;

use crate::Test;
use crate::subject::{Server, runtime};

pub(crate) const TESTS: &[(&str, Test)] = &[(
    "tool::an_operation_is_written_down_listed_and_resumed",
    an_operation_is_written_down_listed_and_resumed,
)];

fn an_operation_is_written_down_listed_and_resumed(server: &'static Server) -> Result<(), Failed> {
    let tool =
        option_env!("CARGO_BIN_EXE_post-once").ok_or("the tool is not built: feature cli")?;
    let database = format!("post_once_tool_{}", std::process::id());
    runtime().block_on(async {
        let make = format!("CREATE DATABASE {database}");
        sqlx::raw_sql(AssertSqlSafe(make)).execute(&server.pool()).await.unwrap();
        works(tool, &server.url(&database)).await;
        let unmake = format!("DROP DATABASE {database} WITH (FORCE)");
        sqlx::raw_sql(AssertSqlSafe(unmake)).execute(&server.pool()).await.unwrap();
    });
    Ok(())
}

async fn works(tool: &'static str, journal: &str) {
    let on = async |args: &[&str]| -> (i32, String, String) {
        let mut command = Command::new(tool);
        command.args(args).env("POST_ONCE_JOURNAL", journal);
        let ended = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ended.status.code().unwrap(), text(ended.stdout), text(ended.stderr))
    };
    let (code, _, error) = on(&["pending"]).await;
    assert!(code == 8 && error.contains("holds no journal"), "{code}: {error}");

    let charges = Charges::builder().faults([Fault::close()]).start().await.unwrap();
    let url = charges.url("/v1/charges");
    let send = ["send", &url, "--operation", "order-42", "--max-attempts", "1"];
    assert_eq!(on(&send).await.0, 6);
    let (_, listed, error) = on(&["pending", "--output", "json"]).await;
    assert!(listed.contains(r#""state":"parked""#), "{listed} {error}");
    let requests = charges.requests();
    let key = requests[0].headers()["idempotency-key"].to_str().unwrap();
    assert_eq!(on(&["retry", key]).await.0, 0);
    let (_, resumed, error) = on(&["resume", "--output", "json"]).await;
    assert!(resumed.contains(r#""state":"completed""#), "{resumed} {error}");
    let (_, sent, error) = on(&[&send[..], &["--output", "json"]].concat()).await;
    assert!(sent.contains(r#""source":"journal""#), "{sent} {error}");
    assert_eq!((charges.charges().len(), charges.requests().len()), (1, 2));
    assert_eq!(on(&["purge", "--older-than", "0s"]).await.1, "purged 1\n");
}
