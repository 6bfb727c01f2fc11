//! What is shown while the command runs: lines for those who asked, a spinner for those who watch.

use std::io::{IsTerminal, stderr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use post_once::Effect;
use post_once::observer::Event;
use post_once::report::Attempt;
use post_once::retry::Known;

use crate::output::say;

/// How often the spinner turns.
const TICK: Duration = Duration::from_millis(120);

/// Follows one operation.
pub(crate) struct Progress {
    lines: Lines,
    spinner: ProgressBar,
    seen: Mutex<Seen>,
}

/// Whether each attempt gets a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    None,
    PerAttempt,
}

/// What has happened so far: all that is known of an operation that is interrupted.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    started: usize,
    pub(crate) attempts: Vec<Attempt>,
}

impl Progress {
    /// With a spinner if standard error is a terminal, unless traces are written there.
    pub(crate) fn new(verbose: u8) -> Progress {
        let lines = if verbose > 0 { Lines::PerAttempt } else { Lines::None };
        let spinner = if verbose < 2 && stderr().is_terminal() {
            let style = ProgressStyle::with_template("{spinner} {msg}");
            ProgressBar::new_spinner().with_style(style.expect("the template is a constant"))
        } else {
            ProgressBar::hidden()
        };
        Progress { lines, spinner, seen: Mutex::default() }
    }

    /// Takes note of an event, and shows it.
    pub(crate) fn observe(&self, event: &Event<'_>) {
        match event {
            Event::AttemptStarted { number, limit, .. } => {
                self.seen().started += 1;
                self.spin(format!("attempt {number}, for up to {}", shown(*limit)));
            }
            Event::AttemptEnded { attempt, .. } => {
                self.seen().attempts.push(Attempt::clone(attempt));
                if self.lines == Lines::PerAttempt {
                    self.spinner.suspend(|| say(&line(attempt)));
                }
            }
            Event::Waiting { because, wait, .. } => {
                self.spin(format!("{because}: next attempt in {}", shown(*wait)));
            }
            _ => self.clear(),
        }
    }

    /// Takes the spinner away.
    pub(crate) fn clear(&self) {
        self.spinner.finish_and_clear();
    }

    /// What has happened so far.
    pub(crate) fn so_far(&self) -> Seen {
        self.seen().clone()
    }

    fn spin(&self, message: String) {
        self.spinner.set_message(message);
        self.spinner.enable_steady_tick(TICK);
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    /// What is known of the effect if nothing more happens. An attempt that is under way may have
    /// been carried out.
    pub(crate) fn effect(&self) -> Effect {
        let not_sent = |attempt: &Attempt| {
            matches!(
                attempt.known(),
                Known::NotSent | Known::NotSentPermanent | Known::RefusedByProtocol
            )
        };
        if self.started == self.attempts.len() && self.attempts.iter().all(not_sent) {
            Effect::NotSent
        } else {
            Effect::Unknown
        }
    }
}

/// `attempt 2 after 312ms: 503, unavailable, took 4ms, request req_1`
fn line(attempt: &Attempt) -> String {
    let mut line = format!("attempt {}", attempt.number());
    if !attempt.waited().is_zero() {
        line.push_str(&format!(" after {}", shown(attempt.waited())));
    }
    line.push_str(": ");
    if let Some(status) = attempt.status() {
        line.push_str(&format!("{}, ", status.as_u16()));
    }
    if let Some(error) = attempt.error() {
        line.push_str(&format!("{error}, "));
    }
    line.push_str(&format!("{}, took {}", attempt.known(), shown(attempt.elapsed())));
    if let Some(id) = attempt.request_id() {
        line.push_str(&format!(", request {id}"));
    }
    line
}

/// A time in whole milliseconds.
fn shown(time: Duration) -> String {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    match millis {
        0 => "0ms".to_owned(),
        _ => humantime::format_duration(Duration::from_millis(millis)).to_string(),
    }
}
