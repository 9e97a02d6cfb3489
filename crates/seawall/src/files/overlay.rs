//! A view of a directory as it would be with some of its bytes changed. Nothing is written: what
//! judges and reads a log, judges and reads a mended one the same way.

use crate::base::num::to_u64;
use crate::files::directory::MANIFEST;
use seawall_io::{Access, File, Lock, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::{fmt, io};

/// Bytes of a file of the log that are to be others.
///
/// `new` is as long as `old`, or longer: then `old` reaches to the end of the file, which grows,
/// with zeros before a patch that begins behind its end. A file that is not there has no bytes. No
/// patch makes a file shorter.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Patch {
    /// The name of the file, in the log's directory.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// The bytes as they are; zeros where the device does not give them.
    pub old: Vec<u8>,
    /// The bytes as they are to be.
    pub new: Vec<u8>,
    /// Where those come from.
    pub by: RepairSource,
}

/// What knows the bytes that damage took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RepairSource {
    /// The parity beside the segment.
    Parity,
    /// Another copy of the same log.
    Replica,
}

impl RepairSource {
    /// A word for it, stable for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parity => "parity",
            Self::Replica => "replica",
        }
    }
}

impl Patch {
    /// Where in its file the patch ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(to_u64(self.new.len()))
    }
}

impl fmt::Debug for Patch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (self.old.len(), self.new.len());
        write!(f, "{}:{:#x} {from} to {to} bytes by {:?}", self.file, self.offset, self.by)
    }
}

/// A directory with patches applied, for reading; the directory itself stays as it is.
///
/// What a patch covers is never read from the directory, so a patch hides what its device refuses
/// to give. Whatever would change something is refused with [`io::ErrorKind::ReadOnlyFilesystem`].
///
/// # Examples
///
/// ```
/// use seawall::repair::{Overlay, Patch, RepairSource};
/// use seawall_io::{Access, File, Storage};
/// use seawall_testkit::MemStorage;
/// use std::sync::Arc;
///
/// let device = MemStorage::new();
/// device.create("notes")?.write_at(b"good mourning", 0)?;
/// let (file, old, new) = ("notes".to_owned(), b"mou".to_vec(), b" mo".to_vec());
/// let patch = Patch { file, offset: 5, old, new, by: RepairSource::Replica };
/// let view = Overlay::new(Arc::new(device), &[patch]);
///
/// let mut bytes = [0; 13];
/// view.open("notes", Access::Read)?.read_at(&mut bytes, 0)?;
/// assert_eq!(&bytes, b"good  morning");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Overlay {
    inner: Arc<dyn Storage>,
    pieces: BTreeMap<String, Pieces>,
    /// Files that are not shown.
    gone: BTreeSet<String>,
    unknown: Vec<Unknown>,
}

/// Zeros of a patch in the place of bytes that the device refuses and that nothing knows: in which
/// file, and where.
pub(crate) type Unknown = (String, Range<u64>);

/// Bytes by the place where they begin; no two overlap.
type Pieces = BTreeMap<u64, Arc<Vec<u8>>>;

impl Overlay {
    /// Shows `inner` with `patches` applied, one after the other.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, patches: &[Patch]) -> Self {
        let mut pieces: BTreeMap<String, Pieces> = BTreeMap::new();
        for patch in patches {
            let of_file = pieces.entry(patch.file.clone()).or_default();
            put(of_file, patch.offset, patch.new.clone());
        }
        Self { inner, pieces, gone: BTreeSet::new(), unknown: vec![] }
    }

    /// Marks these bytes as unknown, for [`File::has_unknown`].
    pub(crate) fn with_unknown(mut self, unknown: Vec<Unknown>) -> Self {
        self.unknown = unknown;
        self
    }

    /// Shows no files of these names.
    #[must_use]
    pub fn without(mut self, names: &[String]) -> Self {
        self.gone.extend(names.iter().cloned());
        self
    }
}

/// Lays bytes over those that are there.
fn put(pieces: &mut Pieces, start: u64, bytes: Vec<u8>) {
    let end = start.saturating_add(to_u64(bytes.len()));
    // Those that begin before the end and end behind the start; as they do not overlap, the search
    // from the end down can stop at the first that ends earlier.
    let over: Vec<_> = pieces
        .range(..end)
        .rev()
        .take_while(|(at, piece)| at.saturating_add(to_u64(piece.len())) > start)
        .map(|(at, _)| *at)
        .collect();
    for at in over {
        let Some(piece) = pieces.remove(&at) else { continue };
        let before = to_usize(start.saturating_sub(at)).min(piece.len());
        let behind = to_usize(end.saturating_sub(at)).min(piece.len());
        if let Some(rest) = piece.get(behind..).filter(|rest| !rest.is_empty()) {
            pieces.insert(end, Arc::new(rest.to_vec()));
        }
        if let Some(rest) = piece.get(..before).filter(|rest| !rest.is_empty()) {
            pieces.insert(at, Arc::new(rest.to_vec()));
        }
    }
    if !bytes.is_empty() {
        pieces.insert(start, Arc::new(bytes));
    }
}

/// A place that is compared with one in memory: what is too large lies behind all of them.
fn to_usize(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "a view of a mended log cannot be changed")
}

