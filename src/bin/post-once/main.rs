//! The command-line tool: `post-once`.

mod again;
mod args;
mod completions;
mod contracts;
mod exit;
mod output;
mod progress;
mod record;
mod request;
mod send;
mod serve;
mod signal;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use self::args::{Cli, Command};

fn main() -> ExitCode {
    let given = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let exit = match &cli.command {
        Command::Send(args) => send::run(args, &given),
        Command::Contracts(args) => contracts::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Completions(args) => completions::run(args),
    };
    exit.into()
}
