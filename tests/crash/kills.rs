//! Processes that are killed: what `begin` acknowledged happens exactly once.
//!
//! An *episode* is a journal of its own and some processes on it, one or two at a time: workers that post,
//! resumers that go on. Each is killed, by itself at a point or by us at any time, until the episode has
//! had its kills. Then two resumers race to the end. The witness is the server, in a process of its own.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use post_once::journal::State;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::child::{Role, Task, WORK};
use crate::point::{Plan, Point};
use crate::server::{Seen, ServerProcess, operation};
use crate::store::Store;
use crate::{how_many, pause, random, runtime};

const KILLS_PER_EPISODE: u32 = 7;
const EPISODES_AT_ONCE: usize = 6;
const SIGKILL: i32 = 9;

pub(crate) fn trials() -> Vec<Trial> {
    vec![Trial::test("kills::sqlite_every_begun_operation_happens_exactly_once", || {
        let folder = tempfile::tempdir()?;
        kill_and_check(|number| Store::Sqlite(folder.path().join(format!("{number}.journal"))))
    })]
}

/// Runs all episodes, each with a store of its own, and checks each against what the server saw (O-03).
pub(crate) fn kill_and_check(store: impl Fn(usize) -> Store + Sync) -> Result<(), Failed> {
    let server = ServerProcess::start(&Role::Server);
    let kills = how_many("POST_ONCE_CRASH_KILLS", 56);
    let episodes = kills.div_ceil(KILLS_PER_EPISODE) as usize;
    let seeds: Vec<u64> = {
        let mut random = random();
        (0..episodes).map(|_| random.random()).collect()
    };
    let decks =
        [Deck::new("worker", Point::OF_A_WORKER), Deck::new("resumer", Point::OF_A_RESUMER)];
    let (next, ended) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..EPISODES_AT_ONCE {
            scope.spawn(|| {
                while let number = next.fetch_add(1, Ordering::Relaxed)
                    && number < episodes
                {
                    let mut episode =
                        Episode::new(number, store(number), &server, &decks, seeds[number]);
                    episode.run();
                    ended.lock().unwrap().push(episode);
                }
            });
        }
    });
    let (ended, seen) = (ended.into_inner().unwrap(), server.tells::<Seen>());
    let mut table: BTreeMap<_, u32> = BTreeMap::new();
    for kill in ended.iter().flat_map(|episode| &episode.kills) {
        *table.entry(*kill).or_default() += 1;
    }
    let mut operations = 0;
    for episode in &ended {
        operations += episode.check(&seen)?;
    }
    println!("{:<10} {:<10} kills", "process", "point");
    for ((process, point), count) in &table {
        println!("{process:<10} {:<10} {count:>5}", format!("{point:?}"));
    }
    let all: u32 = table.values().sum();
    println!(
        "{all} kills in {episodes} episodes; {operations} operations, each with one key, one effect \
         and a final row; {} requests",
        seen.requests.len()
    );
    assert_eq!(seen.effects.len(), operations, "no effect is without a row");
    assert!(all >= kills, "{all} kills");
    let points = Point::OF_A_WORKER.len() + Point::OF_A_RESUMER.len();
    assert!(kills < 50 || table.len() == points, "a point was never reached");
    Ok(())
}

/// The points of one kind of process, which take their turn over all episodes.
struct Deck {
    of: &'static str,
    points: &'static [Point],
    left: Mutex<Vec<Point>>,
}

impl Deck {
    fn new(of: &'static str, points: &'static [Point]) -> Deck {
        Deck { of, points, left: Mutex::default() }
    }

    fn draw(&self) -> Point {
        let mut left = self.left.lock().unwrap();
        if left.is_empty() {
            left.extend(self.points);
            left.push(Point::AnyTime);
        }
        left.pop().unwrap()
    }

    /// It was not reached.
    fn put_back(&self, point: Point) {
        self.left.lock().unwrap().push(point);
    }
}

struct Episode<'a> {
    name: String,
    store: Store,
    server: &'a ServerProcess,
    decks: &'a [Deck; 2],
    random: SmallRng,
    /// The workers so far.
    workers: Vec<String>,
    kills: Vec<(&'static str, Point)>,
    /// What the children said: acknowledged operations, and those whose caller had the answer.
    said: Vec<(String, String)>,
}

