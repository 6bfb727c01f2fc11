//! The power fails: what `begin` acknowledged is there, what a key was answered with is there, and the file opens.
//!
//! A child begins and ends operations, and answers keys in the same file, under a recorder, preloaded, that
//! notes each write and each flush of its journal in order. Then the power is cut at random points of that
//! record: what was flushed is there; each write since is there, or is not, or is torn into sectors of which
//! some are there. The copy is opened as any journal is. That a file has been made, and has its name, is taken
//! as flushed.
//!
//! Two controls show that the cuts are cruel enough: the same record with the flushes of commits left
//! out, which is what `synchronous = NORMAL` does, loses operations; with none at all it loses them or
//! does not open.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};
use post_once::journal::rusqlite::Connection;
use post_once::journal::rusqlite::config::DbConfig;
use post_once::journal::{Inserted, Journal, SqliteJournal, State, To};
use post_once::testkit::journal::{draft, list, outcome};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::child::Role;
use crate::{how_many, random, recorder, runtime};

/// So many operations are begun, by so many at once: enough for several checkpoints.
const OPERATIONS: usize = 2_400;
const AT_ONCE: usize = 4;
const SECTOR: usize = 512;

pub(crate) fn trials() -> Vec<Trial> {
    vec![recorder::trial("power::no_acknowledged_begin_is_lost_and_every_cut_opens", || {
        let folder = tempfile::tempdir()?;
        // A disk in memory, if there is one, for the copies, which are many.
        let copies = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        cut_and_check(folder.path(), copies.path())
    })]
}

/// In the child: begins and ends operations, and writes down what was acknowledged.
pub(crate) fn record(path: &Path) {
    let acknowledged = fs::File::create(path.with_extension("journal.ack")).unwrap();
    let told = |what: &str, key: &str| {
        (&acknowledged).write_all(format!("{what} {key}").as_bytes()).unwrap();
    };
    runtime().block_on(async {
        let journal = SqliteJournal::open(path).await.unwrap();
        #[cfg(feature = "server")]
        let keys = crate::keys::Keys::open(path).await;
        let one_after_the_other = async |lane: usize| {
            for number in (lane..OPERATIONS).step_by(AT_ONCE) {
                let mut begun = draft(None, vec![b'x'; number * 7919 % 6000]);
                begun.key = format!("operation-{number}");
                let lease = std::time::Duration::from_secs(1000);
                let Inserted::New(claim) = journal.insert(&begun, lease).await.unwrap() else {
                    panic!("without a name nothing is found")
                };
                told("begun", &begun.key);
                if number % 3 > 0 {
                    let held = journal.finish(&claim, &outcome(To::Completed)).await.unwrap();
                    assert_eq!(held, post_once::journal::Held::Yes(()));
                    told("ended", &begun.key);
                }
                #[cfg(feature = "server")]
                if number % 12 == 0 {
                    keys.answer(&begun.key).await;
                    told("answered", &begun.key);
                }
            }
        };
        let lanes: [_; AT_ONCE] = std::array::from_fn(one_after_the_other);
        crate::child::all(lanes).await;
    });
    // As if it was killed: nothing is tidied up.
    std::process::exit(0);
}

fn cut_and_check(folder: &Path, copies: &Path) -> Result<(), Failed> {
    let journal = folder.join("recorded.journal");
    let child = Role::Recorder { path: journal.clone() };
    let recorded = recorder::under(child.command(), folder, &journal)?.status()?;
    assert!(recorded.success());
    let log = fs::read(folder.join("recorded.journal.log"))?;
    let record = parse(&log);
    let count =
        |kind, file| record.iter().filter(|event| event.kind == kind && event.file == file).count();
    println!(
        "recorded: {} writes and {} flushes of the log, {} and {} of the file, {} acknowledgements",
        count(b'W', b'w'),
        count(b'S', b'w'),
        count(b'W', b'd'),
        count(b'S', b'd'),
        count(b'W', b'a')
    );
    assert!(count(b'S', b'd') >= 2, "the log was never moved into the file");

    let cuts = how_many("POST_ONCE_CRASH_CUTS", 200) as usize;
    let mut random = random();
    let full = Flushes::All.cut(&record, cuts, copies, &mut random);
    let normal = Flushes::NotOfCommits.cut(&record, cuts / 10, copies, &mut random);
    let none = Flushes::None.cut(&record, cuts / 10, copies, &mut random);
    println!("{:<22} {:>6} {:>6} {:>8} {:>8}", "flushes", "cuts", "sound", "lossy", "broken");
    for (name, found) in [("all", &full), ("not of commits", &normal), ("none", &none)] {
        let Found { sound, lossy, broken, .. } = found;
        println!("{name:<22} {:>6} {sound:>6} {lossy:>8} {broken:>8}", sound + lossy + broken);
    }
    assert_eq!(full.sound, cuts, "{:?}", full.first);
    assert!(normal.lossy > 0, "the cuts are not cruel enough: {normal:?}");
    assert!(none.lossy + none.broken > 0, "the cuts are not cruel enough: {none:?}");
    Ok(())
}

