//! Decides how far a reader may go in the newest segment: up to the last record known to be
//! durable, and past it once the reader has synced the segment. format.md section 6.2.
//!
//! A reader returns every valid record and none that a crash could still remove. For most records
//! the files or `live` prove that they are durable. For the others the reader calls sync itself,
//! which a file opened for reading allows.

use crate::base::error::{Damage, Error, Result};
use crate::files::live::Watermark;
use crate::files::segment::Segment;
use crate::scan::catalog::{Catalog, ChainedSegment};
use crate::scan::scanner::{LogScanner, ScanEnd, ScanItem};
use seawall_format::scan::Limit;
use seawall_format::{Lsn, SegmentRef, next_lsn};
use seawall_io::Access;
use std::io;

/// The end of the newest segment, past the records known to be durable.
#[derive(Debug)]
pub(crate) struct UnconfirmedEnd {
    /// The last valid record.
    last: Option<Lsn>,
    /// The last record known to be durable without a sync.
    known: Option<Lsn>,
    /// Records past `known` that a repair gave up.
    pub(crate) given_up: u64,
    /// The first damage past `known`.
    pub(crate) damage: Option<Vec<Damage>>,
    /// How the scan ended.
    pub(crate) end: ScanEnd,
    /// Whether every valid record is known to be durable now.
    is_synced: bool,
    /// Why the records after `known` cannot be returned: the error of the sync.
    refused: Option<io::Error>,
}

/// The newest segment, if it has no fixed end and no segment is missing after it.
pub(crate) fn open_end(catalog: &Catalog) -> Option<&ChainedSegment> {
    catalog
        .chain
        .last()
        .filter(|link| catalog.missing_tail().is_none() && link.limit == Limit::Open)
}

/// The last record known to be durable from the headers, marks, clean close and `live`, without
/// reading batches.
pub(crate) fn known(catalog: &Catalog, watermark: Option<&Watermark>) -> Result<Option<Lsn>> {
    let Some(newest) = open_end(catalog) else { return Ok(None) };
    let header = &newest.segment.header;
    if !is_named(catalog, watermark)? {
        // The directory entry may not be durable yet, and with it the whole segment.
        return Ok(header.base.previous());
    }
    let marks = newest.segment.marks()?.into_iter().map(|mark| mark.confirmed);
    let closed = catalog.manifest().and_then(|manifest| manifest.closed);
    let closed = closed.filter(|closed| closed.segment == header.reference());
    let closed = closed.and_then(|closed| closed.last);
    let published = watermark.and_then(|watermark| catalog.durable_per(&watermark.live));
    let sealed = newest.segment.seal()?.and_then(|seal| seal.last);
    let others = [header.base.previous(), header.carried, closed, sealed, published];
    Ok(marks.chain(others).max().flatten())
}

/// Whether anything written later proves that the newest segment's directory entry is durable.
fn is_named(catalog: &Catalog, watermark: Option<&Watermark>) -> Result<bool> {
    let [.., before, newest] = &*catalog.chain else { return Ok(true) };
    let named = newest.segment.header.reference();
    let closed = catalog.manifest().and_then(|manifest| manifest.closed);
    let is_published = watermark.is_some_and(|watermark| catalog.matches_newest(&watermark.live));
    if is_published || closed.is_some_and(|closed| closed.segment == named) {
        return Ok(true);
    }
    Ok(before.segment.seal()?.is_some_and(|seal| seal.next == named))
}

/// Scans to the end of the newest segment. Everything up to `known` was acknowledged or confirmed.
pub(crate) fn scan_beyond_known(
    catalog: &Catalog,
    scan: LogScanner,
    known: Option<Lsn>,
) -> Result<UnconfirmedEnd> {
    let mut scan = scan.with_min_end(known);
    let (mut damage, mut given_up) = (None, 0);
    let end = loop {
        match scan.step()? {
            ScanItem::Batch(batch) => given_up += batch.given_up_after(known),
            ScanItem::Damage(damages, _) => drop(damage.get_or_insert(damages)),
            ScanItem::End(end) => break end,
        }
    };
    // Confirmations inside the segment count only if its directory entry is durable.
    let base = open_end(catalog).map(|newest| newest.segment.header.base);
    let is_named = known >= base || is_named(catalog, None)?;
    let known = if is_named { known.max(end.confirmed) } else { known };
    let (is_synced, refused) = (is_named && end.last <= known, None);
    Ok(UnconfirmedEnd { last: end.last, known, given_up, is_synced, damage, end, refused })
}

/// A failed sync. Never retried: the next sync would succeed without having written the data.
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
    /// Syncs the newest segment and the directory, unless every valid record is known to be durable
    /// or an earlier sync of this segment failed, as `refused` records.
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
                // The segment was pruned meanwhile.
                return Err(Error::io(format!("sync {}", newest.segment.name()))(error));
            }
            *refused = Some(Refused { segment, kind: error.kind(), why: error.to_string() });
            self.refused = Some(error);
        } else {
            self.is_synced = true;
        }
        Ok(())
    }

    /// Whether `lsn` is known to be durable without a sync.
    pub(crate) fn knows(&self, lsn: Lsn) -> bool {
        Some(lsn) <= self.known
    }

    /// Limit for reading the newest segment. With damage there is none: the reader reports the
    /// damage and what follows it, as `verify` does.
    pub(crate) fn limit(&self) -> Limit {
        match self.refused {
            Some(_) => Limit::At(self.known),
            None if self.damage.is_some() => Limit::Open,
            None => Limit::At(self.last),
        }
    }

    /// The last record known to be durable now.
    pub(crate) fn durable(&self) -> Option<Lsn> {
        if self.is_synced { self.last } else { self.known }
    }

    /// Takes the error that the reader returns instead of the unconfirmed records.
    pub(crate) fn refusal(&mut self) -> Option<Error> {
        let source = self.refused.take()?;
        let (from, to) = (next_lsn(self.known), self.last);
        Some(Error::Unconfirmed { log: None, from, to, source })
    }
}

/// Files opened for reading suffice for a sync.
fn sync(newest: &Segment) -> io::Result<()> {
    for name in newest.names() {
        newest.storage().open(&name, Access::Read)?.sync()?;
    }
    newest.storage().sync_dir()
}
