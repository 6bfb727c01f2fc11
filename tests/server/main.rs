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
mod clock;
#[cfg(feature = "postgres")]
#[path = "../postgres/cluster.rs"]
#[expect(dead_code, reason = "not all of it is needed here")]
mod cluster;
mod contract;
#[cfg(feature = "postgres")]
mod database;
mod fingerprints;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod jobs;
mod keys;
mod lost;
mod once;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod orders;
mod stack;
mod sweeps;
#[cfg(feature = "sqlite")]
mod transact;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod transactional;
mod trouble;
mod world;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};

#[cfg(any(feature = "sqlite", feature = "postgres"))]
use crate::world::Store;
use crate::world::World;

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
        other_methods_are_left_alone what_is_said_by_option what_is_done_by_option;
    claims: of_50_equal_requests_on_two_servers_one_is_run
        of_50_different_requests_under_one_key_one_is_run
        a_crash_does_not_lock_the_key_for_the_retention a_client_that_left_gets_its_answer_later
        a_checkpoint_is_gone_on_from an_unconfirmed_call_waits_for_a_person
        shutting_down_waits_for_handlers_whose_clients_have_left
        an_answer_whose_claim_was_lost_is_not_given;
    keys: the_principal_and_the_request_belong_to_a_key quoted_and_raw_are_one_key
        malformed_keys_are_refused_and_nothing_is_run
        whose_it_is_must_be_known_unless_that_is_waived;
    answers: what_says_not_now_is_released what_would_be_the_same_is_stored
        a_replay_is_the_same_answer a_large_answer_is_given_once_and_its_key_closed
        a_panic_gives_the_key_back an_answer_that_breaks_off_gives_the_key_back;
    fingerprints: equal_bodies_match_and_others_do_not strange_json_is_not_dangerous;
    bodies: the_limit_is_on_the_bytes_that_are_read a_cut_body_is_never_run
        what_is_over_goes_unasked a_refusal_is_heard_by_who_is_still_sending;
    once: work_that_is_delivered_again_is_done_once work_that_fails_is_done_again
        one_of_many_deliveries_at_once_does_the_work a_job_past_its_retention_is_new
        a_job_that_stopped_at_an_unconfirmed_call_waits_for_a_person
        a_job_whose_claim_was_lost_has_no_result_of_its_own
        a_job_is_renewed_while_it_goes_on_and_dropped_when_it_cannot_be
        a_job_whose_key_cannot_be_given_back_is_done_after_its_lease
        a_job_whose_result_cannot_be_stored_is_an_error_of_the_store;
    lost: work_may_take_longer_than_its_lease a_renewal_that_fails_is_tried_again
        a_renewal_that_is_refused_ends_the_work a_renewal_that_hangs_loses_the_claim_with_its_lease
        a_holder_counts_itself_as_lost_when_its_lease_may_be_over;
    stack: an_error_of_the_service_gives_the_key_back
        a_refused_body_is_read_within_bounds who_waits_looks_less_and_less_often_and_not_too_long;
    sweeps: a_pass_goes_on_until_nothing_is_over others_come_to_their_turn_between_two_batches
        a_pass_that_fails_is_not_the_last passes_are_a_minute_apart_and_no_two_as_long
        a_shutdown_does_not_wait_for_the_next_pass a_shutdown_does_not_wait_for_a_pass;
    trouble: a_store_that_is_down_runs_nothing a_slow_store_is_waited_for
        an_answer_is_tried_again_to_be_stored a_lost_claim_ends_its_handler
        a_key_that_cannot_be_given_back_ends_with_its_lease
        a_point_that_cannot_be_written_down_stops_its_handler
        nothing_of_one_principal_reaches_another;
};

/// Those of handlers that complete their claim in their own transaction.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
const TRANSACTIONAL: &[(&str, Case)] = cases! {
    transactional: effect_and_answer_commit_together what_failed_is_rolled_back_and_run_again
        a_commit_whose_word_was_lost_has_the_last_word a_lost_claim_commits_nothing
        an_answer_that_was_not_committed_is_not_kept
        a_large_answer_is_given_once_and_its_key_closed
        what_is_done_after_the_commit_may_take_its_time
        a_transaction_beside_the_keys_is_refused;
    jobs: what_a_job_writes_and_returns_commits_together
        a_job_that_cannot_be_committed_is_done_by_the_next_delivery;
};

/// Those of transactions that are awaited.
#[cfg(feature = "postgres")]
const AWAITED: &[(&str, Case)] = cases! {
    jobs: work_in_a_transaction_may_take_longer_than_its_lease;
};

/// Those of handlers whose work is done by the store of the file.
#[cfg(feature = "sqlite")]
const IN_THE_FILE: &[(&str, Case)] = cases! {
    transact: each_is_done_or_undone_for_itself what_lost_its_claim_is_undone;
};
#[cfg(feature = "sqlite")]
const IN_ANOTHER: &[(&str, Case)] = cases! { transact: another_kind_of_store_refuses; };

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // A few at once are enough: they are about times.
    arguments.test_threads.get_or_insert(4);
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres")),
        expect(unused_mut, reason = "there is no other store")
    )]
    let mut trials = trials_on("memory", CASES, World::in_memory);
    #[cfg(feature = "sqlite")]
    {
        let world = || World::on(Store::Sqlite(tempfile::tempdir().unwrap()));
        trials.extend(trials_on("sqlite", CASES, world));
        trials.extend(trials_on("sqlite", TRANSACTIONAL, world));
        trials.extend(trials_on("sqlite", IN_THE_FILE, world));
        trials.extend(trials_on("memory", IN_ANOTHER, World::in_memory));
    }
    #[cfg(feature = "postgres")]
    let server = match database::Server::find(arguments.list) {
        Ok(server) => {
            let world = move || World::on(Store::Postgres(server.schema()));
            trials.extend(trials_on("postgres", CASES, world));
            trials.extend(trials_on("postgres", TRANSACTIONAL, world));
            trials.extend(trials_on("postgres", AWAITED, world));
            Some(server)
        }
        Err(reason) if std::env::var_os("POST_ONCE_REQUIRE_POSTGRES").is_some() => {
            eprintln!("no Postgres, and POST_ONCE_REQUIRE_POSTGRES is set: {reason}");
            return ExitCode::FAILURE;
        }
        Err(reason) => {
            let ignored =
                trials_on("postgres", &[CASES, TRANSACTIONAL, AWAITED].concat(), World::in_memory);
            let ignored = ignored.into_iter().map(|trial| trial.with_ignored_flag(true));
            trials.extend(ignored.map(|trial| trial.with_kind(reason.clone())));
            None
        }
    };
    let conclusion = libtest_mimic::run(&arguments, trials);
    #[cfg(feature = "postgres")]
    if let Some(server) = server {
        server.end();
    }
    conclusion.exit_code()
}

/// Makes a test of each case.
fn trials_on(
    store: &str,
    cases: &[(&str, Case)],
    world: impl Fn() -> World + Send + Copy + 'static,
) -> Vec<Trial> {
    let trial = |&(case, run): &(&str, Case)| {
        Trial::test(format!("{store}::{case}"), move || {
            runtime().block_on(async { run(&world()).await });
            Ok(())
        })
    };
    cases.iter().map(trial).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}
