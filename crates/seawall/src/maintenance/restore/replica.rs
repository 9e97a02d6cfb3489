//! A replica: another copy of the same log, which offers its bytes where this log is damaged.

mod shared;

use crate::base::error::log_path::NamesLog;
use crate::base::error::{Corruption, Damage, Error, Lost, Result};
use crate::base::num::to_u64;
use crate::files::directory::{
    KEYS, KEYS_MAX, MANIFEST, MANIFEST_MAX, list, not_a_log, open_if_exists, read_small,
    segment_ids,
};
use crate::files::overlay::{Overlay, Patch, RepairSource};
use crate::files::segment::{OpenOutcome, open_checked};
use crate::files::segment_reader::read_header;
use crate::maintenance::restore::replica::shared::{Shared, segment_of};
use crate::maintenance::restore::source::PatchSource;
use crate::maintenance::restore::{is_whole, place_of};
use crate::maintenance::verify::{Verification, look_around};
use crate::parity::reconstruct::FoundPatches;
use crate::scan::catalog::log_id;
use crate::scan::load::load_catalog;
use seawall_format::keys::WrappedKeys;
use seawall_format::{LogId, Lsn, Manifest, STORED_MAX, SegmentHeader, SegmentId};
use seawall_io::{File, Storage};
use std::ops::Range;
use std::sync::Arc;

use crate::files::segment_reader::{length, read_around};
pub(crate) use crate::maintenance::restore::replica::shared::unproven;

/// Bytes per read, and the largest patch.
const CHUNK: u64 = 256 << 10;
/// Two differences separated by at most this many equal bytes become one patch.
const JOINED: usize = 32;
/// Maximum bytes offered per repair; the next repair offers the rest.
const OFFERED_MAX: usize = 1 << 30;

/// The evidence for the offered bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The log proves that the bytes are its own.
    Proven,
    /// Nothing is left of the file in this log, so only the replica tells what it contained.
    Alone,
}

/// A replica of a log.
#[derive(Debug)]
pub(crate) struct Replica {
    /// The log as found. Patches from a replica are no proof of a shared history, so the proof uses
    /// this state.
    found: Arc<dyn Storage>,
    storage: Arc<dyn Storage>,
    log: LogId,
    last: Option<Lsn>,
    /// The records that are intact here.
    intact: Vec<Lost>,
}

impl Replica {
    /// Opens `storage` as a replica of the log with id `log`, which is in `found`.
    ///
    /// # Errors
    ///
    /// `Mismatch` if the replica belongs to another log.
    pub(crate) fn open(
        found: &Arc<dyn Storage>,
        storage: Arc<dyn Storage>,
        log: LogId,
    ) -> Result<Self> {
        let catalog = load_catalog(&storage, None).of_log(&*storage)?;
        let theirs = log_id(&catalog).ok_or_else(|| {
            not_a_log(&*storage, "neither a manifest nor the header of a segment can be read")
        })?;
        if theirs != log {
            let (has, requested) = (format!("{:016x}", log.0), format!("{:016x}", theirs.0));
            let requested = format!("a replica with id {requested} ({})", storage.place());
            return Err(Error::Mismatch { log: None, what: "the id", has, requested });
        }
        let theirs = look_around(&storage).of_log(&*storage)?;
        let (last, intact) = (theirs.last_lsn, intact_records(&theirs));
        Ok(Self { found: found.clone(), storage, log, last, intact })
    }

    /// The header of a segment in the replica, if it is valid and of this log.
    fn header(&self, id: SegmentId) -> Result<Option<SegmentHeader>> {
        let found = read_header(&*self.storage, id)?.filter(|header| header.log == self.log);
        let Some(header) = found.clone().filter(|header| header.named_ahead) else {
            return Ok(found);
        };
        // The header of a segment that was named ahead does not say where the segment begins.
        let segment = segment_of(&self.storage, &header)?;
        Ok(segment.map(|segment| segment.header))
    }

