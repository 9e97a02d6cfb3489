//! What the parity beside segments says of bytes that damage took; and the state it is in.

use super::code::{has_sound_parity, lost_blocks, rebuild};
use super::track::{Side, read_head, read_slot};
use crate::chain::Link;
use crate::directory::{LOCK, list, open_existing, read_small, read_start};
use crate::mend::Source;
use crate::overlay::{Mender, Overlay, Patch};
use crate::segment::Segment;
use crate::source::is_of_device;
use crate::survey::{Survey, survey};
use crate::walk::{Event, TailFound, Walk};
use crate::{Corruption, Damage, Error, Lsn, Offset, Result, SegmentId, Verification};
use seawall_format::frame::Frames;
use seawall_format::parity::{Head, Known, Places, Scheme};
use seawall_format::scan::Limit;
use seawall_format::{Geometry, HEADER_SIZE, Live, Mark, MarkSlot, Refused, SegmentHeader, tail};
use seawall_io::{Access, File, Storage};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The bytes that these segments lack and their parity gives back; of all segments, if none are
/// named.
///
/// Each patch was computed from blocks with the checksums that were noted when they were written,
/// and has such a one itself. Whether a log is sound with them is for a look through an
/// [`Overlay`] to say.
pub(crate) fn patches(
    storage: &Arc<dyn Storage>,
    segments: Option<&BTreeSet<SegmentId>>,
) -> Result<Vec<Patch>> {
    let names = list(&**storage)?;
    let mut found = vec![];
    for name in &names {
        let Some(id) = SegmentId::from_parity_name(name) else { continue };
        if segments.is_none_or(|segments| segments.contains(&id)) {
            patch_segment(&**storage, (id, name), &mut found)?;
        }
    }
    Ok(found)
}

fn patch_segment(
    storage: &dyn Storage,
    (id, name): (SegmentId, &str),
    found: &mut Vec<Patch>,
) -> Result<()> {
    // What cannot be opened or read mends nothing.
    let Ok(parity) = storage.open(name, Access::Read) else { return Ok(()) };
    let Some(head) = read_head(&*parity).ok().flatten() else { return Ok(()) };
    let header = &head.header;
    if header.id != id {
        return Ok(());
    }
    let places = Places::of(header, head.scheme);
    let name = header.head_name();
    let file = match storage.open(&name, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io(format!("open {name}"))(error)),
    };
    let block = places.block();
    let old = read_start(&*file, &name, block).unwrap_or_else(|_| vec![0; block]);
    let mut patches = vec![];
    let mut is_own = match SegmentHeader::decode(&old) {
        Ok(other) if other == *header => true,
        Err(Refused::Invalid) => {
            // Nothing else stands in that block.
            let mut new = header.encode().to_vec();
            new.resize(block, 0);
            patches.push(Patch { file: name, offset: 0, old, new, by: Mender::Parity });
            holds_mark(&*file, header)
        }
        // Another file stands there; and what a newer program wrote is not judged.
        Ok(_) | Err(_) => return Ok(()),
    };
    let name = header.data_name();
    let Ok(data) = storage.open(&name, Access::Read) else { return Ok(()) };
    let lengths = parity.len().and_then(|parity| Ok((parity, data.len()?)));
    let Ok((length, end)) = lengths else { return Ok(()) };
    let mut number = 0;
    // However long a file says it is: of a stripe that begins behind the records all is lost.
    while places.slot_at(number).0 < length && places.stripe_at(number) <= end {
        is_own |= patch_stripe((&*parity, &*data, &name), &places, number, &mut patches);
        number += 1;
    }
    // Without its header, a mark, and one block that is known, nothing says that the file is this
    // segment's: a header alone would make an empty segment of what is lost as a whole.
    if is_own {
        found.append(&mut patches);
    }
    Ok(())
}

