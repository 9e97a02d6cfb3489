//! The rules of the virtual disk under test. Each can be dropped by a switch.

macro_rules! rules {
    ($($name:ident: $about:literal,)*) => {
        /// One switch for each rule: true in the design, false to plant the bug.
        #[derive(Clone, Copy)]
        pub struct Rules { $(pub $name: bool,)* }
        impl Rules {
            pub fn all() -> Rules {
                Rules { $($name: true,)* }
            }
            pub fn without(name: &str) -> Rules {
                let mut r = Rules::all();
                $(if name == stringify!($name) { r.$name = false; })*
                r
            }
            pub const NAMES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), $about),)*];
        }
    };
}

rules! {
    data_before_entry: "bytes are in a buffer before its entry names them",
    two_copies: "an entry is stored twice, and an update leaves the copy that counts",
    overwrite_by_staging: "bytes of a run are overwritten by way of the staging buffer",
    pending_cleared: "the pending entry is cleared before the staging buffer is used again",
    pending_redone: "a start repeats a pending overwrite before it uses the memory",
    cleared_after_sync: "an entry is cleared after the home was synced",
    older_lands_first: "a run is not written home before older ones that meet it are there",
    restored_in_order: "runs are restored in the order of their numbers",
    own_serve: "memory counts only if no server has started since",
    dropped_before_note: "a start lets the memory go before it notes its own number",
    dumped_before_drop: "the memory is in the area before it is let go",
    synced_before_drop: "and synced there",
    fresh_generation: "a dump's generation is above that of any in the area, also of a torn one",
    whole_dump_stays: "a start does not write over a whole dump",
    used_after_sync: "a dump is marked as used after the home was synced",
    home_synced: "a start syncs the home also if nothing is restored",
    mark_synced: "a start syncs the mark of the used dump also if nothing is restored",
    mark_rewritten: "and writes it again: after a failed sync it may be visible only",
    laid_out_before_kept: "memory is laid out before the keeper gets it",
    kept_before_write: "the keeper has the memory before the first write is accepted",
    budget: "bytes acknowledged early never exceed what an emergency can dump",
    late_writes_end: "no write of a killed server reaches the home after the next start began",
}
