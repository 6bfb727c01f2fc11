//! `post-once check`.

mod args;
mod body;
mod report;
mod trial;
mod verdict;
mod wire;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use post_once::contract::Carrier;
use post_once::{Contract, reqwest_builder};
use reqwest::Url;

pub(crate) use self::args::CheckArgs;
use self::trial::{Places, Trials};
use self::verdict::Answer;
use self::wire::{CountError, Wire, first_sent, why};
use crate::args::Format;
use crate::exit::Exit;
use crate::output::{print, say, with_causes};
use crate::request::header;

/// What is sent where no body is given.
const BODY: &str = r#"{"amount":1,"currency":"eur","note":"post-once check"}"#;

/// Makes the trials, and tells what was seen.
pub(crate) fn run(args: &CheckArgs) -> Exit {
    match checked(args) {
        Ok(told) => told,
        Err((exit, why)) => {
            say(&format!("error: {why}"));
            match args.shown.output {
                Format::Json if exit != Exit::Refused => {
                    print(report::json(&args.url, false, &[], None).as_bytes(), exit)
                }
                _ => exit,
            }
        }
    }
}

type Failed = (Exit, String);

fn checked(args: &CheckArgs) -> Result<Exit, Failed> {
    let (wire, places) = args.prepare()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| (Exit::Environment, error.to_string()))?;
    runtime.block_on(async {
        let (opening, wire) = opening(wire).await?;
        let mut trials = Trials::new(&wire, &opening);
        let made = trials.run(&places).await;
        let (safe, sentence) = report::safety(&made, wire.url.scheme() == "https");
        let nearest = report::nearest(&trials.traits, &wire.contract);
        let told = match args.shown.output {
            Format::Text => report::text(&made, &nearest, &wire.contract, &sentence),
            Format::Json => report::json(&args.url, safe, &made, Some(&nearest)),
        };
        Ok(print(told.as_bytes(), if safe { Exit::Success } else { Exit::NotKept }))
    })
}

/// A first request, under a key that no trial uses: what is not accepted even so can tell nothing.
/// If it does not move the count, effects are not counted there.
async fn opening(mut wire: Wire) -> Result<(Answer, Wire), Failed> {
    let before = wire.count().await.map_err(|error| match error {
        CountError::Http(error) if error.is_connect() => {
            (Exit::NotSent, "the server of --count cannot be reached".to_owned())
        }
        CountError::Http(error) => (Exit::Refused, format!("--count: {}", why(&error))),
        CountError::NoCount => {
            (Exit::Refused, "the answer of --count is no JSON with a number `count`".to_owned())
        }
    })?;
    let key = wire.fresh_key();
    let answer = wire.try_send(&wire.request(Some(&key))).await.map_err(|error| {
        if error.is_connect() || error.is_builder() {
            (Exit::NotSent, "the server cannot be reached; nothing was sent".to_owned())
        } else {
            (Exit::Unknown, format!("the first request may have happened: {}", why(&error)))
        }
    })?;
    if !answer.is_success() {
        let status = StatusCode::from_u16(answer.status).unwrap_or_default();
        let why = format!(
            "the first request was answered {}; give a request that is accepted: -X, --json, -d, -H",
            answer.status
        );
        return Err((Exit::after_answer(status), why));
    }
    if let Some(before) = before {
        let after = wire.count().await.ok().flatten();
        if after != before.checked_add(1) {
            say(
                "note: the number at --count did not go up by one with the first request; left aside",
            );
            wire.count = None;
        }
    }
    Ok((answer, wire))
}

impl CheckArgs {
    /// Checks what can be checked before anything is sent.
    fn prepare(&self) -> Result<(Wire, Places), Failed> {
        let refused = |why| (Exit::Refused, why);
        let url = absolute("URL", &self.url).map_err(refused)?;
        let contract = self.contract().map_err(refused)?;
        let body = self.body.read().map_err(refused)?.unwrap_or_else(|| BODY.into());
        if matches!(contract.carrier(), Carrier::Member(_)) && !body::is_object(&body) {
            return Err(refused("a body that is no JSON object cannot carry the key".to_owned()));
        }
        let headers = self.headers(&contract).map_err(refused)?;
        let count = self.count.as_ref().map(|count| absolute("--count", count));
        let count = count.transpose().map_err(refused)?;
        let places = self.places(&url).map_err(refused)?;
        // A connection that was kept may be closed by the server when the next trial needs it.
        let client = reqwest_builder().timeout(self.timeout).pool_max_idle_per_host(0).build();
        let client = client.map_err(|error| (Exit::Environment, with_causes(&error)))?;
        let (method, timeout) = (self.method.clone(), self.timeout);
        Ok((Wire { client, url, method, headers, body, contract, count, timeout }, places))
    }

    fn contract(&self) -> Result<Contract, String> {
        let Some(name) = &self.key_header else { return Ok(self.contract.clone()) };
        let contract = self.contract.to_builder().key_header(name).build();
        contract.map_err(|error| error.to_string())
    }

    fn headers(&self, contract: &Contract) -> Result<HeaderMap, String> {
        let mut headers = HeaderMap::new();
        for (number, text) in (1..).zip(&self.header) {
            let (name, value) = header(number, text)?;
            if matches!(contract.carrier(), Carrier::Header(carrier) if *carrier == name) {
                return Err(format!(
                    "the header {name} carries the keys of the trials; leave it away"
                ));
            }
            headers.append(name, value);
        }
        if self.body.data.is_none() && !headers.contains_key(CONTENT_TYPE) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.extend(first_sent(contract));
        Ok(headers)
    }

    fn places(&self, url: &Url) -> Result<Places, String> {
        let other_path = self.other_path.as_ref().map(|path| match url.join(path) {
            Ok(other) if other.origin() == url.origin() && other != *url => Ok(other),
            _ => Err("--other-path is no other path of this server".to_owned()),
        });
        let failing = self.failing.as_ref().map(|failing| match absolute("--failing", failing)? {
            failing if failing.origin() == url.origin() => Ok(failing),
            _ => Err("--failing is no URL of this server".to_owned()),
        });
        Ok(Places { other_path: other_path.transpose()?, failing: failing.transpose()? })
    }
}

/// A URL without credentials: those are given as headers.
fn absolute(what: &str, text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{what}: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("{what}: give an absolute http or https URL"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!("{what}: give credentials with -H, not in the URL"));
    }
    Ok(url)
}