    /// Offers patches for all damage.
    fn offers(
        &self,
        log: &Arc<dyn Storage>,
        found: &Verification,
        trust: Trust,
    ) -> Result<Vec<Patch>> {
        let (mut offered, mut last) = (vec![], None);
        for damage in &found.damage {
            let place = (damage.segment, damage.offset, damage.cause == Corruption::Keys);
            if last.replace(place) != Some(place) {
                self.offer(log, (damage, trust), &mut offered)?;
            }
        }
        Ok(offered)
    }

    /// Offers patches for one damage.
    fn offer(
        &self,
        log: &Arc<dyn Storage>,
        (damage, trust): (&Damage, Trust),
        offered: &mut Vec<Patch>,
    ) -> Result<()> {
        if damage.cause == Corruption::Keys {
            return self.offer_keys(&**log, offered);
        }
        let Some(id) = damage.segment else { return self.offer_manifest(&**log, offered) };
        let Some(header) = self.header(id)? else { return Ok(()) };
        let shared = Shared::of((&self.found, &self.storage), &header)?;
        let (head, data) = (header.head_name(), header.data_name());
        if !is_whole(damage) {
            let mut here = vec![];
            self.offer_part((&**log, &data), place_of(&**log, damage)?, &mut here)?;
            offered.extend(here.iter().flat_map(|patch| shared.parts(patch)));
            return Ok(());
        }
        let ours = read_header(&**log, id)?;
        let is_ours = ours.is_some_and(|ours| ours.reference() == header.reference());
        if !is_ours && (!self.is_named(log, &header, &shared)? || self.hides_another(log, id)?) {
            return Ok(());
        }
        if shared.is_not_found && shared.is_all != (trust == Trust::Proven) {
            return Ok(());
        }
        let is_hit = matches!(damage.cause, Corruption::SegmentHeader);
        if is_hit && !shared.is_not_found {
            // The rest of the head file may be intact and newer than the replica.
            let header = 0..u64::from(header.geometry.block);
            return self.offer_part((&**log, &head), header, offered);
        }
        if head != data {
            let mut here = vec![];
            self.offer_part((&**log, &data), 0..u64::MAX, &mut here)?;
            let parts = |patch: &Patch| {
                if shared.is_not_found { vec![patch.clone()] } else { shared.parts(patch) }
            };
            offered.extend(here.iter().flat_map(parts));
        }
        if !is_ours {
            self.offer_part((&**log, &head), 0..u64::MAX, offered)?;
        }
        Ok(())
    }

