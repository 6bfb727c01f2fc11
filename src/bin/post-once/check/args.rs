//! The flags of `check`.

use std::time::Duration;

use clap::Args;
use http::Method;
use post_once::Contract;

use crate::args::{BodyArgs, OutputArgs, above_zero, contract_names};
use crate::exit;

/// Try whether a server keeps its promise about keys. WARNING: real requests, real effects.
///
/// WARNING: this makes some thirty real requests that have real effects, and on a server that breaks
/// its promise some take effect twice. Use a test account.
///
/// Each trial has fresh keys and ends in a verdict: kept, broken, not offered or not tried. Without
/// --json or -d a JSON object with amount, currency and note is sent. Header values are never shown.
/// Times are written as 500ms, 10s, 5m.
#[derive(Args, Debug)]
#[command(after_long_help = exit::CHECK_HELP)]
pub(crate) struct CheckArgs {
    /// Where to send to: an absolute http or https URL that accepts the request given.
    pub(crate) url: String,

    /// The method, as it is to be sent.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "POST")]
    pub(crate) method: Method,

    /// A header of each request; may be given more than once. Sent to the URL's own server only.
    #[arg(short = 'H', long, value_name = "NAME: VALUE", allow_hyphen_values = true)]
    pub(crate) header: Vec<String>,

    #[command(flatten)]
    pub(crate) shown: OutputArgs,

    #[command(flatten)]
    pub(crate) body: BodyArgs,

    /// How the key is sent, and what signals are known: a name from `post-once contracts`.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "generic",
        value_parser = contract_names(),
        hide_possible_values = true,
        help_heading = "Key and contract",
    )]
    pub(crate) contract: Contract,

    /// The header that carries the key [default: the contract's].
    #[arg(long, value_name = "NAME", help_heading = "Key and contract")]
    pub(crate) key_header: Option<String>,

    /// Another path of the server that accepts the same request: tries whether a key is bound to
    /// its path.
    #[arg(long, value_name = "PATH", help_heading = "Trials")]
    pub(crate) other_path: Option<String>,

    /// A URL of the server that answers 5xx at first: tries whether a retry is carried out.
    #[arg(long, value_name = "URL", help_heading = "Trials")]
    pub(crate) failing: Option<String>,

    /// A URL whose answer to GET is JSON with a number `count`: the effects are counted there, and
    /// nobody else should cause any meanwhile.
    #[arg(long, value_name = "URL", help_heading = "Trials")]
    pub(crate) count: Option<String>,

    /// The limit of one request, from connecting to the end of the answer.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = above_zero, help_heading = "Trials")]
    pub(crate) timeout: Duration,
}
