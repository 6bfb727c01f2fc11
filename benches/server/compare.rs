//! Variants in turn, round by round, and the table of what came of them.

use std::time::Duration;

use crate::load::Load;

const ROUND: Duration = Duration::from_millis(500);
const ROUNDS: usize = 15;

/// One of the APIs that are compared.
pub(crate) struct Variant {
    name: &'static str,
    load: Load,
    rates: Vec<f64>,
}

pub(crate) fn variant(name: &'static str, load: Load) -> Variant {
    Variant { name, load, rates: Vec::with_capacity(ROUNDS) }
}

/// Runs them and prints a table. Each is compared with those that are named.
pub(crate) async fn compare(title: &str, mut variants: Vec<Variant>, with: &[&str]) {
    let before = load_average();
    for round in 0..=ROUNDS {
        for turn in 0..variants.len() {
            let at = (round + turn) % variants.len();
            let rate = variants[at].load.rate(ROUND).await;
            // The first round warms up.
            if round > 0 {
                variants[at].rates.push(rate);
            }
        }
    }
    println!("\n{title}: {ROUNDS} rounds of {ROUND:?} each, load {before} to {}", load_average());
    print!("{:<22}{:>12}{:>14}", "", "requests/s", "µs/request");
    with.iter().for_each(|name| print!("{:>22}", format!("÷ {name}")));
    println!();
    for variant in &variants {
        let rate = median(variant.rates.clone());
        print!("{:<22}{rate:>12.0}{:>14.1}", variant.name, 1e6 / rate);
        for name in with {
            let other = variants.iter().find(|other| other.name == *name).unwrap();
            let mut ratios: Vec<_> = variant
                .rates
                .iter()
                .zip(&other.rates)
                .map(|(ours, theirs)| ours / theirs)
                .collect();
            ratios.sort_by(f64::total_cmp);
            let quarter = |quarters: usize| ratios[(ratios.len() - 1) * quarters / 4];
            let shown = format!("{:.2} ({:.2} – {:.2})", quarter(2), quarter(1), quarter(3));
            print!("{shown:>22}");
        }
        println!();
    }
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How busy the machine is: the averages of 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let shown = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    shown.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
