//! What the answers of a trial mean: pure functions, no requests.
//!
//! Two answers that are the same prove a replay only where two executions are answered differently:
//! otherwise the effects must have been counted, or the replay be marked.

use http::HeaderMap;

/// What a trial says of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Kept,
    Broken,
    NotOffered,
    NotTried,
}

impl Verdict {
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Broken => "broken",
            Verdict::NotOffered => "not offered",
            Verdict::NotTried => "not tried",
        }
    }
}

/// A verdict, and one sentence on what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    pub(super) seen: String,
}

impl Finding {
    pub(super) fn new(verdict: Verdict, seen: impl Into<String>) -> Finding {
        Finding { verdict, seen: seen.into() }
    }

    pub(super) fn not_tried(seen: impl Into<String>) -> Finding {
        Finding::new(Verdict::NotTried, seen)
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// A marker says that it is the stored answer.
    pub(super) marked: bool,
    /// A signal says that an earlier request with the key is still being worked on.
    pub(super) in_progress: bool,
}

/// An answer, or why there is none.
pub(super) type Sent = Result<Answer, String>;

impl Answer {
    pub(super) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Refused for what it is; 429 is no word on the request.
    fn is_refusal(&self) -> bool {
        (400..500).contains(&self.status) && self.status != 429
    }

    /// Same status, and same bytes or same JSON.
    pub(super) fn is_same(&self, other: &Answer) -> bool {
        let json = |body: &[u8]| serde_json::from_slice::<serde_json::Value>(body).ok();
        self.status == other.status
            && (self.body == other.body
                || json(&self.body).is_some_and(|body| json(&other.body) == Some(body)))
    }
}

/// How a server's answers can be told apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground {
    /// Two executions of one body are answered differently.
    pub(super) telling: bool,
    /// A replay is marked.
    pub(super) marks: bool,
}

/// What became of the second of two requests with one key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Second {
    Replayed,
    Executed,
    Refused,
    /// Not the first answer, and no second effect.
    Otherwise,
    /// Nothing can be told.
    Unclear(String),
}

fn second(first: &Answer, second: &Answer, effects: Option<u64>, ground: Ground) -> Second {
    let same = first.is_same(second);
    let status = second.status;
    match effects {
        Some(2..) => Second::Executed,
        _ if second.is_refusal() => Second::Refused,
        _ if !second.is_success() => Second::Unclear(format!("was answered {status}")),
        _ if second.marked && same => Second::Replayed,
        _ if second.marked => Second::Otherwise,
        Some(_) if same => Second::Replayed,
        Some(_) => Second::Otherwise,
        None if !same => Second::Executed,
        None if ground.telling => Second::Replayed,
        None => Second::Unclear(format!(
            "was answered {status} like the first, but so is another key: give --count"
        )),
    }
}

/// A trial of two requests that share a key and differ in one thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pair {
    Twice,
    Changed,
    Reordered,
    Quoted,
    OtherPath,
}

impl Pair {
    fn subject(self) -> &'static str {
        match self {
            Pair::Twice => "the second",
            Pair::Changed => "the changed body",
            Pair::Reordered => "the reordered body",
            Pair::Quoted => "the other spelling of the key",
            Pair::OtherPath => "the request to the other path",
        }
    }

    fn verdict(self, second: &Second) -> Verdict {
        match (self, second) {
            (_, Second::Unclear(_)) => Verdict::NotTried,
            (Pair::Changed | Pair::OtherPath, Second::Refused) => Verdict::Kept,
            (Pair::Twice | Pair::Reordered | Pair::Quoted, Second::Replayed) => Verdict::Kept,
            (Pair::Twice | Pair::Changed | Pair::Reordered, Second::Executed) => Verdict::Broken,
            _ => Verdict::NotOffered,
        }
    }

    /// What the two answers mean. `control`: the answer to the second under a key of its own,
    /// where the second was refused: a request that is refused anyway tells nothing.
    pub(super) fn finding(
        self,
        [one, two]: [&Sent; 2],
        control: Option<&Sent>,
        effects: Option<u64>,
        ground: Ground,
    ) -> Finding {
        let subject = self.subject();
        let (one, two) = match (one, two) {
            (Ok(one), Ok(two)) => (one, two),
            (Err(why), _) => return Finding::not_tried(format!("the first had no answer: {why}")),
            (_, Err(why)) => {
                return Finding::not_tried(format!("{subject} had no answer: {why}"));
            }
        };
        if !one.is_success() {
            return Finding::not_tried(format!("the first was answered {}", one.status));
        }
        let second = second(one, two, effects, ground);
        let accepted = |sent: &Sent| sent.as_ref().is_ok_and(Answer::is_success);
        if second == Second::Refused && control.is_some_and(|control| !accepted(control)) {
            let status = two.status;
            return Finding::not_tried(format!(
                "{subject} was refused with {status}, but it is not accepted with another key either"
            ));
        }
        let seen = match &second {
            Second::Replayed => {
                let mark = if two.marked { "marked as a replay" } else { "not marked" };
                format!("{subject} got the first answer again ({}), {mark}", two.status)
            }
            Second::Executed => match effects {
                Some(effects) => format!("{subject} was carried out: {effects} effects counted"),
                None => format!("{subject} was carried out: {}, another answer", two.status),
            },
            Second::Refused => format!("{subject} was refused with {}", two.status),
            Second::Otherwise => {
                format!("{subject} got another answer ({}), without a second effect", two.status)
            }
            Second::Unclear(what) => format!("{subject} {what}"),
        };
        Finding::new(self.verdict(&second), seen)
    }
}

