//! What the children are.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::database::Database;
use crate::{customer, runtime, shop};

const ROLE: &str = "POST_ONCE_CIRCLE_ROLE";

/// What a child is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// Serves on this port, or on a free one, and prints it.
    Shop { database: Database, port: u16 },
    /// Posts so many operations, until each has its end.
    Customer { journal: PathBuf, url: String, operations: u32 },
}

impl Role {
    /// What this process is, if it is a child.
    pub(crate) fn given() -> Option<Role> {
        let text = std::env::var(ROLE).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }

    pub(crate) fn spawn(&self) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(ROLE, serde_json::to_string(self).unwrap());
        Process(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }
}

/// A child; killed with its value.
pub(crate) struct Process(Child);

impl Process {
    /// The first line that it prints; nothing if it ends before.
    pub(crate) fn first_line(&mut self) -> String {
        let mut line = String::new();
        let output = self.0.stdout.take().expect("its output is read once");
        BufReader::new(output).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Whether it has ended, and well.
    pub(crate) fn has_ended(&mut self) -> Option<bool> {
        self.0.try_wait().unwrap().map(|status| status.success())
    }

    pub(crate) fn kill(&mut self) {
        // It may have ended in the meantime.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn run(role: Role) {
    match role {
        Role::Shop { database, port } => {
            // Its handlers panic on purpose.
            std::panic::set_hook(Box::new(|_| {}));
            runtime().block_on(shop::serve(database, port));
        }
        Role::Customer { journal, url, operations } => {
            runtime().block_on(customer::post_all(&journal, &url, operations));
        }
    }
}