impl Storage for Overlay {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        if access != Access::Read {
            return Err(refused());
        }
        if self.gone.contains(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let Some(pieces) = self.pieces.get(name) else {
            return Ok(Arc::new(View {
                inner: Some(self.inner.open(name, access)?),
                pieces: None,
                unknown: vec![],
            }));
        };
        let inner = match self.inner.open(name, access) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let unknown = self.unknown.iter().filter(|(file, _)| file == name);
        let unknown = unknown.map(|(_, range)| range.clone()).collect();
        Ok(Arc::new(View { inner, pieces: Some(pieces.clone()), unknown }))
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(refused())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn rename_new(&self, _: &str, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(refused())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.inner.list()?;
        names.extend(self.pieces.keys().cloned());
        names.sort();
        names.dedup();
        names.retain(|name| !self.gone.contains(name));
        Ok(names)
    }

    fn sync_dir(&self) -> io::Result<()> {
        // It changes nothing: a reader makes durable what others wrote.
        self.inner.sync_dir()
    }

    fn lock(&self, _: &str) -> io::Result<Option<Box<dyn Lock>>> {
        Err(refused())
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_locked(name)
    }

    fn lock_file(&self, _: &str) -> io::Result<Option<Box<dyn Lock>>> {
        Err(refused())
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_file_locked(name)
    }

    fn folder(&self, _: &str) -> io::Result<Arc<dyn Storage>> {
        Err(refused())
    }

    fn folder_if_any(&self, name: &str) -> io::Result<Option<Arc<dyn Storage>>> {
        let folder = self.inner.folder_if_any(name)?;
        Ok(folder.map(|folder| Arc::new(Self::new(folder, &[])) as Arc<dyn Storage>))
    }

    fn boot_id(&self) -> Option<[u8; 16]> {
        self.inner.boot_id()
    }

    fn place(&self) -> String {
        self.inner.place()
    }
}

/// A file of the view; without `inner` one that the patches make.
#[derive(Debug)]
struct View {
    inner: Option<Arc<dyn File>>,
    pieces: Option<Pieces>,
    unknown: Vec<Range<u64>>,
}

impl View {
    fn inner_len(&self) -> io::Result<u64> {
        self.inner.as_ref().map_or(Ok(0), |file| file.len())
    }

    /// Fills `buffer`, all of which lies within the file, with bytes that no patch covers.
    fn read_inner(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = match &self.inner {
            Some(file) if !buffer.is_empty() => file.read_at(buffer, offset)?,
            _ => 0,
        };
        // Between the end of the file and a patch behind it.
        buffer.iter_mut().skip(read).for_each(|byte| *byte = 0);
        Ok(())
    }

    fn read_patched(&self, pieces: &Pieces, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = to_usize(self.len()?.saturating_sub(offset)).min(buffer.len());
        let mut rest = buffer.get_mut(..length).unwrap_or_default();
        let end = offset.saturating_add(to_u64(length));
        let mut at = offset;
        // The last piece that begins at or before the place may reach into it.
        let first = pieces.range(..=offset).next_back().map_or(offset, |(start, _)| *start);
        for (start, piece) in pieces.range(first..end) {
            let skipped = to_usize(at.saturating_sub(*start));
            let Some(shown) = piece.get(skipped..).filter(|shown| !shown.is_empty()) else {
                continue;
            };
            let gap = to_usize(start.saturating_sub(at)).min(rest.len());
            let (before, behind) = rest.split_at_mut(gap);
            self.read_inner(before, at)?;
            let size = shown.len().min(behind.len());
            let (target, left) = behind.split_at_mut(size);
            target.copy_from_slice(shown.get(..size).unwrap_or_default());
            at = at.saturating_add(to_u64(gap + size));
            rest = left;
        }
        self.read_inner(rest, at)?;
        Ok(length)
    }
}

impl File for View {
    fn has_unknown(&self, range: Range<u64>) -> bool {
        let meets = |other: &Range<u64>| other.start < range.end && range.start < other.end;
        self.unknown.iter().any(meets)
            || self.inner.as_ref().is_some_and(|inner| inner.has_unknown(range))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        match (&self.pieces, &self.inner) {
            (Some(pieces), _) => self.read_patched(pieces, buffer, offset),
            (None, Some(inner)) => inner.read_at(buffer, offset),
            (None, None) => Ok(0),
        }
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn sync(&self) -> io::Result<()> {
        // As above; what the patches say was durable.
        self.inner.as_ref().map_or(Ok(()), |file| file.sync())
    }

    fn next_written(&self, offset: u64) -> io::Result<Option<u64>> {
        match (&self.pieces, &self.inner) {
            (None, Some(inner)) => inner.next_written(offset),
            _ => Ok(Some(offset)),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let last = self.pieces.as_ref().and_then(|pieces| pieces.last_key_value());
        let end = last.map_or(0, |(at, piece)| at.saturating_add(to_u64(piece.len())));
        Ok(self.inner_len()?.max(end))
    }

    fn has_name(&self) -> io::Result<bool> {
        self.inner.as_ref().map_or(Ok(true), |file| file.has_name())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn fill_with_zeros(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(refused())
    }
}

/// The part of a patch that lies there.
pub(crate) fn part(patch: &Patch, bytes: Range<u64>) -> Option<Patch> {
    let start = usize::try_from(bytes.start.checked_sub(patch.offset)?).ok()?;
    let end = usize::try_from(bytes.end.checked_sub(patch.offset)?).ok()?;
    let new = patch.new.get(start..end).filter(|new| !new.is_empty())?.to_vec();
    let old = patch.old.get(start..end.min(patch.old.len())).unwrap_or_default().to_vec();
    Some(Patch { file: patch.file.clone(), offset: bytes.start, old, new, by: patch.by })
}

/// Whether a patch is of the manifest.
pub(crate) fn is_manifest(patch: &Patch) -> bool {
    patch.file == MANIFEST
}
