//! A read-only view of a directory with some bytes replaced. Code that scans or verifies a log can
//! work on the repaired log before anything is written.

use crate::base::num::to_u64;
use crate::files::directory::MANIFEST;
use seawall_io::{Access, File, Lock, Storage};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// A change to bytes of one file of a log.
///
/// `new` is at least as long as `old`. If it is longer, `old` ends at the end of the file and the
/// file grows. A gap between the end of the file and the patch is filled with zeros. A missing file
/// counts as empty. A patch never shortens a file.
#[derive(Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Patch {
    /// Name of the file in the log's directory.
    pub file: String,
    /// Offset of the first byte.
    pub offset: u64,
    /// The current bytes; zeros where the device cannot read them.
    pub old: Vec<u8>,
    /// The replacement.
    pub new: Vec<u8>,
    /// Where the replacement comes from.
    pub by: RepairSource,
}

impl Patch {
    /// Replaces `old` at `offset` in `file` by `new`.
    #[must_use]
    pub fn new(
        file: impl Into<String>,
        offset: u64,
        (old, new): (Vec<u8>, Vec<u8>),
        by: RepairSource,
    ) -> Self {
        Self { file: file.into(), offset, old, new, by }
    }
}

/// Where the bytes of a repair come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RepairSource {
    /// The parity file of the segment.
    Parity,
    /// Another copy of the same log.
    Replica,
}

impl RepairSource {
    /// A stable name for scripts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parity => "parity",
            Self::Replica => "replica",
        }
    }
}

impl Patch {
    /// Offset after the last byte of the patch.
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

/// A read-only view of a directory with patches applied; the directory itself does not change.
///
/// Bytes covered by a patch are never read from the directory, so a patch can replace bytes that
/// the device cannot read. Writes fail with [`io::ErrorKind::ReadOnlyFilesystem`].
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
/// let patch = Patch::new(file, 5, (old, new), RepairSource::Replica);
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
    /// Files that the view hides.
    gone: BTreeSet<String>,
    /// Lengths of files that the view shortens, before patches.
    lengths: BTreeMap<String, u64>,
    unknown: Vec<Unknown>,
}

/// Zeros of a patch for bytes that the device cannot read and parity does not cover: file and
/// range.
pub(crate) type Unknown = (String, Range<u64>);

/// Replaced bytes by their offset; no two pieces overlap.
type Pieces = BTreeMap<u64, Arc<Vec<u8>>>;

impl Overlay {
    /// Shows `inner` with `patches` applied in order.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, patches: &[Patch]) -> Self {
        let mut pieces: BTreeMap<String, Pieces> = BTreeMap::new();
        for patch in patches {
            let of_file = pieces.entry(patch.file.clone()).or_default();
            put(of_file, patch.offset, patch.new.clone());
        }
        Self { inner, pieces, gone: BTreeSet::new(), lengths: BTreeMap::new(), unknown: vec![] }
    }

    /// Shows `inner`, to which `patches` were applied completely or in part, as it was before. A
    /// file that was empty is hidden: an empty and a missing file have the same patches. Patches do
    /// not tell where a file ended before a gap: it is shown with the zeros of the gap.
    pub(crate) fn before(inner: Arc<dyn Storage>, patches: &[Patch]) -> Self {
        let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
        for patch in patches.iter().filter(|patch| patch.old.len() < patch.new.len()) {
            let end = patch.offset.saturating_add(to_u64(patch.old.len()));
            let length = lengths.entry(patch.file.clone()).or_insert(end);
            *length = end.min(*length);
        }
        let old = |patch: &Patch| Patch { new: patch.old.clone(), ..patch.clone() };
        let patches: Vec<_> = patches.iter().map(old).filter(|old| !old.new.is_empty()).collect();
        let gone: Vec<_> = lengths.iter().filter(|(_, length)| **length == 0).collect();
        let gone: Vec<_> = gone.into_iter().map(|(name, _)| name.clone()).collect();
        Self { lengths, ..Self::new(inner, &patches) }.without(&gone)
    }

    /// Marks these bytes as unknown for [`File::has_unknown`].
    pub(crate) fn with_unknown(mut self, unknown: Vec<Unknown>) -> Self {
        self.unknown = unknown;
        self
    }

    /// Hides the files `names`.
    #[must_use]
    pub fn without(mut self, names: &[String]) -> Self {
        self.gone.extend(names.iter().cloned());
        self
    }
}

