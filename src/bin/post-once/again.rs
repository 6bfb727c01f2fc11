//! The command that goes on with an operation: the one that was given, with the key.
//!
//! It is meant for a terminal or a log, so what may be secret is left out, and marked by `…`:
//! values of headers, a body given in place, the query of the URL.

use std::borrow::Cow;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory};

use crate::args::Cli;

/// Stands for what is left out.
const LEFT_OUT: &str = "…";

/// The command line of `send` again, with this key.
pub(crate) fn command(given: &ArgMatches, key: Option<&str>) -> String {
    let mut line = "post-once send".to_owned();
    let tool = Cli::command();
    let send = tool.find_subcommand("send").zip(given.subcommand_matches("send"));
    let (send, given) = send.expect("only send goes on");
    for flag in send.get_arguments() {
        let id = flag.get_id().as_str();
        if matches!(id, "key" | "verbose")
            || given.value_source(id) != Some(ValueSource::CommandLine)
        {
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

/// Whether something was left out of such a line.
pub(crate) fn is_incomplete(line: &str) -> bool {
    line.contains(LEFT_OUT)
}

fn without_secrets<'a>(id: &str, value: &'a str) -> Cow<'a, str> {
    // What may be shown goes up to the first of these.
    let shown = match id {
        "header" => value.split_inclusive(':').next().filter(|name| name.ends_with(':')),
        "url" => match value.find(['?', '#']) {
            Some(at) => Some(&value[..=at]),
            None => return Cow::Borrowed(value),
        },
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
