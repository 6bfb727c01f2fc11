//! The suite that every store runs. The second handle has a pool of its own, in a far time zone.

use std::time::Duration;

use libtest_mimic::Failed;
use post_once::testkit::journal::{CASES, Subject, case};

use crate::subject::{Server, open};

pub(crate) fn cases() -> impl Iterator<Item = &'static str> {
    CASES.iter().copied()
}

pub(crate) fn run(server: &Server, name: &str) -> Result<(), Failed> {
    server.test(async |schema| {
        let [east, west] = ["Pacific/Kiritimati", "America/New_York"]
            .map(|zone| server.pool_with(|options| options.options([("TimeZone", zone)])));
        let (journal, other) = tokio::join!(open(&east, schema), open(&west, schema));
        let subject = Subject::in_real_time(journal, other, Duration::from_millis(80));
        case(name, &subject).await;
    })
}