/// Puts a piece over the existing ones and trims those that it overlaps.
fn put(pieces: &mut Pieces, start: u64, bytes: Vec<u8>) {
    let end = start.saturating_add(to_u64(bytes.len()));
    // Pieces do not overlap each other, so the search from the end down stops at the first one that
    // ends before `start`.
    let over: Vec<_> = pieces
        .range(..end)
        .rev()
        .take_while(|(at, piece)| at.saturating_add(to_u64(piece.len())) > start)
        .map(|(at, _)| *at)
        .collect();
    for at in over {
        let Some(piece) = pieces.remove(&at) else { continue };
        let before = to_usize(start.saturating_sub(at)).min(piece.len());
        let after = to_usize(end.saturating_sub(at)).min(piece.len());
        if let Some(rest) = piece.get(after..).filter(|rest| !rest.is_empty()) {
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

/// An offset for comparison with lengths in memory; saturates.
fn to_usize(place: u64) -> usize {
    usize::try_from(place).unwrap_or(usize::MAX)
}

fn read_only() -> io::Error {
    io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "a repaired view of a log is read-only")
}

impl Storage for Overlay {
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn File>> {
        if access != Access::Read {
            return Err(read_only());
        }
        if self.gone.contains(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let length_max = self.lengths.get(name).copied();
        let pieces = self.pieces.get(name).cloned();
        let Some(pieces) = pieces.or_else(|| length_max.map(|_| Pieces::new())) else {
            return Ok(Arc::new(View {
                inner: Some(self.inner.open(name, access)?),
                pieces: None,
                length_max: u64::MAX,
                unknown: vec![],
            }));
        };
        let length_max = length_max.unwrap_or(u64::MAX);
        let inner = match self.inner.open(name, access) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let unknown = self.unknown.iter().filter(|(file, _)| file == name);
        let unknown = unknown.map(|(_, range)| range.clone()).collect();
        Ok(Arc::new(View { inner, pieces: Some(pieces), length_max, unknown }))
    }

    fn create(&self, _: &str) -> io::Result<Arc<dyn File>> {
        Err(read_only())
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn rename_new(&self, _: &str, _: &str) -> io::Result<()> {
        Err(read_only())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(read_only())
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
        // A sync changes no content: a reader uses it to make the writer's records durable.
        self.inner.sync_dir()
    }

    fn lock(&self, _: &str) -> io::Result<Option<Box<dyn Lock>>> {
        Err(read_only())
    }

    fn is_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_locked(name)
    }

    fn lock_file(&self, _: &str) -> io::Result<Option<Box<dyn Lock>>> {
        Err(read_only())
    }

    fn is_file_locked(&self, name: &str) -> io::Result<bool> {
        self.inner.is_file_locked(name)
    }

    fn folder(&self, _: &str) -> io::Result<Arc<dyn Storage>> {
        Err(read_only())
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

    fn path(&self) -> PathBuf {
        self.inner.path()
    }
}

/// A file of the view; `inner` is `None` if the file consists of patches only.
#[derive(Debug)]
struct View {
    inner: Option<Arc<dyn File>>,
    pieces: Option<Pieces>,
    /// How much of `inner` the view shows at most.
    length_max: u64,
    unknown: Vec<Range<u64>>,
}

impl View {
    fn inner_len(&self) -> io::Result<u64> {
        let length = self.inner.as_ref().map_or(Ok(0), |file| file.len());
        Ok(length?.min(self.length_max))
    }

    /// Fills `buffer`, which lies within the file, with bytes of the inner file.
    fn read_inner(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let read = match &self.inner {
            Some(file) if !buffer.is_empty() => file.read_at(buffer, offset)?,
            _ => 0,
        };
        // Zeros between the end of the inner file and a patch past it.
        buffer.iter_mut().skip(read).for_each(|byte| *byte = 0);
        Ok(())
    }

    fn read_patched(&self, pieces: &Pieces, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let length = to_usize(self.len()?.saturating_sub(offset)).min(buffer.len());
        let mut rest = buffer.get_mut(..length).unwrap_or_default();
        let end = offset.saturating_add(to_u64(length));
        let mut at = offset;
        // The last piece that begins at or before the offset may reach past it.
        let first = pieces.range(..=offset).next_back().map_or(offset, |(start, _)| *start);
        for (start, piece) in pieces.range(first..end) {
            let skipped = to_usize(at.saturating_sub(*start));
            let Some(shown) = piece.get(skipped..).filter(|shown| !shown.is_empty()) else {
                continue;
            };
            let gap = to_usize(start.saturating_sub(at)).min(rest.len());
            let (before, after) = rest.split_at_mut(gap);
            self.read_inner(before, at)?;
            let size = shown.len().min(after.len());
            let (target, left) = after.split_at_mut(size);
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
        Err(read_only())
    }

    fn sync(&self) -> io::Result<()> {
        // As for the directory: a sync changes no content.
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
        Err(read_only())
    }

    fn fill_with_zeros(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(read_only())
    }
}

/// The part of `patch` that covers exactly `bytes`, if the patch does.
pub(crate) fn part(patch: &Patch, bytes: Range<u64>) -> Option<Patch> {
    let start = usize::try_from(bytes.start.checked_sub(patch.offset)?).ok()?;
    let end = usize::try_from(bytes.end.checked_sub(patch.offset)?).ok()?;
    let new = patch.new.get(start..end).filter(|new| !new.is_empty())?.to_vec();
    let old = patch.old.get(start..end.min(patch.old.len())).unwrap_or_default().to_vec();
    Some(Patch { file: patch.file.clone(), offset: bytes.start, old, new, by: patch.by })
}

/// Whether the patch changes the manifest.
pub(crate) fn is_manifest(patch: &Patch) -> bool {
    patch.file == MANIFEST
}