/// Whether a file has a mark of this segment.
fn holds_mark(file: &dyn File, header: &SegmentHeader) -> bool {
    [MarkSlot::A, MarkSlot::B].into_iter().any(|slot| {
        let mut bytes = [0; 64];
        let read = file.read_at(&mut bytes, slot.offset(header.geometry).0);
        read.is_ok() && Mark::decode(&bytes, slot, header).is_some()
    })
}

/// Finds the patches of one stripe; whether something stands there that its slot knows.
fn patch_stripe(
    (parity, data, name): (&dyn File, &dyn File, &str),
    places: &Places,
    number: u64,
    found: &mut Vec<Patch>,
) -> bool {
    let Ok(slot) = read_slot(parity, places, number) else { return false };
    let Some(known) = Known::decode(&slot, number, places) else { return false };
    let from = places.stripe_at(number);
    let Stripe { bytes, read, refused } = Stripe::read(data, places, (from, known.covered));
    let mut lost = lost_blocks(places, &known, &bytes);
    let is_known = |(number, block): (usize, &[u8])| {
        !lost.contains(&number) && !refused.contains(&number) && !tail::is_zero(block)
    };
    let is_own = bytes.chunks_exact(places.block()).enumerate().any(is_known);
    let rebuilt = if lost.is_empty() {
        Some(vec![])
    } else {
        rebuild(places, (&known, &slot), (&bytes, &lost))
    };
    let Some(mut blocks) = rebuilt else { return is_own };
    // What the device refuses, and is known to hold nothing but zeros.
    let zeros = refused.iter().copied().filter(|number| !lost.contains(number));
    let zeros: Vec<_> = zeros.collect();
    blocks.extend(zeros.iter().map(|_| vec![0; places.block()]));
    lost.extend(zeros);
    let length = data.len().unwrap_or(0);
    for (block, mut new) in lost.iter().zip(blocks) {
        let start = block * places.block();
        // The rest of the block is not what parity knows of.
        let mut end = known.covered.saturating_sub(start);
        if refused.contains(block) {
            // Nothing can be lost by what is put there, as far as the file goes.
            let rest = length.saturating_sub(from + to_u64(start));
            end = end.max(usize::try_from(rest).unwrap_or(usize::MAX));
        }
        new.truncate(end);
        let end = (start + new.len()).min(read.max(start));
        let old = bytes.get(start..end).unwrap_or_default().to_vec();
        let (file, offset) = (name.to_owned(), from + to_u64(start));
        found.push(Patch { file, offset, old, new, by: Mender::Parity });
    }
    is_own
}

/// The data of a stripe as the device gives it.
struct Stripe {
    /// All of its blocks; zero where nothing is covered, or nothing is to be had.
    bytes: Vec<u8>,
    /// Where the file ends in it.
    read: usize,
    /// Blocks that the device refused: nothing can be lost by what is put there.
    refused: Vec<usize>,
}

impl Stripe {
    fn read(data: &dyn File, places: &Places, (from, covered): (u64, usize)) -> Self {
        let size = usize::try_from(places.stripe_size()).expect("64 blocks of 64 KiB at most");
        let mut bytes = vec![0; size];
        let wanted = bytes.get_mut(..covered).unwrap_or_default();
        if let Ok(read) = data.read_at(wanted, from) {
            return Self { bytes, read, refused: vec![] };
        }
        // Block by block, around those that the device refuses.
        let (mut read, mut at, mut refused) = (0, from, vec![]);
        for (number, block) in wanted.chunks_mut(places.block()).enumerate() {
            match data.read_at(block, at) {
                Ok(got) if got < block.len() => {
                    read += got;
                    break;
                }
                Ok(_) => {}
                Err(_) => {
                    block.fill(0);
                    refused.push(number);
                }
            }
            (read, at) = (read + block.len(), at + to_u64(block.len()));
        }
        Self { bytes, read, refused }
    }
}

