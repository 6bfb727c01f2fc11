//! The command-line tool: `post-once`.

mod again;
mod args;
mod check;
mod command;
mod completions;
mod contracts;
mod decide;
mod exit;
mod journal;
mod journal_args;
mod listed;
mod output;
mod pending;
mod progress;
mod purge;
mod record;
mod request;
mod resume;
mod send;
mod serve;
mod show;
mod signal;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use self::args::{Cli, Command};

fn main() -> ExitCode {
    let given = Cli::command().get_matches();
    let cli = Cli::from_arg_matches(&given).unwrap_or_else(|error| error.exit());
    let exit = match &cli.command {
        Command::Send(args) => send::run(args, &given),
        Command::Pending(args) => pending::run(args),
        Command::Show(args) => show::run(args),
        Command::Retry(args) => decide::retry(args),
        Command::Abandon(args) => decide::abandon(args),
        Command::Purge(args) => purge::run(args),
        Command::Resume(args) => resume::run(args, &given),
        Command::Contracts(args) => contracts::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Check(args) => check::run(args),
        Command::Completions(args) => completions::run(args),
    };
    exit.into()
}
