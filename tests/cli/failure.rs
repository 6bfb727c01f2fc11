//! No answer: exit codes 6, 7 and 8, and how to go on.

use std::time::Duration;

use post_once::testkit::{Fault, Server, refused_url};

use crate::{Ran, keys, run, send, send_to, server};

/// A lost answer leaves it open; the key that is named goes on, and there is one charge.
#[tokio::test]
async fn without_an_answer_the_key_and_the_command_that_goes_on_are_named() {
    let server = server([Fault::close(), Fault::close()]).await;
    let url = server.url("/v1/charges");
    let ran = send(&server, &["-d", "@-", "--max-attempts", "2"]).await;
    assert_eq!((ran.code, ran.text()), (6, ""));
    let key = ran.told("key: ").unwrap();
    assert_eq!(keys(&server, "idempotency-key"), [key, key]);
    let again =
        format!("post-once send {url} --data=@- --max-attempts=2 --base-delay=1ms --key={key}");
    assert_eq!(ran.told("go on with: "), Some(again.as_str()));

    let words: Vec<_> = again.split(' ').skip(1).collect();
    let ran = run(crate::tool(words)).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(server.charges().len(), 1);
}

#[tokio::test]
async fn what_is_left_out_of_the_command_is_to_be_filled_in() {
    let server = server([Fault::close()]).await;
    let ran = send(&server, &["--json", "{}", "--max-attempts", "1"]).await;
    let line = ran.told("go on with (fill in each …): ").unwrap();
    assert!(line.contains("--json='…'"), "{line}");
}

#[tokio::test]
async fn an_answer_that_leaves_it_open_names_the_key_too() {
    let server = server([Fault::status(503)]).await;
    let ran = send(&server, &["--max-attempts", "1"]).await;
    assert_eq!(ran.code, 5);
    let note = "answered 503, stopped by attempts; the write may have happened";
    assert_eq!(ran.told("note: "), Some(note));
    assert_eq!(keys(&server, "idempotency-key"), [ran.told("key: ").unwrap()]);
    assert!(ran.told("go on with: ").is_some(), "{}", ran.stderr);
}

#[tokio::test]
async fn still_in_progress_is_no_answer() {
    let server = server([Fault::status(409).retry_after(5)]).await;
    let ran = send(&server, &["--deadline", "2s"]).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.stderr.contains("in progress"), "{}", ran.stderr);
    assert!(ran.told("go on with: ").is_some(), "{}", ran.stderr);
}

/// Once the server may have forgotten the key, to send it again could do it twice.
#[tokio::test]
async fn no_command_goes_on_after_the_window() {
    let server = server([Fault::hang(Duration::from_secs(30))]).await;
    let ran = send(&server, &["--window", "2s", "--margin", "1500ms"]).await;
    assert_eq!(ran.code, 6, "{}", ran.stderr);
    assert!(ran.told("key: ").is_some(), "{}", ran.stderr);
    assert!(!ran.stderr.contains("go on with"), "{}", ran.stderr);
}

#[tokio::test]
async fn what_was_certainly_not_sent_is_said() {
    let url = refused_url().unwrap();
    let ran = run(send_to(&url, &["--max-attempts", "2"])).await;
    assert_eq!((ran.code, ran.text()), (7, ""));
    assert!(ran.stderr.contains("nothing was sent"), "{}", ran.stderr);
    assert!(ran.stderr.contains("attempt 2"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("earlier command"), "{}", ran.stderr);

    let ran = run(send_to(&url, &["--max-attempts", "1", "--key", "k"])).await;
    assert_eq!(ran.code, 7);
    assert!(ran.stderr.contains("earlier command"), "{}", ran.stderr);
}

/// A listener whose queue is full answers no further connection.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_limit_on_connecting_leaves_it_certain() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queue = Vec::new();
    let limit = Duration::from_millis(200);
    while let Ok(queued) = std::net::TcpStream::connect_timeout(&address, limit) {
        queue.push(queued);
    }
    let flags = ["--max-attempts", "1", "--connect-timeout", "200ms", "--output", "json"];
    let ran = run(send_to(&format!("http://{address}/"), &flags)).await;
    assert_eq!(ran.code, 7, "{}", ran.stderr);
    let elapsed = ran.json()["attempts"][0]["elapsed_ms"].as_u64().unwrap();
    assert!((200..2000).contains(&elapsed), "not the default of 3 s: {elapsed} ms");
}

#[tokio::test]
async fn a_client_that_cannot_be_set_up_is_told() {
    let server = Server::start().await.unwrap();
    let mut command = send_to(&server.url("/"), &["--output", "json"]);
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        command.env(name, "/there/is/no/such/thing");
    }
    let ran = run(command).await;
    if cfg!(target_os = "linux") {
        assert_eq!(ran.code, 8, "{}", ran.stderr);
        assert_eq!(ran.json()["effect"], "not_sent");
        assert!(server.requests().is_empty());
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn output_that_cannot_be_written_is_told() {
    let server = server([]).await;
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = send_to(&server.url("/v1/charges"), &[]);
    let ran = run_to(command.stdout(full)).await;
    assert_eq!(ran.code, 8);
    assert!(ran.stderr.contains("standard output"), "{}", ran.stderr);
}

#[cfg(target_os = "linux")]
async fn run_to(command: &mut tokio::process::Command) -> Ran {
    Ran::of(command.spawn().unwrap().wait_with_output().await.unwrap())
}
