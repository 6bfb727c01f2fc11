//! The command that goes on with an operation: the one that was given, with the key.
//!
//! It is meant for a terminal or a log, so what may be secret is left out, and marked by `…`:
//! values of headers, a body given in place, the query of the URL, the password of a database.

use std::borrow::Cow;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory};
use post_once::journal::Record;
use reqwest::Url;

use crate::args::Cli;
use crate::journal::Place;

/// Stands for what is left out.
const LEFT_OUT: &str = "…";

/// The command line that was given again, with this key.
pub(crate) fn command(given: &ArgMatches, key: Option<&str>) -> String {
    let tool = Cli::command();
    let (name, given) = given.subcommand().expect("a command was given");
    let of = tool.find_subcommand(name).expect("it is one of the tool's");
    let mut line = format!("post-once {name}");
    for flag in of.get_arguments() {
        let id = flag.get_id().as_str();
        let is_given = match given.value_source(id) {
            Some(ValueSource::CommandLine) => true,
            // Who reads the line elsewhere has no such variable.
            Some(ValueSource::EnvVariable) => id == "journal",
            _ => false,
        };
        if matches!(id, "key" | "verbose") || !is_given {
            continue;
        }
        if let Some(true) = is_set(flag, given) {
            line.push_str(&format!(" --{}", flag.get_long().unwrap_or(id)));
            continue;
        }
        for value in given.get_raw(id).into_iter().flatten() {
            let value = value.to_string_lossy();
            let value = without_secrets(id, &value);
            let value = quoted(&value);
            match flag.get_long() {
                Some(name) => line.push_str(&format!(" --{name}={value}")),
                None => line.push_str(&format!(" {value}")),
            }
        }
    }
    if let Some(key) = key {
        line.push_str(&format!(" --key={}", quoted(key)));
    }
    line
}

/// Whether a flag that takes no value is set.
fn is_set(flag: &Arg, given: &ArgMatches) -> Option<bool> {
    let takes_none = matches!(flag.get_action(), ArgAction::SetTrue);
    takes_none.then(|| given.get_flag(flag.get_id().as_str()))
}

/// The command that goes on with an operation that is due.
pub(crate) fn resume(place: &Place, record: &Record) -> String {
    let mut line = format!("post-once resume{}", of(place, record));
    if let Ok(url) = Url::parse(&record.draft.request.url) {
        line.push_str(&format!(" --origin={}", quoted(&url.origin().ascii_serialization())));
    }
    for name in &record.draft.terms.missing {
        line.push_str(&format!(" --header={}", quoted(&format!("{name}:{LEFT_OUT}"))));
    }
    line
}

/// The commands that go on with a parked operation.
pub(crate) fn retry(place: &Place, record: &Record) -> String {
    format!("post-once retry{} && {}", one(place, record), resume(place, record))
}

/// The command that gives an operation up.
pub(crate) fn abandon(place: &Place, record: &Record) -> String {
    format!("post-once abandon{}", one(place, record))
}

fn one(place: &Place, record: &Record) -> String {
    let key = &record.draft.key;
    let end_of_flags = if key.starts_with('-') { " --" } else { "" };
    format!("{}{end_of_flags} {}", of(place, record), quoted(key))
}

fn of(place: &Place, record: &Record) -> String {
    let mut flags = format!(" --journal={}", quoted(&place.shown()));
    if !record.draft.scope.is_empty() {
        flags.push_str(&format!(" --scope={}", quoted(&record.draft.scope)));
    }
    flags
}

/// Such a line, as it is told.
pub(crate) fn told(line: &str) -> String {
    let fill_in = if is_incomplete(line) { " (fill in each …)" } else { "" };
    format!("go on with{fill_in}: {line}")
}

fn is_incomplete(line: &str) -> bool {
    line.contains(LEFT_OUT)
}

