//! `post-once pending`.

use std::time::Duration;

use post_once::journal::{Reason, Record, State};

use crate::command::{self, bar};
use crate::exit::Exit;
use crate::journal::{Failed, Open, Pages};
use crate::journal_args::PendingArgs;
use crate::listed::Listed;
use crate::output::print;

/// Lists what is open.
pub(crate) fn run(args: &PendingArgs) -> Exit {
    command::run(list(args))
}

async fn list(args: &PendingArgs) -> Result<Exit, Failed> {
    let journal = args.of.journal.open(Open::Existing).await?;
    let bar = bar(&*journal).await?;
    let mut pages = Pages::new(&*journal, stored(args.state.as_deref()), args.scope.as_deref());
    let mut exit = Exit::Success;
    while let Some(rows) = pages.next().await? {
        bar.inc(rows.len() as u64);
        let wanted = rows.iter().filter(|row| is_wanted(args, row));
        let lines: String = wanted.map(|row| Listed::of(row).line(args.of.shown.output)).collect();
        exit = bar.suspend(|| print(lines.as_bytes(), exit));
    }
    bar.finish_and_clear();
    Ok(exit)
}

/// The states under which what is in this one now may be stored: by age alone it becomes unknown.
fn stored(state: Option<&str>) -> Vec<State> {
    match state {
        Some("pending") => vec![State::Pending],
        Some("parked") => vec![State::Parked(Reason::Status)],
        Some("completed") => vec![State::Completed],
        Some("abandoned") => vec![State::Abandoned],
        _ => vec![State::Pending, State::Parked(Reason::Status), State::Unknown],
    }
}

fn is_wanted(args: &PendingArgs, row: &Record) -> bool {
    let state = row.state_now();
    let closes = |within: Duration| {
        let is_open = matches!(state, State::Pending | State::Parked(_));
        is_open && row.window_left().is_some_and(|left| left <= within)
    };
    args.state.as_deref().is_none_or(|wanted| wanted == state.as_str())
        && args.expiring.is_none_or(closes)
}
