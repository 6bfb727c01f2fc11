//! The server half over real sockets: each case on every store.
//!
//! Effects are counted by the handler. The cases on PostgreSQL use `DATABASE_URL`, or a throw-away cluster; without
//! either they are ignored, unless `POST_ONCE_REQUIRE_POSTGRES=1` makes that a failure.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod api;
mod bodies;
mod claims;
mod client;
mod contract;
mod fingerprints;
mod keys;
mod trouble;
mod world;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

use crate::world::{Kind, World};

type Case = fn(&World) -> Pin<Box<dyn Future<Output = ()> + '_>>;

/// Names cases, and makes them of one type.
macro_rules! cases {
    ($($module:ident: $($case:ident)*;)*) => {
        &[$($((
            concat!(stringify!($module), "::", stringify!($case)),
            (|world| Box::pin($module::$case(world))) as Case,
        ),)*)*]
    };
}

const CASES: &[(&str, Case)] = cases! {
    contract: each_row_of_the_table a_key_past_its_retention_is_new
        where_it_may_wait_it_gets_the_answer where_keys_are_optional_a_request_needs_none
        other_methods_are_left_alone what_is_said_by_option;
    claims: of_50_equal_requests_on_two_servers_one_is_run
        of_50_different_requests_under_one_key_one_is_run
        a_crash_does_not_lock_the_key_for_the_retention a_client_that_left_gets_its_answer_later
        a_checkpoint_is_gone_on_from an_unconfirmed_call_waits_for_a_person
        shutting_down_waits_for_handlers_whose_clients_have_left;
    keys: the_principal_and_the_request_belong_to_a_key quoted_and_raw_are_one_key
        malformed_keys_are_refused_and_nothing_is_run;
    answers: what_says_not_now_is_released what_would_be_the_same_is_stored
        a_replay_is_the_same_answer a_large_answer_is_given_once_and_its_key_closed
        a_panic_gives_the_key_back an_answer_that_breaks_off_gives_the_key_back;
    fingerprints: equal_bodies_match_and_others_do_not strange_json_is_not_dangerous;
    bodies: the_limit_is_on_the_bytes_that_are_read a_cut_body_is_never_run
        what_is_over_goes_unasked a_refusal_is_heard_by_who_is_still_sending;
    trouble: a_store_that_is_down_runs_nothing a_slow_store_is_waited_for
        an_answer_is_tried_again_to_be_stored a_lost_claim_ends_its_handler
        nothing_of_one_principal_reaches_another;
};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for (kind, name) in [(Kind::Memory, "memory")] {
        for &(case, run) in CASES {
            trials.push(Trial::test(format!("{name}::{case}"), move || {
                runtime().block_on(async { run(&World::new(kind).await).await });
                Ok(())
            }));
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
