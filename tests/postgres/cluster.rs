//! A throw-away cluster, made from the installed binaries.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

/// A server of our own; stopped and removed with its value.
#[derive(Debug)]
pub(crate) struct Cluster {
    binaries: PathBuf,
    folder: PathBuf,
    port: u16,
    /// Postgres does not run as root.
    user: Option<(u32, u32)>,
    running: Mutex<Option<Child>>,
}

impl Cluster {
    /// Makes a cluster and starts it.
    pub(crate) fn start() -> Result<Cluster, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let binaries = binaries().ok_or("no initdb in PATH or /usr/lib/postgresql")?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("post-once-postgres-{}-{number}", process::id()));
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let user = if is_root()? { Some(unprivileged()?) } else { None };
        if let Some((user, group)) = user {
            chown(&folder, Some(user), Some(group)).map_err(|error| error.to_string())?;
        }
        let cluster =
            Cluster { binaries, folder, port: free_port(), user, running: Mutex::new(None) };
        let made = cluster
            .command("initdb")
            .arg("--pgdata")
            .arg(cluster.folder.join("data"))
            .args([
                "--username=postgres",
                "--auth=trust",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
            ])
            .output()
            .map_err(|error| format!("initdb: {error}"))?;
        if !made.status.success() {
            return Err(format!("initdb: {}", String::from_utf8_lossy(&made.stderr)));
        }
        cluster.run_with(&[]);
        Ok(cluster)
    }

    /// Starts the server that was stopped or killed, with more settings.
    pub(crate) fn run_with(&self, settings: &[&str]) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.folder.join("log"));
        let log = log.unwrap();
        let mut command = self.command("postgres");
        command
            .arg("-D")
            .arg(self.folder.join("data"))
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200"])
            .args(["-p", &self.port.to_string()])
            .args(["-c", &format!("unix_socket_directories={}", self.folder.display())])
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stderr(Stdio::from(log));
        // One that was killed may hold its shared memory for a moment.
        for _ in 0..100 {
            let mut child = command.spawn().unwrap();
            for _ in 0..200 {
                if self.is_ready() {
                    *self.running.lock().unwrap() = Some(child);
                    return;
                }
                if child.try_wait().unwrap().is_some() {
                    break;
                }
                pause(50);
            }
            let _ = child.kill();
            let _ = child.wait();
            pause(50);
        }
        panic!("it does not start: {}", fs::read_to_string(self.folder.join("log")).unwrap());
    }

    /// Stops it as an administrator does who does not wait for clients.
    pub(crate) fn stop(&self) {
        self.end("-INT");
    }

    /// Kills all its processes.
    pub(crate) fn kill(&self) {
        let parent = self.running.lock().unwrap().as_ref().map(Child::id);
        let children = parent.map(children_of).unwrap_or_default();
        self.end("-KILL");
        for child in children {
            signal("-KILL", child);
        }
    }

    pub(crate) fn options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port)
            .username("postgres")
            .database("postgres")
    }

    /// A pool on it that gives up soon.
    pub(crate) fn pool(&self) -> PgPool {
        PgPoolOptions::new().max_connections(4).connect_lazy_with(self.options())
    }

    fn end(&self, with: &str) {
        if let Some(mut child) = self.running.lock().unwrap().take() {
            signal(with, child.id());
            child.wait().unwrap();
        }
    }

    fn is_ready(&self) -> bool {
        let port = self.port.to_string();
        let ready = self
            .command("pg_isready")
            .args(["-q", "-h", "127.0.0.1", "-p", &port, "-U", "postgres"])
            .status();
        ready.is_ok_and(|status| status.success())
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.end("-QUIT");
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "a real server starts in real time")]
fn pause(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

fn signal(signal: &str, process: u32) {
    let _ =
        Command::new("kill").args([signal, &process.to_string()]).stderr(Stdio::null()).status();
}

fn children_of(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// The folder that `initdb` and the rest of its version are in.
fn binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<_> = versions.map(|version| version.path().join("bin")).collect();
    versions.sort();
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(versions.into_iter().rev())
        .map(|folder| fs::canonicalize(folder.join("initdb")).unwrap_or_default())
        .filter_map(|initdb| initdb.parent().map(Path::to_owned))
        .find(|folder| folder.join("postgres").exists())
}

fn is_root() -> Result<bool, String> {
    fs::metadata("/proc/self").map(|me| me.uid() == 0).map_err(|error| error.to_string())
}

/// User and group of somebody who is not root.
fn unprivileged() -> Result<(u32, u32), String> {
    let users = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    ["postgres:", "nobody:"]
        .iter()
        .find_map(|name| {
            let mut fields = users.lines().find(|line| line.starts_with(name))?.split(':').skip(2);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        })
        .ok_or_else(|| "there is no user to run Postgres as".to_owned())
}