/// One thing that the recorder noted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Noted<'a> {
    /// `W` a write, `T` a new length, `S` a flush.
    pub(crate) kind: u8,
    /// `d` the database, `w` its log, `a` what was acknowledged.
    pub(crate) file: u8,
    thread: u32,
    offset: usize,
    bytes: &'a [u8],
}

pub(crate) fn parse(mut log: &[u8]) -> Vec<Noted<'_>> {
    let mut record = Vec::new();
    while let Some((head, rest)) = log.split_at_checked(24) {
        let number = |at: usize| {
            usize::try_from(i64::from_ne_bytes(head[at..at + 8].try_into().unwrap())).unwrap()
        };
        let (bytes, rest) = rest.split_at(number(16));
        let thread = u32::from_ne_bytes(head[4..8].try_into().unwrap());
        record.push(Noted { kind: head[0], file: head[1], thread, offset: number(8), bytes });
        log = rest;
    }
    record
}

/// Which flushes of the record are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushes {
    All,
    /// Of the log only those before a checkpoint, and of its head when it is begun anew.
    NotOfCommits,
    None,
}

/// What came of the cuts.
#[derive(Debug, Default)]
struct Found {
    sound: usize,
    /// They open, and something that was acknowledged is not there.
    lossy: usize,
    /// They do not open, or are damaged.
    broken: usize,
    first: Option<String>,
}

impl Flushes {
    fn cut(self, record: &[Noted<'_>], cuts: usize, folder: &Path, random: &mut SmallRng) -> Found {
        let first = record.iter().position(|event| event.file == b'a').unwrap();
        let mut points: Vec<_> =
            (0..cuts).map(|_| random.random_range(first..record.len())).collect();
        points.sort_unstable();
        let mut disk = Disk::default();
        let mut done = 0;
        let mut found = Found::default();
        for (number, point) in points.into_iter().enumerate() {
            for at in done..=point {
                let event = record[at];
                disk.note(event, event.kind == b'S' && self.believes(record, at));
            }
            done = point + 1;
            let copy = folder.join(format!("cut-{self:?}-{number}.journal"));
            let mut random = SmallRng::seed_from_u64(random.random());
            disk.lose_power(&copy, &mut random);
            match disk.check(&copy) {
                Ok(()) => found.sound += 1,
                Err(wrong) => {
                    match &wrong {
                        Wrong::Lossy(_) => found.lossy += 1,
                        Wrong::Broken(_) => found.broken += 1,
                    }
                    found.first.get_or_insert(format!("cut after {point}: {wrong:?}"));
                }
            }
            for suffix in ["", "-wal", "-shm"] {
                let _ = fs::remove_file(with(&copy, suffix));
            }
        }
        found
    }

    fn believes(self, record: &[Noted<'_>], at: usize) -> bool {
        let checkpoints = |thread| {
            let mut begun = record.iter().skip_while(|event| event.file != b'a');
            begun.any(|event| event.file == b'd' && event.thread == thread)
        };
        let of_a_head = || {
            let before = record[..at].iter().rev().find(|event| event.file == b'w');
            before.is_some_and(|event| event.kind == b'W' && event.offset == 0)
        };
        match self {
            Flushes::All => true,
            Flushes::None => false,
            Flushes::NotOfCommits => {
                record[at].file == b'd' || of_a_head() || checkpoints(record[at].thread)
            }
        }
    }
}

/// A disk with a cache that loses its content.
#[derive(Debug, Default)]
struct Disk<'a> {
    files: HashMap<u8, File<'a>>,
    /// The operations that were acknowledged as begun, and as ended.
    begun: HashSet<&'a str>,
    ended: HashSet<&'a str>,
    /// The keys of the server half that were answered.
    answered: HashSet<&'a str>,
}

#[derive(Debug, Default)]
struct File<'a> {
    /// What is on the disk.
    flushed: Vec<u8>,
    /// What is not yet.
    cached: Vec<Noted<'a>>,
}

