//! `post-once purge`.

use post_once::journal::Purge;
use serde_json::json;

use crate::args::Format;
use crate::command;
use crate::exit::Exit;
use crate::journal::{self, Failed, Open};
use crate::journal_args::PurgeArgs;
use crate::output::print;

/// The most rows that are purged in one transaction, so that nobody waits for long.
const BATCH: u32 = 500;

/// Deletes what is old, batch by batch.
pub(crate) fn run(args: &PurgeArgs) -> Exit {
    command::run(purge(args))
}

async fn purge(args: &PurgeArgs) -> Result<Exit, Failed> {
    let journal = args.of.journal.open(Open::Existing).await?;
    let what = if args.names { Purge::Names } else { Purge::Bodies };
    let mut purged = 0;
    loop {
        match journal.purge(args.older_than, what, BATCH).await.map_err(journal::failed)? {
            0 => break,
            touched => purged += touched,
        }
    }
    let told = match args.of.shown.output {
        Format::Json => format!("{}\n", json!({ "purged": purged })),
        Format::Text => format!("purged {purged}\n"),
    };
    Ok(print(told.as_bytes(), Exit::Success))
}
