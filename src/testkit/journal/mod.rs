//! What every store of operations must do: one suite, run on each of them.
//!
//! The rule:
//!
//! 1. A case gets a [`Subject`]: a new and empty journal, two handles on it, and a way to let time pass.
//!    The second handle stands for another process; a store that can should open it as one would.
//! 2. A case that fails panics, and its name says which rule was broken.
//! 3. [`conformance`] runs all, each on a subject of its own. [`journal_conformance!`] makes a test of
//!    each case, so that they run side by side and are named in the output.
//!
//! ```
//! use post_once::journal::MemoryJournal;
//! use post_once::testkit::ManualClock;
//! use post_once::testkit::journal::{Subject, conformance};
//!
//! async fn memory() -> Subject<MemoryJournal> {
//!     let clock = ManualClock::new();
//!     let journal = MemoryJournal::with_clock(clock.clone());
//!     Subject::on_clock(journal.clone(), journal, clock)
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! conformance(memory).await;
//! # }
//! ```
//!
//! # Not covered
//! - What is durable, and what is left after a crash: no handle can tell from inside. Those are tests of
//!   each store.
//!
//! [`journal_conformance!`]: crate::journal_conformance

#![allow(clippy::unwrap_used, reason = "a case that cannot go on fails")]

mod attempt;
mod claim;
mod decide;
mod due;
mod finish;
mod insert;
mod make;
mod purge;
mod read;
mod subject;

pub use make::{answer, decided, draft, due, list, outcome, past, trail};
pub use subject::Subject;

use crate::journal::Journal;

/// Hands the names of all cases to a macro, after what else it is given.
#[doc(hidden)]
#[macro_export]
macro_rules! journal_cases {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! { $($given)*
            a_new_name_is_inserted_claimed_and_counted
            of_two_begins_of_one_name_exactly_one_inserts
            one_name_in_two_scopes_is_two_operations
            without_a_name_nothing_collides
            a_name_is_found_with_the_fingerprint_and_bytes_it_was_begun_with
            what_is_enqueued_is_due_at_once_and_was_never_sent
            enqueuing_a_known_name_finds_it
            every_byte_comes_back
            the_widest_terms_come_back
            a_large_body_comes_back
            no_duration_is_too_long
            a_live_claim_is_not_taken
            an_expired_claim_is_taken_with_a_higher_token
            what_the_former_holder_writes_is_refused
            an_expired_claim_that_nobody_took_is_still_held
            a_row_that_ended_since_it_was_seen_is_not_taken
            of_two_takers_exactly_one_gets_it
            a_token_only_grows
            an_extended_lease_lives_on
            a_row_that_is_not_there_is_lost
            the_longest_due_is_claimed_first
            only_pending_rows_are_claimed
            claims_obey_their_limit_and_scopes
            an_expired_lease_is_due
            no_row_is_claimed_twice_at_once
            what_is_put_off_is_not_due_before
            what_was_put_off_since_is_not_met_again
            claims_that_end_without_an_outcome_are_counted
            a_release_before_sending_is_not_charged
            the_trail_of_an_attempt_is_kept_and_the_next_is_counted
            the_first_send_stays_when_something_was_sent
            the_first_send_goes_when_nothing_was_sent
            an_answer_is_kept_whole
            an_outcome_without_an_answer_keeps_the_last_one
            the_attempts_are_those_of_the_trail
            each_outcome_has_its_state
            an_outcome_that_nobody_waits_for_takes_effect
            a_window_that_closed_is_unknown_by_age_alone
            each_decision_has_its_state
            a_decision_is_refused_while_the_row_is_held
            a_decision_on_a_changed_row_is_refused
            a_retry_starts_with_no_lost_claims
            bodies_are_purged_in_batches_and_leave_a_tombstone
            what_is_open_is_never_purged
            what_is_young_is_not_purged
            names_are_purged_by_their_own_word
            a_row_is_never_mistaken_for_one_that_was_purged
            a_row_is_read_by_its_number
            rows_are_listed_in_pages
            rows_are_listed_by_state_and_scope
            a_key_finds_all_its_rows
            ages_are_by_the_clock_of_the_store
            gauges_count_by_the_state_of_now
        }
    };
}

/// Makes a test of each case: `journal_conformance!(fresh)` in a module of its own, where
/// `async fn fresh() -> Subject<_>` makes a subject.
#[macro_export]
macro_rules! journal_conformance {
    ($fresh:path) => {
        $crate::journal_cases! { [$crate::journal_conformance] @tests $fresh, }
    };
    (@tests $fresh:path, $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::testkit::journal::case(stringify!($case), &$fresh().await).await;
            }
        )*
    };
}

macro_rules! run_named {
    ($name:ident, $subject:ident, $($case:ident)*) => {
        match $name {
            $(stringify!($case) => $case($subject).await,)*
            other => panic!("there is no case {other:?}"),
        }
    };
}

macro_rules! names {
    ($($case:ident)*) => { &[$(stringify!($case)),*] };
}

/// The names of all cases.
pub const CASES: &[&str] = journal_cases!([names]);

/// Runs all cases, each on a subject of its own.
///
/// # Panics
/// When the store breaks a rule.
pub async fn conformance<J: Journal>(fresh: impl AsyncFn() -> Subject<J>) {
    for name in CASES {
        case(name, &fresh().await).await;
    }
}

/// Runs one case.
///
/// # Panics
/// When the store breaks its rule, and when there is no case of this name.
pub async fn case<J: Journal>(name: &str, subject: &Subject<J>) {
    use self::{attempt::*, claim::*, decide::*, due::*, finish::*, insert::*, purge::*, read::*};
    journal_cases!([run_named] name, subject,)
}
