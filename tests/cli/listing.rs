//! `contracts`, `completions` and the help.

use post_once::Contract;
use serde_json::json;

use crate::{run, tool};

#[tokio::test]
async fn contracts_are_a_table_with_a_row_for_each() {
    let ran = run(tool(["contracts"])).await;
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    let rows: Vec<Vec<_>> = ran
        .text()
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["NAME", "CARRIER", "FORMAT", "WINDOW", "KEYS"]);
    let named: Vec<_> = rows[1..].iter().filter(|row| row.len() == 5).map(|row| row[0]).collect();
    let presets: Vec<_> = Contract::presets().map(|preset| preset.name().to_owned()).collect();
    assert_eq!(named, presets);
    let row = |name| rows.iter().position(|row| row[0] == name).unwrap();
    let plaid = ["member idempotency_key", "hyphenated", "2d", "1 to 50 of printable ASCII"];
    assert_eq!(rows[row("plaid")][1..], plaid);
    assert_eq!(rows[row("amazon_pay")][2..4], ["simple", "for ever"]);
    let paypal = &rows[row("paypal")..];
    assert_eq!(paypal[0][3], "3h");
    assert_eq!(paypal[1], ["/v2/payments/captures 45d"]);
}

#[tokio::test]
async fn contracts_are_an_array_in_json() {
    let ran = run(tool(["contracts", "--output", "json"])).await;
    assert_eq!(ran.code, 0);
    let listed = ran.json();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), Contract::presets().count());
    let named = |name| listed.iter().find(|contract| contract["name"] == name).unwrap();
    let paypal = json!({
        "name": "paypal",
        "carrier": "header",
        "field": "paypal-request-id",
        "format": "hyphenated",
        "window_s": 10_800,
        "window_s_by_path": {
            "/v1/billing/plans": 259_200,
            "/v2/checkout/orders": 21_600,
            "/v2/payments/captures": 3_888_000,
        },
        "keys": "1 to 108 of printable ASCII",
    });
    assert_eq!(*named("paypal"), paypal);
    assert_eq!(named("plaid")["carrier"], "member");
    assert_eq!(named("amazon_pay")["window_s"], json!(null));
}

#[tokio::test]
async fn each_shell_gets_a_script_that_knows_the_contracts() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let ran = run(tool(["completions", shell])).await;
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{shell}");
        let script = ran.text();
        assert!(script.contains("post-once") && script.contains("max-attempts"), "{shell}");
        if matches!(shell, "bash" | "zsh" | "fish") {
            assert!(script.contains("truelayer"), "{shell}");
        }
    }
}

#[tokio::test]
async fn the_long_help_of_send_has_the_exit_codes() {
    let ran = run(tool(["send", "--help"])).await;
    assert_eq!(ran.code, 0);
    assert!(ran.text().contains("Exit codes:\n    0  answered 2xx\n"), "{}", ran.text());
}
