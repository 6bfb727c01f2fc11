//! The trials: which requests are made, in which order. What their answers mean is told elsewhere.

use std::time::Duration;

use post_once::contract::Carrier;
use reqwest::Url;

use super::body;
use super::verdict::{
    Answer, Finding, Ground, Pair, Sent, Verdict, after_cut, after_failure, at_once, refusals,
};
use super::wire::{Request, Wire, pause};

/// How often two are sent at once: a server that checks before it claims may be lucky once.
const ROUNDS: usize = 3;
/// What a server gets to notice that the client has left.
const AFTER_LEAVING: Duration = Duration::from_millis(300);
/// How often a failure is tried again.
const RETRIES: usize = 4;

/// A trial that was made.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) name: &'static str,
    pub(super) finding: Finding,
}

/// The trials by which it is told whether a client may retry.
pub(super) const TWICE: &str = "same request twice";
pub(super) const AT_ONCE: &str = "two at once";
pub(super) const CHANGED: &str = "changed body";
pub(super) const CUT: &str = "cut connection";

/// The answers by which a server is known.
#[derive(Debug, Default)]
pub(super) struct Traits {
    pub(super) replay: Option<Answer>,
    pub(super) in_progress: Option<Answer>,
    pub(super) mismatch: Option<Answer>,
    /// A key in quotes is the same as without.
    pub(super) quoted: bool,
}

/// Where the trials go that have a URL of their own.
pub(super) struct Places {
    pub(super) other_path: Option<Url>,
    pub(super) failing: Option<Url>,
}

/// All trials, one after the other.
pub(super) struct Trials<'a> {
    wire: &'a Wire,
    ground: Ground,
    /// The answer to the request under a key that no trial uses.
    opening: &'a Answer,
    pub(super) traits: Traits,
}

