//! Tests that every store passes: exactly-once replay despite kills, and the same content as a
//! store in memory. [`kill_tests`] and [`store_tests`] make them tests of an engine.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a panic is the report of a test"
)]

mod folder;
pub mod kill;
pub mod store;
mod workload;

pub use folder::Folder;

/// Makes the functions of [`kill`] tests of an engine, in a program of their own: a process that is
/// being started holds the locks of all stores that are open.
///
/// Use it in the root of the program, whose test `child` others run as a process.
#[macro_export]
macro_rules! kill_tests {
    ($engine:ty) => {
        $crate::tests_of!($engine, kill,
            every_change_is_applied_once_despite_kills
            store_killed_during_creation_is_created_by_the_next_open
            watermark_written_after_the_batch_is_caught
            watermark_in_another_database_is_caught
            child);
    };
}

/// The same for an engine with an ingestion: [`kill_tests`] has its `child`.
#[macro_export]
macro_rules! ingestion_kill_tests {
    ($engine:ty) => {
        $crate::tests_of!($engine, kill,
            every_change_is_ingested_once_despite_kills
            watermark_written_after_the_ingestion_is_caught);
    };
}

/// Makes the functions of [`store`] tests of an engine.
#[macro_export]
macro_rules! store_tests {
    ($engine:ty) => {
        $crate::tests_of!($engine, store,
            store_behaves_like_a_memory_store
            dropped_rows_vanish_at_once_and_their_space_at_the_next_flush
            tables_created_by_one_record_have_separate_rows
            batch_with_a_longer_key_than_allowed_is_refused_whole
            open_or_foreign_or_unknown_store_is_refused
            store_of_another_log_or_of_truncated_records_is_refused
            watermarks_of_an_earlier_version_have_no_log_id);
    };
}

/// Makes some functions of a module tests of an engine.
#[doc(hidden)]
#[macro_export]
macro_rules! tests_of {
    ($engine:ty, $module:ident, $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::$module::$name::<$engine>();
            }
        )*
    };
}
