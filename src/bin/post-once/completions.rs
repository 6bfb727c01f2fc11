//! `post-once completions`.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::exit::Exit;
use crate::output::print;

/// Prints the completion script of a shell.
pub(crate) fn run(args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "post-once", &mut script);
    print(&script, Exit::Success)
}
