//! `post-once retry` and `post-once abandon`: what a person decides on one operation.

use post_once::journal::{Decision, Held, Record, State};

use crate::command;
use crate::exit::Exit;
use crate::journal::{self, Failed, Open};
use crate::journal_args::DecideArgs;
use crate::listed::Listed;
use crate::output::print;

/// Makes it due, to be sent again under its key.
pub(crate) fn retry(args: &DecideArgs) -> Exit {
    command::run(decide(args, Decision::Retry, may_retry))
}

/// Gives it up.
pub(crate) fn abandon(args: &DecideArgs) -> Exit {
    command::run(decide(args, Decision::Abandon, may_abandon))
}

async fn decide(
    args: &DecideArgs,
    decision: Decision,
    allowed: fn(&Record) -> Result<(), Failed>,
) -> Result<Exit, Failed> {
    let journal = args.of.journal.open(Open::Existing).await?;
    let record = journal::by_key(&*journal, &args.key, args.scope.as_deref()).await?;
    let in_flight = || (Exit::Unknown, "somebody is working on it: ask again later".to_owned());
    if record.ages.lease_left.is_some() {
        return Err(in_flight());
    }
    allowed(&record)?;
    let decided = journal.decide(record.row, record.token, decision).await;
    if decided.map_err(journal::failed)? == Held::Lost {
        return Err(in_flight());
    }
    let now = journal.by_row(record.row).await.map_err(journal::failed)?.unwrap_or(record);
    let line = Listed::of(&now).line(args.of.shown.output);
    Ok(print(line.as_bytes(), Exit::Success))
}

fn may_retry(record: &Record) -> Result<(), Failed> {
    match record.state_now() {
        State::Pending | State::Parked(_) => Ok(()),
        State::Unknown => {
            let why = "it may have happened, and the server may have forgotten its key: look it up, \
                       and do not send it again";
            Err((Exit::Unknown, why.to_owned()))
        }
        closed => Err((Exit::Refused, format!("it is {closed}: there is nothing to send"))),
    }
}

fn may_abandon(record: &Record) -> Result<(), Failed> {
    match record.state_now() {
        State::Completed => Err((Exit::Refused, "it is completed".to_owned())),
        _ => Ok(()),
    }
}