impl<'a> Episode<'a> {
    fn new(
        number: usize,
        store: Store,
        server: &'a ServerProcess,
        decks: &'a [Deck; 2],
        seed: u64,
    ) -> Episode<'a> {
        Episode {
            name: format!("episode{number}"),
            store,
            server,
            decks,
            random: SmallRng::seed_from_u64(seed),
            workers: Vec::new(),
            kills: Vec::new(),
            said: Vec::new(),
        }
    }

    fn run(&mut self) {
        let mut step = 0;
        while self.kills.len() < KILLS_PER_EPISODE as usize {
            step += 1;
            assert!(step < 40, "{}: {:?} of {step} steps were kills", self.name, self.kills);
            // Now and then two processes share the journal.
            let roles = match step % 4 {
                1 => vec![self.worker()],
                2 => vec![self.resumer()],
                3 => vec![self.worker(), self.resumer()],
                _ => vec![self.resumer(), self.resumer()],
            };
            let running: Vec<_> = roles.iter().map(|(role, ..)| role.spawn()).collect();
            for (child, (_, deck, point)) in running.into_iter().zip(roles) {
                let limit = match point {
                    Point::AnyTime => Duration::from_millis(self.random.random_range(5..300)),
                    _ => Duration::from_secs(60),
                };
                if self.end(child, limit) == Some(SIGKILL) {
                    self.kills.push((deck.of, point));
                } else {
                    deck.put_back(point);
                }
            }
        }
        let resumer = Role::Resumer { task: self.task(None) };
        for child in [resumer.spawn(), resumer.spawn()] {
            let signal = self.end(child, Duration::from_secs(60));
            assert_eq!(signal, None, "{}: a resumer does not come to an end", self.name);
        }
    }

    fn worker(&mut self) -> (Role, &'a Deck, Point) {
        let name = format!("{}-worker{}", self.name, self.workers.len());
        let point = self.decks[0].draw();
        let most = if point == Point::Waiting { 3 } else { 24 };
        let again = self.workers.clone();
        self.workers.push(name.clone());
        let task = self.task(Some((point, most)));
        (Role::Worker { task, name, again }, &self.decks[0], point)
    }

    fn resumer(&mut self) -> (Role, &'a Deck, Point) {
        let point = self.decks[1].draw();
        (Role::Resumer { task: self.task(Some((point, 8))) }, &self.decks[1], point)
    }

    fn task(&mut self, kill: Option<(Point, u32)>) -> Task {
        let kill = kill.map(|(point, most)| {
            let into = match point {
                Point::Finishing => Duration::from_millis(3),
                _ => WORK,
            };
            let into = into.mul_f64(self.random.random_range(0.0..0.9));
            Plan { point, nth: self.random.random_range(1..=most), into }
        });
        Task { store: self.store.clone(), url: self.server.url.clone(), kill }
    }

    /// Waits for the end of a child, which is killed after the limit. The signal that ended it.
    fn end(&mut self, mut child: Child, limit: Duration) -> Option<i32> {
        let mut waited = Duration::ZERO;
        while waited < limit && child.try_wait().unwrap().is_none() {
            let step = Duration::from_millis(2);
            pause(step);
            waited += step;
        }
        // It may have ended in the meantime.
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        let said = lines.lines().filter_map(|line| line.split_once(' '));
        self.said.extend(said.map(|(what, operation)| (what.to_owned(), operation.to_owned())));
        let signal = output.status.signal();
        assert!(output.status.success() || signal == Some(SIGKILL), "{}", output.status);
        signal
    }

    /// One row, one key and one effect for each operation: how many there are.
    fn check(&self, seen: &Seen) -> Result<usize, Failed> {
        let rows = runtime().block_on(self.store.rows());
        let mut keys = HashMap::new();
        for row in &rows {
            let operation = operation(&row.draft.request.body);
            let before = keys.insert(operation.clone(), row.draft.key.clone());
            if row.state != State::Completed || before.is_some() {
                return Err(format!("{operation}: {:?}, key before {before:?}", row).into());
            }
        }
        for (what, operation) in &self.said {
            let lost = !keys.contains_key(operation);
            if lost {
                return Err(format!("{operation} was {what}, and has no row").into());
            }
        }
        let mut effects: HashMap<_, u32> = HashMap::new();
        for (key, operation) in self.own(&seen.effects) {
            if keys.get(operation) != Some(key) {
                return Err(format!("{operation} happened under {key}, of no row").into());
            }
            *effects.entry(operation).or_default() += 1;
        }
        for operation in keys.keys() {
            let effects = effects.get(operation).copied().unwrap_or_default();
            if effects != 1 {
                return Err(format!("{operation} has {effects} effects").into());
            }
        }
        let requests: HashSet<_> = self.own(&seen.requests).collect();
        if requests.len() != keys.len() {
            return Err(format!("{}: {requests:?} were sent for {keys:?}", self.name).into());
        }
        Ok(keys.len())
    }

    fn own<'s>(&self, of: &'s [(String, String)]) -> impl Iterator<Item = &'s (String, String)> {
        let prefix = format!("{}-", self.name);
        of.iter().filter(move |(_, operation)| operation.starts_with(&prefix))
    }
}
