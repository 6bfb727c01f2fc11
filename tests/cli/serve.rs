//! `serve`, and `send` against it.

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::{in_time, run, send_to, tool};

/// The tool as a server, and its URL from the first line that it prints.
pub(crate) async fn serve(flags: &[&str]) -> (Child, String) {
    let mut child = tool([&["serve"], flags].concat()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = in_time(lines.next_line()).await.unwrap().unwrap();
    let url = line.strip_prefix("listening on ").expect("the line is as documented");
    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    (child, url.to_owned())
}

#[tokio::test]
async fn a_server_with_faults_and_a_sender_make_one_charge() {
    let faults = ["--fault", "close", "--fault", "503", "--fault", "cut", "--delay", "10ms"];
    let (_server, url) = serve(&faults).await;
    let charges = format!("{url}/v1/charges");
    let ran = run(send_to(&charges, &["--json", r#"{"amount":1}"#, "-v"])).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.text(), r#"{"id":"ch_1","received":{"amount":1}}"#);
    let known: Vec<_> = ran.stderr.lines().filter_map(|line| line.split(", ").nth(1)).collect();
    assert_eq!(known, ["ambiguous", "unavailable", "connection_lost", "replayed"]);

    let listed = run(send_to(&charges, &["-X", "GET"])).await;
    let expected = r#"{"charges":[{"id":"ch_1","received":{"amount":1}}],"count":1}"#;
    assert_eq!(listed.text(), expected);
}

#[tokio::test]
async fn keys_and_charges_in_a_store_outlive_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("api.db");
    let store = ["--store", store.to_str().unwrap()];
    let charge = ["--json", r#"{"amount":1}"#, "--key", "k", "--output", "json"];
    for replayed in [false, true] {
        let (mut server, url) = serve(&store).await;
        let charges = format!("{url}/v1/charges");
        let ran = run(send_to(&charges, &charge)).await;
        let sent = ran.json();
        assert_eq!((ran.code, &sent["replayed"]), (0, &replayed.into()), "{}", ran.stderr);
        assert_eq!(sent["body"]["id"], "ch_1");
        let other = run(send_to(&charges, &["--json", "2", "--key", "k"])).await;
        assert_eq!(other.code, 4, "the key belongs to another request");
        let listed = run(send_to(&charges, &["-X", "GET"])).await;
        let expected = r#"{"charges":[{"id":"ch_1","received":{"amount":1}}],"count":1}"#;
        assert_eq!(listed.text(), expected);
        server.kill().await.unwrap();
    }
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let ran = run(tool(["serve", "--store", folder.path().to_str().unwrap()])).await;
    assert_eq!((ran.code, ran.text()), (8, ""));
    assert!(ran.stderr.contains("the store"), "{}", ran.stderr);
    assert!(ran.stderr.contains("cannot be used"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_charge_takes_the_delay() {
    let (_server, url) = serve(&["--delay", "60s"]).await;
    let flags = ["--max-attempts", "1", "--attempt-timeout", "300ms"];
    let ran = run(send_to(&format!("{url}/v1/charges"), &flags)).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
}

#[tokio::test]
async fn a_port_is_taken_once() {
    let (_server, url) = serve(&[]).await;
    let (_, port) = url.rsplit_once(':').unwrap();
    let ran = run(tool(["serve", "--port", port])).await;
    assert_eq!((ran.code, ran.text()), (8, ""));
    assert!(ran.stderr.contains(&format!("cannot listen on port {port}")), "{}", ran.stderr);
}

#[cfg(unix)]
#[tokio::test]
async fn it_ends_when_it_is_asked_to() {
    for (name, code) in [("-TERM", 0), ("-INT", 130)] {
        let (mut server, url) = serve(&[]).await;
        crate::interrupt::signal(&server, name);
        assert_eq!(in_time(server.wait()).await.unwrap().code(), Some(code), "{name}");
        let ran = run(send_to(&url, &["--max-attempts", "1"])).await;
        assert_eq!(ran.code, 7, "{name}: nobody listens any more");
    }
}
