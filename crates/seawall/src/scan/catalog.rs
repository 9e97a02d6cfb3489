//! The catalog of a log's directory: manifest, live segments, gaps between them, and orphan files.
//! format.md sections 4 and 6.
//!
//! The catalog comes from the manifest and segment headers alone; no batch is read for it.

use crate::base::error::{Corruption, Damage, Origin};
use crate::files::segment::Segment;
use seawall_format::scan::Limit;
use seawall_format::{Live, LogId, Lsn, Manifest, SegmentId, tail};
use std::fmt;

/// The contents of a log's directory.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) found_manifest: FoundManifest,
    /// The live chain, oldest first.
    pub(crate) chain: Vec<ChainedSegment>,
    pub(crate) top: ChainTop,
    /// Whether the end of the log is ambiguous: the newest segment does not end cleanly, although
    /// something was written to the segment that was named ahead.
    pub(crate) end_is_doubtful: bool,
    /// Which records need keys that are lost: the log is encrypted, and its file `keys` cannot be
    /// read.
    pub(crate) keys_lost: Option<KeysLost>,
    /// The last record of the newest segment that `live` published as durable. If it is missing,
    /// the log is damaged and its end is not a torn write.
    pub(crate) published: Option<Lsn>,
    /// The highest id of any file, orphans excepted, or of any segment that a seal, the clean close
    /// or `live` names: it may be missing, and its id is never used again.
    pub(crate) max_id: Option<SegmentId>,
    pub(crate) names: Vec<String>,
}

/// The records for which the keys are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysLost {
    /// Those from this one on.
    From(Lsn),
    /// Those to come: no segment is encrypted yet.
    ToCome,
}

/// State of the manifest.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a catalog has only one, which is never moved")]
pub(crate) enum FoundManifest {
    Readable {
        manifest: Manifest,
        /// Whether both slots are readable, and not only one.
        both_slots: bool,
    },
    /// No slot is readable although a segment contains records.
    Lost,
    /// No slot is readable and no segment contains anything: creation was interrupted.
    Never,
}

/// What follows the newest segment in the chain.
#[derive(Clone, Debug)]
pub(crate) enum ChainTop {
    /// Nothing: the log ends in the newest segment.
    Complete,
    /// No segment, but at least one file with a higher number that never belonged to the log.
    Orphans(Vec<Orphan>),
    /// A segment that is missing.
    Missing(MissingTail),
}

impl Catalog {
    pub(crate) fn manifest(&self) -> Option<&Manifest> {
        match &self.found_manifest {
            FoundManifest::Readable { manifest, .. } => Some(manifest),
            FoundManifest::Lost | FoundManifest::Never => None,
        }
    }

    /// Whether the manifest is unreadable or missing although segments contain records.
    pub(crate) fn manifest_is_lost(&self) -> bool {
        matches!(self.found_manifest, FoundManifest::Lost)
    }

    /// Whether the keys of the encrypted record `lsn` are lost.
    pub(crate) fn are_keys_lost(&self, lsn: Lsn) -> bool {
        matches!(self.keys_lost, Some(KeysLost::From(first)) if first <= lsn)
    }

    /// Whether an encrypted segment was read without its keys.
    pub(crate) fn is_locked(&self) -> bool {
        self.chain
            .iter()
            .any(|link| link.segment.header.authenticator.is_some() && link.segment.keys.is_none())
    }

    /// Whether a segment is encrypted, or the next one will be.
    pub(crate) fn is_encrypted(&self) -> bool {
        let mut headers = self.chain.iter().map(|link| &link.segment.header);
        self.manifest().is_some_and(|manifest| manifest.authenticator.is_some())
            || headers.any(|header| header.authenticator.is_some())
    }

    pub(crate) fn missing_tail(&self) -> Option<MissingTail> {
        match &self.top {
            ChainTop::Missing(missing_tail) => Some(*missing_tail),
            ChainTop::Complete | ChainTop::Orphans(_) => None,
        }
    }

