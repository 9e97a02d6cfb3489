//! How far a reader may go in the newest segment: up to what is known to be durable, and behind
//! that once the reader has synced it. format.md section 6.2.
//!
//! A reader shows every valid record and none that a crash could still remove. Evidence in the
//! files, or `live`, tells of most records that they are durable; of the rest the reader makes sure
//! by a sync of its own, through files that it has open for reading only.

use crate::base::error::{Damage, Error, Result};
use crate::files::live::Watermark;
use crate::files::segment::Segment;
use crate::scan::catalog::{Catalog, ChainedSegment};
use crate::scan::scanner::{LogScanner, ScanEnd, ScanItem};
use seawall_format::scan::Limit;
use seawall_format::{Lsn, SegmentRef, next_lsn};
use seawall_io::Access;
use std::io;

/// What lies behind the records of the newest segment that were known to be durable.
#[derive(Debug)]
pub(crate) struct UnconfirmedEnd {
    /// The last valid record.
    last: Option<Lsn>,
    /// The last record that is known to be durable without a sync.
    known: Option<Lsn>,
    /// What is damaged first there.
    pub(crate) damage: Option<Vec<Damage>>,
    /// What the look ended with.
    pub(crate) end: ScanEnd,
    /// Whether everything is durable now.
    is_synced: bool,
    /// Why the records behind `known` may not be shown.
    refused: Option<io::Error>,
}

/// The newest segment, where its end is open: nothing is missing behind it.
pub(crate) fn open_end(catalog: &Catalog) -> Option<&ChainedSegment> {
    catalog.chain.last().filter(|link| catalog.missing_tail.is_none() && link.limit == Limit::Open)
}

/// The last record of the newest segment that is known to be durable without a look at its
/// batches.
pub(crate) fn known(catalog: &Catalog, watermark: Option<&Watermark>) -> Result<Option<Lsn>> {
    let Some(newest) = open_end(catalog) else { return Ok(None) };
    let header = &newest.segment.header;
    if !is_named(catalog, watermark)? {
        // Its name may be in the page cache only.
        return Ok(header.base.previous());
    }
    let marks = newest.segment.marks()?.into_iter().map(|mark| mark.confirmed);
    let closed = catalog.manifest.as_ref().and_then(|manifest| manifest.closed);
    let closed = closed.filter(|closed| closed.segment == header.reference());
    let closed = closed.and_then(|closed| closed.last);
    let told = watermark.and_then(|watermark| catalog.durable_per(&watermark.live));
    let others = [header.base.previous(), header.carried, closed, told];
    Ok(marks.chain(others).max().flatten())
}

/// Whether something that was written later says that the newest segment's name is durable.
fn is_named(catalog: &Catalog, watermark: Option<&Watermark>) -> Result<bool> {
    let [.., before, newest] = &*catalog.chain else { return Ok(true) };
    let named = newest.segment.header.reference();
    let closed = catalog.manifest.as_ref().and_then(|manifest| manifest.closed);
    let is_told = watermark.is_some_and(|watermark| catalog.matches_newest(&watermark.live));
    if is_told || closed.is_some_and(|closed| closed.segment == named) {
        return Ok(true);
    }
    Ok(before.segment.seal()?.is_some_and(|seal| seal.next == named))
}

/// Goes to the end of the newest segment with `scan`, whose end is open. Everything up to `known`
/// was acknowledged or confirmed.
pub(crate) fn scan_beyond_known(
    catalog: &Catalog,
    scan: LogScanner,
    known: Option<Lsn>,
) -> Result<UnconfirmedEnd> {
    let mut scan = scan.with_min_end(known);
    let mut damage = None;
    let end = loop {
        match scan.step()? {
            ScanItem::Batch(_) => {}
            ScanItem::Damage(damages, _) => drop(damage.get_or_insert(damages)),
            ScanItem::ScanEnd(end) => break end,
        }
    };
    // What is carried was durable when the segment got its name, and not before that name is.
    let base = open_end(catalog).map(|newest| newest.segment.header.base);
    let is_named = known >= base || is_named(catalog, None)?;
    let known = if is_named { known.max(end.confirmed) } else { known };
    let (is_synced, refused) = (is_named && end.last <= known, None);
    Ok(UnconfirmedEnd { last: end.last, known, is_synced, damage, end, refused })
}

/// A sync that failed. It is not tried again: the next one would succeed and prove nothing.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    segment: SegmentRef,
    kind: io::ErrorKind,
    why: String,
}

impl Refused {
    fn error(&self) -> io::Error {
        io::Error::new(self.kind, self.why.clone())
    }
}

impl UnconfirmedEnd {
    /// Syncs the newest segment and the directory, unless all that is valid is known to be durable,
    /// or `refused` says that it failed before.
    pub(crate) fn make_durable(
        &mut self,
        catalog: &Catalog,
        refused: &mut Option<Refused>,
    ) -> Result<()> {
        let Some(newest) = catalog.chain.last() else { return Ok(()) };
        if self.is_synced {
            return Ok(());
        }
        let segment = newest.segment.header.reference();
        if let Some(refused) = refused.as_ref().filter(|refused| refused.segment == segment) {
            self.refused = Some(refused.error());
        } else if let Err(error) = sync(&newest.segment) {
            if error.kind() == io::ErrorKind::NotFound {
                // Pruned meanwhile.
                return Err(Error::io(format!("sync {}", newest.segment.name()))(error));
            }
            *refused = Some(Refused { segment, kind: error.kind(), why: error.to_string() });
            self.refused = Some(error);
        } else {
            self.is_synced = true;
        }
        Ok(())
    }

    /// Whether this record is known to be durable without a sync.
    pub(crate) fn knows(&self, lsn: Lsn) -> bool {
        Some(lsn) <= self.known
    }

    /// Up to where the newest segment is to be read. Behind damage that is its end: the damage is
    /// an error to the reader, and what follows it is to be named as a verdict names it.
    pub(crate) fn limit(&self) -> Limit {
        match self.refused {
            Some(_) => Limit::At(self.known),
            None if self.damage.is_some() => Limit::Open,
            None => Limit::At(self.last),
        }
    }

    /// The last record that is known to be durable now.
    pub(crate) fn durable(&self) -> Option<Lsn> {
        if self.is_synced { self.last } else { self.known }
    }

    /// The error that takes the place of the records which may not be shown.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        let source = self.refused.take()?;
        Some(Error::Unconfirmed { from: next_lsn(self.known), to: self.last, source })
    }
}

/// Through files that are open for reading only.
fn sync(newest: &Segment) -> io::Result<()> {
    for name in newest.names() {
        newest.storage().open(&name, Access::Read)?.sync()?;
    }
    newest.storage().sync_dir()
}
