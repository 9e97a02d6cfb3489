//! Tests that every store passes: exactly-once replay despite kills, and the same content as a
//! store in memory. [`kill_tests`] and [`store_tests`] generate the tests of an engine.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test reports failure by panicking"
)]

mod folder;
pub mod kill;
pub mod store;
mod workload;

pub use folder::Folder;

/// Generates the tests of [`kill`] for an engine. They need their own test binary: while a process
/// is being started, it holds the locks of all open stores.
///
/// Use this in the root of the binary: the other tests run its test `child` as a process.
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

/// Generates the tests of [`kill`] for an engine with ingestion. Requires [`kill_tests`], which
/// provides `child`.
#[macro_export]
macro_rules! ingestion_kill_tests {
    ($engine:ty) => {
        $crate::tests_of!($engine, kill,
            every_change_is_ingested_once_despite_kills
            watermark_written_after_the_ingestion_is_caught);
    };
}

/// Generates the tests of [`store`] for an engine.
#[macro_export]
macro_rules! store_tests {
    ($engine:ty) => {
        $crate::tests_of!($engine, store,
            store_behaves_like_a_memory_store
            dropped_rows_vanish_at_once_and_their_space_at_the_next_flush
            tables_created_by_one_record_have_separate_rows
            batch_with_a_longer_key_than_allowed_is_refused_whole
            open_or_foreign_or_unknown_store_is_refused
            store_exists_once_it_was_opened
            store_of_another_log_or_of_truncated_records_is_refused
            watermarks_of_an_earlier_version_have_no_log_id);
    };
}

/// Generates tests of an engine from some functions of a module.
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