/// Who reads a log and comes to damage asks here, once for each segment, before the damage is
/// told.
#[derive(Debug, Default)]
pub(crate) struct Heal {
    tried: BTreeSet<SegmentId>,
    /// Those of which something was left out.
    refused: BTreeSet<SegmentId>,
    /// What was put right so far.
    pub(crate) patches: Vec<Patch>,
    /// The log without that.
    below: Option<Arc<dyn Storage>>,
}

impl Heal {
    /// The log without a view, if there was one; what was put right is forgotten.
    pub(crate) fn let_go(&mut self) -> Option<Arc<dyn Storage>> {
        std::mem::take(self).below
    }

    /// Whether the damage, which shows in a view, is still there below it; and what it is, if the
    /// device refuses it.
    ///
    /// Of a block that the device refuses parity may know the beginning alone: what it does not
    /// know of is zero in the view. That is no damage but of the device; and no damage at all, if
    /// the device gives the block by now.
    pub(crate) fn is_still_there(&self, damage: &mut Damage) -> bool {
        let Some(below) = &self.below else { return true };
        let end = damage.offset.0.saturating_add(damage.bytes.max(1));
        let is_there = |patch: &&Patch| {
            SegmentId::from_any_name(&patch.file) == damage.segment
                && patch.offset < end
                && damage.offset.0 < patch.end()
        };
        for patch in self.patches.iter().filter(is_there) {
            let mut now = vec![0; patch.old.len()];
            let read = below
                .open(&patch.file, Access::Read)
                .and_then(|file| file.read_at(&mut now, patch.offset));
            match read {
                Ok(_) if now != patch.old => return false,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => damage.cause = Corruption::Unreadable,
            }
        }
        true
    }

    /// A view of the log in which more of it is sound, of what is damaged in these segments, or
    /// anywhere; `None` if there is nothing to be had.
    pub(crate) fn view(
        &mut self,
        storage: &Arc<dyn Storage>,
        damaged: impl IntoIterator<Item = Option<SegmentId>>,
    ) -> Result<Option<Arc<dyn Storage>>> {
        let names = list(&**storage)?;
        let sides: BTreeSet<_> =
            names.iter().filter_map(|name| SegmentId::from_parity_name(name)).collect();
        let mut asked = BTreeSet::new();
        for damaged in damaged {
            match damaged {
                // What is told of a segment may be the matter of one of its neighbours.
                Some(id) => {
                    asked.extend(sides.range(..id).next_back());
                    // A segment without a header is seen by nobody, and once it has one, what its
                    // seal names is missing: so those behind it are asked with it.
                    let behind = sides.range(id..);
                    let is_unseen = |side: &&SegmentId| !has_header(&**storage, **side);
                    let unseen = behind.clone().skip(1).take_while(is_unseen).count();
                    asked.extend(behind.take(2 + unseen));
                }
                None => asked.extend(&sides),
            }
        }
        asked.retain(|id| self.tried.insert(*id));
        if asked.is_empty() {
            return Ok(None);
        }
        // What takes a record away may give it back with what comes now.
        asked.append(&mut self.refused);
        let mut found = patches(storage, Some(&asked))?;
        if !found.is_empty() && !keeps_all(storage, &found)? {
            let refused;
            (found, refused) = only_harmless(storage, found)?;
            let segments = refused.iter().filter_map(|patch| SegmentId::from_any_name(&patch.file));
            self.refused.extend(segments);
        }
        if found.is_empty() {
            return Ok(None);
        }
        let view: Arc<dyn Storage> = Arc::new(Overlay::new(storage.clone(), &found));
        self.patches.extend(found);
        self.below.get_or_insert_with(|| storage.clone());
        Ok(Some(view))
    }
}

/// Whether the header of this segment can be read.
fn has_header(storage: &dyn Storage, id: SegmentId) -> bool {
    [id.file_name(), id.head_name()].iter().any(|name| {
        let start = read_small(storage, name, HEADER_SIZE).ok().flatten();
        start.is_some_and(|start| SegmentHeader::decode(&start).is_ok())
    })
}

