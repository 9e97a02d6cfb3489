//! What the parity beside segments says of bytes that damage took.

use super::code::{lost_blocks, rebuild};
use super::track::{head_of, read_head, read_slot, slots_end};
use crate::chain::Link;
use crate::directory::{is_gone, list, read_small, read_start};
use crate::live::{Word, read_word};
use crate::mend::Source;
use crate::overlay::{Mender, Overlay, Patch, Unknown};
use crate::replica::read_around;
use crate::segment::Segment;
use crate::source::is_of_device;
use crate::survey::{Survey, survey};
use crate::walk::{Event, TailFound, Walk, to_u64};
use crate::{Corruption, Damage, Error, Lsn, Offset, Result, SegmentId, Verification};
use seawall_format::batch::{HEADER_SIZE as BATCH_HEADER_SIZE, Life};
use seawall_format::frame::Frames;
use seawall_format::parity::{Known, Places};
use seawall_format::scan::{Window, headers};
use seawall_format::{HEADER_SIZE, Layout, Mark, MarkSlot, Refused, SegmentHeader, tail};
use seawall_io::{Access, File, Storage};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;

/// How often a look at the directory starts over because a writer pruned under it.
const ATTEMPTS: u32 = 8;

/// The bytes that these segments lack and their parity gives back; of all segments, if none are
/// named.
///
/// Each patch was computed from blocks with the checksums that were noted when they were written,
/// and has such a one itself. Whether a log is sound with them is for a look through an
/// [`Overlay`] to say.
pub(crate) fn patches(
    storage: &Arc<dyn Storage>,
    segments: Option<&BTreeSet<SegmentId>>,
) -> Result<Found> {
    let names = list(&**storage)?;
    let mut found = Found::default();
    for name in &names {
        let Some(id) = SegmentId::from_parity_name(name) else { continue };
        if segments.is_none_or(|segments| segments.contains(&id)) {
            patch_segment(&**storage, (id, name), &mut found)?;
        }
    }
    Ok(found)
}

/// The bytes that parity restores, and those that it does not know of blocks the device refuses.
#[derive(Debug, Default)]
pub(crate) struct Found {
    patches: Vec<Patch>,
    unknown: Vec<Unknown>,
}

