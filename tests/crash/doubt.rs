//! A flush that fails in the middle of a commit: nobody can know whether it was written.
//!
//! A child works on a journal whose flushes fail from some moment on, which is told as *in doubt*. Then it is
//! killed, or the disk is mended and it goes on, or closes the journal. Afterwards what was in doubt is in
//! the file, and is gone on with, once; or it is not there, and was not sent and never will be.

use std::collections::HashMap;
use std::error::Error as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use http::Method;
use libtest_mimic::{Failed, Trial};
use post_once::client::OperationBuilder;
use post_once::clock::{Clock, SystemClock};
use post_once::journal::{Journal, JournalError, Record, SqliteJournal, State};
use post_once::observer::Event;
use post_once::testkit::Server;
use post_once::testkit::journal::list;
use post_once::{Client, Effect, Error, Report};
use serde::{Deserialize, Serialize};

use crate::child::{Role, all};
use crate::server::Seen;
use crate::{recorder, runtime};

const LEASE: Duration = Duration::from_secs(1);
/// They begin at once.
const OPERATIONS: [&str; 4] = ["one", "two", "three", "four"];

/// What the child does while flushes fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    Send,
    Enqueue,
    /// It ends what was sent before.
    Finish,
}

/// What becomes of it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Then {
    Killed,
    Repeats,
    Closes,
}

pub(crate) fn trials() -> Vec<Trial> {
    let trial = |name: &str, act, thens: &'static [Then]| {
        recorder::trial(name, move || {
            thens.iter().try_for_each(|then| runtime().block_on(doubt_and_check(act, *then)))
        })
    };
    let all = &[Then::Killed, Then::Repeats, Then::Closes];
    vec![
        trial("doubt::a_begin_in_doubt_is_not_sent_and_at_most_gone_on_with", Act::Send, all),
        trial("doubt::an_enqueue_in_doubt_is_told_and_sent_at_most_once", Act::Enqueue, all),
        trial("doubt::an_end_in_doubt_leaves_the_caller_its_answer", Act::Finish, &[Then::Killed]),
    ]
}

/// In the child.
pub(crate) fn work(path: &Path, url: &str, act: Act, then: Then) {
    let broken = recorder::broken(path);
    let breaks = broken.clone();
    runtime().block_on(async {
        let journal = SqliteJournal::open(path).await.unwrap();
        let client = Client::builder().journal(journal.clone()).lease(LEASE);
        let client = client.observer(move |event: &Event<'_>| {
            if act == Act::Finish && matches!(event, Event::AttemptEnded { .. }) {
                fs::write(&breaks, "").unwrap();
            }
        });
        let client = client.build().unwrap();
        let once = |operation| once(&client, url, operation);
        if act != Act::Finish {
            once("before").send().await.unwrap();
            fs::write(&broken, "").unwrap();
        }
        all(OPERATIONS.map(|operation| async move {
            let key = match act {
                Act::Send => in_doubt(&once(operation).send().await.unwrap_err()),
                Act::Enqueue => in_doubt(&once(operation).enqueue().await.unwrap_err()),
                Act::Finish => answered(&once(operation).send().await.unwrap()),
            };
            println!("{operation} {key}");
        }))
        .await;
        fs::remove_file(&broken).unwrap();
        match then {
            Then::Killed => {}
            Then::Repeats => {
                for operation in OPERATIONS {
                    once(operation).send().await.unwrap();
                }
            }
            Then::Closes => journal.close().await,
        }
        // As if it was killed: nothing is tidied up.
        std::process::exit(0);
    });
}

/// The key of an answer.
fn answered(answer: &reqwest::Response) -> String {
    assert_eq!(answer.status(), 201);
    Report::of(answer).unwrap().key().unwrap().to_string()
}

fn once<'a>(client: &'a Client, url: &str, operation: &str) -> OperationBuilder<'a> {
    let body = serde_json::json!({ "operation": operation });
    client.once(Method::POST, url).operation(operation).json(&body)
}

/// It says that it is in doubt, and with which key to ask again: the key.
fn in_doubt(error: &Error) -> String {
    assert!(error.is_journal(), "{error}");
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    assert!(matches!(cause, Some(JournalError::InDoubt(_))), "{error:?}");
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    let key = error.key().unwrap().to_string();
    let text = error.to_string();
    assert!(text.contains("may have happened") && text.ends_with(&key), "{text}");
    key
}

async fn doubt_and_check(act: Act, then: Then) -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("doubtful.journal");
    // Late enough that all are begun before the first has ended.
    let server = Server::builder().delay(Duration::from_millis(200)).start().await?;
    let url = server.url("/v1/charges");
    let role = Role::Doubter { path: path.clone(), url: url.clone(), act, then };
    let mut child = recorder::under(role.command(), folder.path(), &path)?;
    let child = child.stdout(Stdio::piped()).spawn()?;
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output()).await??;
    let told = String::from_utf8(ended.stdout)?;
    assert!(ended.status.success(), "{act:?} {then:?}: {told}");
    let told: HashMap<_, _> = told.lines().filter_map(|line| line.split_once(' ')).collect();
    assert_eq!(told.len(), OPERATIONS.len());
    let sent = |seen: &Seen, key: &str| seen.requests.iter().filter(|(k, _)| k == key).count();
    let before = Seen::by(&server);
    for key in told.values() {
        assert_eq!(sent(&before, key), usize::from(act == Act::Finish), "{before:?}");
    }

    SystemClock.sleep(LEASE).await;
    let journal = SqliteJournal::open(&path).await?;
    let rows = async || journal.list(&list([], None, None, u32::MAX)).await.unwrap();
    let found = rows().await;
    let client = Client::builder().journal(journal.clone()).build()?;
    let pass = async || client.resumer().origin(&url).once().await.unwrap();
    let pending = found.iter().filter(|row| row.state == State::Pending).count() as u64;
    assert_eq!(pass().await.completed, pending);
    assert_eq!(pass().await, Default::default());
    let after = Seen::by(&server);
    assert!(rows().await.iter().all(|row| row.state == State::Completed));
    let mut there = 0;
    for (operation, key) in &told {
        let of_it: Vec<_> = found.iter().filter(|row| is_named(row, operation)).collect();
        let of_key = of_it.iter().filter(|row| row.draft.key == **key).count();
        there += of_key;
        match then {
            Then::Killed => assert!(of_it.len() <= 1, "{of_it:?}"),
            Then::Repeats => assert_eq!((of_it.len(), of_key), (1, 0)),
            Then::Closes => assert_eq!(of_it.len(), 0),
        }
        let effects = after.effects.iter().filter(|(_, name)| name == operation).count();
        assert_eq!(effects, of_it.len(), "{operation}: {after:?}");
        let requests = sent(&after, key) - sent(&before, key);
        let resumed = of_it.iter().filter(|row| row.state == State::Pending).count();
        assert_eq!(requests, resumed, "{operation}: {after:?}");
    }
    println!(
        "{act:?}, {then:?}: {there} of {} were in the file, {pending} to go on with",
        told.len()
    );
    assert!(then != Then::Killed || there > 0, "nothing was written before the flush that failed");
    server.stop().await;
    Ok(())
}

fn is_named(row: &Record, operation: &str) -> bool {
    row.draft.name.as_deref() == Some(operation)
}