/// So many patches of which some do harm are looked at one by one.
const DOUBTFUL_MAX: usize = 64;

/// More records than a writer carries on from one failed write.
const CARRIED_MAX: usize = 1 << 20;

/// Those of the patches that take no intact record away, nor change one, and the others: parity may
/// know of a stripe what it never was, and takes nothing away.
fn only_harmless(
    storage: &Arc<dyn Storage>,
    patches: Vec<Patch>,
) -> Result<(Vec<Patch>, Vec<Patch>)> {
    if patches.len() > DOUBTFUL_MAX {
        // That much is no matter of single blocks: nothing of it is believed.
        return Ok((vec![], patches));
    }
    let (mut kept, mut refused) = (vec![], vec![]);
    for patch in patches {
        kept.push(patch);
        if !keeps_all(storage, &kept)? {
            refused.extend(kept.pop());
        }
    }
    Ok((kept, refused))
}

/// Whether every intact record is still there, and the same, in a view with these patches.
fn keeps_all(storage: &Arc<dyn Storage>, patches: &[Patch]) -> Result<bool> {
    let view: Arc<dyn Storage> = Arc::new(Overlay::new(storage.clone(), patches));
    let (before, after) = match (survey(storage, None), survey(&view, None)) {
        // It cannot even be looked at.
        (Err(error), _) | (_, Err(error)) if is_of_device(&error) => return Ok(true),
        (before, after) => (before?, after?),
    };
    let touched: BTreeSet<_> =
        patches.iter().filter_map(|patch| SegmentId::from_any_name(&patch.file)).collect();
    let is_patched = |link: &&Link| touched.contains(&link.segment.header.id);
    let mut missing = BTreeSet::new();
    for link in before.chain.iter().filter(is_patched) {
        let same = |other: &&Link| other.segment.header == link.segment.header;
        let mut shown = Intact::of(after.chain.iter().find(same)).peekable();
        for record in Intact::of(Some(link)) {
            while shown.next_if(|next| next.0 < record.0).is_some() {}
            if shown.next_if_eq(&record).is_none() {
                missing.insert(record);
            }
            if missing.len() > CARRIED_MAX {
                return Ok(false);
            }
        }
    }
    // What a writer failed to write there it carried on, and it is shown where that is.
    for (number, link) in after.chain.iter().enumerate() {
        let next = after.chain.get(number + 1).map(|next| next.segment.header.base);
        let is_before = |first: &(Lsn, u32)| next.is_some_and(|next| next <= first.0);
        if missing.first().is_some_and(|first| !is_before(first)) {
            for record in Intact::of(Some(link)) {
                missing.remove(&record);
            }
        }
    }
    Ok(missing.is_empty())
}

/// The intact records of a segment: their numbers, and what tells one payload from another.
struct Intact {
    walk: Option<Walk>,
    found: VecDeque<(Lsn, u32)>,
}

impl Intact {
    fn of(link: Option<&Link>) -> Self {
        let walk = link.map(|link| Walk::of_segment(link).around_unreadable(true));
        Self { walk, found: VecDeque::new() }
    }
}

impl Iterator for Intact {
    type Item = (Lsn, u32);

    fn next(&mut self) -> Option<Self::Item> {
        while self.found.is_empty() {
            let walk = self.walk.as_mut()?;
            match walk.step() {
                Ok(Event::Batch(batch)) => {
                    let body = walk.bytes().get(batch.body.clone()).unwrap_or_default();
                    let frames = Frames::new(body, batch.header.first, batch.header.count);
                    let counted = frames.take_while(|frame| frame.lsn <= batch.last);
                    let counted = counted.map(|frame| (frame.lsn, Known::checksum(frame.payload)));
                    self.found.extend(counted);
                }
                Ok(Event::Damage(_, salvaged)) => {
                    let payload = |range| walk.bytes().get(range).unwrap_or_default();
                    let sum = |range| Known::checksum(payload(range));
                    self.found.extend(salvaged.into_iter().map(|one| (one.lsn, sum(one.payload))));
                }
                Ok(Event::End(_)) | Err(_) => self.walk = None,
            }
        }
        self.found.pop_front()
    }
}

