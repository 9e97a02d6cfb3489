//! What is in a log's directory: the manifest, the segment headers, and which segments count.
//! FORMAT.md sections 1, 4 and 6.
//!
//! A survey reads and judges nothing but the first blocks. What is missing or out of place does not
//! end it: the rest stays readable around the hole, and the hole is named.

use crate::recovery::Row;
use crate::spare::is_spare;
use crate::{Corruption, Damage, Error, Lost, Lsn, Offset, Result, SegmentId};
use seawall_format::scan::Limit;
use seawall_format::{
    Closed, HEADER_SIZE, Layout, Live, Manifest, Refused, Seal, SegmentHeader, SegmentRef,
};
use seawall_io::{Access, File, PosixStorage, Storage};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(crate) const MANIFEST: &str = "manifest";
pub(crate) const LIVE: &str = "live";
pub(crate) const LOCK: &str = "lock";
pub(crate) const QUARANTINE: &str = "quarantine";

/// How often a look starts over because the writer wrote or pruned under it.
const ATTEMPTS: u32 = 8;

/// How much of a text is looked at to see whether it holds something.
const HOLDS_LOOK: u64 = 64 << 10;

/// Two slots of the largest block.
const MANIFEST_MAX: usize = 2 * 65_536;

/// One segment whose header is sound.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    /// Where its file is; it is opened when it is read, as there may be very many.
    storage: Arc<dyn Storage>,
    /// The length of its file when it was looked at. A text grows.
    pub(crate) length: u64,
}

/// A segment in the live chain.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) segment: Segment,
    pub(crate) limit: Limit,
    /// What is missing between the link before and this one.
    pub(crate) gap: Option<(Row, Damage)>,
}

/// Something that should stand behind the last link and does not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beyond {
    pub(crate) row: Row,
    pub(crate) segment: SegmentId,
    pub(crate) cause: Corruption,
}

/// What a directory holds.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) manifest: Option<Manifest>,
    /// Whether slot A, slot B can be read.
    pub(crate) readable: [bool; 2],
    /// The live chain, oldest first.
    pub(crate) chain: Vec<Link>,
    pub(crate) beyond: Option<Beyond>,
    /// No manifest, though segments hold something.
    pub(crate) manifest_lost: bool,
    /// The segment that `live` names was pruned: the writer went on since, or cannot write `live`.
    /// What is there was not durable when it was written.
    pub(crate) is_ahead: bool,
    /// The highest id that any file has.
    pub(crate) max_id: Option<SegmentId>,
    pub(crate) names: Vec<String>,
}

/// Opens the directory of an existing log, for reading.
pub(crate) fn open_existing(path: &Path) -> Result<Arc<dyn Storage>> {
    match PosixStorage::open(path) {
        Ok(storage) => Ok(Arc::new(storage)),
        Err(error) => Err(not_opened(path, error)),
    }
}

/// Opens the directory of a log for writing, or makes it.
pub(crate) fn open_or_create(path: &Path, create: bool) -> Result<Arc<dyn Storage>> {
    match PosixStorage::open(path) {
        Ok(storage) => {
            let names = storage.list().map_err(Error::io(format!("list {}", path.display())))?;
            if !names.iter().any(|name| name == MANIFEST) {
                let others = storage.list_others();
                let others = others.map_err(Error::io(format!("list {}", path.display())))?;
                if let Some(stranger) = others.iter().find(|name| *name != QUARANTINE) {
                    return Err(not_a_log(&storage, format!("it holds {stranger}")));
                }
                // Somebody may have died between making the directory and making it durable.
                let synced = storage.sync_parent();
                synced.map_err(Error::io(format!("sync the parent of {}", path.display())))?;
            }
            Ok(Arc::new(storage))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
            let made = PosixStorage::create(path);
            Ok(Arc::new(made.map_err(Error::io(format!("create {}", path.display())))?))
        }
        Err(error) => Err(not_opened(path, error)),
    }
}

fn not_opened(path: &Path, error: io::Error) -> Error {
    let place = path.display().to_string();
    match error.kind() {
        io::ErrorKind::NotADirectory => {
            Error::NotALog { place, found: "a file, and a log is a directory".to_owned() }
        }
        _ => Error::io(format!("open {place}"))(error),
    }
}

/// Whether a name is one that a log's directory has.
fn is_ours(name: &str) -> bool {
    let fixed = [MANIFEST, LIVE, LOCK, QUARANTINE].contains(&name);
    fixed || is_spare(name) || SegmentId::from_any_name(name).is_some()
}

