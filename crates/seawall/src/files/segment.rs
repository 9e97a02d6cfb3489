//! One segment of a log: the head (header, marks, seal) and the records. A binary segment keeps
//! both in one file, a text segment in two. format.md sections 3 and 9.

use crate::base::error::{Corruption, Error, Result, is_read_error, missing_segment};
use crate::base::keys::LogKeys;
use crate::base::num::READ_SIZE;
use crate::files::directory::{file_place, read_start};
use crate::files::read_buffer::Buffer;
use seawall_format::batch::{self, BatchHeader};
use seawall_format::before::{Before, SectorSums, TableOf};
use seawall_format::encryption::{KeyError, SegmentKeys};
use seawall_format::{
    Lsn, Manifest, Mark, MarkSlot, Offset, Refused, STORED_MAX, Seal, SegmentHeader, SegmentRef,
    tail,
};
use seawall_io::{Access, File, Storage};
use std::io;
use std::sync::Arc;

/// The most bytes of a mark or seal without an authenticator.
const SLOT_MAX: usize = 64;

/// A segment with a valid header.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    /// The log's directory. Files are opened per read, because a log may have very many segments.
    storage: Arc<dyn Storage>,
    /// Length of the data file when the segment was opened. A text file may grow.
    pub(crate) length: u64,
    /// Its keys, if it is encrypted and they are known.
    pub(crate) keys: Option<Arc<SegmentKeys>>,
}

/// Result of opening a segment file.
#[derive(Debug)]
pub(crate) enum OpenOutcome {
    /// A segment of this log under its own name.
    Sound(Segment),
    /// A segment of this log that was named ahead and has no valid first batch to say where it
    /// begins. Its header has neither base nor link.
    NamedAhead(Segment),
    /// A valid segment under a wrong name or of another log.
    Misplaced(Corruption, SegmentRef),
    /// An unreadable segment.
    Bad(Corruption),
    /// Pruned since the listing, so the manifest no longer needs it.
    Gone,
}

/// Opens the segment file `name` and checks its header; `log` is the expected log, if known, and
/// `keys` are its keys.
///
/// # Errors
///
/// `Unsupported` if another version of Seawall wrote the segment; `Key` if no holder of the key
/// did; `Io`.
pub(crate) fn open_checked(
    storage: &Arc<dyn Storage>,
    name: &str,
    (log, keys): (Option<&Manifest>, Option<&LogKeys>),
) -> Result<OpenOutcome> {
    let file = match storage.open(name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OpenOutcome::Gone),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    let bytes = read_start(&*file, name, STORED_MAX)?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => header,
        Err(Refused::Invalid) => return Ok(OpenOutcome::Bad(Corruption::SegmentHeader)),
        Err(refused) => {
            let place = file_place(&**storage, name);
            return Err(Error::refused(place)(refused));
        }
    };
    if log.is_some_and(|log| log.log != header.log) {
        return Ok(OpenOutcome::Misplaced(Corruption::ForeignEpoch, header.reference()));
    }
    if header.head_name() != name {
        return Ok(OpenOutcome::Misplaced(Corruption::Misplaced, header.reference()));
    }
    let Some(length) = data_length(&**storage, &header, &*file)? else {
        return Ok(OpenOutcome::Bad(Corruption::TextMissing));
    };
    let forged = |error| Error::key(file_place(&**storage, name))(error);
    if is_stripped(&header, log) {
        return Err(forged(KeyError::Forged));
    }
    let keys = match keys {
        Some(keys) => keys.check_header(&header).map_err(forged)?,
        None => None,
    };
    let begun = if header.named_ahead { begun(&*file, &header) } else { Some(header.clone()) };
    let segment = |header| Segment { header, storage: storage.clone(), length, keys };
    Ok(match begun {
        Some(header) => OpenOutcome::Sound(segment(header)),
        None => OpenOutcome::NamedAhead(segment(header)),
    })
}

/// Whether the segment is not encrypted, although the manifest says that all segments from its id
/// or a lower one on are encrypted.
fn is_stripped(header: &SegmentHeader, log: Option<&Manifest>) -> bool {
    let proof = log.and_then(|log| log.authenticator);
    let from = proof.and_then(|proof| proof.claims.from);
    header.authenticator.is_none() && from.is_some_and(|from| header.id >= from)
}

/// Returns the header of a segment that was named ahead, completed by its first batch. If that
/// batch is invalid or cannot be read, it is read a second time, as a slot is.
fn begun(file: &dyn File, header: &SegmentHeader) -> Option<SegmentHeader> {
    let at = Offset(header.data_start());
    let mut bytes = [0; batch::HEADER_SIZE];
    for _ in 0..2 {
        // An unreadable block is judged with the rest of the segment.
        let Ok(read) = file.read_at(&mut bytes, at.0) else { continue };
        let found = BatchHeader::begins(header, bytes.get(..read).unwrap_or_default());
        if found.is_some() || tail::is_zero(&bytes) {
            return found;
        }
    }
    None
}

