//! `post-once resume`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use clap::ArgMatches;
use http::{HeaderMap, HeaderName};
use indicatif::ProgressBar;
use post_once::Client;
use post_once::journal::{Journal, Reason, State, To};
use post_once::resume::{Resumed, Resumer, Summary};
use reqwest::Url;

use crate::again;
use crate::args::Format;
use crate::command::{self, bar};
use crate::exit::Exit;
use crate::journal::{Failed, Open, Pages, Place};
use crate::journal_args::ResumeArgs;
use crate::listed::Listed;
use crate::output::{print, say, with_causes};
use crate::request::{self, RESPONSE_LIMIT};
use crate::signal::{self, Stop};

/// A variable that begins so is a header.
const HEADER_VARIABLE: &str = "POST_ONCE_HEADER_";

const NO_ORIGIN: &str = "what is given with --origin is no absolute http or https URL";

/// Goes on with what is due.
pub(crate) fn run(args: &ResumeArgs, given: &ArgMatches) -> Exit {
    command::run(resume(args, given))
}

async fn resume(args: &ResumeArgs, line: &ArgMatches) -> Result<Exit, Failed> {
    let headers = headers(&args.header).map_err(|why| (Exit::Refused, why))?;
    let given = args.origin.iter().map(|url| origin(url));
    let given = given.collect::<Result<Vec<_>, _>>().map_err(|why| (Exit::Refused, why))?;
    let journal = args.of.journal.open(Open::Existing).await?;
    let origins = match given.is_empty() {
        true => match the_origin(&*journal, &args.scope).await? {
            None if args.watch => {
                let why = "nothing is pending yet: say with --origin where to send";
                return Err((Exit::Refused, why.to_owned()));
            }
            None => return Ok(Exit::Success),
            Some(origin) => vec![origin],
        },
        false => given,
    };
    let client = Client::builder()
        .shared_journal(Arc::clone(&journal))
        .lease(args.lease)
        .response_limit(RESPONSE_LIMIT)
        .build()
        .map_err(|error| (Exit::Environment, with_causes(&error)))?;
    let told = Arc::new(Told {
        place: args.of.journal.clone(),
        format: args.of.shown.output,
        bar: bar(&*journal).await?,
        wants_a_person: AtomicBool::new(false),
    });
    let tell = Arc::clone(&told);
    let most = args.concurrency as usize;
    let mut resumer = client
        .resumer()
        .scope(&args.scope, client.clone(), headers)
        .only_scopes([&args.scope])
        .concurrency(most)
        .per_origin(most)
        .on_outcome(move |resumed| tell.outcome(resumed));
    if let Some(window) = args.window {
        resumer = resumer.window(window);
    }
    for origin in &origins {
        resumer = resumer.origin(origin);
    }
    let (summary, stop) = until_stopped(resumer, args.watch).await?;
    told.bar.finish_and_clear();
    if summary.later > 0 && !args.watch {
        say(&format!("note: {} not finished yet, to be tried again later", summary.later));
    }
    if summary.lost > 0 {
        say(&format!("note: {} taken over elsewhere or not written down", summary.lost));
    }
    let wants_a_person = told.wants_a_person.load(Ordering::Relaxed);
    Ok(match stop {
        Some(Stop::Terminate) if args.watch => Exit::Success,
        Some(_) => {
            say("interrupted; what was under way is released under its key");
            say(&again::told(&again::command(line, None)));
            Exit::Interrupted
        }
        None if wants_a_person => Exit::Unknown,
        None => Exit::Success,
    })
}

async fn until_stopped(resumer: Resumer, watch: bool) -> Result<(Summary, Option<Stop>), Failed> {
    let stopped = Arc::new(OnceLock::new());
    let by = Arc::clone(&stopped);
    let stop = signal::stop().map_err(|error| (Exit::Environment, error.to_string()))?;
    let shutdown = async move {
        // It is set once: here.
        let (Ok(()) | Err(_)) = by.set(stop.await);
    };
    let ended = match watch {
        true => resumer.run(shutdown).await,
        false => resumer.once_until(shutdown).await,
    };
    let summary = ended.map_err(|error| {
        let exit = if error.is_refused() { Exit::Refused } else { Exit::Environment };
        (exit, with_causes(&error))
    })?;
    Ok((summary, stopped.get().copied()))
}

/// Tells of each operation as it ends.
struct Told {
    place: Place,
    format: Format,
    bar: ProgressBar,
    wants_a_person: AtomicBool,
}

impl Told {
    fn outcome(&self, resumed: &Resumed) {
        let Resumed { record, to, .. } = resumed;
        let state = match to {
            To::Completed => State::Completed,
            To::Parked(reason) => State::Parked(*reason),
            To::Unknown => State::Unknown,
            _ => State::Pending,
        };
        self.bar.inc(1);
        self.bar.suspend(|| {
            print(Listed { record, state }.line(self.format).as_bytes(), Exit::Success);
            let way_on = match state {
                State::Parked(Reason::Redirected) | State::Unknown => {
                    let line = again::abandon(&self.place, record);
                    format!("look it up at the server; if it is settled: {line}")
                }
                State::Parked(_) => again::told(&again::retry(&self.place, record)),
                _ => return,
            };
            self.wants_a_person.store(true, Ordering::Relaxed);
            say(&format!("key: {} is {state}\n{way_on}", record.draft.key));
        });
    }
}

/// Where all that is pending goes; `None` if there is nothing.
async fn the_origin(journal: &dyn Journal, scope: &str) -> Result<Option<String>, Failed> {
    let mut pages = Pages::new(journal, vec![State::Pending], Some(scope));
    let mut origins = BTreeSet::new();
    while let Some(rows) = pages.next().await? {
        let due = rows.iter().filter(|row| row.ages.lease_left.is_none());
        let urls = due.filter_map(|row| Url::parse(&row.draft.request.url).ok());
        origins.extend(urls.map(|url| url.origin().ascii_serialization()));
    }
    if origins.len() > 1 {
        let named = origins.into_iter().collect::<Vec<_>>().join(", ");
        let why =
            format!("what is due goes to several origins: name with --origin which of {named}");
        return Err((Exit::Refused, why));
    }
    Ok(origins.pop_first())
}

/// The origin of a URL, which is not shown: it may hold a secret by mistake.
fn origin(url: &str) -> Result<String, String> {
    match Url::parse(url) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => Err(NO_ORIGIN.to_owned()),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            Err("an origin has no user name or password; give credentials as a header".to_owned())
        }
        Ok(url) => Ok(url.origin().ascii_serialization()),
        Err(_) => Err(NO_ORIGIN.to_owned()),
    }
}

/// What is never stored: from the environment, and from the flags, which win.
fn headers(given: &[String]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (variable, value) in std::env::vars_os() {
        let Some(name) = variable.to_str().and_then(|name| name.strip_prefix(HEADER_VARIABLE))
        else {
            continue;
        };
        let named = name.replace('_', "-").to_ascii_lowercase().parse::<HeaderName>();
        let named = named.map_err(|_| format!("{HEADER_VARIABLE}{name} names no header"))?;
        let value = value.to_str().unwrap_or("\0");
        headers.insert(named.clone(), request::secret(&named, value)?);
    }
    let given = (1..).zip(given).map(|(number, text)| request::header(number, text));
    let given = given.collect::<Result<Vec<_>, _>>()?;
    for (name, _) in &given {
        headers.remove(name);
    }
    for (name, value) in given {
        headers.append(name, value);
    }
    Ok(headers)
}