/// Refuses a directory that holds other people's files and no log, before anything is made in it.
pub(crate) fn refuse_foreign(storage: &dyn Storage) -> Result<Vec<String>> {
    let names = storage.list().map_err(Error::io(format!("list {}", storage.place())))?;
    let foreign = names.iter().find(|name| !is_ours(name));
    let holds_log = names.iter().any(|name| SegmentId::from_file_name(name).is_some());
    match foreign {
        Some(foreign) if !holds_log => Err(not_a_log(storage, format!("it holds {foreign}"))),
        _ => Ok(names),
    }
}

fn not_a_log(storage: &dyn Storage, found: impl Into<String>) -> Error {
    Error::NotALog { place: storage.place(), found: found.into() }
}

/// Reads all of a small file; `None` if there is none.
pub(crate) fn read_small(storage: &dyn Storage, name: &str, max: usize) -> Result<Option<Vec<u8>>> {
    let file = match storage.open(name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    read_start(&*file, name, max).map(Some)
}

fn read_start(file: &dyn File, name: &str, max: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; max];
    let read = file.read_at(&mut bytes, 0).map_err(Error::io(format!("read {name}")))?;
    bytes.truncate(read);
    Ok(bytes)
}

/// What `live` says, if it speaks of this boot.
///
/// The writer may not have been able to write it (R16): then the clean close, which is evidence,
/// says more once nobody has the log open.
pub(crate) fn read_live(storage: &dyn Storage) -> Result<Option<Live>> {
    let found = read_whole_live(storage)?;
    let Some(live) = found.filter(|live| Some(live.boot_id) == storage.boot_id()) else {
        return Ok(None);
    };
    if storage.is_locked(LOCK).map_err(Error::io(format!("look at {LOCK}")))? {
        return Ok(Some(live));
    }
    let Some(closed) = newest_close(storage, &live)? else { return Ok(Some(live)) };
    let is_later = closed.segment.id > live.segment.id;
    let says_more =
        is_later || (closed.segment.id == live.segment.id && closed.last > live.durable);
    if !says_more || newest_id(storage)? != Some(closed.segment.id) {
        return Ok(Some(live));
    }
    Ok(Some(Live { segment: closed.segment, durable: closed.last, ..live }))
}

fn newest_close(storage: &dyn Storage, live: &Live) -> Result<Option<Closed>> {
    let bytes = read_small(storage, MANIFEST, MANIFEST_MAX)?.unwrap_or_default();
    let slots = Manifest::decode_file(&bytes).into_iter().flatten();
    let slots = slots.filter(|slot| slot.log == live.log);
    Ok(slots.max_by_key(|slot| slot.sequence).and_then(|slot| slot.closed))
}

fn newest_id(storage: &dyn Storage) -> Result<Option<SegmentId>> {
    let names = storage.list().map_err(Error::io(format!("list {}", storage.place())))?;
    Ok(names.iter().filter_map(|name| SegmentId::from_file_name(name)).max())
}