/// No segment holds more bytes of records: a text goes a batch beyond what a segment may hold.
const RECORDS_MAX: u64 = 2 * Geometry::SEGMENT_MAX;

/// Whether the parity of the newest segment knows of records behind `end`, where they seem to end:
/// a slot is written when all that it covers is durable, so something took them.
///
/// Beside a writer it may know of what was not there yet when it was looked for.
pub(crate) fn knows_more(newest: &Segment, end: Offset) -> bool {
    covers_more(newest, end.0).unwrap_or(false)
}

fn covers_more(newest: &Segment, end: u64) -> Option<bool> {
    let parity = newest.storage().open(&newest.header.id.parity_name(), Access::Read).ok()?;
    let head = read_head(&*parity).ok()?.filter(|head| head.header == newest.header)?;
    let places = Places::of(&head.header, head.scheme);
    let is_beyond = |number: u64| {
        let slot = read_slot(&*parity, &places, number).ok()?;
        let known = Known::decode(&slot, number, &places)?;
        Some(places.stripe_at(number) + to_u64(known.covered) > end)
    };
    // However long a file says it is: no segment holds more than that.
    let room = parity.len().ok()?.saturating_sub(places.slot_at(0).0);
    let slots = room.div_ceil(to_u64(places.slot_size())).min(RECORDS_MAX / places.stripe_size());
    Some((places.stripe_of(end)..slots).any(|number| is_beyond(number) == Some(true)))
}

/// What the directory holds, and with the view that shows it, where parity gives back what the
/// device does not give of what a segment begins with, or a newest segment that is missing.
///
/// That one may be what a cut made: without it the records are shown that the cut took, so it is
/// asked for before a record is shown, and not when the walk comes to its place.
pub(crate) fn survey_mended(
    storage: &Arc<dyn Storage>,
    live: Option<&Live>,
    heal: &mut Heal,
) -> Result<(Survey, Option<Arc<dyn Storage>>)> {
    let (found, view) = match survey(storage, live) {
        Err(error) if is_of_device(&error) => {
            let view = heal.view(storage, [None])?.ok_or(error)?;
            (survey(&view, live)?, Some(view))
        }
        found => (found?, None),
    };
    let Some(beyond) = found.beyond else { return Ok((found, view)) };
    let log = view.as_ref().unwrap_or(storage);
    let Some(next) = heal.view(log, [Some(beyond.segment)])? else { return Ok((found, view)) };
    // It ends: parity is asked once for each segment.
    match survey_mended(&next, live, heal) {
        // What parity gave back leads to what the device refuses.
        Err(error) if is_of_device(&error) => Ok((found, view)),
        mended => mended.map(|(mended, view)| (mended, Some(view.unwrap_or(next)))),
    }
}

/// Whether the block in which a log seems to end is one that was lost: what stood there behind what
/// parity knows of may have been more.
pub(crate) fn hides_end(
    patches: &[Patch],
    (newest, end): (Option<&Link>, Option<&TailFound>),
) -> bool {
    let end = end.filter(|end| end.row == tail::Row::Clean);
    let Some((newest, end)) = newest.zip(end) else { return false };
    let header = &newest.segment.header;
    let (start, block) = (header.data_start(), u64::from(header.geometry.block));
    let from = start + end.offset.0.saturating_sub(start) / block * block;
    let is_there =
        |patch: &Patch| patch.file == end.file && patch.offset < from + block && from < patch.end();
    from < end.offset.0 && patches.iter().any(is_there)
}

