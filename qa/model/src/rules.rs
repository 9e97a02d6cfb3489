//! The rules under test. Each can be dropped by a switch.

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Tail {
    /// The bytes after V and above W are torn if they look like a half-written batch over zeros.
    ZeroPreimage,
    /// The bytes after V and above W are torn in any case.
    Watermark,
}

/// When the first batch of a segment named ahead is acknowledged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Ahead {
    /// No segment is named ahead.
    Off,
    /// Once the batch is durable. The next one waits for the seal, and a note names the segment.
    Batch,
    /// Once the batch and the seal of the previous segment are durable.
    Both,
}

/// The optional features of a log.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Features {
    /// Whether removed segments are reused for new ones.
    pub reuse: bool,
    /// The maximum number of writes that are not acknowledged yet.
    pub flights: u16,
    pub ahead: Ahead,
}

impl Features {
    pub const NONE: Features = Features { reuse: false, flights: 1, ahead: Ahead::Off };
}

macro_rules! rules {
    ($($name:ident: $about:literal,)*) => {
        /// One switch for each rule: true in the design, false to plant the bug.
        #[derive(Clone, Copy)]
        pub struct Rules { pub tail: Tail, pub features: Features, $(pub $name: bool,)* }
        impl Rules {
            pub fn all() -> Rules {
                let (tail, features) = (Tail::ZeroPreimage, Features::NONE);
                Rules { tail, features, $($name: true,)* }
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
    fresh_epoch: "each segment has an epoch never used before (off: that of a reused file, or the \
        highest visible + 1)",
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
    live_bounds_below: "a log that ends before what the `live` of its last writer says is damaged",
    reader_syncs:
        "without `live` a reader syncs what is not known to be durable before it shows it",
    text_named_first: "text is named, and the directory synced, before its head is named",
    compare_with_table: "reuse: a sector is compared with what the earlier life left (off: zero)",
    fresh_table: "reuse: each life has its own table (off: that of the file's first reuse)",
    table_synced: "reuse: the table is durable before the segment gets its name",
    table_named:
        "reuse: so are its name and the spare's before the spare changes (off: with the segment's)",
    doubt_without_table: "reuse: without its table no sector is untouched (off: each is)",
    zero_in_block: "reuse: zero is untouched in the rest of the block of P only",
    fill_block: "reuse: the last block of a write is filled with zeros",
    spare_settled:
        "reuse: a spare is synced first, and used only if the cache shows what the disk holds",
    window_counts_flights: "flights: the window of in-flight bytes has room for all of them",
    flights_unacknowledged:
        "flights: the limit counts writes not acknowledged (off: not returned)",
    pad_flights: "flights: each write ends at a block",
    ack_in_order: "flights: a write is acknowledged after those before it",
    ack_waits_for_seal: "ahead: the first acknowledgement waits for the seal too",
    trim_after_batch:
        "ahead: the segment before is shortened when batch and seal are durable (off: the seal)",
    next_ack_waits: "ahead, acknowledged by the batch: the next acknowledgement waits for the seal",
    confirmed_waits: "ahead, acknowledged by the batch: so does Confirmed",
    note_names_next: "ahead, acknowledged by the batch: a note names the next segment",
    begun_by_bytes:
        "ahead: a segment has begun if a byte of it changed (off: if its first batch is valid)",
    seal_may_be_early: "ahead: a seal may name a segment that has not begun",
    sealed_ends: "ahead: a sealed segment is not continued in place",
    seal_confirms: "ahead: the seal of the newest segment confirms its last record",
    pad_first: "ahead: the first write ends at a block: no later one can spoil it",
    abandon_unbegun: "ahead: if the first batch fails, the next segment follows the one before",
}
