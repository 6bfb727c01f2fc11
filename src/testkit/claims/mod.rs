//! What every store of keys must do: one suite, run on each of them.
//!
//! The rule:
//!
//! 1. A case gets a [`Subject`]: a new and empty store, two handles on it, and a way to let time pass.
//!    The second handle stands for another process; a store that can should open it as one would.
//! 2. A case that fails panics, and its name says which rule was broken.
//! 3. [`conformance`] runs all, each on a subject of its own. [`claims_conformance!`] makes a test of
//!    each case, so that they run side by side and are named in the output.
//!
//! ```
//! use post_once::server::store::MemoryClaims;
//! use post_once::testkit::ManualClock;
//! use post_once::testkit::claims::{Subject, conformance};
//!
//! async fn memory() -> Subject<MemoryClaims> {
//!     let clock = ManualClock::new();
//!     let store = MemoryClaims::with_clock(clock.clone());
//!     Subject::on_clock(store.clone(), store, clock)
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
//! [`claims_conformance!`]: crate::claims_conformance

#![allow(clippy::unwrap_used, reason = "a case that cannot go on fails")]

mod lease;
mod make;
mod person;
mod release;
mod replay;
mod retention;
mod settle;
mod subject;
mod sweep;
mod win;

pub use make::{answer, ask, fingerprint, holder, name};
pub use subject::Subject;

use crate::server::store::ClaimStore;

/// Hands the names of all cases to a macro, after what else it is given.
#[doc(hidden)]
#[macro_export]
macro_rules! claims_cases {
    ([$($then:tt)*] $($given:tt)*) => {
        $($then)*! { $($given)*
            a_new_key_is_won_once
            of_many_claims_at_once_exactly_one_wins
            of_many_different_requests_at_once_exactly_one_wins
            of_many_who_take_over_at_once_exactly_one_wins
            another_request_is_a_mismatch_before_it_is_in_progress
            the_same_key_of_two_principals_is_two_keys
            names_are_told_apart_by_every_byte
            a_row_is_looked_at_by_its_name
            an_answer_comes_back_whole
            every_body_comes_back
            an_answered_key_of_another_request_is_a_mismatch
            an_answered_claim_is_no_longer_held
            a_live_lease_says_what_is_left
            an_expired_lease_is_taken_over
            a_checkpoint_is_handed_on
            a_checkpoint_extends_the_lease
            a_renewed_lease_lives_on
            what_the_former_holder_writes_is_refused
            an_expired_claim_that_nobody_took_is_still_held
            a_claim_that_is_not_there_is_lost
            a_lease_may_be_short
            no_duration_is_too_long
            what_is_given_up_is_run_afresh
            what_is_given_up_at_a_checkpoint_goes_on_from_it
            what_is_given_up_in_doubt_waits_for_a_person
            what_was_given_up_is_no_longer_held
            an_unconfirmed_call_is_not_repeated
            a_call_that_was_confirmed_is_gone_on_from
            what_kills_its_workers_is_not_run_for_ever
            only_what_waits_for_a_person_is_listed
            what_waits_is_listed_in_pages_and_in_order
            a_person_lets_it_run_again
            a_person_gives_its_answer
            a_person_forgets_it
            no_decision_while_somebody_works_on_it
            no_decision_on_what_has_changed_since
            no_decision_on_what_was_answered
            retention_is_counted_from_the_answer
            past_its_retention_an_answer_is_forgotten
            past_its_retention_a_dead_claim_is_forgotten
            past_its_retention_a_checkpoint_is_not_forgotten
            retention_may_be_shorter_than_the_lease
            what_may_be_forgotten_is_swept_in_batches
            what_somebody_works_on_is_never_swept
            what_may_not_be_forgotten_is_never_swept
            what_was_swept_is_no_longer_held
        }
    };
}

/// Makes a test of each case: `claims_conformance!(fresh)` in a module of its own, where
/// `async fn fresh() -> Subject<_>` makes a subject.
#[macro_export]
macro_rules! claims_conformance {
    ($fresh:path) => {
        $crate::claims_cases! { [$crate::claims_conformance] @tests $fresh, }
    };
    (@tests $fresh:path, $($case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                $crate::testkit::claims::case(stringify!($case), &$fresh().await).await;
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
pub const CASES: &[&str] = claims_cases!([names]);

/// Runs all cases, each on a subject of its own.
///
/// # Panics
/// When the store breaks a rule.
pub async fn conformance<S: ClaimStore>(fresh: impl AsyncFn() -> Subject<S>) {
    for name in CASES {
        case(name, &fresh().await).await;
    }
}

/// Runs one case.
///
/// # Panics
/// When the store breaks its rule, and when there is no case of this name.
pub async fn case<S: ClaimStore>(name: &str, subject: &Subject<S>) {
    use self::{
        lease::*, person::*, release::*, replay::*, retention::*, settle::*, sweep::*, win::*,
    };
    claims_cases!([run_named] name, subject,)
}
