//! The published schema: what the verbs print with `--json`.
//!
//! A single answer is an object that begins with its `schema`. Scripts rely on these declarations:
//! members are added to a schema, never removed, renamed or reordered. Unknown values are `null`.
//!
//! | schema | printed by | declared in |
//! |---|---|---|
//! | `seawall.append/1` | `append` | `records::append::session` |
//! | `seawall.verify/1` | `verify`, for each log | here |
//! | `seawall.stat/1` | `stat` | `maintenance::stat` |
//! | `seawall.copy/1` | `copy` | here |
//! | `seawall.truncate/1` | `truncate` | `maintenance::truncate` |
//! | `seawall.repair/1` | `repair`: a shape for each `done` | `maintenance::repair::answers` |
//! | `seawall.protect/1` | `protect` | `maintenance::protect` |
//! | `seawall.keygen/1` | `keygen` | `keys::keygen` |
//! | `seawall.rekey/1` | `rekey` | `keys::rekey` |
//! | `seawall.convert/1` | `convert` | `transfer::convert` |
//! | `seawall.replay/1` | `replay` | `transfer::replay::answer` |
//! | `seawall.explain/1` | `explain` | `help::explain` |
//! | `seawall.doctor/1` | `doctor` | `machine::doctor` |
//! | `seawall.probe/1` | `probe` | `machine::probe` |
//! | `seawall.bench-append/1` | `bench append` | `machine::bench` |
//! | `seawall.demo/1` | `demo` | `machine::demo::outcome` |
//! | `seawall.disk.serve/1`, `.status/1`, `.stop/1` and more | `disk` | `seawall_disk_cli` |
//!
//! `cat`, `tail` and `append --ack` print one object for each record, without a schema.

use seawall::backup::BackupReport;
use seawall::damage::ChangedPart;
use seawall::format::SegmentId;
use seawall::recovery::TailState;
use seawall::verify::{OrphanKind, Summary, Verification};
use seawall::{Lsn, damage, repair, verify};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure};
use serde::Serialize;
use std::path::Path;

answer! {
    /// `seawall verify --json`
    #[derive(Default)]
    #[serde(tag = "schema", rename = "seawall.verify/1")]
    pub(in crate::commands) struct Verify(log: &Path, found: &Verification, exit: Exit) {
        log: String = log.display().to_string(),
        verdict: Option<&'static str> = Some(found.verdict.name()),
        exit: u8 = exit.code(),
        /// Present only if the log could not be verified.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String> = None,
        records: u64 = found.records,
        first_lsn: Option<u64> = found.first_lsn.map(Lsn::get),
        last_lsn: Option<u64> = found.last_lsn.map(Lsn::get),
        damage: Vec<Damage> = found.damage.iter().map(Damage::of).collect(),
        mended: Vec<Patch> = found.mended.iter().map(Patch::of).collect(),
        given_up: Vec<Lost> = found.given_up.iter().map(Lost::of).collect(),
        orphans: Vec<Orphan> = found.orphans.iter().map(Orphan::of).collect(),
        tail: Option<Tail> = Some(Tail::of(found)),
        segments: Option<u64> = Some(found.summary.segments),
        bytes: Option<u64> = Some(found.summary.bytes),
        encrypted_segments: Option<u64> = Some(found.summary.encrypted_segments),
        decrypted: Option<bool> = decrypted(&found.summary),
    }
}

/// Returns whether encrypted records were decrypted; `None` if no segment is encrypted.
pub(in crate::commands) fn decrypted(summary: &Summary) -> Option<bool> {
    (summary.encrypted_segments > 0).then_some(!summary.is_locked)
}

impl Verify {
    /// Returns the answer for a log that could not be verified.
    pub(in crate::commands) fn failed(log: &Path, failure: &Failure) -> Self {
        Self {
            log: log.display().to_string(),
            verdict: match failure.exit {
                Exit::Key => Some("key"),
                Exit::Format => Some("format"),
                _ => None,
            },
            exit: failure.exit.code(),
            error: Some(failure.what().to_owned()),
            ..Self::default()
        }
    }
}

answer! {
    /// The end of a log.
    struct Tail(found: &Verification) {
        state: &'static str = found.tail.name(),
        segment: Option<u64> = found.tail_at.map(|(segment, _)| segment.get()),
        offset: Option<u64> = found.tail_at.map(|(_, offset)| offset.0),
        bytes: u64 = found.tail_bytes,
    }
}

answer! {
    /// Damage to stored bytes.
    pub(in crate::commands) struct Damage(damage: &damage::Damage) {
        segment: Option<u64> = damage.segment.map(SegmentId::get),
        offset: u64 = damage.offset.0,
        bytes: u64 = damage.bytes,
        lost_from: Option<u64> = damage.lost.map(|lost| lost.from.get()),
        lost_to: Option<u64> = damage.lost.and_then(|lost| lost.to).map(Lsn::get),
        cause: &'static str = damage.cause.name(),
        changed: Option<&'static str> = damage.changed.map(ChangedPart::name),
        origin: Option<Origin> = damage.origin.as_ref().map(Origin::of),
    }
}

answer! {
    /// Where misplaced bytes belong.
    struct Origin(origin: &damage::Origin) {
        segment: u64 = origin.segment.get(),
        offset: u64 = origin.offset.0,
    }
}

answer! {
    /// Lost records; `to` is null where the end is unknown.
    pub(in crate::commands) struct Lost(lost: &damage::Lost) {
        from: u64 = lost.from.get(),
        to: Option<u64> = lost.to.map(Lsn::get),
    }
}

answer! {
    /// Bytes that parity restores.
    pub(in crate::commands) struct Patch(patch: &repair::Patch) {
        file: String = patch.file.clone(),
        offset: u64 = patch.offset,
        bytes: usize = patch.new.len(),
        by: &'static str = patch.by.name(),
    }
}

answer! {
    /// Files that are not part of the log.
    pub(in crate::commands) struct Orphan(orphan: &verify::Orphan) {
        segment: u64 = orphan.segment.get(),
        files: Vec<String> = orphan.files.clone(),
        kind: &'static str = orphan.kind.name(),
        copy_of: Option<u64> = match orphan.kind {
            OrphanKind::Copy(segment) => Some(segment.get()),
            _ => None,
        },
    }
}

answer! {
    /// `seawall copy --json`
    #[serde(tag = "schema", rename = "seawall.copy/1")]
    pub(in crate::commands) struct Copy(log: &Path, target: &Path, copied: &BackupReport) {
        log: String = log.display().to_string(),
        target: String = target.display().to_string(),
        first_lsn: Option<u64> = copied.first.map(Lsn::get),
        last_lsn: Option<u64> = copied.last.map(Lsn::get),
        bytes: u64 = copied.bytes,
        records: u64 = copied.records,
        tail: CopiedTail = CopiedTail::of(copied.tail),
    }
}

answer! {
    /// The end of a log that was copied. The new log does not show what may be lost after it.
    pub(in crate::commands) struct CopiedTail(tail: TailState) {
        state: &'static str = tail.name(),
    }
}
