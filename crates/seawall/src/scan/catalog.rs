//! A survey of a log's directory: manifest and segment headers. format.md sections 4 and 6.
//!
//! It reads and judges nothing but the first blocks. What is missing or out of place does not
//! end it: the rest stays readable around the hole, and the hole is named.

use crate::base::error::{Corruption, Damage, Origin};
use crate::files::segment::Segment;
use seawall_format::scan::Limit;
use seawall_format::{Live, LogId, Lsn, Manifest, SegmentId};
use std::fmt;

/// What a directory holds.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub(crate) manifest: Option<Manifest>,
    /// Whether slot A, slot B can be read.
    pub(crate) readable: [bool; 2],
    /// The live chain, oldest first.
    pub(crate) chain: Vec<ChainedSegment>,
    pub(crate) missing_tail: Option<MissingTail>,
    /// Files above the newest segment that are none of the log's.
    pub(crate) orphans: Vec<Orphan>,
    /// No manifest, though segments hold something.
    pub(crate) manifest_lost: bool,
    /// The highest id that any file has, but for orphans.
    pub(crate) max_id: Option<SegmentId>,
    pub(crate) names: Vec<String>,
}

impl Catalog {
    /// The first row of the table that something wrong with the chain matches.
    pub(crate) fn first_fault(&self) -> Option<ChainFault> {
        let gaps = self.chain.iter().filter_map(|link| link.gap.as_ref()).map(|gap| gap.0);
        gaps.chain(self.missing_tail.map(|missing_tail| missing_tail.fault)).min()
    }

    /// The last record that `live` says is durable, if it speaks of the newest segment.
    pub(crate) fn durable_per(&self, live: &Live) -> Option<Lsn> {
        live.durable.filter(|_| self.matches_newest(live))
    }

    /// Whether `live` speaks of the newest segment.
    pub(crate) fn matches_newest(&self, live: &Live) -> bool {
        let newest = self.chain.last().map(|link| link.segment.header.reference());
        newest == Some(live.segment) && self.is_of_this_log(live)
    }

    /// Whether `live` was written for this log, as far as anything says which one this is.
    pub(crate) fn is_of_this_log(&self, live: &Live) -> bool {
        self.manifest.as_ref().is_none_or(|manifest| manifest.log == live.log)
    }
}

/// What is wrong with the chain of segments. Where there are several faults, the first in this
/// order counts.
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
    /// What is missing between the link before and this one.
    pub(crate) gap: Option<(ChainFault, Damage)>,
}

/// Something that should stand behind the last link and does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingTail {
    pub(crate) fault: ChainFault,
    pub(crate) segment: SegmentId,
    pub(crate) cause: Corruption,
    /// What a sound file in the place of the segment was written for.
    pub(crate) origin: Option<Origin>,
}

/// Files that have the name of a segment, and are not part of the log: no record is lost with them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Orphan {
    /// The segment that their name stands for.
    pub segment: SegmentId,
    /// Their names in the log's directory.
    pub files: Vec<String>,
    /// What they are.
    pub kind: OrphanKind,
}

/// What an orphan file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrphanKind {
    /// It is empty, or holds nothing but zeros.
    Empty,
    /// A copy of this segment.
    Copy(SegmentId),
    /// A segment of another log.
    Foreign,
}

impl OrphanKind {
    /// A word for it, stable for scripts.
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

/// Which log this is.
pub(crate) fn log_id(catalog: &Catalog) -> Option<LogId> {
    let manifest = catalog.manifest.as_ref().map(|manifest| manifest.log);
    manifest.or_else(|| catalog.chain.last().map(|link| link.segment.header.log))
}
