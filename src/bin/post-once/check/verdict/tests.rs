//! What each pair of answers means, as tables.

use super::*;
use Verdict::{Broken, Kept, NotOffered, NotTried};

const PLAIN: Ground = Ground { telling: true, marks: false };
const BLIND: Ground = Ground { telling: false, marks: false };
const MARKING: Ground = Ground { telling: true, marks: true };

/// `201 a`: status and body; with `!` before it marked as a replay, with `~` told to wait; `-` is lost.
fn sent(text: &str) -> Sent {
    if text == "-" {
        return Err("it took too long".to_owned());
    }
    let plain = text.trim_start_matches(['!', '~']);
    let (status, body) = plain.split_once(' ').unwrap_or((plain, ""));
    Ok(Answer {
        status: status.parse().unwrap(),
        headers: HeaderMap::new(),
        body: body.into(),
        marked: text.starts_with('!'),
        in_progress: text.starts_with('~'),
    })
}

fn pair(pair: Pair, [one, two]: [&str; 2], effects: Option<u64>, ground: Ground) -> Verdict {
    pair.finding([&sent(one), &sent(two)], None, effects, ground).verdict
}

#[test]
fn each_pair_has_its_own_verdict_on_what_became_of_the_second() {
    use Pair::{Changed, OtherPath, Quoted, Reordered, Twice};
    let pairs = [Twice, Changed, Reordered, Quoted, OtherPath];
    for (answers, effects, expected) in [
        // Replayed.
        (["201 a", "201 a"], None, [Kept, NotOffered, Kept, Kept, NotOffered]),
        (["201 a", "!201 a"], Some(1), [Kept, NotOffered, Kept, Kept, NotOffered]),
        // Carried out.
        (["201 a", "201 b"], None, [Broken, Broken, Broken, NotOffered, NotOffered]),
        (["201 a", "201 a"], Some(2), [Broken, Broken, Broken, NotOffered, NotOffered]),
        (["201 a", "!201 a"], Some(2), [Broken, Broken, Broken, NotOffered, NotOffered]),
        // Refused.
        (["201 a", "422 x"], None, [NotOffered, Kept, NotOffered, NotOffered, Kept]),
        (["201 a", "409 x"], Some(1), [NotOffered, Kept, NotOffered, NotOffered, Kept]),
        // Another answer, and no second effect.
        (["201 a", "200 b"], Some(1), [NotOffered; 5]),
        (["201 a", "!200 b"], None, [NotOffered; 5]),
        // Nothing can be told.
        (["201 a", "429 x"], None, [NotTried; 5]),
        (["201 a", "500 x"], None, [NotTried; 5]),
        (["201 a", "302 x"], None, [NotTried; 5]),
        (["500 a", "500 a"], None, [NotTried; 5]),
        (["-", "201 a"], None, [NotTried; 5]),
        (["201 a", "-"], None, [NotTried; 5]),
    ] {
        let found = pairs.map(|trial| pair(trial, answers, effects, PLAIN));
        assert_eq!(found, expected, "{answers:?} {effects:?}");
    }
}

#[test]
fn where_all_keys_are_answered_alike_only_a_marker_or_a_count_tells() {
    for (answers, effects, expected) in [
        (["200 ok", "200 ok"], None, NotTried),
        (["200 ok", "!200 ok"], None, Kept),
        (["200 ok", "200 ok"], Some(1), Kept),
        (["200 ok", "200 ok"], Some(2), Broken),
    ] {
        assert_eq!(pair(Pair::Twice, answers, effects, BLIND), expected, "{answers:?} {effects:?}");
    }
}

#[test]
fn a_refusal_counts_only_of_what_is_accepted_under_a_key_of_its_own() {
    for (control, expected) in [("201 b", Kept), ("404", NotTried), ("-", NotTried)] {
        let sents = ["201 a", "404"].map(sent);
        let control = sent(control);
        for pair in [Pair::Changed, Pair::OtherPath] {
            let found = pair.finding(sents.each_ref(), Some(&control), None, PLAIN);
            assert_eq!(found.verdict, expected, "{control:?}");
        }
    }
}