    /// The row for the end of the newest segment if that end is ambiguous, whatever its bytes say.
    pub(crate) fn end_row(&self) -> Option<tail::Row> {
        // A log that was opened since its last clean close may have continued in the orphans: a
        // segment whose seal the device refuses has later ones. Older programs left no mark.
        let is_closed = self.manifest().and_then(Manifest::end).is_some();
        let is_doubtful = self.end_is_doubtful || !(self.orphans().is_empty() || is_closed);
        is_doubtful.then_some(tail::Row::Otherwise)
    }

    /// Files numbered above the newest segment that never belonged to the log, as far as the
    /// manifest can prove this.
    pub(crate) fn orphans(&self) -> &[Orphan] {
        match &self.top {
            ChainTop::Orphans(orphans) => orphans,
            ChainTop::Complete | ChainTop::Missing(_) => &[],
        }
    }

    /// The chain fault that comes first in the recovery table.
    pub(crate) fn first_fault(&self) -> Option<ChainFault> {
        let gaps = self.chain.iter().filter_map(|link| link.gap.as_ref()).map(|gap| gap.0);
        gaps.chain(self.missing_tail().map(|missing_tail| missing_tail.fault)).min()
    }

    /// The last durable record according to `live`, if `live` names the newest segment.
    pub(crate) fn durable_per(&self, live: &Live) -> Option<Lsn> {
        live.durable.filter(|_| self.matches_newest(live))
    }

    /// Whether `live` names the newest segment of this log.
    pub(crate) fn matches_newest(&self, live: &Live) -> bool {
        let newest = self.chain.last().map(|link| link.segment.header.reference());
        newest == Some(live.segment) && self.is_of_this_log(live)
    }

    /// Whether `live` belongs to this log; true if no manifest says which log this is.
    pub(crate) fn is_of_this_log(&self, live: &Live) -> bool {
        self.manifest().is_none_or(|manifest| manifest.log == live.log)
    }
}

/// A fault of the chain. If there are several faults, the first in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChainFault {
    HeaderUnreadable,
    Misplaced,
    TextMissing,
    OldestMissing,
    NewestMissing,
    ChainBroken,
}

/// A segment in the live chain.
#[derive(Clone, Debug)]
pub(crate) struct ChainedSegment {
    pub(crate) segment: Segment,
    pub(crate) limit: Limit,
    /// The gap between the previous segment and this one.
    pub(crate) gap: Option<(ChainFault, Damage)>,
}

/// A segment that should follow the last one in the chain and is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingTail {
    pub(crate) fault: ChainFault,
    pub(crate) segment: SegmentId,
    pub(crate) cause: Corruption,
    /// Where the file found in place of the segment belongs.
    pub(crate) origin: Option<Origin>,
}

/// Files named like a segment that never belonged to the log: deleting them loses no record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The segment id in their names.
    pub segment: SegmentId,
    /// Their names in the log's directory.
    pub files: Vec<String>,
    /// Where they come from.
    pub kind: OrphanKind,
}

/// Where an orphan file comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrphanKind {
    /// Zero length, or only zeros.
    Empty,
    /// A copy of this segment.
    Copy(SegmentId),
    /// A segment of another log.
    Foreign,
}

impl OrphanKind {
    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Copy(_) => "copy",
            Self::Foreign => "foreign",
        }
    }
}

impl fmt::Display for Orphan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.files.join(" and "))?;
        let many = self.files.len() > 1;
        match self.kind {
            OrphanKind::Empty if many => f.write_str(": they hold nothing"),
            OrphanKind::Empty => f.write_str(": it holds nothing"),
            OrphanKind::Copy(segment) => write!(f, ": a copy of segment {segment}"),
            OrphanKind::Foreign => f.write_str(": a segment of another log"),
        }
    }
}

/// The log id: from the manifest, or else from the newest segment.
pub(crate) fn log_id(catalog: &Catalog) -> Option<LogId> {
    let manifest = catalog.manifest().map(|manifest| manifest.log);
    manifest.or_else(|| catalog.chain.last().map(|link| link.segment.header.log))
}