fn without_secrets<'a>(id: &str, value: &'a str) -> Cow<'a, str> {
    // What may be shown goes up to the first of these.
    let shown = match id {
        "header" => value.split_inclusive(':').next().filter(|name| name.ends_with(':')),
        "url" | "origin" => match value.find(['?', '#']) {
            Some(at) => Some(&value[..=at]),
            None => return Cow::Borrowed(value),
        },
        "journal" => {
            return Place::parse(value).map_or(LEFT_OUT.into(), |place| place.shown().into());
        }
        "data" if value.starts_with('@') => return Cow::Borrowed(value),
        "data" | "json" => None,
        _ => return Cow::Borrowed(value),
    };
    Cow::Owned(format!("{}{LEFT_OUT}", shown.unwrap_or_default()))
}

/// As a shell takes it for one word.
fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:@%+,=".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    Cow::Owned(format!("'{}'", word.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(flags: &[&str]) -> String {
        let line = [&["post-once", "send"], flags].concat();
        command(&Cli::command().get_matches_from(line), Some("k 1"))
    }

    #[test]
    fn the_command_is_repeated_with_its_key_and_without_defaults() {
        for (flags, expected) in [
            (&["http://a.test/x"][..], "post-once send http://a.test/x --key='k 1'"),
            (
                &["-v", "-X", "PATCH", "http://a.test/x", "-d", "@it's", "--key", "k 1"][..],
                r"post-once send http://a.test/x --method=PATCH --data='@it'\''s' --key='k 1'",
            ),
            (
                &["http://a.test/x", "--contract=stripe", "--deadline", "1m 5s"],
                "post-once send http://a.test/x --contract=stripe --deadline='1m 5s' --key='k 1'",
            ),
        ] {
            let line = again(flags);
            assert_eq!(line, expected);
            assert!(!is_incomplete(&line));
        }
    }

    #[test]
    fn what_may_be_secret_is_left_out() {
        let line = again(&[
            "http://a.test/x?token=s3cret#s3cret",
            "-HAuthorization: Bearer s3cret",
            "--header=s3cret",
            "--json",
            "\"s3cret\"",
        ]);
        let expected = "post-once send 'http://a.test/x?…' --header='Authorization:…' \
                        --header='…' --json='…' --key='k 1'";
        assert_eq!(line, expected);
        assert!(is_incomplete(&line));
        assert!(again(&["http://a.test/", "-ds3cret"]).contains("--data='…'"));
    }

    #[test]
    fn the_password_of_a_journal_is_left_out() {
        let line = again(&["http://a.test/", "--journal", "postgres://app:s3cret@db/shop"]);
        assert_eq!(
            line,
            "post-once send http://a.test/ --journal='postgres://app:…@db/shop' --key='k 1'"
        );
    }

    #[test]
    fn a_flag_without_a_value_is_repeated() {
        let flags = ["resume", "--watch", "--journal=a", "-HAuthorization: s3cret"];
        let line =
            command(&Cli::command().get_matches_from([&["post-once"], &flags[..]].concat()), None);
        assert_eq!(line, "post-once resume --watch --header='Authorization:…' --journal=a");
    }

    #[test]
    fn every_flag_that_takes_a_value_is_repeated() {
        let flags = [
            "--method=PUT",
            "--header=…",
            "--output=json",
            "--data=@-",
            "--contract=ietf",
            "--key-header=X-Key",
            "--key-format=simple",
            "--window=1h",
            "--margin=1m",
            "--max-attempts=2",
            "--base-delay=1s",
            "--max-delay=2s",
            "--connect-timeout=3s",
            "--attempt-timeout=4s",
            "--deadline=5s",
            "--max-retry-after=6s",
            "--journal=a.journal",
            "--operation=order-42",
            "--scope=acct",
            "--lease=7s",
            "--store-header=x-a",
        ];
        let line = again(&[&["http://a.test/"], &flags[..]].concat());
        let line = line.replace("'…'", "…");
        assert_eq!(line, format!("post-once send http://a.test/ {} --key='k 1'", flags.join(" ")));

        let tool = Cli::command();
        let known = tool.find_subcommand("send").unwrap().get_arguments().count();
        let others = ["url", "key", "verbose", "json"];
        assert_eq!(known, flags.len() + others.len(), "a flag is missing in this test");
    }
}