    /// Whether the log itself names the segment with this header. The random epoch in the header
    /// identifies a segment.
    fn is_named(
        &self,
        log: &Arc<dyn Storage>,
        header: &SegmentHeader,
        shared: &Shared,
    ) -> Result<bool> {
        let wanted = header.reference();
        let catalog = load_catalog(&self.found, None)?;
        let by_manifest = catalog.manifest().is_some_and(|manifest| {
            manifest.oldest == wanted
                || manifest.closed.is_some_and(|closed| closed.segment == wanted)
        });
        if by_manifest || !shared.is_not_found {
            return Ok(true);
        }
        if let Some(ours) = segment_of(&self.found, header)?
            && (!ours.marks()?.is_empty() || ours.seal()?.is_some())
        {
            return Ok(true);
        }
        // If the log has another valid header under this name, only the log as found can prove
        // this.
        let has_other = read_header(&*self.found, header.id)?.is_some();
        let witness = if has_other { &self.found } else { log };
        let names = list(&**witness)?;
        for name in names.iter().filter(|name| segment_ids(std::slice::from_ref(name)).count() > 0)
        {
            let (OpenOutcome::Sound(other) | OpenOutcome::NamedAhead(other)) =
                open_checked(witness, name, (None, None))?
            else {
                continue;
            };
            let is_next = other.header.pred == Some(wanted);
            let is_before = other.seal()?.is_some_and(|seal| seal.next == wanted);
            if other.header.log == self.log && (is_next || is_before) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the file `id` is another segment of this log, and the only copy of it.
    fn hides_another(&self, log: &Arc<dyn Storage>, id: SegmentId) -> Result<bool> {
        for name in [id.file_name(), id.head_name()] {
            let start = read_small(&*self.found, &name, STORED_MAX)?.unwrap_or_default();
            let Ok(other) = SegmentHeader::decode(&start) else { continue };
            if other.log != self.log || other.id == id {
                continue;
            }
            if read_header(&**log, other.id)?.as_ref() != Some(&other) {
                return Ok(true);
            }
            let here = if other.head_name() == other.data_name() { name } else { id.text_name() };
            let (Some(here), Some(there)) =
                (open_if_exists(&*self.found, &here)?, open_if_exists(&**log, &other.data_name())?)
            else {
                continue;
            };
            if !holds_all_of((&*here, &*there), other.data_start())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Offers the file `keys`, unless it is older than the log's manifest says.
    fn offer_keys(&self, log: &dyn Storage, offered: &mut Vec<Patch>) -> Result<()> {
        let ours = read_small(log, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
        let slots = Manifest::decode_file(&ours).into_iter().flatten();
        let newest = slots.filter(|slot| slot.log == self.log).max_by_key(|slot| slot.sequence);
        let min = newest.and_then(|slot| slot.authenticator).map_or(0, |proof| proof.claims.keys);
        let theirs = read_small(&*self.storage, KEYS, KEYS_MAX)?.unwrap_or_default();
        let mut slots = WrappedKeys::decode_file(&theirs).into_iter().flatten();
        if slots.any(|slot| slot.log == self.log && slot.sequence >= min) {
            self.offer_part((log, KEYS), 0..u64::MAX, offered)?;
        }
        Ok(())
    }

    /// Offers the manifest, or its unreadable slot.
    fn offer_manifest(&self, log: &dyn Storage, offered: &mut Vec<Patch>) -> Result<()> {
        let theirs = read_small(&*self.storage, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
        let slots = Manifest::decode_file(&theirs);
        if !slots.iter().flatten().any(|slot| slot.log == self.log) {
            return Ok(());
        }
        let ours = read_small(log, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
        let is_closed = Manifest::decode_file(&ours).iter().flatten().any(|slot| slot.is_closed);
        let marked = slots.iter().flatten().filter(|slot| slot.is_closed && !is_closed);
        // This log may have been opened since, unless it says itself that it was not.
        let unmarked: Vec<_> = marked.map(without_closing).collect();
        let storage: Arc<dyn Storage> = Arc::new(Overlay::new(self.storage.clone(), &unmarked));
        let (found, intact) = (self.found.clone(), vec![]);
        let replica = Self { found, storage, intact, ..*self };
        replica.offer_part((log, MANIFEST), 0..u64::MAX, offered)
    }

    /// Offers the slot that is readable in the replica only, if the other slots are equal.
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

    /// Offers the bytes of a part of a file that differ or are missing at its end.
    fn offer_part(
        &self,
        (log, name): (&dyn Storage, &str),
        bytes: Range<u64>,
        offered: &mut Vec<Patch>,
    ) -> Result<()> {
        let Some(theirs) = open_if_exists(&*self.storage, name)? else { return Ok(()) };
        let ours = open_if_exists(log, name)?;
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
                    offered.push(Patch { file, offset, old, new, by: RepairSource::Replica });
                }
            }
            at = next;
        }
        Ok(())
    }
}

impl PatchSource for Replica {
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<FoundPatches> {
        let mut patches = self.offers(log, found, Trust::Proven)?;
        self.offer_slot(&**log, &mut patches)?;
        Ok(FoundPatches { patches, unknown: vec![] })
    }

    fn lost_files(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<Patch>> {
        self.offers(log, found, Trust::Alone)
    }

    fn shares_history(&self, _: &Arc<dyn Storage>, damage: &Damage) -> Result<bool> {
        let Some(id) = damage.segment else { return Ok(false) };
        let Some(header) = self.header(id)? else { return Ok(false) };
        let shared = Shared::of((&self.found, &self.storage), &header)?;
        // A whole file must be of the shared history completely.
        if is_whole(damage) {
            return Ok(shared.is_all);
        }
        Ok(shared.has(&(damage.offset.0..damage.offset.plus(damage.bytes).0)))
    }

    /// Finds misplaced files above the newest segment. Requires that the newest segment is
    /// identical in the replica: it has no seal, so no later segment was ever in use.
    fn orphan_files(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<String>> {
        let catalog = load_catalog(log, None)?;
        let Some(newest) = catalog.chain.last().map(|link| &link.segment) else {
            return Ok(vec![]);
        };
        let is_misplaced_file = |damage: &&Damage| {
            use Corruption::{Duplicated, ForeignEpoch, Misplaced};
            let is_misplaced = [Duplicated, ForeignEpoch, Misplaced].contains(&damage.cause);
            is_whole(damage) && is_misplaced && damage.segment > Some(newest.header.id)
        };
        let ids: Vec<_> =
            found.damage.iter().filter(is_misplaced_file).map(|one| one.segment).collect();
        let theirs = list(&*self.storage)?;
        let is_newer =
            |name: &String| SegmentId::from_any_name(name).is_some_and(|id| id > newest.header.id);
        if ids.is_empty() || newest.seal()?.is_some() || theirs.iter().any(is_newer) {
            return Ok(vec![]);
        }
        for name in newest.names() {
            let mut differ = vec![];
            self.offer_part((&**log, &name), 0..u64::MAX, &mut differ)?;
            let lengths =
                open_if_exists(&**log, &name)?.zip(open_if_exists(&*self.storage, &name)?);
            let is_equal = lengths
                .map(|(ours, theirs)| Ok(length(&*ours, &name)? == length(&*theirs, &name)?))
                .transpose()?;
            if !differ.is_empty() || is_equal != Some(true) {
                return Ok(vec![]);
            }
        }
        let is_one = |name: &&String| ids.contains(&SegmentId::from_any_name(name));
        Ok(catalog.names.iter().filter(is_one).cloned().collect())
    }

    fn last(&self) -> Option<Lsn> {
        self.last
    }

    fn intact(&self) -> &[Lost] {
        &self.intact
    }
}

/// The records from the first to the last one, without the lost ones.
fn intact_records(found: &Verification) -> Vec<Lost> {
    let (Some(mut next), Some(end)) = (found.first_lsn, found.last_lsn) else { return vec![] };
    let lost = found.damage.iter().filter_map(|damage| damage.lost);
    let mut lost: Vec<_> = lost.chain(found.given_up.iter().copied()).collect();
    lost.sort_by_key(|lost| lost.from);
    let mut intact = vec![];
    for lost in lost {
        if let Some(to) = lost.from.previous().filter(|to| (next..=end).contains(to)) {
            intact.push(Lost::new(next, Some(to)));
        }
        let Some(to) = lost.to else { return intact };
        next = next.max(to.next());
    }
    if next <= end {
        intact.push(Lost::new(next, Some(end)));
    }
    intact
}

/// Takes the mark of a clean close out of a manifest with this slot.
fn without_closing(slot: &Manifest) -> Patch {
    let (place, file) = (slot.closing_place(), MANIFEST.to_owned());
    let new = place.clone().map(|_| 0).collect();
    Patch { file, offset: place.start, old: vec![], new, by: RepairSource::Replica }
}

/// Whether `outer` has, from `start` on, all bytes of `inner` that are not zero.
fn holds_all_of((inner, outer): (&dyn File, &dyn File), start: u64) -> Result<bool> {
    let mut at = start;
    loop {
        let (bytes, refused) = read_around(inner, at, CHUNK)?;
        if bytes.is_empty() {
            return Ok(true);
        }
        let (there, _) = read_around(outer, at, CHUNK)?;
        let is_there = |(number, byte): (usize, &u8)| *byte == 0 || there.get(number) == Some(byte);
        if !refused.is_empty() || !bytes.iter().enumerate().all(is_there) {
            return Ok(false);
        }
        at += to_u64(bytes.len());
    }
}

/// The ranges where `new` differs from `old`, extends past it, or `old` could not be read.
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
