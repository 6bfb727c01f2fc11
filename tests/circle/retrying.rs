//! Proxies of others that send a POST to the next server when one fails: nginx and haproxy, between the customer
//! and two servers on one PostgreSQL.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use sqlx::ConnectOptions;

use crate::child::Role;
use crate::cluster::Cluster;
use crate::database::Database;
use crate::judge::{Verdict, judge};
use crate::strangers::{is_asked_for, with_cluster};
use crate::trial::{ends_within, given};
use crate::{pause, runtime};

pub(crate) fn trials() -> Vec<Trial> {
    let nginx = with_cluster("retrying::nginx", |cluster| between(cluster, nginx));
    let haproxy = with_cluster("retrying::haproxy", |cluster| between(cluster, haproxy));
    vec![is_asked_for(nginx, "nginx", "-v"), is_asked_for(haproxy, "haproxy", "-v")]
}

/// Starts a proxy on this port, to these, with its files in this folder.
type Start = fn(folder: &Path, port: u16, to: [u16; 2]) -> Command;

fn nginx(folder: &Path, port: u16, [one, other]: [u16; 2]) -> Command {
    let shown = folder.display();
    let configuration = format!(
        "daemon off; worker_processes 1; pid {shown}/pid; error_log {shown}/log crit;
         events {{}}
         http {{
             access_log off;
             client_body_temp_path {shown}/a; proxy_temp_path {shown}/b; fastcgi_temp_path {shown}/c;
             uwsgi_temp_path {shown}/d; scgi_temp_path {shown}/e;
             upstream shops {{ server 127.0.0.1:{one} max_fails=0; server 127.0.0.1:{other} max_fails=0; }}
             server {{
                 listen 127.0.0.1:{port};
                 location / {{
                     proxy_pass http://shops;
                     proxy_next_upstream error timeout http_503 non_idempotent;
                     proxy_next_upstream_tries 3;
                     proxy_read_timeout 100ms;
                 }}
             }}
         }}"
    );
    fs::write(folder.join("conf"), configuration).unwrap();
    let mut command = Command::new("nginx");
    command.arg("-p").arg(folder).arg("-c").arg(folder.join("conf"));
    command
}

fn haproxy(folder: &Path, port: u16, [one, other]: [u16; 2]) -> Command {
    let configuration = format!(
        "defaults
             mode http
             timeout connect 100ms
             timeout client 5s
             timeout server 100ms
             retries 3
             retry-on all-retryable-errors
             option redispatch 1
         frontend all
             bind 127.0.0.1:{port}
             option http-buffer-request
             default_backend shops
         backend shops
             server one 127.0.0.1:{one}
             server other 127.0.0.1:{other}\n"
    );
    fs::write(folder.join("conf"), configuration).unwrap();
    let mut command = Command::new("haproxy");
    command.arg("-q").arg("-f").arg(folder.join("conf"));
    command
}

/// A proxy; killed with its value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // nginx's worker goes with its master when that is asked to stop.
        let id = self.0.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &id]).status();
        if asked.is_err() {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

fn between(cluster: &Cluster, start: Start) -> Result<(), Failed> {
    let operations = u32::try_from(given("POST_ONCE_CIRCLE_OPERATIONS").unwrap_or(500))?;
    let database = Database::Postgres(cluster.options().to_url_lossy().to_string());
    let seed = given("POST_ONCE_CIRCLE_SEED").unwrap_or_else(rand::random);
    println!("POST_ONCE_CIRCLE_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let new = |port| Role::Shop { database: database.clone(), port };
    let mut shops = [new(0).spawn(), new(0).spawn()];
    let ports = [shops[0].first_line().parse()?, shops[1].first_line().parse()?];
    let folder = tempfile::tempdir()?;
    let front = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let output = fs::File::create(folder.path().join("output"))?;
    let mut command = start(folder.path(), front, ports);
    let _proxy = Running(command.stdout(Stdio::null()).stderr(output).spawn()?);

    let journal = folder.path().join("customer.journal");
    let url = format!("http://127.0.0.1:{front}");
    let mut customer = Role::Customer { journal: journal.clone(), url, operations }.spawn();
    let mut kills = 0;
    let stretch = 1 + operations / 2_000;
    for waits in 0.. {
        let pause = Duration::from_millis(random.random_range(500..1_500)) * stretch;
        if ends_within(&mut customer, pause) {
            break;
        }
        if waits > 300 {
            let why = fs::read_to_string(folder.path().join("output"))?;
            return Err(format!("it comes to no end: {why}").into());
        }
        let at = usize::from(random.random_bool(0.5));
        shops[at].kill();
        shops[at] = new(ports[at]).spawn();
        kills += 1;
    }
    shops.iter_mut().for_each(crate::child::Process::kill);
    pause(Duration::from_millis(100));
    let verdict = runtime().block_on(judge(&journal, &database, operations));
    println!("servers killed {kills} times; {verdict:?}");
    let sound = Verdict {
        operations: operations as usize,
        attempts: verdict.attempts,
        ..Verdict::default()
    };
    assert_eq!(verdict, sound);
    Ok(())
}
