//! The commands and their flags.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use http::Method;
use post_once::key::KeyFormat;
use post_once::testkit::Fault;
use post_once::{Contract, IdempotencyKey};

use crate::check::CheckArgs;
use crate::exit;
use crate::journal::Place;
use crate::journal_args::{
    DecideArgs, PendingArgs, PurgeArgs, ResumeArgs, SendJournalArgs, ShowArgs,
};

/// Sends an HTTP write once: one idempotency key for all attempts, retries only when that is safe,
/// and an honest word on what is known.
#[derive(Debug, Parser)]
#[command(name = "post-once", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Send(Box<SendArgs>),
    Pending(PendingArgs),
    Show(ShowArgs),
    /// Make a parked operation due, so that resume sends it again. Refused once its window has closed.
    Retry(DecideArgs),
    /// Give an operation up: nothing more is sent of it.
    Abandon(DecideArgs),
    Purge(PurgeArgs),
    Resume(Box<ResumeArgs>),
    Contracts(ContractsArgs),
    Serve(ServeArgs),
    Check(Box<CheckArgs>),
    Completions(CompletionsArgs),
}

/// Send one request, over as many attempts as it takes.
///
/// All attempts carry one idempotency key and the same body. The body of the answer goes to standard
/// output, everything else to standard error. Times are written as 500ms, 10s, 5m, 24h.
#[derive(Args, Debug)]
#[command(after_long_help = exit::HELP)]
pub(crate) struct SendArgs {
    /// Where to send it: an absolute http or https URL.
    pub(crate) url: String,

    /// The method, as it is to be sent.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "POST")]
    pub(crate) method: Method,

    /// A header of the request; may be given more than once.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", allow_hyphen_values = true)]
    pub(crate) header: Vec<String>,

    #[command(flatten)]
    pub(crate) shown: OutputArgs,

    /// Tell of each attempt on standard error; twice: trace too (RUST_LOG selects what).
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(flatten)]
    pub(crate) body: BodyArgs,

    #[command(flatten)]
    pub(crate) key: KeyArgs,

    #[command(flatten)]
    pub(crate) limits: LimitArgs,

    #[command(flatten)]
    pub(crate) journal: SendJournalArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Body")]
pub(crate) struct BodyArgs {
    /// A JSON body, sent byte for byte as given, with its content type unless -H gives another.
    #[arg(long, value_name = "JSON", allow_hyphen_values = true, conflicts_with = "data")]
    pub(crate) json: Option<String>,

    /// A body of any kind: the text itself, the bytes of a file with @FILE, or of standard input
    /// with @-. No content type is set.
    #[arg(short, long, value_name = "DATA", allow_hyphen_values = true)]
    pub(crate) data: Option<String>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Key and contract")]
pub(crate) struct KeyArgs {
    /// The idempotency key, to go on with an earlier command [default: a new UUID].
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<IdempotencyKey>,

    /// What the server promises about keys: a name from `post-once contracts`.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "generic",
        value_parser = contract_names(),
        hide_possible_values = true,
    )]
    pub(crate) contract: Contract,

    /// The header that carries the key [default: the contract's].
    #[arg(long, value_name = "NAME")]
    pub(crate) key_header: Option<String>,

    /// How the key is written [default: the contract's].
    #[arg(long, value_name = "FORMAT", value_parser = key_formats())]
    pub(crate) key_format: Option<KeyFormat>,

    /// How long the server remembers the key [default: the contract's]. No attempt is made after
    /// that, counted from the first one of this command: to go on with an earlier one, give what is
    /// left.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    pub(crate) window: Option<Duration>,

    /// What is held back at the end of the window [default: a tenth of it, at most 5m].
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) margin: Option<Duration>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Attempts and times")]
pub(crate) struct LimitArgs {
    /// The most attempts, the first included.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_attempts: u32,

    /// The longest wait before the second attempt; doubles from there. Waits are drawn at random.
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = humantime::parse_duration)]
    pub(crate) base_delay: Duration,

    /// The longest wait between two attempts, unless the server asks for more.
    #[arg(long, value_name = "TIME", default_value = "8s", value_parser = humantime::parse_duration)]
    pub(crate) max_delay: Duration,

    /// The limit on connecting.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = above_zero)]
    pub(crate) connect_timeout: Duration,

    /// The limit of one attempt, from connecting to the end of the answer.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = above_zero)]
    pub(crate) attempt_timeout: Duration,

    /// The limit of the whole command, waits included [default: none].
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    pub(crate) deadline: Option<Duration>,

    /// The longest Retry-After that is waited for; a longer one ends the command.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    pub(crate) max_retry_after: Duration,
}

#[derive(Args, Debug)]
pub(crate) struct OutputArgs {
    /// What goes to standard output.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) output: Format,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// As it is, or as a table.
    #[default]
    Text,
    /// One JSON value, also on failure.
    Json,
}

/// List the contracts that are known by name.
#[derive(Args, Debug)]
pub(crate) struct ContractsArgs {
    #[command(flatten)]
    pub(crate) shown: OutputArgs,
}

/// Run a small local API with idempotency keys and faults, for trying things out.
///
/// The first line on standard output is `listening on http://127.0.0.1:PORT`. POST /v1/charges
/// answers 201 with a charge, GET /v1/charges lists the charges that happened. Keys are kept in
/// memory. Runs until it is interrupted.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The port to listen on [default: a free one].
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,

    /// How long a charge takes, as 500ms or 2s.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = humantime::parse_duration)]
    pub(crate) delay: Duration,

    /// What goes wrong with the next POST; may be given more than once, for those that follow.
    ///
    /// close, cut, reset and hang=2s happen after charge and key are stored: close the connection,
    /// cut the answer short, reset the connection, answer late. A status, 503 or 429:ra=2 (with
    /// Retry-After: 2), is answered before.
    #[arg(long, value_name = "SPEC")]
    pub(crate) fault: Vec<Fault>,

    /// Where keys and charges are kept, so that the next server finds them: the path of a SQLite file, or a
    /// postgres:// URL [default: in memory].
    #[arg(long, value_name = "PATH|URL", value_parser = Place::parse)]
    pub(crate) store: Option<Place>,
}

/// Print a completion script for a shell.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell.
    pub(crate) shell: clap_complete::Shell,
}

/// The presets, with their names for help and completion.
pub(crate) fn contract_names() -> impl TypedValueParser<Value = Contract> {
    let names = Contract::presets().map(|preset| preset.name().to_owned());
    PossibleValuesParser::new(names)
        .map(|name| Contract::named(&name).expect("only the names of presets are possible"))
}

fn key_formats() -> impl TypedValueParser<Value = KeyFormat> {
    let formats = [KeyFormat::Hyphenated, KeyFormat::Simple, KeyFormat::Quoted];
    PossibleValuesParser::new(formats.map(KeyFormat::name)).try_map(|name| name.parse())
}

/// A limit: nothing could ever be sent within none.
pub(crate) fn above_zero(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err("give a time above zero".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use post_once::RetryPolicy;

    use super::*;

    #[test]
    fn the_flags_fit_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_the_library() {
        let cli = Cli::parse_from(["post-once", "send", "http://a.test/"]);
        let Command::Send(args) = cli.command else { panic!("not send") };
        assert_eq!(args.limits.policy().unwrap(), RetryPolicy::default());
        assert_eq!(args.key.contract, Contract::default());
        assert_eq!(args.method, Method::POST);
    }
}
