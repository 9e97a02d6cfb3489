//! One segment of a log: the file with its header, marks and seal, and the file with its records.
//! format.md sections 3 and
//! 9: of a binary segment these are one file, of a text two.

use crate::base::error::{Corruption, Error, Result, missing_segment};
use crate::files::directory::{file_place, read_start};
use crate::files::read_buffer::Buffer;
use seawall_format::{
    HEADER_SIZE, Layout, Lsn, Manifest, Mark, MarkSlot, Offset, Refused, Seal, SegmentHeader,
    SegmentRef, tail,
};
use seawall_io::{Access, File, Storage};
use std::io;
use std::sync::Arc;

/// How much of a text is looked at to see whether it holds something.
const HOLDS_LOOK: u64 = 64 << 10;

/// One segment whose header is sound.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    /// Where its file is; it is opened when it is read, as there may be very many.
    storage: Arc<dyn Storage>,
    /// The length of its file when it was looked at. A text grows.
    pub(crate) length: u64,
}

/// What a look at the first block of a file found.
#[derive(Debug)]
pub(crate) enum OpenOutcome {
    /// A segment of this log, under its own name.
    Sound(Segment),
    /// A segment under the wrong name, or of another log.
    Misplaced(Corruption, SegmentRef),
    /// One that cannot be read.
    Bad(Corruption),
    /// Pruned since it was listed: by now the manifest does not need it.
    Gone,
}

