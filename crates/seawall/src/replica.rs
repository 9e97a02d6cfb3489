//! Another copy of the same log, and the bytes that it has where this one is damaged.

use crate::directory::{MANIFEST, MANIFEST_MAX, list, read_small};
use crate::mend::{Source, is_whole, log_id, place_of};
use crate::survey::survey;
use crate::verify::look_around;
use crate::walk::to_u64;
use crate::{Corruption, Damage, Error, Lsn, Mender, Patch, Result, SegmentId, Verification};
use seawall_format::batch;
use seawall_format::{HEADER_SIZE, Layout, LogId, Manifest, SegmentHeader};
use seawall_io::{Access, File, Storage};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// What one read takes, and the largest patch.
const CHUNK: u64 = 256 << 10;
/// The unit in which a device refuses bytes.
const PAGE: u64 = 4096;
/// Equal bytes between two that differ, up to so many, belong to one patch.
const JOINED: usize = 32;
/// How many bytes are offered at once: what is more is left to the next repair.
const OFFERED_MAX: usize = 1 << 30;

/// Another copy of the log.
#[derive(Debug)]
pub(crate) struct Replica {
    storage: Arc<dyn Storage>,
    log: LogId,
    last: Option<Lsn>,
}

impl Replica {
    /// Takes `storage` for a copy of the log `log`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if it is of another one.
    pub(crate) fn open(storage: Arc<dyn Storage>, log: LogId) -> Result<Self> {
        let theirs = log_id(&survey(&storage, None)?).ok_or_else(|| Error::NotALog {
            place: storage.place(),
            found: "neither a manifest nor the header of a segment can be read".to_owned(),
        })?;
        if theirs != log {
            let (has, asked) = (format!("{:016x}", log.0), format!("{:016x}", theirs.0));
            let asked = format!("a replica with id {asked} ({})", storage.place());
            return Err(Error::Mismatch { what: "the id", has, asked });
        }
        let last = look_around(&storage)?.last_lsn;
        Ok(Self { storage, log, last })
    }

    /// The header of a segment in its file there, if it is sound and of this log.
    fn header(&self, id: SegmentId) -> Result<Option<SegmentHeader>> {
        header_in(&*self.storage, id).map(|found| found.filter(|header| header.log == self.log))
    }

    /// Offers what it has for one damaged place.
    fn offer(&self, log: &dyn Storage, damage: &Damage, offered: &mut Vec<Patch>) -> Result<()> {
        let Some(id) = damage.segment else { return self.offer_manifest(log, offered) };
        let Some(header) = self.header(id)? else { return Ok(()) };
        let (head, data) = (header.head_name(), header.data_name());
        if !is_whole(damage) {
            return self.offer_part((log, &data), place_of(log, damage)?, offered);
        }
        let ours = header_in(log, id)?;
        let is_ours = ours.is_some_and(|ours| ours.reference() == header.reference());
        let is_hit = matches!(damage.cause, Corruption::SegmentHeader);
        if is_hit && self.is_as_long(log, &head)? {
            // What is behind the header may be as it should be, and be newer than the replica.
            let header = 0..u64::from(header.geometry.block);
            return self.offer_part((log, &head), header, offered);
        }
        if head != data {
            self.offer_part((log, &data), 0..u64::MAX, offered)?;
        }
        if !is_ours {
            self.offer_part((log, &head), 0..u64::MAX, offered)?;
        }
        Ok(())
    }

    fn is_as_long(&self, log: &dyn Storage, name: &str) -> Result<bool> {
        let (ours, theirs) = (open(log, name)?, open(&*self.storage, name)?);
        let Some((ours, theirs)) = ours.zip(theirs) else { return Ok(false) };
        Ok(length(&*ours, name)? >= length(&*theirs, name)?)
    }

