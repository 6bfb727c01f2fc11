//! The flags of the commands that work on a journal.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args};

use crate::args::{OutputArgs, above_zero};
use crate::exit;
use crate::journal::Place;

/// Which journal, and which part of it.
#[derive(Args, Debug)]
pub(crate) struct JournalArgs {
    /// The journal: the path of a SQLite file, or the URL of a PostgreSQL database. It has to be there.
    /// POST_ONCE_ENVIRONMENT names the environment that it belongs to [default: default].
    #[arg(
        long,
        value_name = "PATH|URL",
        env = "POST_ONCE_JOURNAL",
        hide_env_values = true,
        value_parser = Place::parse,
    )]
    pub(crate) journal: Place,

    #[command(flatten)]
    pub(crate) shown: OutputArgs,
}

/// Where `send` writes its operation down.
#[derive(Args, Debug)]
#[command(next_help_heading = "Journal")]
pub(crate) struct SendJournalArgs {
    /// Write the operation down here before it is sent, so that it survives this command: the path of a
    /// SQLite file, made when it is not there, or the URL of a PostgreSQL database.
    /// POST_ONCE_ENVIRONMENT names the environment that it belongs to [default: default].
    #[arg(
        long,
        value_name = "PATH|URL",
        env = "POST_ONCE_JOURNAL",
        hide_env_values = true,
        value_parser = Place::parse,
    )]
    pub(crate) journal: Option<Place>,

    /// What the operation is called, once in its scope: sent again under this name, it is the same
    /// operation, and its answer is returned if it was answered.
    #[arg(long, value_name = "NAME", requires = "journal", value_parser = not_empty())]
    pub(crate) operation: Option<String>,

    /// The account that it belongs to [default: none].
    #[arg(long, value_name = "NAME", requires = "journal")]
    pub(crate) scope: Option<String>,

    /// For how long it counts as being worked on after a sign of life [default: 30s].
    #[arg(long, value_name = "TIME", requires = "journal", value_parser = above_zero)]
    pub(crate) lease: Option<Duration>,

    /// A header whose value is stored too. Content headers and the key are; everything else has to be
    /// given again to go on. May be given more than once. Never a credential.
    #[arg(long, value_name = "NAME", requires = "journal")]
    pub(crate) store_header: Vec<http::HeaderName>,
}

/// List the operations of a journal that are not closed: pending, parked, unknown.
#[derive(Args, Debug)]
pub(crate) struct PendingArgs {
    /// Only those in this state.
    #[arg(long, value_name = "STATE", value_parser = states())]
    pub(crate) state: Option<String>,

    /// Only those whose window closes within this time.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) expiring: Option<Duration>,

    /// Only those of this scope [default: of all].
    #[arg(long, value_name = "NAME")]
    pub(crate) scope: Option<String>,

    #[command(flatten)]
    pub(crate) of: JournalArgs,
}

/// Show one operation, with the history of its attempts.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("which").required(true))]
pub(crate) struct ShowArgs {
    /// Its key.
    #[arg(group = "which")]
    pub(crate) key: Option<String>,

    /// Its name.
    #[arg(long, value_name = "NAME", group = "which")]
    pub(crate) operation: Option<String>,

    /// Its scope [default: any for a key, the one without a name for a name].
    #[arg(long, value_name = "NAME")]
    pub(crate) scope: Option<String>,

    #[command(flatten)]
    pub(crate) of: JournalArgs,
}

/// Which operation a person decides on.
#[derive(Args, Debug)]
pub(crate) struct DecideArgs {
    /// Its key.
    pub(crate) key: String,

    /// Its scope, where several share the key [default: any].
    #[arg(long, value_name = "NAME")]
    pub(crate) scope: Option<String>,

    #[command(flatten)]
    pub(crate) of: JournalArgs,
}

/// Delete the bodies of closed operations. Their names stay, so that a late call under one is not sent
/// again. What is pending, parked or unknown stays whole.
#[derive(Args, Debug)]
pub(crate) struct PurgeArgs {
    /// Only what has been closed for so long.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub(crate) older_than: Duration,

    /// Their names too: a later call under one is a new operation.
    #[arg(long)]
    pub(crate) names: bool,

    #[command(flatten)]
    pub(crate) of: JournalArgs,
}

/// Go on with the operations of a journal that are due, under their keys and with their bytes.
///
/// They are sent to the origins that are named; without one, all that are pending must have the same.
/// Credentials are never stored: they come from -H, or from variables such as
/// POST_ONCE_HEADER_AUTHORIZATION, which is the header authorization. Only operations of one scope are
/// sent, so that none gets the credentials of another account.
#[derive(Args, Debug)]
#[command(after_long_help = exit::RESUME_HELP)]
pub(crate) struct ResumeArgs {
    /// Each that is due now, once. This is the default.
    #[arg(long, conflicts_with = "watch")]
    pub(crate) once: bool,

    /// Go on until it is stopped (SIGTERM, Ctrl-C).
    #[arg(long)]
    pub(crate) watch: bool,

    /// An origin that may be sent to, as a URL; may be given more than once.
    #[arg(long, value_name = "URL")]
    pub(crate) origin: Vec<String>,

    /// The most that are sent at once.
    #[arg(long, value_name = "N", default_value = "16", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) concurrency: u32,

    /// How long the server remembers a key, from the first send. Can only shorten what was written down.
    #[arg(long, value_name = "TIME", value_parser = above_zero)]
    pub(crate) window: Option<Duration>,

    /// For how long an operation counts as being worked on after a sign of life.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = above_zero)]
    pub(crate) lease: Duration,

    /// A header that is never stored; may be given more than once.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", allow_hyphen_values = true)]
    pub(crate) header: Vec<String>,

    /// Those of this scope [default: those without one].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) scope: String,

    #[command(flatten)]
    pub(crate) of: JournalArgs,
}

fn states() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(["pending", "parked", "unknown", "completed", "abandoned"])
}

fn not_empty() -> impl TypedValueParser<Value = String> {
    clap::builder::NonEmptyStringValueParser::new()
}