#[test]
fn the_same_json_is_the_same_answer_and_another_status_is_not() {
    for (answers, expected) in [
        ([r#"201 {"a":1,"b":2}"#, r#"201 { "b": 2, "a": 1 }"#], Kept),
        ([r#"201 {"a":1}"#, r#"200 {"a":1}"#], Broken),
        (["201 ", "201 "], Kept),
    ] {
        assert_eq!(pair(Pair::Twice, answers, None, PLAIN), expected, "{answers:?}");
    }
}

#[test]
fn of_two_at_once_one_waits_or_gets_the_same_answer_in_whichever_order() {
    for (answers, effects, ground, expected) in [
        (["201 a", "~409"], None, PLAIN, Kept),
        (["201 a", "~409"], Some(1), PLAIN, Kept),
        (["201 a", "~409"], Some(2), PLAIN, Broken),
        (["201 a", "201 a"], None, PLAIN, Kept),
        (["201 a", "!201 a"], None, BLIND, Kept),
        (["201 a", "201 a"], None, BLIND, NotTried),
        (["201 a", "201 a"], Some(1), BLIND, Kept),
        (["201 a", "201 a"], Some(2), BLIND, Broken),
        (["201 a", "201 b"], None, PLAIN, Broken),
        (["201 a", "201 b"], Some(1), PLAIN, NotOffered),
        (["201 a", "409"], None, PLAIN, NotOffered),
        (["201 a", "503"], None, PLAIN, NotTried),
        (["~409", "~409"], None, PLAIN, NotTried),
        (["500", "503"], None, PLAIN, NotTried),
        (["201 a", "-"], None, PLAIN, NotTried),
    ] {
        let [one, two] = answers.map(sent);
        for order in [[&one, &two], [&two, &one]] {
            let found = at_once(order, effects, ground).verdict;
            assert_eq!(found, expected, "{answers:?} {effects:?} {ground:?}");
        }
    }
}

#[test]
fn after_a_failure_the_retry_is_carried_out() {
    for (answers, expected) in [
        (["503", "201 a"], Kept),
        (["500", "!500"], NotOffered),
        (["500", "409"], Broken),
        (["500", "422"], Broken),
        (["500", "500"], NotTried),
        (["503", "429"], NotTried),
        (["201 a", "201 a"], NotTried),
        (["503", "-"], NotTried),
        (["-", "201 a"], NotTried),
    ] {
        let sents = answers.map(sent);
        assert_eq!(after_failure(sents.each_ref()).verdict, expected, "{answers:?}");
    }
}

#[test]
fn after_a_cut_the_retries_get_one_answer_for_one_effect() {
    for (answers, effects, ground, expected) in [
        (["!201 a", "!201 a"], None, MARKING, Kept),
        (["201 a", "!201 a"], Some(1), MARKING, Kept),
        // Carried out by the retry; perhaps by the cut request too.
        (["201 a", "!201 a"], None, MARKING, NotTried),
        (["201 a", "!201 a"], Some(2), MARKING, Broken),
        (["!201 a", "!201 a"], Some(2), MARKING, Broken),
        (["201 a", "201 a"], None, PLAIN, Kept),
        (["200 ok", "200 ok"], None, BLIND, NotTried),
        (["200 ok", "200 ok"], Some(1), BLIND, Kept),
        (["201 a", "201 b"], None, PLAIN, Broken),
        (["201 a", "201 b"], Some(1), PLAIN, Broken),
        (["~409", "~409"], None, PLAIN, Broken),
        (["422", "422"], Some(1), PLAIN, Broken),
        (["201 a", "409"], None, PLAIN, Broken),
        (["503", "503"], None, PLAIN, NotTried),
        (["201 a", "429"], None, PLAIN, NotTried),
        (["-", "201 a"], None, PLAIN, NotTried),
    ] {
        let sents = answers.map(sent);
        let found = after_cut(sents.each_ref(), effects, ground).verdict;
        assert_eq!(found, expected, "{answers:?} {effects:?} {ground:?}");
    }
}

#[test]
fn one_bad_key_that_is_processed_is_enough() {
    for (answers, expected) in [
        (&["400"][..], Kept),
        (&["428"], Kept),
        (&["201"], NotOffered),
        (&["429"], NotTried),
        (&["400", "400"], Kept),
        (&["400", "201"], NotOffered),
        (&["500", "201"], NotOffered),
        (&["400", "500"], NotTried),
        (&["-", "400"], NotTried),
    ] {
        let sents: Vec<_> = answers.iter().map(|answer| ("it", sent(answer))).collect();
        assert_eq!(refusals(&sents).verdict, expected, "{answers:?}");
    }
}

#[test]
fn what_was_seen_names_statuses_and_effects() {
    let seen = |answers: [&str; 2], effects| {
        let sents = answers.map(sent);
        Pair::Changed.finding(sents.each_ref(), None, effects, PLAIN).seen
    };
    assert_eq!(seen(["201 a", "422"], None), "the changed body was refused with 422");
    let two = "the changed body was carried out: 2 effects counted";
    assert_eq!(seen(["201 a", "201 a"], Some(2)), two);
    let replayed = "the changed body got the first answer again (201), not marked";
    assert_eq!(seen(["201 a", "201 a"], None), replayed);
}
