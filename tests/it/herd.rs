//! A thousand clients and one server that can serve a few at a time: what jitter is for, in virtual
//! time and from a fixed seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use post_once::retry::{Delay, ceiling};
use rand::SeedableRng;
use rand::rngs::SmallRng;

const CLIENTS: u32 = 1_000;
/// What the server can take in one tick; it refuses the rest.
const CAPACITY: usize = 10;
const TICK: Duration = Duration::from_millis(50);
/// The defaults of the policy.
const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Jitter {
    /// Uniform up to the ceiling.
    Full,
    /// Half the ceiling, and uniform up to the other half.
    Equal,
    /// The ceiling.
    None,
}

impl Jitter {
    /// The delay before retry `n`, 0 for the first.
    fn delay(self, n: u32) -> Delay {
        let ceiling = ceiling(BASE, CAP, n);
        match self {
            Jitter::Full => Delay { floor: Duration::ZERO, spread: ceiling },
            Jitter::Equal => Delay { floor: ceiling / 2, spread: ceiling / 2 },
            Jitter::None => Delay { floor: ceiling, spread: Duration::ZERO },
        }
    }
}

/// What it took until all were served.
#[derive(Debug)]
struct Outcome {
    calls: usize,
    completed: Duration,
}

/// All clients call at once, and again after each refusal, until they are served.
fn simulate(jitter: Jitter, seed: u64) -> Outcome {
    let rng = &mut SmallRng::seed_from_u64(seed);
    // The calls by tick, each with the number of those before it.
    let mut calls = BTreeMap::from([(0, vec![0; CLIENTS as usize])]);
    let mut outcome = Outcome { calls: 0, completed: Duration::ZERO };
    while let Some((tick, arrived)) = calls.pop_first() {
        outcome.calls += arrived.len();
        outcome.completed = TICK * tick;
        for refused in arrived.into_iter().skip(CAPACITY) {
            let wait = jitter.delay(refused).draw(rng);
            let ticks = u32::try_from(wait.as_nanos().div_ceil(TICK.as_nanos())).unwrap();
            calls.entry(tick + ticks.max(1)).or_insert_with(Vec::new).push(refused + 1);
        }
    }
    outcome
}

// O-15
#[test]
fn full_jitter_needs_fewer_calls_than_none_and_is_done_sooner() {
    println!("{CLIENTS} clients, {CAPACITY} served per {TICK:?}");
    for seed in 0..5 {
        let [full, equal, none] =
            [Jitter::Full, Jitter::Equal, Jitter::None].map(|jitter| simulate(jitter, seed));
        for (name, outcome) in [("full", &full), ("equal", &equal), ("none", &none)] {
            println!(
                "seed {seed} {name:>5}: {:>6} calls in {:?}",
                outcome.calls, outcome.completed
            );
        }
        assert!(full.calls < none.calls && equal.calls < none.calls);
        assert!(full.completed < none.completed && equal.completed < none.completed);
        assert!(full.calls >= CLIENTS as usize);
    }
}

/// Without jitter they come back together, a little fewer each time.
#[test]
fn without_jitter_every_refused_call_comes_back_in_one_herd() {
    let rounds = CLIENTS as usize / CAPACITY;
    let together: usize = (0..rounds).map(|served| CLIENTS as usize - served * CAPACITY).sum();
    assert_eq!(simulate(Jitter::None, 0).calls, together);
}

// O-15: a hint for all is a floor for each.
#[test]
fn one_hint_for_a_thousand_is_kept_by_all_and_met_by_few_at_once() {
    let rng = &mut SmallRng::seed_from_u64(1);
    let hint = Duration::from_secs(5);
    let delay = Delay { floor: hint, spread: ceiling(BASE, CAP, 3) };
    let waits: Vec<_> = (0..CLIENTS).map(|_| delay.draw(rng)).collect();
    assert!(waits.iter().all(|wait| (hint..=hint + delay.spread).contains(wait)));
    let mut by_tick = BTreeMap::new();
    for wait in &waits {
        *by_tick.entry(wait.as_millis() / TICK.as_millis()).or_insert(0) += 1;
    }
    // 12.5 expected in each of 80 ticks.
    assert!(by_tick.values().all(|calls| *calls < 35), "{by_tick:?}");
    assert!(waits.iter().collect::<BTreeSet<_>>().len() > 990, "hardly two are alike");
}