/// Two at once: one is executed, the other told to wait or given the same answer.
pub(super) fn at_once(sent: [&Sent; 2], effects: Option<u64>, ground: Ground) -> Finding {
    let (one, other) = match sent {
        [Ok(one), Ok(other)] if one.is_success() => (one, other),
        [Ok(one), Ok(other)] => (other, one),
        [Err(why), _] | [_, Err(why)] => {
            return Finding::not_tried(format!("one of the two had no answer: {why}"));
        }
    };
    let status = other.status;
    if let Some(effects @ 2..) = effects {
        return Finding::new(Verdict::Broken, format!("both were carried out: {effects} effects"));
    }
    if !one.is_success() {
        return Finding::not_tried(format!("neither was carried out: {} and {status}", one.status));
    }
    if other.in_progress {
        let seen = format!("one was carried out, the other told to wait by {status}");
        return Finding::new(Verdict::Kept, seen);
    }
    // Which of the two is the replay cannot be known beforehand; either may bear the marker.
    let (first, last) = if one.marked { (other, one) } else { (one, other) };
    match second(first, last, effects, ground) {
        Second::Replayed => {
            let seen = format!("one was carried out, the other got the same answer ({status})");
            Finding::new(Verdict::Kept, seen)
        }
        Second::Executed => {
            Finding::new(Verdict::Broken, format!("both were carried out: {status}, two answers"))
        }
        Second::Refused => Finding::new(
            Verdict::NotOffered,
            format!("one was carried out, the other refused with {status}, with no word to wait"),
        ),
        Second::Otherwise => Finding::new(
            Verdict::NotOffered,
            format!("one was carried out, the other got another answer ({status})"),
        ),
        Second::Unclear(what) => Finding::not_tried(format!("one of the two {what}")),
    }
}

/// After a 5xx the retry executes.
pub(super) fn after_failure([first, last]: [&Sent; 2]) -> Finding {
    let (first, last) = match (first, last) {
        (Ok(first), Ok(last)) => (first, last),
        (Err(why), _) => return Finding::not_tried(format!("the first had no answer: {why}")),
        (_, Err(why)) => return Finding::not_tried(format!("the retry had no answer: {why}")),
    };
    let (status, again) = (first.status, last.status);
    if status < 500 {
        return Finding::not_tried(format!("the first was answered {status}, not 5xx"));
    }
    let (verdict, seen) = match last {
        last if last.is_success() => {
            (Verdict::Kept, format!("after {status} the retry was carried out ({again})"))
        }
        last if last.marked => (
            Verdict::NotOffered,
            format!("the {status} is stored: the retry got it again, marked as a replay"),
        ),
        last if last.is_refusal() => {
            (Verdict::Broken, format!("after {status} the retry was refused with {again}"))
        }
        _ => (Verdict::NotTried, format!("after {status} the retries were answered {again}")),
    };
    Finding::new(verdict, seen)
}

/// After a request whose sender left before the answer: the two that follow are answered alike.
pub(super) fn after_cut(sent: [&Sent; 2], effects: Option<u64>, ground: Ground) -> Finding {
    let (one, two) = match sent {
        [Ok(one), Ok(two)] => (one, two),
        [Err(why), _] | [_, Err(why)] => {
            return Finding::not_tried(format!("a retry had no answer: {why}"));
        }
    };
    let (status, again) = (one.status, two.status);
    if let Some(effects @ 2..) = effects {
        let seen = format!("the cut request and its retries had {effects} effects");
        return Finding::new(Verdict::Broken, seen);
    }
    if !one.is_success() || !two.is_success() {
        let seen = format!("the retries were answered {status} and {again}");
        let stuck = one.in_progress || one.is_refusal() || two.is_refusal();
        return Finding::new(if stuck { Verdict::Broken } else { Verdict::NotTried }, seen);
    }
    if !one.is_same(two) {
        let seen = format!("the two retries got two answers ({status} and {again})");
        return Finding::new(Verdict::Broken, seen);
    }
    let told = match effects {
        Some(_) => "one effect counted",
        None if one.marked => "the first already marked as a replay",
        None if ground.marks => {
            return Finding::not_tried(
                "the retry was carried out, and whether the cut request was too only --count tells",
            );
        }
        None if !ground.telling && !two.marked => {
            return Finding::not_tried(format!(
                "the retries were answered {status} alike, but so is another key: give --count"
            ));
        }
        None => "effects not counted",
    };
    Finding::new(Verdict::Kept, format!("the two retries got one answer ({status}), {told}"))
}

/// A request without a good key is refused.
pub(super) fn refusals(sent: &[(&str, Sent)]) -> Finding {
    let mut verdict = Verdict::Kept;
    let mut seen = Vec::new();
    for (what, sent) in sent {
        let (found, text) = match sent {
            Err(why) => (Verdict::NotTried, format!("had no answer: {why}")),
            Ok(answer) if answer.is_success() => {
                (Verdict::NotOffered, format!("was processed ({})", answer.status))
            }
            Ok(answer) if answer.is_refusal() => {
                (Verdict::Kept, format!("was refused with {}", answer.status))
            }
            Ok(answer) => (Verdict::NotTried, format!("was answered {}", answer.status)),
        };
        seen.push(format!("{what} {text}"));
        verdict = match (verdict, found) {
            (Verdict::NotOffered, _) | (_, Verdict::NotOffered) => Verdict::NotOffered,
            (Verdict::NotTried, _) | (_, Verdict::NotTried) => Verdict::NotTried,
            _ => Verdict::Kept,
        };
    }
    Finding::new(verdict, seen.join(", "))
}

#[cfg(test)]
mod tests;