/// Parity as what a repair takes bytes from.
#[derive(Debug)]
pub(crate) struct Beside;

impl Source for Beside {
    fn patches(&self, log: &Arc<dyn Storage>, found: &Verification) -> Result<Vec<Patch>> {
        let mut heal = Heal::default();
        heal.view(log, found.doubtful())?;
        Ok(heal.patches)
    }

    fn is_tied(&self, _: &Arc<dyn Storage>, _: &Damage) -> Result<bool> {
        // It was made of this very segment.
        Ok(true)
    }

    fn is_of_this_log(&self) -> bool {
        true
    }
}

/// What parity stands beside a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Protection {
    /// What the log was told to keep beside its segments.
    pub scheme: Option<Scheme>,
    /// Bytes of records, in all segments.
    pub bytes: u64,
    /// How many of them have durable parity that can be used.
    pub covered: u64,
    /// The size of the files with parity, in bytes.
    pub parity_bytes: u64,
    /// Segments of which some bytes have none; the one that is written among them, now and then.
    pub open: Vec<SegmentId>,
}

/// Says what parity stands beside the log in the directory `path`.
///
/// # Errors
///
/// [`Error::Io`], [`Error::NotALog`], [`Error::Unsupported`].
///
/// # Examples
///
/// ```
/// use seawall::{Log, Options, Parity, protection};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-prot-{}", std::process::id()));
/// let log: Log<u32> = Options::new().parity(Some(Parity::DEFAULT)).open(&folder)?;
/// log.append(&7)?;
/// log.close()?;
/// let found = protection(&folder)?;
/// assert_eq!((found.scheme, found.covered), (Some(Parity::DEFAULT), found.bytes));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn protection(path: impl AsRef<Path>) -> Result<Protection> {
    protection_in(&open_existing(path.as_ref())?)
}

/// Says what parity stands beside a log that another kind of storage holds.
///
/// # Errors
///
/// As [`protection`].
pub fn protection_in(storage: &Arc<dyn Storage>) -> Result<Protection> {
    let survey = survey(storage, None)?;
    let mut found = Protection {
        scheme: survey.manifest.as_ref().and_then(|manifest| manifest.parity),
        ..Protection::default()
    };
    for (number, link) in survey.chain.iter().enumerate() {
        let header = &link.segment.header;
        let is_newest = number + 1 == survey.chain.len();
        let (from, end) = (header.data_start(), records_end(storage, link, is_newest)?);
        let (is_sound, sound) = soundness(storage, header);
        let parity = storage.open(&header.id.parity_name(), Access::Read);
        found.parity_bytes += parity.and_then(|parity| parity.len()).unwrap_or(0);
        found.bytes += end - from;
        if is_sound && !needs(storage, header, end) {
            found.covered += end - from;
        } else {
            found.covered += sound.unwrap_or(from).min(end) - from;
            found.open.push(header.id);
        }
    }
    Ok(found)
}

/// Up to where a segment can have parity: where all of its file has some, its end, as nobody writes
/// it any more; else where those of its records end that count or that it was made with, or what
/// slots know of, which was durable.
///
/// What lies behind that was carried on: nothing says that it was ever durable, and after a barrier
/// that failed it stands in the page cache only, whatever barriers return later. In the newest
/// segment one more are to come: what is there now is no matter of parity.
fn records_end(storage: &Arc<dyn Storage>, link: &Link, is_newest: bool) -> Result<u64> {
    let header = &link.segment.header;
    if !is_newest {
        let end = link.segment.records_end()?;
        if !needs(storage, header, end) {
            return Ok(end);
        }
    }
    let limit = match link.limit {
        Limit::At(last) => Limit::At(last.max(header.carried)),
        Limit::Open => Limit::Open,
    };
    let mut walk = Walk::of_segment(&Link { limit, ..link.clone() });
    let mut end = header.data_start();
    while let Event::Batch(batch) = walk.step()? {
        end = batch.end.0;
    }
    Ok(if is_newest { end } else { known_from(&link.segment, end).unwrap_or(end) })
}

