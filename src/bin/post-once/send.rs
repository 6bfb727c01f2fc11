//! `post-once send`.

use std::future::Future;
use std::sync::Arc;

use clap::ArgMatches;
use post_once::journal::{Journal, Reason, Record as Row, State};
use post_once::observer::Event;
use post_once::retry::Exhausted;
use post_once::{Client, Effect, Error, Operation};
use tokio::runtime::Runtime;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::again;
use crate::args::{Format, SendArgs};
use crate::exit::Exit;
use crate::journal::{self, Failed, Open};
use crate::output::{print, say, with_causes};
use crate::progress::Progress;
use crate::record::Record;
use crate::signal;

/// Sends, and tells what became of it.
pub(crate) fn run(args: &SendArgs, given: &ArgMatches) -> Exit {
    if args.verbose > 1 {
        trace();
    }
    let progress = Arc::new(Progress::new(args.verbose));
    let mut ended = match prepare(args, &progress) {
        Ok(prepared) => send(prepared, args, &progress),
        Err((exit, why)) => {
            let key = args.key.key.as_ref().map(ToString::to_string);
            Ended::failed(exit, Record::new(key, Effect::NotSent, Vec::new()), why)
        }
    };
    if ended.record.operation.is_none() {
        ended.record.operation.clone_from(&args.journal.operation);
    }
    progress.clear();
    ended.explain(args, given);
    if ended.exit == Exit::NotSent && args.key.key.is_some() {
        say("note: an earlier command with this key may have sent it: go on with the same key");
    }
    match (args.shown.output, &ended.record.answer) {
        (Format::Json, _) => print(&ended.record.to_json(), ended.exit),
        (Format::Text, Some(answer)) => print(&answer.body, ended.exit),
        (Format::Text, None) => ended.exit,
    }
}

/// How the command ends, and what is to be told of it.
struct Ended {
    exit: Exit,
    record: Record,
    why: Option<String>,
    /// Its row in the journal, where that is needed to go on.
    row: Option<Row>,
}

impl Ended {
    fn failed(exit: Exit, record: Record, why: String) -> Ended {
        Ended { exit, record, why: Some(why), row: None }
    }

    /// Tells on standard error what went wrong, and how to go on where that is open.
    fn explain(&self, args: &SendArgs, given: &ArgMatches) {
        if let Some(why) = &self.why {
            say(&format!("error: {why}"));
        }
        let Record { key, exhausted, answer, .. } = &self.record;
        if !self.is_open() {
            return;
        }
        if let Some(answer) = answer {
            let stopped = exhausted.map_or(String::new(), |by| format!(", stopped by {by}"));
            let status = answer.status.as_u16();
            say(&format!("note: answered {status}{stopped}; the write may have happened"));
        }
        if let Some(key) = key {
            say(&format!("key: {key}"));
        }
        if let Some(line) = self.way_on(args, given) {
            say(&again::told(&line));
        }
    }

    /// Whether it can be told how to go on.
    fn is_open(&self) -> bool {
        matches!(self.exit, Exit::Unknown | Exit::Interrupted)
            || (self.record.effect == Effect::Unknown && self.record.key.is_some())
    }

    /// The command that goes on, if one does. Once the server may have forgotten the key, going on could
    /// do it twice.
    fn way_on(&self, args: &SendArgs, given: &ArgMatches) -> Option<String> {
        if self.record.exhausted == Some(Exhausted::Window) {
            return None;
        }
        let same = || again::command(given, self.record.key.as_deref());
        let Some((place, row)) = args.journal.journal.as_ref().zip(self.row.as_ref()) else {
            return Some(same());
        };
        match row.state_now() {
            State::Pending if row.draft.name.is_none() => Some(again::resume(place, row)),
            State::Parked(Reason::Attempts | Reason::ClockWentBack) => {
                Some(again::retry(place, row))
            }
            State::Parked(_) if row.draft.name.is_none() => Some(again::retry(place, row)),
            State::Pending | State::Parked(_) => Some(same()),
            _ => None,
        }
    }
}

