//! Runs the source of the log under many schedules: acknowledged records are kept, and no thread
//! waits forever. A lost wake-up shows as a deadlock, a spinning task as too many steps.
//!
//! `SEAWALL_SCHEDULES` sets the total number of schedules, `SEAWALL_SEED` their seed. A failing
//! schedule is printed; `SEAWALL_REPLAY` runs it again: docs/design.md.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test reports failure by panicking"
)]

extern crate seawall_scheduled as seawall;

mod appends;
mod closes;
mod cuts;
mod disk;
mod faults;
mod prunes;
mod readers;
mod run;
mod tries;
mod waiters;
mod world;

use scheduler::shuttle::scheduler::{
    RandomScheduler, UncontrolledNondeterminismCheckScheduler as Twice,
};

/// Generates a test for each scenario.
macro_rules! scenarios {
    ($($module:ident::$name:ident,)*) => {
        const SCENARIOS: usize = [$(stringify!($name)),*].len();
        $(
            #[test]
            fn $name() {
                run::run(stringify!($name), SCENARIOS, $module::$name);
            }
        )*
    };
}

scenarios! {
    appends::appends_of_every_level_are_numbered_and_kept,
    appends::sets_are_kept_whole,
    appends::flush_and_confirm_return_beside_appends,
    appends::a_log_that_idles_is_confirmed,
    appends::a_buffered_record_becomes_durable_without_a_waiter,
    waiters::tickets_are_waited_for_in_any_order,
    waiters::tickets_are_awaited,
    waiters::the_waker_of_the_last_poll_is_woken,
    waiters::clones_of_a_ticket_are_awaited_by_two,
    waiters::wakers_append_beside_a_checkpoint,
    waiters::a_waker_is_called_after_few_landings,
    waiters::a_record_is_written_while_wakers_wait_for_it,
    tries::a_try_beside_leaders_and_checkpoints_takes_a_record_or_leaves_no_trace,
    tries::records_refused_by_a_full_batch_are_taken_later_and_once,
    tries::a_close_beside_tries_keeps_the_taken_records_and_no_refused_one,
    closes::a_close_leaves_no_ticket_waiting,
    closes::a_close_beside_appends_keeps_what_they_were_told,
    closes::a_waker_may_drop_the_log,
    closes::a_close_beside_the_preparer_leaves_no_file_behind,
    readers::a_follower_is_woken_by_each_record,
    readers::a_close_releases_followers,
    readers::what_was_acknowledged_is_got_at_once,
    readers::a_reader_elsewhere_sees_nothing_that_a_power_cut_takes,
    cuts::appends_return_beside_a_cut,
    cuts::tickets_are_awaited_beside_a_cut,
    cuts::confirmations_beside_a_cut_leave_no_append_waiting,
    cuts::checkpoints_and_prunes_go_between_appends,
    prunes::a_close_leaves_no_file_of_a_pruned_segment,
    prunes::a_prune_takes_no_other_record_whatever_fails,
    faults::a_failed_sync_releases_everybody_and_loses_nothing,
    faults::a_device_that_fails_for_good_releases_everybody_with_the_error,
    faults::a_full_disk_refuses_and_goes_on_when_there_is_room,
    faults::a_power_cut_at_any_step_takes_nothing_that_was_acknowledged,
}

/// The log depends on nothing from the system that the scheduler does not control.
#[test]
fn the_same_schedule_is_the_same_again() {
    for scenario in [
        appends::appends_of_every_level_are_numbered_and_kept as fn(),
        closes::a_close_beside_the_preparer_leaves_no_file_behind,
        faults::a_power_cut_at_any_step_takes_nothing_that_was_acknowledged,
    ] {
        run::runner(Twice::new(RandomScheduler::new_from_seed(1, 50))).run(scenario);
    }
}
