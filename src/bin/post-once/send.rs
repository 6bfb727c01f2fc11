//! `post-once send`.

use std::future::Future;
use std::sync::Arc;

use clap::ArgMatches;
use post_once::observer::Event;
use post_once::retry::Exhausted;
use post_once::{Client, Effect, Operation};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

use crate::again;
use crate::args::{Format, SendArgs};
use crate::exit::Exit;
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
    let ended = match prepare(args, &progress) {
        Ok((client, operation)) => send(client, operation, &progress),
        Err((exit, why)) => {
            let key = args.key.key.as_ref().map(ToString::to_string);
            Ended::failed(exit, Record::new(key, Effect::NotSent, Vec::new()), why)
        }
    };
    progress.clear();
    ended.explain(given);
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
}

impl Ended {
    fn failed(exit: Exit, record: Record, why: String) -> Ended {
        Ended { exit, record, why: Some(why) }
    }

    /// Tells on standard error what went wrong, and how to go on where that is open.
    fn explain(&self, given: &ArgMatches) {
        if let Some(why) = &self.why {
            say(&format!("error: {why}"));
        }
        let Record { key, effect, exhausted, answer, .. } = &self.record;
        let is_open = matches!(self.exit, Exit::Unknown | Exit::Interrupted)
            || (*effect == Effect::Unknown && key.is_some());
        if !is_open {
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
        // Once the server may have forgotten the key, going on could do it twice.
        if *exhausted != Some(Exhausted::Window) {
            let line = again::command(given, key.as_deref());
            let fill_in = if again::is_incomplete(&line) { " (fill in each …)" } else { "" };
            say(&format!("go on with{fill_in}: {line}"));
        }
    }
}

/// Checks everything before anything is sent.
fn prepare(
    args: &SendArgs,
    progress: &Arc<Progress>,
) -> Result<(Client, Operation), (Exit, String)> {
    let refused = |why| (Exit::Refused, why);
    let checked = args.check().map_err(refused)?;
    let watch = Arc::clone(progress);
    let client = args.client(move |event: &Event<'_>| watch.observe(event));
    let client = client.map_err(|why| (Exit::Environment, why))?;
    let operation = args.operation(&client, checked).map_err(refused)?;
    Ok((client, operation))
}

fn send(client: Client, mut operation: Operation, progress: &Progress) -> Ended {
    let key = operation.key().map(ToString::to_string);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let record = Record::new(key, Effect::NotSent, Vec::new());
            return Ended::failed(Exit::Environment, record, error.to_string());
        }
    };
    let ended = runtime.block_on(unless_stopped(sent(&client, &mut operation)));
    // Not waiting for a name that is still being looked up.
    runtime.shutdown_background();
    ended.unwrap_or_else(|| {
        let seen = progress.so_far();
        let effect = seen.effect();
        let why = match effect {
            Effect::NotSent => "interrupted; nothing was sent",
            _ => "interrupted; the write may have happened",
        };
        Ended::failed(Exit::Interrupted, Record::new(key, effect, seen.attempts), why.to_owned())
    })
}

async fn sent(client: &Client, operation: &mut Operation) -> Ended {
    match client.send(operation).await {
        Ok(response) => {
            let exit = Exit::after_answer(response.status());
            match Record::answered(response).await {
                Ok(record) => Ended { exit, record, why: None },
                Err((record, error)) => Ended::failed(Exit::Unknown, record, with_causes(&error)),
            }
        }
        Err(error) => {
            let exit = Exit::without_answer(error.effect());
            Ended::failed(exit, Record::of(error.report()), with_causes(&error))
        }
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
