//! The command-line tool as its users run it: the real binary against a real server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answer;
mod failure;
#[cfg(unix)]
mod interrupt;
mod json;
mod listing;
mod refused;
mod serve;
mod shown;

use std::ffi::OsStr;
use std::process::{Output, Stdio};
use std::time::Duration;

use post_once::testkit::{Fault, Server};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

const SECRET: &str = "s3cret";

/// The tool, ready to be run.
fn tool<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_post-once"));
    for name in ["RUST_LOG", "CLICOLOR_FORCE", "http_proxy", "HTTP_PROXY", "ALL_PROXY"] {
        command.env_remove(name);
    }
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    command
}

/// `send` to a server, with short waits.
fn send_to(url: &str, flags: &[&str]) -> Command {
    tool([&["send", url, "--base-delay", "1ms"], flags].concat())
}

/// How the tool ended.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    /// Whatever it did: no colour where there is no terminal, no panic, and no secret.
    fn of(output: Output) -> Ran {
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(!stderr.contains('\x1b') && !output.stdout.contains(&0x1b), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(!stderr.contains(SECRET) && !stdout.contains(SECRET), "{stderr}\n{stdout}");
        let code = output.status.code().expect("it ended by itself");
        Ran { code, stdout: output.stdout, stderr }
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout).unwrap()
    }
}

async fn run(mut command: Command) -> Ran {
    Ran::of(in_time(command.output()).await.unwrap())
}

/// What should have come to its end fails the test, and does not hang it.
#[expect(clippy::disallowed_methods, reason = "a real process takes real time")]
async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("it ends within a minute")
}

async fn run_with_stdin(mut command: Command, stdin: &[u8]) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).await.unwrap();
    Ran::of(in_time(child.wait_with_output()).await.unwrap())
}

/// `send` to the charges of this server.
async fn send(server: &Server, flags: &[&str]) -> Ran {
    run(send_to(&server.url("/v1/charges"), flags)).await
}

async fn server(faults: impl IntoIterator<Item = Fault>) -> Server {
    Server::builder().faults(faults).start().await.unwrap()
}

/// The key that each request carried in this header.
fn keys(server: &Server, header: &str) -> Vec<String> {
    let requests = server.requests();
    let keys = requests.iter().map(|request| request.headers().get(header).unwrap());
    keys.map(|key| key.to_str().unwrap().to_owned()).collect()
}