/// Up to where the slots know the records of a segment, from that of `end` on.
fn known_from(segment: &Segment, mut end: u64) -> Option<u64> {
    let parity = segment.storage().open(&segment.header.id.parity_name(), Access::Read).ok()?;
    let head = head_of(&*parity, &segment.header)?;
    let places = Places::of(&head.header, head.scheme);
    for number in places.stripe_of(end)..RECORDS_MAX / places.stripe_size() {
        let slot = read_slot(&*parity, &places, number).ok()?;
        let Some(known) = Known::decode(&slot, number, &places) else { break };
        end = end.max(places.stripe_at(number) + to_u64(known.covered));
    }
    Some(end)
}

/// The head of a segment's parity.
fn head_of(parity: &dyn File, header: &SegmentHeader) -> Option<Head> {
    read_head(parity).ok().flatten().filter(|head| head.header == *header)
}

/// Whether all of a segment's parity that is durable can be used, and up to where it can: it may
/// be damaged itself.
fn soundness(storage: &Arc<dyn Storage>, header: &SegmentHeader) -> (bool, Option<u64>) {
    let parity = storage.open(&header.id.parity_name(), Access::Read).ok();
    let head = parity.as_ref().and_then(|parity| head_of(&**parity, header));
    let sound = parity.zip(head.as_ref()).map(|(parity, head)| sound_to(&*parity, head));
    (sound == head.map(|head| head.covered), sound)
}

/// Up to where slots are sound.
fn sound_to(parity: &dyn File, head: &Head) -> u64 {
    let header = &head.header;
    let places = Places::of(header, head.scheme);
    let mut number = 0;
    while places.stripe_at(number) < head.covered {
        let from = places.stripe_at(number);
        let slot = read_slot(parity, &places, number).unwrap_or_default();
        let wanted = (head.covered - from).min(places.stripe_size());
        if !is_sound(&slot, number, (&places, wanted)) {
            return from;
        }
        number += 1;
    }
    head.covered
}

/// Whether a slot is about so much of its stripe, and its parity is what it was.
fn is_sound(slot: &[u8], number: u64, (places, wanted): (&Places, u64)) -> bool {
    let known = Known::decode(slot, number, places);
    known.is_some_and(|known| {
        to_u64(known.covered) >= wanted && has_sound_parity(places, &known, slot)
    })
}

/// Whether what is covered reaches the end of the records, and the last slot is sound: a crash may
/// have torn it when it was written anew. The empty rest of a block may lie behind.
fn is_whole(
    (parity, data): (&dyn File, &dyn File),
    header: &SegmentHeader,
    end: u64,
) -> Option<bool> {
    let head = head_of(parity, header)?;
    let places = Places::of(header, head.scheme);
    let mut rest = vec![0; places.block()];
    let covered = head.covered.min(end);
    let size = usize::try_from(end - covered).ok().filter(|size| *size <= rest.len())?;
    rest.truncate(size);
    data.read_at(&mut rest, covered).ok()?;
    if rest.iter().any(|byte| *byte != 0) {
        return None;
    }
    let number = places.stripe_of(covered);
    let filled = usize::try_from(covered - places.stripe_at(number)).ok()?;
    if filled == 0 {
        return Some(true);
    }
    let slot = read_slot(parity, &places, number).ok()?;
    Some(is_sound(&slot, number, (&places, to_u64(filled))))
}

