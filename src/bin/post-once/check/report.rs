//! What is told of the trials: whether a client may retry, the nearest contract, table and JSON.

use comfy_table::{Table, presets};
use http::StatusCode;
use post_once::Contract;
use post_once::contract::Carrier;
use post_once::key::KeyFormat;
use post_once::retry::Known;
use serde_json::{Value, json};

use super::trial::{AT_ONCE, CHANGED, CUT, TWICE, Traits, Trial};
use super::verdict::{Answer, Verdict};

/// Whether a client may retry, and the sentence that says so.
pub(super) fn safety(trials: &[Trial], https: bool) -> (bool, String) {
    let with = |verdicts: &[Verdict], names: &[&'static str]| -> Vec<&str> {
        let found = trials.iter().filter(|trial| {
            names.contains(&trial.name) && verdicts.contains(&trial.finding.verdict)
        });
        found.map(|trial| trial.name).collect()
    };
    let needed: &[_] = if https { &[TWICE, AT_ONCE] } else { &[TWICE, AT_ONCE, CUT] };
    let broken = with(&[Verdict::Broken], &[TWICE, AT_ONCE, CHANGED, CUT]);
    let not_offered = with(&[Verdict::NotOffered], needed);
    let not_tried = with(&[Verdict::NotTried], needed);
    if !broken.is_empty() {
        let broken = broken.join(", ");
        return (false, format!("A client may not retry safely: broken are {broken}."));
    }
    if !not_offered.is_empty() {
        let missing = not_offered.join(", ");
        return (false, format!("A client may not retry safely: not offered are {missing}."));
    }
    if !not_tried.is_empty() {
        let missing = not_tried.join(", ");
        return (false, format!("That a client may retry safely was not shown: see {missing}."));
    }
    let cut = if https { "; a cut connection was not tried, for it is https" } else { "" };
    (true, format!("A client may retry safely, as far as these trials show{cut}."))
}

/// The preset that reads the server's answers as what they are, and carries the key where it was
/// carried. Of those that do equally well the most general.
pub(super) fn nearest(traits: &Traits, used: &Contract) -> Contract {
    let score = |preset: &Contract| {
        let reads = |answer: &Option<Answer>, known| {
            answer.as_ref().is_some_and(|answer| {
                let status = StatusCode::from_u16(answer.status).unwrap_or_default();
                preset.read(status, &answer.headers, &answer.body) == known
            })
        };
        let signals = [
            reads(&traits.replay, Known::Replayed),
            reads(&traits.in_progress, Known::InProgress),
            reads(&traits.mismatch, Known::Mismatch),
        ];
        // The draft's own words: a key in quotes, and 422 for one that was used with another body.
        let by_draft = traits.mismatch.as_ref().is_some_and(|answer| answer.status == 422);
        let quoted = preset.format() == KeyFormat::Quoted && traits.quoted && by_draft;
        let points = signals.into_iter().filter(|read| *read).count() * 2 + usize::from(quoted);
        (preset.carrier() == used.carrier(), points)
    };
    let best = |best: Contract, other: Contract| {
        if score(&other) > score(&best) { other } else { best }
    };
    Contract::presets().reduce(best).unwrap_or_default()
}

pub(super) fn text(
    trials: &[Trial],
    nearest: &Contract,
    used: &Contract,
    sentence: &str,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["", "TRIAL", "VERDICT", "SEEN"]);
    for (number, trial) in (1..).zip(trials) {
        let number = number.to_string();
        table.add_row([&*number, trial.name, trial.finding.verdict.name(), &trial.finding.seen]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let header = match used.carrier() {
        Carrier::Header(name) if nearest.carrier() != used.carrier() => {
            format!(" with --key-header {name}")
        }
        _ => String::new(),
    };
    let name = nearest.name();
    format!("{}\n\nnearest contract: {name}{header}\n{sentence}\n", table.trim_fmt())
}

pub(super) fn json(url: &str, safe: bool, trials: &[Trial], nearest: Option<&Contract>) -> String {
    let trials = trials.iter().map(|trial| {
        let (verdict, seen) = (trial.finding.verdict.name(), &trial.finding.seen);
        json!({ "name": trial.name, "verdict": verdict, "seen": seen })
    });
    let trials = Value::from_iter(trials);
    let nearest = nearest.map(Contract::name);
    format!("{}\n", json!({ "url": url, "safe": safe, "trials": trials, "nearest": nearest }))
}

#[cfg(test)]
mod tests;
