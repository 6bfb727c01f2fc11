//! The command-line tool as its users run it: the real binary against a real server.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answer;
mod broken;
mod check;
mod failure;
#[cfg(unix)]
mod interrupt;
#[cfg(unix)]
mod journal_decided;
#[cfg(unix)]
mod journal_listed;
#[cfg(unix)]
mod journal_resumed;
#[cfg(unix)]
mod journal_sent;
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
    for name in ["POST_ONCE_JOURNAL", "POST_ONCE_ENVIRONMENT"] {
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

    /// One object on each line, with its key, its age and what is left of its window made even.
    fn lines(&self) -> Vec<serde_json::Value> {
        let objects = self.text().lines().map(|line| serde_json::from_str(line).unwrap());
        let mut objects: Vec<serde_json::Value> = objects.collect();
        for object in &mut objects {
            assert!(object["key"].is_string() && object["age_s"].is_u64(), "{object}");
            object["key"] = "K".into();
            object["age_s"] = 0.into();
            if object["window_left_s"].is_u64() {
                object["window_left_s"] = 1.into();
            }
        }
        objects
    }

    /// What stands behind a label at the start of a line on standard error.
    fn told(&self, label: &str) -> Option<&str> {
        self.stderr.lines().find_map(|line| line.strip_prefix(label))
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

/// A journal in a folder of its own, which goes with it.
struct Journal {
    folder: tempfile::TempDir,
}

impl Journal {
    fn new() -> Journal {
        Journal { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> String {
        self.folder.path().join("a.journal").to_str().unwrap().to_owned()
    }

    /// A command on it.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = tool(args);
        command.env("POST_ONCE_JOURNAL", self.path());
        command
    }

    async fn run(&self, args: &[&str]) -> Ran {
        run(self.command(args)).await
    }

    /// `send` to the charges of a server, with short waits.
    fn send(&self, server: &Server, flags: &[&str]) -> Command {
        let url = server.url("/v1/charges");
        self.command(&[&["send", &url, "--base-delay", "1ms"], flags].concat())
    }

    /// An operation that the server has carried out, whose sender is killed before it is answered.
    #[cfg(unix)]
    async fn killed(&self, server: &Server, flags: &[&str]) {
        server.push([Fault::hang(Duration::from_secs(60))]);
        let before = server.charges().len();
        let flags = [&["--lease", "300ms"], flags].concat();
        let mut child = self.send(server, &flags).spawn().unwrap();
        interrupt::charged(server, before + 1).await;
        child.kill().await.unwrap();
    }

    /// Resumes until something was there to be resumed: the lease of who was killed has to end.
    #[cfg(unix)]
    async fn resume(&self, flags: &[&str]) -> Ran {
        for _ in 0..100 {
            let ran = self.run(&[&["resume", "--output", "json"], flags].concat()).await;
            if ran.code != 0 || !ran.stdout.is_empty() {
                return ran;
            }
        }
        panic!("nothing was there to be resumed");
    }
}
