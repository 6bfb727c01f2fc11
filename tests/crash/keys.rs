//! Keys of the server half, in the file of the journal.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use libtest_mimic::Trial;
use post_once::IdempotencyKey;
use post_once::fingerprint::Fingerprint;
use post_once::server::answer::StoredAnswer;
use post_once::server::store::{Ask, ClaimStore, Claimed, Held, Holder, Name, SqliteClaims, Token};

use crate::child::Role;
use crate::power::{Wrong, parse};
use crate::{recorder, runtime};

/// So many keys are answered under the recorder.
const KEYS: usize = 100;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A store of keys.
pub(crate) struct Keys(SqliteClaims);

impl Keys {
    pub(crate) async fn open(path: &Path) -> Keys {
        Keys(SqliteClaims::open(path).await.unwrap())
    }

    /// Claims a key and answers it.
    pub(crate) async fn answer(&self, key: &str) {
        let holder = Holder::new(name(key), Token::mint());
        let fingerprint = Fingerprint::new(&Method::POST, "/orders", None, key.as_bytes());
        let ask = Ask::new(holder.clone(), fingerprint, DAY, DAY);
        let claimed = self.0.claim(&ask).await.unwrap();
        assert_eq!(claimed, Claimed::Won { run: 1, point: None });
        let body = key.to_owned().into();
        let answer = StoredAnswer::new(StatusCode::CREATED, HeaderMap::new(), Some(body));
        assert_eq!(self.0.complete(&holder, &answer, DAY).await.unwrap(), Held::Yes(()));
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    vec![recorder::trial("keys::a_request_that_goes_well_is_one_flush", || {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("keys.db");
        let child = Role::Answerer { path: path.clone() };
        assert!(recorder::under(child.command(), folder.path(), &path)?.status()?.success());
        let log = fs::read(folder.path().join("keys.db.log"))?;
        let flushes =
            parse(&log).iter().filter(|noted| (noted.kind, noted.file) == (b'S', b'w')).count();
        // A few are of the tables, and of the head of the log.
        assert!((KEYS..KEYS + 10).contains(&flushes), "{flushes} flushes for {KEYS} requests");
        Ok(())
    })]
}

/// In the child: claims keys and answers them, one after the other.
pub(crate) fn record(path: &Path) {
    runtime().block_on(async {
        let keys = Keys::open(path).await;
        for number in 0..KEYS {
            keys.answer(&format!("key-{number}")).await;
        }
        // As if it was killed: nothing is tidied up.
        std::process::exit(0);
    });
}

/// These keys were answered, and still are.
pub(crate) async fn check(copy: &Path, answered: &HashSet<&str>) -> Result<(), Wrong> {
    let broken = |error| Wrong::Broken(format!("{error}"));
    let store = SqliteClaims::open(copy).await.map_err(broken)?;
    for key in answered {
        let row = store.look(&name(key)).await.map_err(broken)?;
        let body = row.and_then(|row| row.answer).and_then(|answer| answer.body);
        if body.as_deref() != Some(key.as_bytes()) {
            return Err(Wrong::Lossy(format!("{key} was answered")));
        }
    }
    store.close().await;
    Ok(())
}

fn name(key: &str) -> Name {
    Name::new("acct_1", &IdempotencyKey::parse(key).unwrap())
}