/// Looks at the file with a segment's header; `log` says whose it should be, if that is known.
///
/// # Errors
///
/// `Unsupported` if another version of Seawall wrote it; `Io`.
pub(crate) fn open_checked(
    storage: &Arc<dyn Storage>,
    name: &str,
    log: Option<&Manifest>,
) -> Result<OpenOutcome> {
    let file = match storage.open(name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(OpenOutcome::Gone),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    let bytes = read_start(&*file, name, HEADER_SIZE)?;
    let header = match SegmentHeader::decode(&bytes) {
        Ok(header) => header,
        Err(Refused::Invalid) => return Ok(OpenOutcome::Bad(Corruption::SegmentHeader)),
        Err(refused) => {
            return Err(Error::Unsupported { place: file_place(&**storage, name), refused });
        }
    };
    if log.is_some_and(|log| log.log != header.log) {
        return Ok(OpenOutcome::Misplaced(Corruption::ForeignEpoch, header.reference()));
    }
    if header.head_name() != name {
        return Ok(OpenOutcome::Misplaced(Corruption::Misplaced, header.reference()));
    }
    Ok(match data_length(&**storage, &header, &*file)? {
        Some(length) => OpenOutcome::Sound(Segment { header, storage: storage.clone(), length }),
        None => OpenOutcome::Bad(Corruption::TextMissing),
    })
}
impl Segment {
    /// A segment that the log knows to be sound.
    pub(crate) fn open_known(storage: &Arc<dyn Storage>, header: &SegmentHeader) -> Result<Self> {
        let cause = match open_checked(storage, &header.head_name(), None)? {
            OpenOutcome::Sound(segment) => return Ok(segment),
            OpenOutcome::Misplaced(cause, _) | OpenOutcome::Bad(cause) => cause,
            OpenOutcome::Gone => Corruption::SegmentMissing,
        };
        Err(Error::Damaged(Box::new(missing_segment(header.id, cause, None))))
    }

    /// Where its file is.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The name of the file with its records.
    pub(crate) fn name(&self) -> String {
        self.header.data_name()
    }

    /// The names of its files, in the order in which they go: one without the first is nothing.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = vec![self.header.head_name(), self.header.data_name()];
        names.dedup();
        names
    }

    /// How many bytes its file lacks that its header promises.
    pub(crate) fn bytes_missing(&self) -> u64 {
        match self.header.layout {
            Layout::Text => 0,
            _ => self.header.size.saturating_sub(self.length),
        }
    }

    /// The size of its files, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let head = if self.header.layout == Layout::Text { self.header.size } else { 0 };
        head + self.length
    }

    /// Where the part of its open file ends that may hold records.
    pub(crate) fn data_end(&self, file: &dyn File) -> Result<u64> {
        match self.header.layout {
            Layout::Text => file.len().map_err(Error::io(format!("look at {}", self.name()))),
            _ => Ok(self.header.size.min(self.length)),
        }
    }

    /// Where its records end, or what lies behind them in its file.
    pub(crate) fn records_end(&self) -> Result<u64> {
        Ok(self.data_end(&*self.open()?)?.max(self.header.data_start()))
    }

    /// The file with its records, for reading.
    ///
    /// # Errors
    ///
    /// `NotFound` if it was pruned meanwhile.
    pub(crate) fn open(&self) -> Result<Arc<dyn File>> {
        let file = self.storage.open(&self.name(), Access::Read);
        file.map_err(Error::io(format!("open {}", self.name())))
    }

    /// Bytes of that file from `from` on, `max` at most.
    pub(crate) fn read(&self, from: Offset, max: u64) -> Result<Vec<u8>> {
        let mut buffer = Buffer::default();
        self.read_in(&*self.open()?, (from, max), &mut buffer)?;
        Ok(buffer.into_bytes())
    }

    /// Bytes of the file with header, marks and seal.
    fn read_head(&self, from: Offset, max: usize) -> Result<Vec<u8>> {
        let name = self.header.head_name();
        let file = self.storage.open(&name, Access::Read);
        let file = file.map_err(Error::io(format!("open {name}")))?;
        let mut bytes = vec![0; max];
        let read = file.read_at(&mut bytes, from.0);
        let read = read.map_err(Error::io(format!("read {name} at {from}")))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The same, from its open file, behind what `buffer` holds.
    pub(crate) fn read_in(
        &self,
        file: &dyn File,
        (from, max): (Offset, u64),
        buffer: &mut Buffer,
    ) -> Result<()> {
        let end = match self.header.layout {
            Layout::Text => self.data_end(file)?,
            _ => self.length,
        };
        let length = end.saturating_sub(from.0).min(max);
        let length = usize::try_from(length).expect("a segment fits in memory");
        let read = buffer.fill(length, |room| file.read_at(room, from.0));
        read.map_err(Error::io(format!("read {} at {from}", self.name())))
    }

    /// What stands in a slot of that file. One that is neither sound nor empty is read once more:
    /// that evidence is missing is nothing to believe of a single read, which may go wrong without
    /// a word.
    fn slot<T>(&self, at: Offset, decode: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
        let bytes = self.read_head(at, 64)?;
        match decode(&bytes) {
            None if !tail::is_zero(&bytes) => Ok(decode(&self.read_head(at, 64)?)),
            found => Ok(found),
        }
    }

    /// Its seal, if it has a sound one.
    pub(crate) fn seal(&self) -> Result<Option<Seal>> {
        let offset = Seal::offset(self.header.geometry);
        self.slot(offset, |bytes| Seal::decode(bytes, &self.header))
    }

    /// Whether nothing but zeros is in the block of its seal.
    pub(crate) fn seal_is_blank(&self) -> Result<bool> {
        let geometry = self.header.geometry;
        let block = usize::try_from(geometry.block).expect("a block fits in memory");
        let bytes = self.read_head(Seal::offset(geometry), block)?;
        Ok(bytes.len() == block && tail::is_zero(&bytes))
    }

    /// The marks in its slots.
    pub(crate) fn marks(&self) -> Result<Vec<Mark>> {
        let mut marks = vec![];
        for slot in [MarkSlot::A, MarkSlot::B] {
            let offset = slot.offset(self.header.geometry);
            marks.extend(self.slot(offset, |bytes| Mark::decode(bytes, slot, &self.header))?);
        }
        Ok(marks)
    }

    /// Whether there is a batch, a mark or a seal, or was something before it.
    pub(crate) fn holds_something(&self) -> Result<bool> {
        let SegmentHeader { base, carried, pred, .. } = &self.header;
        if *base > Lsn::FIRST || carried.is_some() || pred.is_some() {
            return Ok(true);
        }
        let max = self.header.size.max(HOLDS_LOOK);
        let data = self.read(Offset(self.header.data_start()), max)?;
        let sealed = self.seal()?.is_some();
        Ok(sealed || !self.marks()?.is_empty() || !tail::is_zero(&data))
    }
}

/// The length of the file with the records of a segment, whose head is open; `None` if it is not
/// there.
fn data_length(
    storage: &dyn Storage,
    header: &SegmentHeader,
    head: &dyn File,
) -> Result<Option<u64>> {
    let name = header.data_name();
    let failed = || Error::io(format!("look at {name}"));
    if header.layout == Layout::Binary {
        return head.len().map(Some).map_err(failed());
    }
    match storage.open(&name, Access::Read) {
        Ok(text) => text.len().map(Some).map_err(failed()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed()(error)),
    }
}