#[derive(Debug)]
pub(crate) enum Wrong {
    Lossy(#[expect(dead_code, reason = "it is shown")] String),
    Broken(#[expect(dead_code, reason = "it is shown")] String),
}

impl<'a> Disk<'a> {
    fn note(&mut self, event: Noted<'a>, believed: bool) {
        if event.file == b'a' {
            let (what, key) = std::str::from_utf8(event.bytes).unwrap().split_once(' ').unwrap();
            let told = match what {
                "begun" => &mut self.begun,
                "ended" => &mut self.ended,
                _ => &mut self.answered,
            };
            told.insert(key);
            return;
        }
        let file = self.files.entry(event.file).or_default();
        if event.kind != b'S' {
            file.cached.push(event);
        } else if believed {
            for event in std::mem::take(&mut file.cached) {
                apply(&mut file.flushed, event, |_| true);
            }
        }
    }

    /// Writes what is left of each file beside the others.
    fn lose_power(&self, copy: &Path, random: &mut SmallRng) {
        for (name, suffix) in [(b'd', ""), (b'w', "-wal")] {
            let Some(file) = self.files.get(&name) else { continue };
            let mut left = file.flushed.clone();
            // Now and then nearly all of the cache is written, and now and then nearly nothing.
            let kept: f64 = [0.02, 0.5, 0.9, 0.98][random.random_range(0..4)];
            for event in &file.cached {
                let torn = random.random_bool(0.3);
                let whole = random.random_bool(kept);
                apply(&mut left, *event, |_| if torn { random.random_bool(kept) } else { whole });
            }
            fs::write(with(copy, suffix), left).unwrap();
        }
    }

    /// Opens what is left, as after any crash.
    fn check(&self, copy: &Path) -> Result<(), Wrong> {
        let broken = |error: &dyn std::error::Error| Wrong::Broken(error.to_string());
        let (rows, connection) = runtime().block_on(async {
            let journal = SqliteJournal::open(copy).await.map_err(|error| broken(&error))?;
            let rows = journal.list(&list([], None, None, u32::MAX)).await;
            let connection = Connection::open(copy).map_err(|error| broken(&error))?;
            // It goes last, and leaves the log where it is: moving it into the file takes long.
            let kept = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
            kept.map_err(|error| broken(&error))?;
            journal.close().await;
            #[cfg(feature = "server")]
            crate::keys::check(copy, &self.answered).await?;
            Ok((rows.map_err(|error| broken(&error))?, connection))
        })?;
        let sound = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0));
        let sound: String = sound.map_err(|error| broken(&error))?;
        if sound != "ok" {
            return Err(Wrong::Broken(sound));
        }
        let rows: HashMap<_, _> =
            rows.iter().map(|row| (row.draft.key.as_str(), row.state)).collect();
        for key in &self.begun {
            if !rows.contains_key(key) {
                return Err(Wrong::Lossy(format!("{key} was begun")));
            }
        }
        for key in &self.ended {
            if rows.get(key) != Some(&State::Completed) {
                return Err(Wrong::Lossy(format!("{key} had ended")));
            }
        }
        Ok(())
    }
}

/// Does to an image what was noted; of a write the sectors that are kept.
fn apply(image: &mut Vec<u8>, event: Noted<'_>, mut keep: impl FnMut(usize) -> bool) {
    if event.kind == b'T' {
        if keep(0) {
            image.resize(event.offset, 0);
        }
        return;
    }
    let end = event.offset + event.bytes.len();
    let mut at = event.offset;
    while at < end {
        let until = end.min((at / SECTOR + 1) * SECTOR);
        if keep(at) {
            if image.len() < until {
                image.resize(until, 0);
            }
            image[at..until].copy_from_slice(&event.bytes[at - event.offset..until - event.offset]);
        }
        at = until;
    }
}

fn with(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}
