//! `post-once show`.

use post_once::journal::{PastAttempt, Record};
use reqwest::Url;
use serde_json::{Value, json};

use crate::args::Format;
use crate::command;
use crate::exit::Exit;
use crate::journal::{self, Failed, Open};
use crate::journal_args::ShowArgs;
use crate::listed::whole;
use crate::output::print;

/// Shows one operation. Neither bodies nor values of headers are shown.
pub(crate) fn run(args: &ShowArgs) -> Exit {
    command::run(show(args))
}

async fn show(args: &ShowArgs) -> Result<Exit, Failed> {
    let journal = args.of.journal.open(Open::Existing).await?;
    let record = match (&args.key, &args.operation) {
        (Some(key), _) => journal::by_key(&*journal, key, args.scope.as_deref()).await?,
        (None, name) => {
            let scope = args.scope.as_deref().unwrap_or_default();
            let name = name.as_deref().unwrap_or_default();
            let found = journal.by_name(scope, name).await.map_err(journal::failed)?;
            let missing = || (Exit::Refused, "the journal holds no operation of this name".into());
            found.ok_or_else(missing)?
        }
    };
    let shown = match args.of.shown.output {
        Format::Json => format!("{}\n", object(&record)),
        Format::Text => text(&record),
    };
    Ok(print(shown.as_bytes(), Exit::Success))
}

/// Without what may be secret.
fn target(record: &Record) -> String {
    let request = &record.draft.request;
    match Url::parse(&request.url) {
        Ok(url) => format!("{}{}", url.origin().ascii_serialization(), url.path()),
        Err(_) => "…".to_owned(),
    }
}

fn object(record: &Record) -> Value {
    let Record { draft, ages, trail, .. } = record;
    let attempts = trail.attempts.iter().map(|attempt| {
        json!({
            "number": attempt.number,
            "status": attempt.status,
            "error": attempt.error,
            "known": attempt.known,
            "request_id": attempt.request_id,
            "waited_ms": attempt.waited_ms,
            "elapsed_ms": attempt.elapsed_ms,
        })
    });
    json!({
        "key": draft.key,
        "operation": draft.name,
        "scope": draft.scope,
        "state": record.state_now().as_str(),
        "reason": record.state_now().reason().map(|reason| reason.as_str()),
        "age_s": ages.created.as_secs(),
        "window_left_s": record.window_left().map(|left| left.as_secs()),
        "claimed_for_s": ages.lease_left.map(|left| left.as_secs()),
        "method": draft.request.method,
        "url": target(record),
        "contract": draft.terms.contract,
        "missing_headers": draft.terms.missing,
        "status": record.answer.as_ref().map(|answer| answer.status),
        "begun": record.attempts,
        "attempts": Value::from_iter(attempts),
    })
}

fn text(record: &Record) -> String {
    let Record { draft, ages, trail, .. } = record;
    let left = |left: Option<_>| left.map_or("-".to_owned(), whole);
    let mut lines = vec![
        ("key", draft.key.clone()),
        ("operation", draft.name.clone().unwrap_or_else(|| "-".to_owned())),
        ("state", record.state_now().to_string()),
        ("request", format!("{} {}", draft.request.method, target(record))),
        ("contract", draft.terms.contract.clone()),
        ("age", whole(ages.created)),
        ("window left", left(record.window_left())),
    ];
    if !draft.scope.is_empty() {
        lines.push(("scope", draft.scope.clone()));
    }
    if let Some(lease) = ages.lease_left {
        lines.push(("claimed for", whole(lease)));
    }
    if let Some(answer) = &record.answer {
        lines.push(("answered", answer.status.to_string()));
    }
    if !draft.terms.missing.is_empty() {
        lines.push(("not stored", draft.terms.missing.join(", ")));
    }
    let lines = lines.iter().map(|(label, value)| format!("{label:<12} {value}\n"));
    let mut text: String = lines.chain(trail.attempts.iter().map(tried)).collect();
    if record.attempts > trail.count() {
        let open = record.attempts - trail.count();
        text.push_str(&format!("{open} begun without a recorded end\n"));
    }
    text
}

fn tried(attempt: &PastAttempt) -> String {
    let mut line = format!("attempt {}: ", attempt.number);
    if let Some(status) = attempt.status {
        line.push_str(&format!("{status}, "));
    }
    if let Some(error) = &attempt.error {
        line.push_str(&format!("{error}, "));
    }
    line.push_str(&format!("{}, took {}ms", attempt.known, attempt.elapsed_ms));
    if let Some(id) = &attempt.request_id {
        line.push_str(&format!(", request {id}"));
    }
    line.push('\n');
    line
}
