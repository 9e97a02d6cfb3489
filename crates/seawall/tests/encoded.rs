//! Tests for all logs, run on logs with encoded batches: compressed, encrypted, or both and padded.
//! One list of suites serves all three. Only CI runs them: see all.rs.

#![expect(clippy::print_stdout, reason = "the output is part of the test's report")]

use crate::common;
use crate::{every_bit_and_cut, failover, full_disk, in_flight, parity, repair};

use Act::{Append, Confirm, Prune, Reopen, Set};
use common::images::{End, headers};
use common::lives::Act;
use common::sample::Sample;
use common::workloads::{Acts, failed_syncs, one_crash, one_fault, run, two_crashes};
use common::{METHOD, is_compressed, is_encrypted, with_same_encoding, within};
use seawall::{Layout, Level};

/// Declares each suite once for each encoding.
macro_rules! suites {
    ($($suite:ident),* $(,)?) => {
        #[cfg(feature = "lz4")]
        mod compressed {
            $(
                #[test]
                #[ignore = "CI runs it: cargo test --test all -- --ignored"]
                fn $suite() { crate::common::compressed(super::$suite); }
            )*
        }

        #[cfg(feature = "encryption")]
        mod encrypted {
            $(
                #[test]
                #[ignore = "CI runs it: cargo test --test all -- --ignored"]
                fn $suite() { crate::common::encrypted(super::$suite); }
            )*
        }

        #[cfg(all(feature = "encryption", feature = "lz4"))]
        mod encrypted_compressed_and_padded {
            use crate::common::{compressed, encrypted};

            $(
                #[test]
                #[ignore = "CI runs it: cargo test --test all -- --ignored"]
                fn $suite() { encrypted(|| compressed(super::$suite)); }
            )*
        }
    };
}

suites!(
    workloads_name_segments_ahead_and_use_files_again,
    acknowledged_records_survive_a_crash_at_every_step,
    records_survive_a_second_crash,
    failed_sync_loses_no_acknowledged_record,
    one_damaged_run_or_lost_file_never_hides_a_confirmed_record,
    flipped_bit_is_always_detected,
    cut_lost_and_misplaced_files_are_always_detected,
    damaged_run_hides_only_unconfirmed_records,
    damage_can_be_repaired_in_three_ways,
    parity_restores_what_it_promises,
    batches_are_carried_out_of_a_segment_whose_write_failed,
    full_disk_loses_nothing,
    writes_in_flight_fail_in_any_order,
);

/// Batches of a few chunks, segments named ahead, reused files.
const WORKLOADS: [Acts; 3] = [
    &[
        Append(700),
        Set(&[300, 340]),
        Append(20),
        Set(&[100, 200, 300]),
        Confirm,
        Append(700),
        Append(5),
        Reopen,
        Set(&[200, 200, 200]),
        Append(700),
    ],
    &[Append(700); 14],
    // Records of the first size fill a segment to its last sector, or the file is truncated there.
    &[
        Set(&[480, 20]),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Append(480),
        Prune,
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Append(830),
        Reopen,
        Append(480),
        Confirm,
    ],
];

const AFTERWARDS: [Acts; 2] =
    [&[Append(90), Confirm], &[Append(700), Append(700), Append(700), Append(700), Append(30)]];

const ENDS: [End; 4] = [End::Closed, End::Confirmed, End::PowerCut, End::Killed];

fn workloads_name_segments_ahead_and_use_files_again() {
    let whole = WORKLOADS.map(|acts| run(acts, Level::Synced, u64::MAX).device);
    let [_, ahead, reused] = whole.each_ref().map(headers);
    assert!(ahead.iter().any(|header| header.named_ahead), "{ahead:?}");
    // With both encodings, the records take too few segments to reuse a file.
    let is_reused = reused.iter().any(|header| header.is_reused);
    assert!(is_reused || (is_compressed() && is_encrypted()), "{reused:?}");
    let all = ahead.iter().chain(&reused);
    assert!(all.clone().all(|header| header.authenticator.is_some() == is_encrypted()));
    assert!(all.clone().all(|header| (header.compression_max == METHOD) == is_compressed()));
}

fn acknowledged_records_survive_a_crash_at_every_step() {
    let tally = one_crash(&WORKLOADS);
    println!("one crash: {tally:?}");
    assert!(tally.states > 1_000 && tally.torn > 40, "{tally:?}");
}

fn records_survive_a_second_crash() {
    let tally = two_crashes(&WORKLOADS, &AFTERWARDS, &mut Sample::one_in(20));
    println!("two crashes: {tally:?}");
    assert!(tally.states > 60, "{tally:?}");
}

fn failed_sync_loses_no_acknowledged_record() {
    let tally = failed_syncs(&WORKLOADS, &mut Sample::one_in(6));
    println!("failed syncs: {tally:?}");
    assert!(tally.states > 60, "{tally:?}");
}

fn one_damaged_run_or_lost_file_never_hides_a_confirmed_record() {
    let faults = one_fault(&WORKLOADS, &mut Sample::one_in(40));
    println!("{faults} faults");
    assert!(faults > 60, "{faults}");
}

fn flipped_bit_is_always_detected() {
    for end in ENDS {
        every_bit_and_cut::every_flip(end, Layout::Binary);
    }
}

fn cut_lost_and_misplaced_files_are_always_detected() {
    every_bit_and_cut::every_cut(End::PowerCut, Layout::Binary);
    for end in ENDS {
        every_bit_and_cut::every_file(end, Layout::Binary);
    }
}

fn damaged_run_hides_only_unconfirmed_records() {
    for end in ENDS {
        every_bit_and_cut::every_run(end, Layout::Binary);
    }
}

fn damage_can_be_repaired_in_three_ways() {
    repair::ways_out::every_flipped_bit_can_be_repaired_in_three_ways();
    repair::ways_out::every_damaged_run_can_be_repaired_in_three_ways();
    repair::ways_out::every_lost_or_misplaced_file_can_be_repaired_in_three_ways();
}

fn parity_restores_what_it_promises() {
    parity::lost::every_single_lost_block_is_rebuilt();
    parity::lost::two_lost_or_unreadable_blocks_per_stripe_are_rebuilt();
    parity::lost::damage_beyond_parity_is_named_and_no_wrong_record_delivered();
    parity::several::first_batch_is_restored_together_with_the_header_after_it();
}

fn batches_are_carried_out_of_a_segment_whose_write_failed() {
    failover::log_continues_without_loss_after_a_failed_sync();
    failover::second_failure_right_after_the_first_is_survived();
    failover::records_in_a_block_spoiled_by_a_failed_write_are_carried();
    failover::spoiled_block_of_another_process_is_carried();
    failover::records_in_a_block_spoiled_by_an_open_are_carried();
    failover::records_in_a_block_spoiled_by_a_killed_process_are_carried();
}

fn full_disk_loses_nothing() {
    full_disk::full_disk_freed_twenty_times_loses_nothing();
}

fn writes_in_flight_fail_in_any_order() {
    let suite = with_same_encoding(|| {
        let states = in_flight::cut_with_three_in_flight();
        assert!(states >= 8, "{states} states");
        in_flight::fail_in_any_order(1_000);
    });
    within(60, suite);
}