/// All that is needed to send.
struct Prepared {
    runtime: Runtime,
    journal: Option<Arc<dyn Journal>>,
    client: Client,
    operation: Operation,
}

/// Checks everything before anything is sent, and opens the journal.
fn prepare(args: &SendArgs, progress: &Arc<Progress>) -> Result<Prepared, Failed> {
    let refused = |why| (Exit::Refused, why);
    let checked = args.check().map_err(refused)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| (Exit::Environment, error.to_string()))?;
    let place = args.journal.journal.as_ref();
    let journal = place.map(|place| runtime.block_on(place.open(Open::OrMake))).transpose()?;
    let watch = Arc::clone(progress);
    let client = args.client(move |event: &Event<'_>| watch.observe(event), journal.clone());
    let client = client.map_err(|why| (Exit::Environment, why))?;
    let operation = args.operation(&client, checked).map_err(refused)?;
    Ok(Prepared { runtime, journal, client, operation })
}

fn send(prepared: Prepared, args: &SendArgs, progress: &Progress) -> Ended {
    let Prepared { runtime, journal, client, mut operation } = prepared;
    let ended = runtime.block_on(unless_stopped(sent(&client, &mut operation)));
    // Taken over, it has the key that it had before.
    let key = operation.key().map(ToString::to_string);
    let mut ended = ended.unwrap_or_else(|| {
        let seen = progress.so_far();
        let record = Record::new(key, seen.effect(), seen.attempts);
        Ended { exit: Exit::Interrupted, record, why: None, row: None }
    });
    if let Some(journal) = journal {
        let scope = args.journal.scope.as_deref().unwrap_or_default();
        if ended.is_open() || ended.exit == Exit::Interrupted {
            let key = ended.record.key.as_deref().unwrap_or_default();
            ended.row = runtime.block_on(row(&*journal, key, scope));
        }
    }
    if ended.exit == Exit::Interrupted {
        let was_sent = |row: &Row| row.ages.first_send.is_some();
        if ended.row.as_ref().is_some_and(was_sent) {
            ended.record.effect = Effect::Unknown;
        }
        ended.why = Some(match ended.record.effect {
            Effect::NotSent => "interrupted; nothing was sent".to_owned(),
            _ => "interrupted; the write may have happened".to_owned(),
        });
    }
    drop(client);
    // Not waiting for a name that is still being looked up.
    runtime.shutdown_background();
    ended
}

/// The operation's row, with all that was still to be written to it.
async fn row(journal: &dyn Journal, key: &str, scope: &str) -> Option<Row> {
    journal.flush().await;
    journal::by_key(journal, key, Some(scope)).await.ok()
}

async fn sent(client: &Client, operation: &mut Operation) -> Ended {
    match client.send(operation).await {
        Ok(response) => {
            let exit = Exit::after_answer(response.status());
            match Record::answered(response).await {
                Ok(record) => Ended { exit, record, why: None, row: None },
                Err((record, error)) => Ended::failed(Exit::Unknown, record, with_causes(&error)),
            }
        }
        Err(error) => {
            Ended::failed(exit_of(&error), Record::of(error.report()), with_causes(&error))
        }
    }
}

/// The exit code of a call that has no answer.
fn exit_of(error: &Error) -> Exit {
    if error.is_journal() {
        Exit::Environment
    } else if error.is_refused() || error.is_mismatch() {
        Exit::Refused
    } else if error.is_in_flight() || error.journal_state().is_some() {
        Exit::Unknown
    } else {
        Exit::without_answer(error.effect())
    }
}

/// `None` if the process is asked to stop before it is done.
async fn unless_stopped<T>(work: impl Future<Output = T>) -> Option<T> {
    let Ok(stop) = signal::stop() else { return Some(work.await) };
    tokio::select! {
        _ = stop => None,
        done = work => Some(done),
    }
}

/// Writes traces to standard error: what `RUST_LOG` selects, or ours.
fn trace() {
    let filter =
        EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("post_once=info"));
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_span_events(FmtSpan::CLOSE)
        .with_env_filter(filter)
        .init();
}