/// Makes the parity that the log in the directory `path` lacks: beside the segments that were
/// written without, where a crash left some of it out, or where it is damaged itself. Says what
/// stands beside it then.
///
/// It is computed from the records as they are; verify them first.
///
/// # Errors
///
/// [`Error::Busy`] if a writer has the log open; [`Error::Io`], [`Error::NotALog`],
/// [`Error::Unsupported`].
///
/// # Examples
///
/// ```
/// use seawall::{Log, Parity, protect};
///
/// # let folder = std::env::temp_dir().join(format!("seawall-doc-mkpar-{}", std::process::id()));
/// let log: Log<u32> = Log::open(&folder)?;
/// log.append(&7)?;
/// log.close()?;
/// let made = protect(&folder, Parity::DEFAULT)?;
/// assert!(made.open.is_empty());
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn protect(path: impl AsRef<Path>, scheme: Scheme) -> Result<Protection> {
    protect_in(&open_existing(path.as_ref())?, scheme)
}

/// Makes the parity that a log lacks which another kind of storage holds.
///
/// # Errors
///
/// As [`protect`].
pub fn protect_in(storage: &Arc<dyn Storage>, scheme: Scheme) -> Result<Protection> {
    survey(storage, None)?;
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let _lock = locked.ok_or_else(|| Error::Busy { place: storage.place() })?;
    // What is no log was refused before a lock was made in it; a writer may have been here since.
    let found = survey(storage, None)?;
    for (number, link) in found.chain.iter().enumerate() {
        let is_newest = number + 1 == found.chain.len();
        let (header, end) = (&link.segment.header, records_end(storage, link, is_newest)?);
        let (is_sound, sound) = soundness(storage, header);
        if !is_sound || needs(storage, header, end) {
            let failed = Error::io(format!("make {}", header.id.parity_name()));
            make(storage, (header, scheme), (sound, end)).map_err(failed)?;
        }
    }
    storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    protection_in(storage)
}

/// Whether something of a segment whose records end at `end` has no durable parity.
fn needs(storage: &Arc<dyn Storage>, header: &SegmentHeader, end: u64) -> bool {
    let open = |name: &str| storage.open(name, Access::Read).ok();
    let files = open(&header.id.parity_name()).zip(open(&header.data_name()));
    let is_whole = files.and_then(|(parity, data)| is_whole((&*parity, &*data), header, end));
    is_whole != Some(true)
}

/// Makes the parity of one segment that nobody writes any more, from where it is sound if that is
/// known. Durable but for its name.
fn make(
    storage: &Arc<dyn Storage>,
    (header, scheme): (&SegmentHeader, Scheme),
    (sound, end): (Option<u64>, u64),
) -> io::Result<()> {
    let data = storage.open(&header.data_name(), Access::Read)?;
    let mut side = Side::open(storage, (header, scheme))?;
    if let Some(sound) = sound {
        side.go_back(sound);
    }
    side.catch_up(&*data, end)?;
    side.round_off()?;
    if let Some(settling) = side.settling() {
        settling.run();
    }
    Ok(())
}

/// In so many of the newest segments a crash may have left out the whole file: its name becomes
/// durable with the next segment's.
const NAMELESS_MAX: usize = 2;

/// Makes what a crash left out: from the newest of these segments down to one that lacks nothing,
/// or was written without. `next` is the first record behind them. What fails is left for the next
/// time.
pub(crate) fn make_up(
    storage: &Arc<dyn Storage>,
    scheme: Scheme,
    (segments, mut next): (&[SegmentHeader], Lsn),
) {
    for (age, header) in segments.iter().rev().enumerate() {
        let is_there = storage.open(&header.id.parity_name(), Access::Read).is_ok();
        if !is_there && age >= NAMELESS_MAX {
            return;
        }
        let limit = Limit::At(next.previous());
        next = header.base;
        let link = Segment::open_known(storage, header);
        let link = link.map(|segment| Link { segment, limit, gap: None });
        let end = link.and_then(|link| records_end(storage, &link, false));
        let Ok(end) = end else { return };
        if !needs(storage, header, end) {
            return;
        }
        let _ = make(storage, (header, scheme), (None, end));
    }
}

fn to_u64(size: usize) -> u64 {
    u64::try_from(size).expect("fits in 64 bits")
}