impl<'a> Trials<'a> {
    pub(super) fn new(wire: &'a Wire, opening: &'a Answer) -> Trials<'a> {
        let ground = Ground { telling: false, marks: false };
        Trials { wire, ground, opening, traits: Traits::default() }
    }

    pub(super) async fn run(&mut self, places: &Places) -> Vec<Trial> {
        let trial = |name, finding| Trial { name, finding };
        vec![
            // First, for it shows how answers can be told apart.
            trial(TWICE, self.twice().await),
            trial(AT_ONCE, self.at_once().await),
            trial(CHANGED, self.changed().await),
            trial("reordered JSON members", self.reordered().await),
            trial("quoted and raw key", self.quoted().await),
            trial("other path", self.other_path(places).await),
            trial("retry after a 5xx", self.after_failure(places).await),
            trial(CUT, self.cut().await),
            trial("missing key", self.missing().await),
            trial("malformed key", self.malformed().await),
        ]
    }

    async fn twice(&mut self) -> Finding {
        let request = self.keyed();
        let before = self.count().await;
        let sent = [self.wire.send(&request).await, self.wire.send(&request).await];
        let effects = self.since(before).await;
        if let [Ok(first), Ok(second)] = &sent {
            self.ground = Ground {
                telling: !first.is_same(self.opening),
                marks: second.marked && !first.marked,
            };
        }
        let finding = Pair::Twice.finding(sent.each_ref(), None, effects, self.ground);
        let [_, second] = sent;
        self.traits.replay = second.ok().filter(|answer| answer.marked);
        finding
    }

    /// The worst of a few rounds.
    async fn at_once(&mut self) -> Finding {
        let mut worst: Option<Finding> = None;
        for _ in 0..ROUNDS {
            let request = self.keyed();
            let before = self.count().await;
            let (one, two) = tokio::join!(self.wire.send(&request), self.wire.send(&request));
            // One that was told to wait says so while the other is counted already.
            let effects = self.since(before).await;
            let finding = at_once([&one, &two], effects, self.ground);
            let told_to_wait = |sent: Sent| sent.ok().filter(|answer| answer.in_progress);
            self.traits.in_progress =
                self.traits.in_progress.take().or_else(|| told_to_wait(one)).or(told_to_wait(two));
            let order = |verdict| match verdict {
                Verdict::Broken => 0,
                Verdict::NotOffered => 1,
                Verdict::NotTried => 2,
                Verdict::Kept => 3,
            };
            worst = match worst {
                Some(worst) if order(worst.verdict) <= order(finding.verdict) => Some(worst),
                _ => Some(finding),
            };
            if worst.as_ref().is_some_and(|worst| worst.verdict == Verdict::Broken) {
                break;
            }
        }
        worst.expect("at least one round was made")
    }

    async fn changed(&mut self) -> Finding {
        let Some(body) = body::changed(&self.wire.body) else {
            return Finding::not_tried("the body has no value that could be changed");
        };
        let key = self.wire.fresh_key();
        let first = self.wire.request(Some(&key));
        let second = |key: &str| self.wire.request_of(&self.wire.url, &body, Some(key));
        let (finding, answer) = self
            .pair(Pair::Changed, &first, &second(&key), Some(second(&self.wire.fresh_key())))
            .await;
        if finding.verdict == Verdict::Kept {
            self.traits.mismatch = answer.ok();
        }
        finding
    }

    async fn reordered(&self) -> Finding {
        let Some(body) = body::reordered(&self.wire.body) else {
            return Finding::not_tried("the body is no JSON object of two or more members");
        };
        let key = self.wire.fresh_key();
        let first = self.wire.request(Some(&key));
        let second = self.wire.request_of(&self.wire.url, &body, Some(&key));
        self.pair(Pair::Reordered, &first, &second, None).await.0
    }

    async fn quoted(&mut self) -> Finding {
        if !matches!(self.wire.contract.carrier(), Carrier::Header(_)) {
            return Finding::not_tried("the key is in the body, where it has one spelling");
        }
        let key = self.wire.fresh_key();
        let other = match key.strip_prefix('"').and_then(|key| key.strip_suffix('"')) {
            Some(raw) => raw.to_owned(),
            None => format!("\"{key}\""),
        };
        let [first, second] = [&key, &other].map(|key| self.wire.request(Some(key)));
        let (finding, _) = self.pair(Pair::Quoted, &first, &second, None).await;
        self.traits.quoted = finding.verdict == Verdict::Kept;
        finding
    }

    async fn other_path(&self, places: &Places) -> Finding {
        let Some(url) = &places.other_path else {
            return Finding::not_tried("give --other-path");
        };
        let key = self.wire.fresh_key();
        let first = self.wire.request(Some(&key));
        let second = |key: &str| self.wire.request_of(url, &self.wire.body, Some(key));
        let control = second(&self.wire.fresh_key());
        self.pair(Pair::OtherPath, &first, &second(&key), Some(control)).await.0
    }

    async fn after_failure(&self, places: &Places) -> Finding {
        let Some(url) = &places.failing else { return Finding::not_tried("give --failing") };
        let key = self.wire.fresh_key();
        let request = self.wire.request_of(url, &self.wire.body, Some(&key));
        let first = self.wire.send(&request).await;
        let mut last = self.wire.send_patiently(&request).await;
        for _ in 1..RETRIES {
            match &last {
                Ok(answer) if answer.status >= 500 && !answer.marked => {}
                _ => break,
            }
            last = self.wire.send(&request).await;
        }
        after_failure([&first, &last])
    }

    async fn cut(&self) -> Finding {
        if self.wire.url.scheme() != "http" {
            return Finding::not_tried("a connection is cut over plain http only");
        }
        let request = self.keyed();
        let before = self.count().await;
        if let Err(why) = self.wire.send_and_leave(&request).await {
            return Finding::not_tried(format!("the request could not be written: {why}"));
        }
        pause(AFTER_LEAVING).await;
        let sent = [self.wire.send_patiently(&request).await, self.wire.send(&request).await];
        after_cut(sent.each_ref(), self.since(before).await, self.ground)
    }

    async fn missing(&self) -> Finding {
        let sent = self.wire.send(&self.wire.request(None)).await;
        refusals(&[("a request without a key", sent)])
    }

    async fn malformed(&self) -> Finding {
        let send = async |key: &str| self.wire.send(&self.wire.request(Some(key))).await;
        refusals(&[
            ("an empty key", send("").await),
            ("a key of 300 bytes", send(&"x".repeat(300)).await),
        ])
    }

    /// Sends two that share a key; the second again under a key of its own where it was refused.
    async fn pair(
        &self,
        pair: Pair,
        first: &Request,
        second: &Request,
        control: Option<Request>,
    ) -> (Finding, Sent) {
        let before = self.count().await;
        let one = self.wire.send(first).await;
        let two = self.wire.send(second).await;
        let effects = self.since(before).await;
        let refused = two.as_ref().is_ok_and(|answer| (400..500).contains(&answer.status));
        let control = match control.filter(|_| refused) {
            Some(control) => Some(self.wire.send(&control).await),
            None => None,
        };
        (pair.finding([&one, &two], control.as_ref(), effects, self.ground), two)
    }

    fn keyed(&self) -> Request {
        self.wire.request(Some(&self.wire.fresh_key()))
    }

    /// A count that fails once is no count.
    async fn count(&self) -> Option<u64> {
        self.wire.count().await.ok().flatten()
    }

    async fn since(&self, before: Option<u64>) -> Option<u64> {
        Some(self.count().await?.saturating_sub(before?))
    }
}