    /// Offers the manifest, or the one slot of it that cannot be read.
    fn offer_manifest(&self, log: &dyn Storage, offered: &mut Vec<Patch>) -> Result<()> {
        let theirs = read_small(&*self.storage, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
        let is_of_log = |slot: &Manifest| slot.log == self.log;
        let slots = Manifest::decode_file(&theirs);
        if !slots.iter().flatten().any(is_of_log) {
            return Ok(());
        }
        self.offer_part((log, MANIFEST), 0..u64::MAX, offered)
    }

    /// The slot of the manifest that can be read there and not here, if the other is the same.
    fn offer_slot(&self, log: &dyn Storage, offered: &mut Vec<Patch>) -> Result<()> {
        let slots = |storage: &dyn Storage| -> Result<[Option<Manifest>; 2]> {
            let bytes = read_small(storage, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
            Ok(Manifest::decode_file(&bytes).map(Result::ok))
        };
        let (ours, theirs) = (slots(log)?, slots(&*self.storage)?);
        let is_one = ours.iter().flatten().count() == 1 && theirs.iter().flatten().count() == 2;
        let is_same = ours.iter().zip(&theirs).all(|(one, other)| one.is_none() || one == other);
        if is_one && is_same { self.offer_manifest(log, offered) } else { Ok(()) }
    }

    /// Offers the bytes of that part of a file that differ, and those that are missing at its end.
    fn offer_part(
        &self,
        (log, name): (&dyn Storage, &str),
        bytes: Range<u64>,
        offered: &mut Vec<Patch>,
    ) -> Result<()> {
        let Some(theirs) = open(&*self.storage, name)? else { return Ok(()) };
        let ours = open(log, name)?;
        let end = bytes.end.min(length(&*theirs, name)?);
        let mut at = bytes.start;
        while at < end {
            let size = (CHUNK - at % CHUNK).min(end - at);
            let next = at + size;
            let (new, refused) = read_around(&*theirs, at, size)?;
            let room = offered.iter().map(|patch| patch.new.len()).sum::<usize>() + new.len();
            if room > OFFERED_MAX {
                return Ok(());
            }
            if refused.is_empty() {
                let (old, unread) = match &ours {
                    Some(ours) => read_around(&**ours, at, size)?,
                    None => (vec![], vec![]),
                };
                for run in runs(&old, &new, &unread) {
                    let old = old.get(run.start..run.end.min(old.len())).unwrap_or_default();
                    let Some(new) = new.get(run.clone()) else { continue };
                    let (file, offset) = (name.to_owned(), at + to_u64(run.start));
                    let (old, new) = (old.to_vec(), new.to_vec());
                    offered.push(Patch { file, offset, old, new, by: Mender::Replica });
                }
            }
            at = next;
        }
        Ok(())
    }

    /// Whether these bytes of a file are the same in both, and not zeros.
    fn shares(&self, log: &dyn Storage, name: &str, at: u64) -> Result<bool> {
        let size = to_u64(batch::HEADER_SIZE);
        let (Some(ours), Some(theirs)) = (open(log, name)?, open(&*self.storage, name)?) else {
            return Ok(false);
        };
        let ((ours, bad), (theirs, worse)) =
            (read_around(&*ours, at, size)?, read_around(&*theirs, at, size)?);
        let is_read = bad.is_empty() && worse.is_empty() && to_u64(ours.len()) == size;
        Ok(is_read && ours == theirs && ours.iter().any(|byte| *byte != 0))
    }
}

impl Source for Replica {
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<Patch>> {
        let mut offered = vec![];
        let mut last = None;
        for damage in &found.damage {
            let place = (damage.segment, damage.offset);
            if last.replace(place) != Some(place) {
                self.offer(&**log, damage, &mut offered)?;
            }
        }
        self.offer_slot(&**log, &mut offered)?;
        Ok(offered)
    }

    /// A batch names the one before it by its checksums, and that one the one before: whoever
    /// shares a header behind the place shares what was in it.
    fn is_tied(&self, log: &Arc<dyn Storage>, damage: &Damage) -> Result<bool> {
        let Some(id) = damage.segment else { return Ok(false) };
        let Some(header) = self.header(id)? else { return Ok(false) };
        let name = header.data_name();
        if !is_whole(damage) {
            let (start, end) = (damage.offset.0, damage.offset.plus(damage.bytes).0);
            let by_itself = damage.cause == Corruption::Body && header.layout == Layout::Binary;
            if by_itself && self.shares(&**log, &name, start)? {
                return Ok(true);
            }
            if self.shares(&**log, &name, end)? {
                return Ok(true);
            }
        }
        let survey = survey(log, None)?;
        let mut links = survey.chain.iter().map(|link| &link.segment.header);
        let Some(next) = links.find(|next| next.id > id) else { return Ok(false) };
        let is_theirs = self.header(next.id)?.is_some_and(|theirs| theirs == *next);
        Ok(is_theirs && next.pred == Some(header.reference()))
    }

    /// A sound file that belongs elsewhere stands behind the newest segment, which is the same here
    /// and there to its last byte. It has no seal, so no segment was ever in use behind it.
    fn strays(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<String>> {
        let survey = survey(log, None)?;
        let Some(newest) = survey.chain.last().map(|link| &link.segment) else {
            return Ok(vec![]);
        };
        let is_stray = |damage: &&Damage| {
            use Corruption::{Duplicated, ForeignEpoch, Misplaced};
            let is_stranger = [Duplicated, ForeignEpoch, Misplaced].contains(&damage.cause);
            is_whole(damage) && is_stranger && damage.segment > Some(newest.header.id)
        };
        let ids: Vec<_> = found.damage.iter().filter(is_stray).map(|one| one.segment).collect();
        let theirs = list(&*self.storage)?;
        let is_newer =
            |name: &String| SegmentId::from_any_name(name).is_some_and(|id| id > newest.header.id);
        if ids.is_empty() || newest.seal()?.is_some() || theirs.iter().any(is_newer) {
            return Ok(vec![]);
        }
        for name in newest.names() {
            let mut differ = vec![];
            self.offer_part((&**log, &name), 0..u64::MAX, &mut differ)?;
            let lengths = open(&**log, &name)?.zip(open(&*self.storage, &name)?);
            let is_equal = lengths
                .map(|(ours, theirs)| Ok(length(&*ours, &name)? == length(&*theirs, &name)?))
                .transpose()?;
            if !differ.is_empty() || is_equal != Some(true) {
                return Ok(vec![]);
            }
        }
        let is_one = |name: &&String| ids.contains(&SegmentId::from_any_name(name));
        Ok(survey.names.iter().filter(is_one).cloned().collect())
    }

    fn last(&self) -> Option<Lsn> {
        self.last
    }
}

/// The sound header in the file of a segment, of whatever layout.
fn header_in(storage: &dyn Storage, id: SegmentId) -> Result<Option<SegmentHeader>> {
    for name in [id.file_name(), id.head_name()] {
        let Some(file) = open(storage, &name)? else { continue };
        let (bytes, _) = read_around(&*file, 0, to_u64(HEADER_SIZE))?;
        if let Some(header) = SegmentHeader::decode(&bytes).ok().filter(|header| header.id == id) {
            return Ok(Some(header));
        }
    }
    Ok(None)
}

fn open(storage: &dyn Storage, name: &str) -> Result<Option<Arc<dyn File>>> {
    match storage.open(name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(format!("open {name}"))(error)),
    }
}

fn length(file: &dyn File, name: &str) -> Result<u64> {
    file.len().map_err(Error::io(format!("length of {name}")))
}

/// Up to `size` bytes from `at` on, and where in them the device refused to give any: zeros there.
pub(crate) fn read_around(
    file: &dyn File,
    at: u64,
    size: u64,
) -> Result<(Vec<u8>, Vec<Range<usize>>)> {
    let end = length(file, "a file of the log")?.min(at.saturating_add(size));
    let mut bytes = vec![0; usize::try_from(end.saturating_sub(at)).expect("a part of a file")];
    if file.read_at(&mut bytes, at).is_ok_and(|read| read == bytes.len()) {
        return Ok((bytes, vec![]));
    }
    let mut refused: Vec<Range<usize>> = vec![];
    let mut from = 0;
    while from < bytes.len() {
        let page = PAGE - (at + to_u64(from)) % PAGE;
        let next = (from + usize::try_from(page).expect("a page")).min(bytes.len());
        let part = bytes.get_mut(from..next).unwrap_or_default();
        if file.read_at(part, at + to_u64(from)).is_err() {
            part.fill(0);
            refused.push(from..next);
        }
        from = next;
    }
    Ok((bytes, refused))
}

/// Where `new` differs from `old`, or goes on behind it, or `old` could not be read.
fn runs(old: &[u8], new: &[u8], unread: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = vec![];
    for (at, byte) in new.iter().enumerate() {
        let is_same = old.get(at) == Some(byte) && !unread.iter().any(|run| run.contains(&at));
        if is_same {
            continue;
        }
        let end = at + 1;
        match found.last_mut().filter(|run| at - run.end <= JOINED) {
            Some(run) => run.end = end,
            None => found.push(at..end),
        }
    }
    found
}