impl Segment {
    /// Opens a segment that is known to be valid, without its keys.
    pub(crate) fn open_known(storage: &Arc<dyn Storage>, header: &SegmentHeader) -> Result<Self> {
        let cause = match open_checked(storage, &header.head_name(), (None, None))? {
            OpenOutcome::Sound(segment) => return Ok(segment),
            OpenOutcome::NamedAhead(found) if found.header == header.as_written() => {
                return Ok(found.with_header(header.clone()));
            }
            OpenOutcome::NamedAhead(_) => Corruption::SegmentHeader,
            OpenOutcome::Misplaced(cause, _) | OpenOutcome::Bad(cause) => cause,
            OpenOutcome::Gone => Corruption::SegmentMissing,
        };
        Err(Error::damaged(missing_segment(header.id, cause, None)))
    }

    /// The same segment with another header.
    pub(crate) fn with_header(self, header: SegmentHeader) -> Self {
        Self { header, ..self }
    }

    /// The log's directory.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Name of the data file.
    pub(crate) fn name(&self) -> String {
        self.header.data_name()
    }

    /// Names of its files in the order of removal: without the first one the segment no longer
    /// exists.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec![self.header.head_name(), self.header.data_name()];
        names.dedup();
        names
    }

    /// How many bytes the file is shorter than its header says.
    pub(crate) fn bytes_missing(&self) -> u64 {
        let size = self.header.fixed_length();
        size.map_or(0, |size| size.saturating_sub(self.length))
    }

    /// Size of its files in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.header.own_head_length().unwrap_or(0) + self.length
    }

    /// End of the part of the open data file that can hold records.
    pub(crate) fn data_end(&self, file: &dyn File) -> Result<u64> {
        match self.header.fixed_length() {
            Some(size) => Ok(size.min(self.length)),
            None => file.len().map_err(|error| failed("get the length of", &self.name())(error)),
        }
    }

    /// End of the records, or of anything else after them in the data file.
    pub(crate) fn records_end(&self) -> Result<u64> {
        Ok(self.data_end(&*self.open()?)?.max(self.header.data_start()))
    }

    /// Opens the data file for reading.
    ///
    /// # Errors
    ///
    /// `NotFound` if the segment was pruned meanwhile.
    pub(crate) fn open(&self) -> Result<Arc<dyn File>> {
        let name = self.name();
        self.storage.open(&name, Access::Read).map_err(failed("open", &name))
    }

    /// Reads the data file from `from`, at most `max` bytes.
    pub(crate) fn read(&self, from: Offset, max: u64) -> Result<Vec<u8>> {
        let mut buffer = Buffer::default();
        self.read_in(&*self.open()?, (from, max), &mut buffer)?;
        Ok(buffer.into_bytes())
    }

    /// Reads the file with header, marks and seal.
    fn read_head(&self, from: Offset, max: usize) -> Result<Vec<u8>> {
        let name = self.header.head_name();
        let file = self.storage.open(&name, Access::Read).map_err(failed("open", &name))?;
        let mut bytes = vec![0; max];
        let read = file.read_at(&mut bytes, from.0).map_err(failed_at(from, &name))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Like `read`, from the open file, appending to `buffer`.
    pub(crate) fn read_in(
        &self,
        file: &dyn File,
        (from, max): (Offset, u64),
        buffer: &mut Buffer,
    ) -> Result<()> {
        let end = match self.header.fixed_length() {
            Some(_) => self.length,
            None => self.data_end(file)?,
        };
        let length = end.saturating_sub(from.0).min(max);
        let length = usize::try_from(length).expect("a segment fits in memory");
        let read = buffer.fill(length, |room| file.read_at(room, from.0));
        read.map_err(|error| failed_at(from, &self.name())(error))
    }

    /// Reads and decodes a slot of the head file. If the slot is neither valid nor empty, it is
    /// read a second time: a single read may fail silently, and a missing slot changes what
    /// recovery decides.
    fn slot<T>(
        &self,
        at: Offset,
        decode: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Option<(T, Vec<u8>)>> {
        let size = if self.header.authenticator.is_some() { STORED_MAX } else { SLOT_MAX };
        let mut bytes = self.read_head(at, size)?;
        let mut found = decode(&bytes);
        if found.is_none() && !tail::is_zero(&bytes) {
            bytes = self.read_head(at, size)?;
            found = decode(&bytes);
        }
        Ok(found.map(|found| (found, bytes)))
    }

    /// The error for a part of the head file that no holder of the key wrote.
    fn forged(&self, error: KeyError) -> Error {
        Error::key(file_place(&*self.storage, &self.header.head_name()))(error)
    }

    /// The seal, if it is valid.
    pub(crate) fn seal(&self) -> Result<Option<Seal>> {
        let offset = Seal::offset(self.header.geometry);
        let found = self.slot(offset, |bytes| Seal::decode(bytes, &self.header))?;
        let Some((seal, bytes)) = found else { return Ok(None) };
        if let Some(keys) = &self.keys {
            seal.check(&bytes, &self.header, keys).map_err(|error| self.forged(error))?;
        }
        Ok(Some(seal))
    }

    /// Whether the seal block is all zeros.
    pub(crate) fn seal_is_blank(&self) -> Result<bool> {
        let geometry = self.header.geometry;
        let block = usize::try_from(geometry.block).expect("a block fits in memory");
        let bytes = self.read_head(Seal::offset(geometry), block)?;
        Ok(bytes.len() == block && tail::is_zero(&bytes))
    }

    /// The valid marks.
    pub(crate) fn marks(&self) -> Result<Vec<Mark>> {
        Ok(self.stored_marks()?.into_iter().map(|(mark, _)| mark).collect())
    }

    /// The valid marks, and the first bytes of their sectors as they are stored.
    pub(crate) fn stored_marks(&self) -> Result<Vec<(Mark, Vec<u8>)>> {
        let mut marks = vec![];
        for slot in [MarkSlot::A, MarkSlot::B] {
            let offset = slot.offset(self.header.geometry);
            let found = self.slot(offset, |bytes| Mark::decode(bytes, slot, &self.header))?;
            if let (Some((mark, bytes)), Some(keys)) = (&found, &self.keys) {
                mark.check(bytes, &self.header, keys).map_err(|error| self.forged(error))?;
            }
            marks.extend(found);
        }
        Ok(marks)
    }

    /// The content of the file before it became this segment. If the table is missing, damaged or
    /// unreadable, that content is unknown, and the end of the segment ambiguous.
    pub(crate) fn before(&self) -> Before {
        if !self.header.is_reused {
            return Before::Zeros;
        }
        let of = TableOf::segment(&self.header);
        match self.read_table(&of) {
            Some(sums) => Before::Reused(Arc::new(sums)),
            None => Before::Unknown,
        }
    }

    fn read_table(&self, of: &TableOf) -> Option<SectorSums> {
        let file = self.storage.open(&self.header.id.before_name(), Access::Read).ok()?;
        if file.len().ok()? != of.length() {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(of.length()).ok()?];
        let read = file.read_at(&mut bytes, 0).ok()?;
        SectorSums::decode(bytes.get(..read)?, of)
    }

    /// Whether the segment has a batch, mark or seal, or follows other records. Bytes that the
    /// device cannot read may be any of these.
    pub(crate) fn holds_something(&self) -> Result<bool> {
        let SegmentHeader { base, carried, pred, .. } = &self.header;
        if *base > Lsn::FIRST || carried.is_some() || pred.is_some() {
            return Ok(true);
        }
        // A device may refuse one read and not the next.
        match self.is_written().or_else(|_| self.is_written()) {
            Err(error) if is_read_error(&error) => Ok(true),
            is_written => is_written,
        }
    }

    /// Whether the segment has a batch, mark or seal.
    fn is_written(&self) -> Result<bool> {
        if self.seal()?.is_some() || !self.marks()?.is_empty() {
            return Ok(true);
        }
        let mut at = Offset(self.header.data_start());
        loop {
            let data = self.read(at, READ_SIZE)?;
            if data.is_empty() || !tail::is_zero(&data) {
                return Ok(!data.is_empty());
            }
            at = at.plus(READ_SIZE);
        }
    }
}

/// Length of the data file of a segment whose head file is open; `None` if the data file is
/// missing.
fn data_length(
    storage: &dyn Storage,
    header: &SegmentHeader,
    head: &dyn File,
) -> Result<Option<u64>> {
    let name = header.data_name();
    let failed = failed("get the length of", &name);
    if header.own_head_length().is_none() {
        return head.len().map(Some).map_err(failed);
    }
    match storage.open(&name, Access::Read) {
        Ok(text) => text.len().map(Some).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Formats the message only after a failure: a recovery opens and reads heads thousands of times.
fn failed(act: &str, name: &str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::io(format!("{act} {name}"))(error)
}

fn failed_at(from: Offset, name: &str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::io(format!("read {name} at {from}"))(error)
}