/// A look at `live` while it is written may see a part of that: such a one is taken again, as
/// without a word a reader would go further than the writer is.
fn read_whole_live(storage: &dyn Storage) -> Result<Option<Live>> {
    for _ in 0..ATTEMPTS {
        let bytes = read_small(storage, LIVE, 64)?.unwrap_or_default();
        let found = Live::decode(&bytes);
        if found.is_some() || bytes.is_empty() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Reads what the directory holds; `live` says which segment is the newest, if a writer does.
///
/// What seems to be missing may just have been pruned: the manifest says so first.
pub(crate) fn survey(storage: &Arc<dyn Storage>, live: Option<&Live>) -> Result<Survey> {
    let mut before = None;
    for _ in 1..ATTEMPTS {
        match survey_once(storage, live) {
            // Removed since it was listed.
            Err(error) if is_gone(&error) => {}
            Ok(found) if found.trouble().is_some() => {
                let sequence = found.manifest.as_ref().map(|manifest| manifest.sequence);
                if before == Some(sequence) {
                    return Ok(found);
                }
                before = Some(sequence);
            }
            other => return other,
        }
    }
    survey_once(storage, live)
}

/// Whether a file was not there any more.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// Whether a survey still says what is there, where no writer's word tells of changes: each of
/// them makes or removes a file, or writes the manifest.
pub(crate) fn still_holds(storage: &dyn Storage, survey: &Survey) -> Result<bool> {
    let names = storage.list().map_err(Error::io(format!("list {}", storage.place())))?;
    let ids: Vec<_> = names.iter().filter_map(|name| SegmentId::from_file_name(name)).collect();
    let slots = read_manifest(storage, &ids)?;
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    Ok(names == survey.names && manifest == survey.manifest)
}

fn survey_once(storage: &Arc<dyn Storage>, live: Option<&Live>) -> Result<Survey> {
    let names = storage.list().map_err(Error::io(format!("list {}", storage.place())))?;
    let ids: Vec<_> = names.iter().filter_map(|name| SegmentId::from_file_name(name)).collect();
    let used = names.iter().filter_map(|name| SegmentId::from_any_name(name)).max();
    let slots = read_manifest(&**storage, &ids)?;
    let readable = [0, 1].map(|slot| slots.get(slot).is_some_and(Option::is_some));
    let manifest = slots.into_iter().flatten().max_by_key(|slot| slot.sequence);
    let mut found = Survey {
        readable,
        chain: vec![],
        beyond: None,
        manifest_lost: false,
        is_ahead: false,
        max_id: used,
        names,
        manifest,
    };
    let oldest = found.manifest.as_ref().map(|manifest| manifest.oldest.id);
    let newest = live.map(|live| live.segment.id);
    if newest.is_some() && newest < oldest {
        found.is_ahead = true;
        return Ok(found);
    }
    // The one behind what `live` names may have been made since.
    let behind = newest.and_then(|newest| ids.iter().copied().filter(|id| *id > newest).min());
    let last = behind.or(newest);
    let wanted = |id: &SegmentId| {
        oldest.is_none_or(|oldest| *id >= oldest) && last.is_none_or(|last| *id <= last)
    };
    let mut headers = Headers::default();
    for name in &found.names {
        let id = SegmentId::from_file_name(name);
        if let Some(id) = id.filter(wanted) {
            headers.read(storage, (id, name), found.manifest.as_ref())?;
        }
    }
    match &mut found.manifest {
        // Nobody knows which of them is the stranger, nor where the log began.
        Some(manifest) if headers.are_all_foreign() => manifest.oldest_base = Lsn::FIRST,
        Some(_) => {}
        None => {
            found.manifest_lost = headers.hold_something()?;
            if !found.manifest_lost {
                return Ok(found);
            }
        }
    }
    headers.arrange(&mut found, live)?;
    Ok(found)
}

fn read_manifest(storage: &dyn Storage, segments: &[SegmentId]) -> Result<Vec<Option<Manifest>>> {
    let bytes = read_small(storage, MANIFEST, MANIFEST_MAX)?;
    if bytes.is_none() && segments.is_empty() {
        return Err(not_a_log(storage, "there is no manifest and no segment"));
    }
    let bytes = bytes.unwrap_or_default();
    let mut slots = vec![];
    for slot in Manifest::decode_file(&bytes) {
        slots.push(match slot {
            Ok(manifest) => Some(manifest),
            Err(Refused::Invalid) => None,
            Err(refused) => {
                return Err(Error::Unsupported { place: file_place(storage, MANIFEST), refused });
            }
        });
    }
    let foreign = !bytes.starts_with(b"SEAWALLM") && slots.iter().all(Option::is_none);
    if foreign && segments.is_empty() {
        return Err(not_a_log(storage, "its manifest is not ours, and there is no segment"));
    }
    disown(storage, segments, &mut slots)?;
    Ok(slots)
}

/// Of two slots of different logs, keeps the one of the log that the segments are of.
fn disown(
    storage: &dyn Storage,
    segments: &[SegmentId],
    slots: &mut [Option<Manifest>],
) -> Result<()> {
    let mut logs: Vec<_> = slots.iter().flatten().map(|slot| slot.log).collect();
    logs.dedup();
    if logs.len() < 2 {
        return Ok(());
    }
    let mut ours = vec![];
    for name in segments.iter().flat_map(|id| [id.file_name(), id.head_name()]) {
        let bytes = read_small(storage, &name, HEADER_SIZE)?.unwrap_or_default();
        ours.extend(SegmentHeader::decode(&bytes).ok().map(|header| header.log));
    }
    if logs.iter().any(|log| ours.contains(log)) {
        for slot in slots {
            *slot = slot.take().filter(|slot| ours.contains(&slot.log));
        }
    }
    Ok(())
}

fn file_place(storage: &dyn Storage, name: &str) -> String {
    format!("{}/{name}", storage.place())
}

/// The length of the file with the records of a segment, whose head is open; `None` if it is not
/// there.
fn data_length(
    storage: &dyn Storage,
    header: &SegmentHeader,
    head: &dyn File,
) -> Result<Option<u64>> {
    let name = header.data_name();
    let failed = || Error::io(format!("length of {name}"));
    if header.layout == Layout::Binary {
        return head.len().map(Some).map_err(failed());
    }
    match storage.open(&name, Access::Read) {
        Ok(text) => text.len().map(Some).map_err(failed()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed()(error)),
    }
}

/// The next older link, if there is one, and what is missing in between.
type Below = (Option<(Segment, Limit)>, Option<(Row, Damage)>);

/// The segments whose headers were looked at.
#[derive(Default)]
struct Headers {
    sound: BTreeMap<SegmentId, Segment>,
    bad: BTreeMap<SegmentId, Corruption>,
    /// What sound files under the wrong name are.
    strangers: BTreeMap<SegmentId, SegmentRef>,
}

impl Headers {
    fn read(
        &mut self,
        storage: &Arc<dyn Storage>,
        (id, name): (SegmentId, &str),
        log: Option<&Manifest>,
    ) -> Result<()> {
        let file = match storage.open(name, Access::Read) {
            Ok(file) => file,
            // Pruned since it was listed: by now the manifest does not need it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(Error::io(format!("open {name}"))(error)),
        };
        let bytes = read_start(&*file, name, HEADER_SIZE)?;
        match SegmentHeader::decode(&bytes) {
            Ok(header)
                if header.head_name() == name && log.is_none_or(|log| log.log == header.log) =>
            {
                match data_length(&**storage, &header, &*file)? {
                    Some(length) => {
                        let storage = storage.clone();
                        self.sound.insert(id, Segment { header, storage, length });
                    }
                    None => drop(self.bad.insert(id, Corruption::TextMissing)),
                }
            }
            Ok(header) => {
                let is_ours = log.is_none_or(|log| log.log == header.log);
                let cause = if is_ours { Corruption::Misplaced } else { Corruption::ForeignEpoch };
                self.bad.insert(id, cause);
                self.strangers.insert(id, header.reference());
            }
            Err(Refused::Invalid) => drop(self.bad.insert(id, Corruption::SegmentHeader)),
            Err(refused) => {
                return Err(Error::Unsupported { place: file_place(&**storage, name), refused });
            }
        }
        Ok(())
    }

    /// Whether no segment is of the manifest's log, and one is of another.
    fn are_all_foreign(&self) -> bool {
        self.sound.is_empty() && self.bad.values().any(|cause| *cause == Corruption::ForeignEpoch)
    }

    /// Whether a segment holds a batch, mark or seal, or cannot say.
    fn hold_something(&self) -> Result<bool> {
        if !self.bad.is_empty() {
            return Ok(true);
        }
        for segment in self.sound.values() {
            if segment.holds_something()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds the live chain, from the newest segment down.
    fn arrange(mut self, found: &mut Survey, live: Option<&Live>) -> Result<()> {
        let named = live.map(|live| self.named_by(live)).transpose()?.flatten();
        let named = named.or_else(|| self.behind_a_cut(live?));
        // What lies behind is the writer's business, unless `live` leads there.
        self.sound.retain(|id, _| live.is_none_or(|live| *id <= live.segment.id));
        let top = match named {
            Some(top) => Some(top),
            // Without the segment that `live` names, the older ones are still there.
            None => self.top(found)?,
        };
        let Some((mut segment, mut limit)) = top else {
            let id = live.map(|live| live.segment.id);
            let id = id.or(self.bad.keys().next_back().copied());
            let id = id.or(found.manifest.as_ref().map(|m| m.oldest.id));
            found.beyond = Some(self.missing(id.unwrap_or(SegmentId::FIRST), Row::OldestMissing));
            return Ok(());
        };
        loop {
            let (below, gap) = self.below(&segment.header, found.manifest.as_ref())?;
            found.chain.insert(0, Link { segment, limit, gap });
            match below {
                Some(below) => (segment, limit) = below,
                None => return Ok(()),
            }
        }
    }

    /// The segment that a running writer says is the newest.
    fn named_by(&self, live: &Live) -> Result<Option<(Segment, Limit)>> {
        let top = self.sound.get(&live.segment.id);
        let Some(top) = top.filter(|top| top.header.epoch == live.segment.epoch) else {
            return Ok(None);
        };
        // A cut or a recovery ended the segment earlier, and its word did not reach `live`, or not
        // yet: what its successor was made with is durable.
        let sealed = top.seal()?.filter(|seal| seal.last < live.durable);
        let next = sealed.and_then(|seal| {
            let next = self.sound.get(&seal.next.id);
            next.filter(|next| next.header.epoch == seal.next.epoch)
        });
        Ok(Some(match next {
            Some(next) => (next.clone(), Limit::At(next.header.carried)),
            None => (top.clone(), Limit::At(live.durable)),
        }))
    }

    /// A stale `live` names a segment that is gone, and the next one follows an older: it was cut
    /// off. What its successor was made with is durable.
    fn behind_a_cut(&self, live: &Live) -> Option<(Segment, Limit)> {
        let gone = live.segment.id;
        let (_, next) = self.sound.range(gone..).next()?;
        let is_gone = !self.sound.contains_key(&gone) && !self.bad.contains_key(&gone);
        let is_cut = is_gone && next.header.pred.is_some_and(|pred| pred.id < gone);
        is_cut.then(|| (next.clone(), Limit::At(next.header.carried)))
    }

    /// The newest segment, unless a seal or the last clean close names one behind it.
    fn top(&self, found: &mut Survey) -> Result<Option<(Segment, Limit)>> {
        let newest = self.sound.keys().next_back().copied();
        for segment in self.sound.values().rev() {
            let Some(seal) = segment.seal()? else { continue };
            let replaced = self.is_replaced(seal.next);
            if replaced || newest.is_some_and(|newest| seal.next.id > newest) {
                found.beyond = Some(self.not_there(seal.next, replaced));
                return Ok(Some((segment.clone(), Limit::At(seal.last))));
            }
        }
        let closed = found.manifest.as_ref().and_then(|manifest| manifest.closed);
        if let Some(closed) = closed.filter(|closed| self.is_replaced(closed.segment)) {
            found.beyond = Some(self.not_there(closed.segment, true));
        }
        let named =
            closed.map(|closed| closed.segment.id).max(self.bad.keys().next_back().copied());
        if let Some(id) = named.filter(|id| newest.is_none_or(|newest| *id > newest)) {
            found.beyond = Some(self.missing(id, Row::NewestMissing));
        }
        let top = newest.and_then(|id| self.sound.get(&id).cloned());
        Ok(top.map(|top| (top, Limit::Open)))
    }

    /// Whether another file stands where this segment should be.
    fn is_replaced(&self, named: SegmentRef) -> bool {
        self.sound.get(&named.id).is_some_and(|found| found.header.epoch != named.epoch)
    }

    fn not_there(&self, named: SegmentRef, replaced: bool) -> Beyond {
        let missing = self.missing(named.id, Row::NewestMissing);
        let cause = if replaced { Corruption::SegmentReplaced } else { missing.cause };
        Beyond { cause, ..missing }
    }

    /// What stands before a segment: the next link, or a hole and what lies behind it.
    fn below(&self, header: &SegmentHeader, manifest: Option<&Manifest>) -> Result<Below> {
        let oldest = manifest.map(|manifest| manifest.oldest);
        if oldest.is_some_and(|oldest| oldest.id == header.id) {
            let replaced = oldest.is_some_and(|oldest| oldest.epoch != header.epoch);
            let gap = replaced.then(|| {
                let lost = Some(Lost { from: header.base, to: None });
                (Row::OldestMissing, hole(header.id, Corruption::SegmentReplaced, lost))
            });
            return Ok((None, gap));
        }
        let Some(pred) = header.pred else {
            return Ok((None, None));
        };
        let next = self.sound.get(&pred.id).filter(|next| next.header.epoch == pred.epoch);
        if let Some(next) = next {
            return Ok((Some((next.clone(), Limit::At(header.base.previous()))), None));
        }
        let is_oldest = oldest.is_some_and(|oldest| oldest.id >= pred.id);
        let row = if is_oldest { Row::OldestMissing } else { Row::ChainBroken };
        let missing = self.missing(pred.id, row);
        let behind = self.sealed_before(header)?;
        let first = match &behind {
            Some((_, last)) => seawall_format::next_lsn(*last),
            None => manifest.map_or(Lsn::FIRST, |manifest| manifest.oldest_base),
        };
        let lost = header.base.previous().filter(|last| *last >= first);
        let lost = lost.map(|last| Lost { from: first, to: Some(last) });
        let gap = (missing.row, hole(missing.segment, missing.cause, lost));
        Ok((behind.map(|(segment, last)| (segment, Limit::At(last))), Some(gap)))
    }

    /// The nearest older segment whose seal says that a missing one followed it, and its last LSN.
    fn sealed_before(&self, header: &SegmentHeader) -> Result<Option<(Segment, Option<Lsn>)>> {
        for segment in self.sound.range(..header.id).rev().map(|(_, segment)| segment) {
            let seal = segment.seal()?;
            let fits = |seal: &Seal| seal.next.id < header.id && seal.last < Some(header.base);
            if let Some(seal) = seal.filter(fits) {
                return Ok(Some((segment.clone(), seal.last)));
            }
        }
        Ok(None)
    }

    fn missing(&self, segment: SegmentId, row: Row) -> Beyond {
        let twin = self.strangers.get(&segment).and_then(|named| {
            self.sound.get(&named.id).filter(|found| found.header.epoch == named.epoch)
        });
        match self.bad.get(&segment) {
            Some(Corruption::Misplaced) if twin.is_some() => {
                Beyond { row: Row::Misplaced, segment, cause: Corruption::Duplicated }
            }
            Some(cause @ (Corruption::Misplaced | Corruption::ForeignEpoch)) => {
                Beyond { row: Row::Misplaced, segment, cause: *cause }
            }
            Some(Corruption::TextMissing) => {
                Beyond { row: Row::TextMissing, segment, cause: Corruption::TextMissing }
            }
            Some(cause) => Beyond { row: Row::HeaderUnreadable, segment, cause: *cause },
            None => Beyond { row, segment, cause: Corruption::SegmentMissing },
        }
    }
}

impl Survey {
    /// The last record that `live` says is durable, if it speaks of the newest segment.
    pub(crate) fn promised_by(&self, live: &Live) -> Option<Lsn> {
        let newest = self.chain.last().map(|link| link.segment.header.reference());
        live.durable.filter(|_| newest == Some(live.segment))
    }
}

/// A whole segment that cannot be read.
pub(crate) fn hole(segment: SegmentId, cause: Corruption, lost: Option<Lost>) -> Damage {
    let (segment, offset) = (Some(segment), Offset(0));
    Damage { segment, offset, bytes: 0, lost, cause, origin: None }
}

impl Segment {
    /// A segment that the log knows to be sound.
    pub(crate) fn open_known(storage: &Arc<dyn Storage>, header: &SegmentHeader) -> Result<Self> {
        let (mut headers, id) = (Headers::default(), header.id);
        headers.read(storage, (id, &header.head_name()), None)?;
        let found = headers.sound.remove(&id);
        found.ok_or_else(|| {
            let cause = headers.bad.get(&id).copied().unwrap_or(Corruption::SegmentMissing);
            Error::Damaged(Box::new(hole(id, cause, None)))
        })
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
            Layout::Text => file.len().map_err(Error::io(format!("length of {}", self.name()))),
            _ => Ok(self.header.size.min(self.length)),
        }
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
        self.read_in(&*self.open()?, from, max)
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

    /// The same, from its open file.
    pub(crate) fn read_in(&self, file: &dyn File, from: Offset, max: u64) -> Result<Vec<u8>> {
        let end = match self.header.layout {
            Layout::Text => self.data_end(file)?,
            _ => self.length,
        };
        let length = end.saturating_sub(from.0).min(max);
        let mut bytes = vec![0; usize::try_from(length).expect("a segment fits in memory")];
        let read = file.read_at(&mut bytes, from.0);
        let read = read.map_err(Error::io(format!("read {} at {from}", self.name())))?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Its seal, if it has a sound one.
    pub(crate) fn seal(&self) -> Result<Option<Seal>> {
        let bytes = self.read_head(Seal::offset(self.header.geometry), 64)?;
        Ok(Seal::decode(&bytes, &self.header))
    }

    /// The marks in its slots.
    pub(crate) fn marks(&self) -> Result<Vec<seawall_format::Mark>> {
        use seawall_format::{Mark, MarkSlot};
        let mut marks = vec![];
        for slot in [MarkSlot::A, MarkSlot::B] {
            let bytes = self.read_head(slot.offset(self.header.geometry), 64)?;
            marks.extend(Mark::decode(&bytes, slot, &self.header));
        }
        Ok(marks)
    }

    fn holds_something(&self) -> Result<bool> {
        let max = self.header.size.max(HOLDS_LOOK);
        let data = self.read(Offset(self.header.data_start()), max)?;
        let sealed = self.seal()?.is_some();
        Ok(sealed || !self.marks()?.is_empty() || !seawall_format::tail::is_zero(&data))
    }
}
