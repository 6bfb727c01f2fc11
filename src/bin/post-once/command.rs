//! What the commands on a journal have in common: a runtime, an end, and a bar for those who watch.

use std::future::Future;
use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};
use post_once::journal::Journal;

use crate::exit::Exit;
use crate::journal::{Failed, failed};
use crate::output::say;

/// Runs it to its end, and says what went wrong.
pub(crate) fn run(work: impl Future<Output = Result<Exit, Failed>>) -> Exit {
    let ended = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let ended = runtime.block_on(work);
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err((Exit::Environment, error.to_string())),
    };
    ended.unwrap_or_else(|(exit, why)| {
        say(&format!("error: {why}"));
        exit
    })
}

/// A bar over all that is open in the journal, where standard error is a terminal.
///
/// # Errors
/// When the journal fails.
pub(crate) async fn bar(journal: &dyn Journal) -> Result<ProgressBar, Failed> {
    if !stderr().is_terminal() {
        return Ok(ProgressBar::hidden());
    }
    let gauges = journal.gauges().await.map_err(failed)?;
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left");
    let open = gauges.pending + gauges.parked + gauges.unknown;
    Ok(ProgressBar::new(open).with_style(style.expect("the template is a constant")))
}
