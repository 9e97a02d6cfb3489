//! The rules under test. Each can be dropped by a switch.

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tail {
    /// What lies beyond V and above W is torn if it looks like a half-written batch over zeros.
    ZeroPreimage,
    /// What lies beyond V and above W is torn, whatever it is.
    Watermark,
}

macro_rules! rules {
    ($($name:ident: $about:literal,)*) => {
        /// Every switch is true in the design as mended; false plants the bug.
        #[derive(Clone, Copy)]
        pub struct Rules { pub tail: Tail, $(pub $name: bool,)* }
        impl Rules {
            pub fn all() -> Rules { Rules { tail: Tail::ZeroPreimage, $($name: true,)* } }
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
    fresh_epoch: "each segment has an epoch never used before (off: highest visible + 1)",
    roll_after_cut: "a new segment follows a truncated tail (off: append in place, same epoch)",
    no_retry: "a failed barrier is not repeated on the same blocks",
    confirm_after_barrier: "confirmed is raised only after the barrier returned",
    confirm_in_order: "confirmed counts only LSNs below which all barriers returned",
    confirm_by_write: "a batch does not confirm another batch of its own write",
    sync_dir: "directory sync before the first acknowledgement in a segment",
    base_hides: "frames at or above a successor's base are ignored",
    content_before_name: "rewritten records are durable before the segment gets its name",
    seal_names_next: "the seal names the successor, is written after it is durable, and is checked",
    reseal_on_cut: "truncation and recovery rewrite the seal of the segment they truncate",
    rewrite_unconfirmed: "recovery rewrites (W, V] into the new segment",
    carry_block: "a failed barrier carries the whole shared block into the new segment",
    header_confirms: "the header says up to where its segment was durable when it got its name",
    pred_holds_w: "recovery links the new segment to the one that holds W",
    in_place_needs_own_mark:
        "recovery continues in place only if the segment confirms a record of its own",
    in_place_needs_seal:
        "and only if its predecessor's seal names it: else the rotation did not end",
    drain_before_roll: "a segment's base is below every LSN whose barrier has not returned",
    manifest_first: "segments are removed only after the manifest is durable",
    whole_scan: "confirmed is looked for in the whole segment, not in the valid prefix",
    check_name: "the header's id must match the file's name",
    check_header: "an unreadable header of a named segment is damage",
    orphan_after_close:
        "a file above the newest segment is an orphan only after a clean close (off: always)",
    check_length: "a newest segment shorter than its header says is damage",
    trim_after_roll: "the unused tail is truncated after the successor is durable",
    trim_keeps_batches:
        "its start is the end of the last batch (off: after the last non-zero byte)",
    gap: "mark slots lie farther from the data than a fault reaches",
    far_confirm: "a batch confirms only records farther away than a fault reaches",
    confirm_sets: "a record of an atomic set is confirmed only with the whole of it",
    manifest_at_open: "recovery rewrites the manifest before it makes a segment",
    manifest_doubtful_first:
        "and begins with an unreadable slot, else the newest, which may be in the cache only",
    manifest_in_place:
        "and, with where it opened as a clean close, before it continues in place: see `recover`",
    close_both: "a clean close goes to both slots: the next open overwrites the newest first",
    names_carry_epoch: "seal and manifest name a segment by id and epoch",
    sync_files_at_open:
        "recovery syncs the manifest and the newest segment before it writes to them",
    sync_dir_at_open: "recovery syncs the directory before it trusts what it sees",
    check_close: "where the last clean close ended is evidence for W",
    clamp_close: "that evidence is clamped to the live range of the segment it names",
    lower_checkpoints: "a truncation lowers the checkpoints in the manifest first",
    whole_sets: "V ends at the end of an atomic set",
    torn_behind_set: "the tail test starts at the end of the valid prefix, not at V",
    live_before_ack: "`live` is written before the acknowledgement",
    live_lowered_first: "a truncation lowers `live` before it makes its segment",
    live_after_recovery: "recovery removes `live` first and writes it last (off: first, with V)",
    reader_heeds_live: "beside a writer a reader goes no further than `live`",
    live_ends_with_writer:
        "without its writer `live` bounds no reader (off: on the same boot it does)",
    reader_syncs:
        "without `live` a reader syncs what is not known to be durable before it shows it",
    text_named_first: "text is named, and the directory synced, before its head is named",
}