fn patch_segment(
    storage: &dyn Storage,
    (id, name): (SegmentId, &str),
    found: &mut Found,
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
    let Found { mut patches, mut unknown } = Found::default();
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
        let files = (&*parity, &*data, &*name);
        is_own |= patch_stripe(files, (&places, number), &mut patches, &mut unknown);
        number += 1;
    }
    // Without its header, a mark, and one block that is known, nothing says that the file is this
    // segment's: a header alone would make an empty segment of what is lost as a whole.
    if is_own {
        found.patches.append(&mut patches);
        found.unknown.append(&mut unknown);
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
    (places, number): (&Places, u64),
    found: &mut Vec<Patch>,
    unknown: &mut Vec<Unknown>,
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
            let known = end;
            end = end.max(usize::try_from(rest).unwrap_or(usize::MAX));
            let at = |place: usize| from + to_u64(start + place.min(new.len()));
            if at(known) < at(end) {
                unknown.push((name.to_owned(), at(known)..at(end)));
            }
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
        let Found { patches: mut found, unknown } = patches(storage, Some(&asked))?;
        if !found.is_empty() && !keeps_all(storage, &found)? {
            found = only_harmless(storage, found)?;
        }
        if found.is_empty() {
            return Ok(None);
        }
        let view = Overlay::new(storage.clone(), &found).with_unknown(unknown);
        let view: Arc<dyn Storage> = Arc::new(view);
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

/// Those of the patches that take no intact record away, nor change one: parity may know of a
/// stripe what it never was, and takes nothing away.
fn only_harmless(storage: &Arc<dyn Storage>, patches: Vec<Patch>) -> Result<Vec<Patch>> {
    let mut kept = vec![];
    if patches.len() > DOUBTFUL_MAX {
        // That much is no matter of single blocks: nothing of it is believed.
        return Ok(kept);
    }
    for patch in patches {
        kept.push(patch);
        if !keeps_all(storage, &kept)? {
            kept.pop();
        }
    }
    Ok(kept)
}

/// Whether every intact record is still there, and the same, in a view with these patches, and
/// every sound header of a batch: it says which records a damaged batch held.
pub(crate) fn keeps_all(storage: &Arc<dyn Storage>, patches: &[Patch]) -> Result<bool> {
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
        if !keeps_headers((storage, &view), link, patches)? {
            return Ok(false);
        }
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

/// Whether the sound headers of batches that patches reach are the same with them.
fn keeps_headers(
    (storage, view): (&Arc<dyn Storage>, &Arc<dyn Storage>),
    link: &Link,
    patches: &[Patch],
) -> Result<bool> {
    let (header, name) = (&link.segment.header, link.segment.name());
    if header.layout == Layout::Text {
        return Ok(true);
    }
    let open = |storage: &Arc<dyn Storage>| storage.open(&name, Access::Read);
    let (before, after) = open(storage)
        .and_then(|before| Ok((before, open(view)?)))
        .map_err(Error::io(format!("open {name}")))?;
    let life = Life::of(header);
    for patch in patches.iter().filter(|patch| patch.file == name) {
        let start = patch.offset.saturating_sub(to_u64(BATCH_HEADER_SIZE)).max(header.data_start());
        let start = start / 8 * 8;
        let size = patch.end().saturating_sub(start) + to_u64(BATCH_HEADER_SIZE);
        let (was, _) = read_around(&*before, start, size)?;
        let (is, _) = read_around(&*after, start, size)?;
        let (was, is) = (window(start, &was), window(start, &is));
        let size = to_u64(BATCH_HEADER_SIZE);
        let mut found = headers(was, was.start, &life);
        if found.any(|(offset, _)| was.range(offset, size) != is.range(offset, size)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn window(start: u64, bytes: &[u8]) -> Window<'_> {
    Window { start: Offset(start), bytes }
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

/// Whether the parity of the newest segment knows of records behind `end`, where they seem to end:
/// a slot is written when all that it covers is durable, so something took them.
///
/// Beside a writer it may know of what was not there yet when it was looked for.
pub(crate) fn knows_more(newest: &Segment, end: Offset) -> bool {
    covers_more(newest, end.0).unwrap_or(false)
}

fn covers_more(newest: &Segment, end: u64) -> Option<bool> {
    let parity = newest.storage().open(&newest.header.id.parity_name(), Access::Read).ok()?;
    let head = head_of(&*parity, &newest.header)?;
    Some(slots_end(&*parity, &head, end)? > end)
}

/// What the directory holds, and with the view that shows it, where parity gives back what the
/// device does not give of what a segment begins with, or a newest segment that is missing.
///
/// That one may be what a cut made: without it the records are shown that the cut took, so it is
/// asked for before a record is shown, and not when the walk comes to its place.
pub(crate) fn survey_mended(
    storage: &Arc<dyn Storage>,
    word: Option<&Word>,
    heal: &mut Heal,
) -> Result<(Survey, Option<Arc<dyn Storage>>)> {
    let (found, view) = match survey(storage, word) {
        Err(error) if is_of_device(&error) => {
            let view = heal.view(storage, [None])?.ok_or(error)?;
            (survey(&view, word)?, Some(view))
        }
        found => (found?, None),
    };
    let Some(beyond) = found.beyond else { return Ok((found, view)) };
    let log = view.as_ref().unwrap_or(storage);
    let Some(next) = heal.view(log, [Some(beyond.segment)])? else { return Ok((found, view)) };
    // It ends: parity is asked once for each segment.
    match survey_mended(&next, word, heal) {
        // What parity gave back leads to what the device refuses.
        Err(error) if is_of_device(&error) => Ok((found, view)),
        mended => mended.map(|(mended, view)| (mended, Some(view.unwrap_or(next)))),
    }
}

/// The same, with what the writer says. The segment that it names may go in between.
#[expect(clippy::type_complexity, reason = "three things that are looked at together")]
pub(crate) fn survey_now(
    storage: &Arc<dyn Storage>,
    heal: &mut Heal,
) -> Result<(Option<Word>, Survey, Option<Arc<dyn Storage>>)> {
    let mut attempt = 1;
    loop {
        let word = read_word(&**storage)?;
        match survey_mended(storage, word.as_ref(), heal) {
            Err(error) if is_gone(&error) && attempt < ATTEMPTS => attempt += 1,
            found => return found.map(|(survey, view)| (word, survey, view)),
        }
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
