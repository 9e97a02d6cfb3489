//! Opening a log for append: inspect, then create it, go on in place, or go on in a new segment.
//! FORMAT.md sections 7 and 8, rules R12 and R15.

use crate::asked;
use crate::chain::Link;
use crate::directory::{self, LIVE, LOCK, MANIFEST};
use crate::inspect::{Inspection, Until, inspect};
use crate::quarantine;
use crate::recovery::Verdict;
use crate::retention::Retained;
use crate::roll::{Carried, Machine, Plan, Pred, Rolled, Sent, TailSegment, roll};
use crate::spare;
use crate::walk::{End, Event, TailFound, Walk};
use crate::writer::{Counts, LiveFile, ManifestFile, Writer};
use crate::{Error, Lsn, Offset, OpenMode, Options, Recovery, Result, SegmentId, TailState};
use seawall_format::batch::{HEADER_SIZE, Life};
use seawall_format::{
    Closed, CodecId, Epoch, Geometry, Layout, Level, LogId, Manifest, RecordType, SegmentRef,
};
use seawall_format::{SegmentHeader, frame, next_lsn, tail};
use seawall_io::{Access, File, Lock, Storage};
use std::io;
use std::sync::Arc;

/// A log's largest segment unless told otherwise, in bytes.
pub(crate) const SEGMENT_DEFAULT: u64 = 64 << 20;

/// Opens or creates the log.
pub(crate) fn open(
    options: &Options,
    storage: Arc<dyn Storage>,
    record_type: RecordType,
) -> Result<(Writer, Recovery, Level)> {
    let names = directory::refuse_foreign(&*storage)?;
    let is_new =
        !names.iter().any(|name| name == MANIFEST || SegmentId::from_file_name(name).is_some());
    if is_new && !options.create {
        let found = "there is no manifest and no segment".to_owned();
        return Err(Error::NotALog { place: storage.place(), found });
    }
    let locked = storage.lock(LOCK).map_err(Error::io(format!("lock {}", storage.place())))?;
    let lock = locked.ok_or_else(|| Error::Busy { place: storage.place() })?;
    let machine = Machine::new(options, storage);
    if is_new {
        return create(options, machine, lock, record_type);
    }
    let salvage = options.mode == OpenMode::Salvage;
    let until = if salvage { Until::End } else { Until::Damage };
    let mut found = inspect(&machine.storage, until)?;
    match found.row.verdict() {
        Verdict::Create => return create(options, machine, lock, record_type),
        Verdict::Damage if !salvage || !found.has_both_ends() => {
            return Err(Error::Damaged(Box::new(found.damage_or_cut())));
        }
        Verdict::CannotTell if options.mode == OpenMode::Strict => return Err(found.cannot_tell()),
        Verdict::Damage | Verdict::Clean | Verdict::Torn | Verdict::CannotTell => {}
    }
    let manifest = found.survey.manifest.as_mut().expect("the verdict has read it");
    asked::check(&manifest.record_type, &record_type)?;
    check_options(options, manifest)?;
    manifest.record_type = asked::from_now_on(&manifest.record_type, &record_type);
    recover(options, machine, lock, &found)
}

fn check_options(options: &Options, manifest: &Manifest) -> Result<()> {
    if let Some(asked) = options.layout.filter(|asked| *asked != manifest.layout) {
        let (has, asked) = (manifest.layout.name().to_owned(), asked.name().to_owned());
        return Err(Error::Mismatch { what: "layout", has, asked });
    }
    match options.segment_max {
        Some(asked) if asked != manifest.segment_max => Err(Error::Mismatch {
            what: "segment size",
            has: manifest.segment_max.to_string(),
            asked: asked.to_string(),
        }),
        _ => Ok(()),
    }
}

/// Makes a new log. FORMAT.md section 8, last paragraph.
fn create(
    options: &Options,
    machine: Machine,
    lock: Box<dyn Lock>,
    record_type: RecordType,
) -> Result<(Writer, Recovery, Level)> {
    let names = directory::list(&*machine.storage)?;
    refuse_lone_texts(&machine, &names)?;
    remove_spares(&machine, &names);
    let mut max_id = names.iter().filter_map(|name| SegmentId::from_any_name(name)).max();
    let mut manifest = new_manifest(options, &machine, record_type)?;
    let least = options.segment_min;
    let (base, carry) = (Lsn::FIRST, vec![]);
    let plan = Plan { base, carry, pred: None, chain_before: 0, least, hold: 0, spare: None };
    let rolled = roll(&machine, &manifest, plan, &mut max_id)?;
    manifest.oldest = rolled.tail.header.reference();
    let file = open_or_make(&machine, MANIFEST)?;
    let sized = file.set_len(2 * u64::from(manifest.geometry.block));
    sized.map_err(Error::io("size the manifest"))?;
    let mut manifest = ManifestFile { content: manifest, file };
    manifest.write_both(machine.clock.wall_us())?;
    machine.storage.sync_dir().map_err(Error::io("sync the new log's directory"))?;
    let level = manifest.content.level;
    let begin = Beginning { manifest, rolled, last: None, last_chain: 0, max_id };
    let writer = writer(options, machine, lock, begin);
    writer.tell_readers();
    let recovery = Recovery {
        created: true,
        tail: TailState::Clean,
        first: None,
        last: None,
        confirmed: None,
        cut_bytes: 0,
        quarantine: None,
        damage: vec![],
        given_up: vec![],
        warnings: vec![],
    };
    Ok((writer, recovery, level))
}

fn new_manifest(options: &Options, machine: &Machine, record_type: RecordType) -> Result<Manifest> {
    let segment_max = options.segment_max.unwrap_or(SEGMENT_DEFAULT.max(options.segment_min));
    let layout = options.layout.unwrap_or_default();
    if !layout.is_built_in() {
        let why = "a readable log in a program without the feature json".to_owned();
        return Err(Error::InvalidOption { why });
    }
    if layout == Layout::Text && record_type.codec != CodecId::Json {
        let codec = record_type.codec.name();
        let why = format!("a readable log of {codec} records: it holds JSON");
        return Err(Error::InvalidOption { why });
    }
    let geometry = options.geometry.check().map_err(|_| Error::InvalidOption {
        why: format!("no log can have the geometry {:?}", options.geometry),
    })?;
    if !(options.segment_min..=Geometry::SEGMENT_MAX).contains(&segment_max) {
        return Err(Error::InvalidOption {
            why: format!(
                "a segment size of {segment_max} bytes; it lies between {} and {}",
                options.segment_min,
                Geometry::SEGMENT_MAX
            ),
        });
    }
    let log = machine.entropy.random().map_err(Error::io("draw a log id"))?;
    Ok(Manifest {
        geometry,
        log: LogId(log),
        sequence: 0,
        // Put right when the segment is there.
        oldest: SegmentRef { id: SegmentId::FIRST, epoch: Epoch(0) },
        oldest_base: Lsn::FIRST,
        checkpoints: [None; 2],
        closed: None,
        segment_max,
        level: options.level.unwrap_or_default(),
        layout,
        record_type,
        time_us: 0,
    })
}

/// Goes on with a log whose acknowledged records are all there, or whose missing ones are given up
/// or stay named.
pub(crate) fn recover(
    options: &Options,
    machine: Machine,
    lock: Box<dyn Lock>,
    found: &Inspection,
) -> Result<(Writer, Recovery, Level)> {
    let end = found.end.as_ref().expect("the verdict has seen the end");
    let recovery = report(&machine, found, end);
    remove_spares(&machine, &found.survey.names);
    remove_headless(&machine, found);
    machine.storage.sync_dir().map_err(Error::io("sync the log's directory"))?;
    let file = open_or_make(&machine, MANIFEST)?;
    let _ = file.sync();
    let content = found.survey.manifest.clone().expect("the verdict has read it");
    let mut manifest = ManifestFile { content, file };
    let newest = found.survey.chain.last().expect("a log has a segment");
    let files = synced_files(&machine, newest)?;
    let named = is_named_by_predecessor(&machine, &found.survey.chain)?;
    let at_rest = end.tail.as_ref().filter(|tail| {
        let quiet = tail.row == tail::Row::Clean && end.last == end.confirmed && tail.is_exact;
        let own = end.confirmed >= Some(newest.segment.header.base);
        quiet && own && named && !found.is_damaged(newest.segment.header.id)
    });
    begin_with_doubtful_slot(&mut manifest.content, found.survey.readable);
    if at_rest.is_some() {
        let segment = newest.segment.header.reference();
        manifest.content.closed = Some(Closed { last: end.last, segment });
    }
    manifest.write_both(machine.clock.wall_us())?;
    let mut max_id = found.survey.max_id;
    let mut dead: &[Link] = &[];
    let rolled = if let Some(tail) = at_rest {
        in_place_tail(options, found, files, tail)?
    } else {
        let (plan, before) = plan_behind(options, &machine, (found, end), named)?;
        let log = match found.schema_of_carry().filter(|_| !plan.carry.is_empty()) {
            Some(schema) => manifest.content.with_schema(schema),
            None => manifest.content.clone(),
        };
        let rolled = roll(&machine, &log, plan, &mut max_id)?;
        dead = found.survey.chain.get(before.len()..).unwrap_or_default();
        Rolled { passed: [before, rolled.passed].concat(), ..rolled }
    };
    let holds_last = rolled.tail.at.0 > rolled.tail.header.data_start();
    let last_chain = if holds_last { rolled.tail.chain } else { found.chain_of(end.last) };
    let level = options.level.unwrap_or(manifest.content.level);
    let begin = Beginning { manifest, rolled, last: end.last, last_chain, max_id };
    let mut writer = writer(options, machine, lock, begin);
    writer.enter_schema()?;
    writer.tell_readers();
    // What they held was carried, or was nothing; only now does no reader look for them.
    for name in dead.iter().flat_map(|link| link.segment.names()) {
        let _ = writer.machine.storage.remove(&name);
    }
    Ok((writer, recovery, level))
}

/// What a writer begins with.
struct Beginning {
    manifest: ManifestFile,
    rolled: Rolled,
    last: Option<Lsn>,
    last_chain: u64,
    max_id: Option<SegmentId>,
}

fn writer(options: &Options, machine: Machine, lock: Box<dyn Lock>, begin: Beginning) -> Writer {
    let Beginning { manifest, rolled, last, last_chain, max_id } = begin;
    Writer {
        live: live_file(&machine),
        machine,
        manifest,
        tail: rolled.tail,
        chain: rolled.passed,
        last,
        last_chain,
        recent: rolled.sent.into(),
        spare: None,
        buffers: vec![],
        max_id,
        segment_min: options.segment_min,
        counts: Counts::default(),
        retained: Retained::by(options.retention),
        on_failover: options.on_failover.clone(),
        _lock: lock,
    }
}

/// What was found, with the cut bytes put aside.
fn report(machine: &Machine, found: &Inspection, end: &End) -> Recovery {
    let behind = end.tail.as_ref();
    let mut recovery = Recovery {
        created: false,
        tail: behind.map_or(TailState::Clean, |tail| TailState::of(tail.row)),
        first: found.first.filter(|first| Some(*first) <= end.last),
        last: end.last,
        confirmed: end.confirmed,
        cut_bytes: behind.map_or(0, |tail| tail.length),
        quarantine: None,
        damage: found.damage.clone(),
        given_up: found.given_up.clone(),
        warnings: vec![],
    };
    if let Some(behind) = behind.filter(|_| recovery.tail != TailState::Clean) {
        match quarantine::keep(machine, behind) {
            Ok(name) => recovery.quarantine = Some(name),
            Err(error) => recovery.warnings.push(format!("the cut bytes were not kept: {error}")),
        }
    }
    recovery
}

/// The head of a segment and the file with its records, which may be the same.
fn synced_files(machine: &Machine, link: &Link) -> Result<(Arc<dyn File>, Arc<dyn File>)> {
    let header = &link.segment.header;
    let head = read_write(machine, &header.head_name())?;
    // That these barriers return does not prove what an earlier process wrote: see R12.
    let _ = head.sync();
    if header.layout == Layout::Binary {
        return Ok((head.clone(), head));
    }
    let data = read_write(machine, &header.data_name())?;
    let _ = data.sync();
    Ok((head, data))
}

/// The next two writes of the manifest begin with the slot that may be so in the cache only: the
/// unreadable one, else the newest.
fn begin_with_doubtful_slot(manifest: &mut Manifest, readable: [bool; 2]) {
    if readable == [true, true] {
        manifest.sequence += 1;
    }
}

/// The newest segment as it is, with the batches in its last block.
fn in_place_tail(
    options: &Options,
    found: &Inspection,
    (head, file): (Arc<dyn File>, Arc<dyn File>),
    behind: &TailFound,
) -> Result<Rolled> {
    let newest = found.survey.chain.last().expect("a log has a segment");
    let header = newest.segment.header.clone();
    let marks = newest.segment.marks()?.iter().map(|mark| mark.sequence).max();
    let full = match header.layout {
        // How large it was to become is not written down: about what doubling would have made it.
        Layout::Text => {
            let doubled = options.segment_min.max(behind.offset.0).next_power_of_two();
            doubled.min(found.survey.manifest.as_ref().map_or(doubled, |log| log.segment_max))
        }
        _ => header.size,
    };
    let tail = TailSegment {
        life: Life::of(&header),
        head,
        file,
        full,
        at: behind.offset,
        chain: behind.chain,
        marks: marks.unwrap_or(0),
        header,
    };
    let sent = batches_in_last_block(found, newest, behind.offset)?;
    let before = found.survey.chain.iter().rev().skip(1).rev();
    let passed = before.map(|link| link.segment.header.clone()).collect();
    Ok(Rolled { tail, sent, passed })
}

/// A failed write into the last block may take what stands there already: it must be in memory.
fn batches_in_last_block(found: &Inspection, newest: &Link, at: Offset) -> Result<Vec<Sent>> {
    let block = u64::from(newest.segment.header.geometry.block);
    let start = Offset(at.0 / block * block);
    let mut sent = vec![];
    let mut walk = Walk::of_segment(newest);
    while let Event::Batch(batch) = walk.step()? {
        if batch.end <= start {
            continue;
        }
        let whole = batch.body.start - HEADER_SIZE..batch.body.end;
        let is_first = batch.header.first == newest.segment.header.base;
        let chain_before = if is_first { found.chain_before } else { batch.header.chain };
        sent.push(Sent {
            bytes: walk.bytes().get(whole).expect("the walk has read it").to_vec(),
            first: batch.header.first,
            count: batch.header.count,
            is_void: batch.header.is_void,
            time_us: batch.header.time_us,
            end: batch.end,
            chain_before,
        });
    }
    Ok(sent)
}

/// What is to be made when an open does not go on in place, and the segments before it: a segment
/// with base W + 1 that carries W + 1 to V: the page cache may show what the disk has not.
///
/// If nothing says that the newest segment was `named`, durably, that concerns its name, too: all
/// of it is carried.
fn plan_behind(
    options: &Options,
    machine: &Machine,
    (found, end): (&Inspection, &End),
    named: bool,
) -> Result<(Plan, Vec<SegmentHeader>)> {
    let chain = &found.survey.chain;
    let (sure, carry) = if found.carry.is_empty() {
        let newest = chain.last().expect("a log has a segment");
        let whole = !named && found.damage.is_empty();
        let before = newest.segment.header.base.previous();
        let sure = if whole { end.sure().min(before) } else { end.sure() };
        (sure, records_behind(newest, sure, end.last)?)
    } else {
        (end.confirmed, found.carry.clone())
    };
    let base = next_lsn(sure);
    let keep = chain.iter().rposition(|link| link.segment.header.base < base).unwrap_or(0);
    let pred = chain.get(keep).expect("a log has a segment");
    let head = read_write(machine, &pred.segment.header.head_name())?;
    let plan = Plan {
        base,
        carry,
        pred: Some(Pred { header: pred.segment.header.clone(), head }),
        chain_before: found.chain_of(sure),
        least: options.segment_min,
        hold: 0,
        spare: None,
    };
    let before = chain.iter().take(keep + 1).map(|link| link.segment.header.clone());
    Ok((plan, before.collect()))
}

/// The records of the newest segment behind `confirmed`, up to the end, batch by batch.
fn records_behind(
    newest: &Link,
    confirmed: Option<Lsn>,
    last: Option<Lsn>,
) -> Result<Vec<Carried>> {
    let mut carry = vec![];
    let mut walk = Walk::of_segment(newest);
    loop {
        let batch = match walk.step()? {
            Event::Batch(batch) if (confirmed < Some(batch.last)) && Some(batch.last) <= last => {
                batch
            }
            // Damage has a name already, and what follows it is no less intact.
            Event::Batch(_) | Event::Damage(..) => continue,
            Event::End(_) => return Ok(carry),
        };
        let body = walk.bytes().get(batch.body.clone()).expect("the walk has read it");
        let frames = frame::Frames::new(body, batch.header.first, batch.header.count);
        let first = batch.header.first.max(next_lsn(confirmed));
        let (mut bytes, mut count) = (vec![0; HEADER_SIZE], 0);
        for record in frames.filter(|record| record.lsn >= first) {
            frame::push_unbound(&mut bytes, record.payload, record.goes_on);
            count += 1;
        }
        let (is_void, time_us) = (batch.header.is_void, batch.header.time_us);
        if is_void {
            count = u32::try_from(batch.last.get() - first.get() + 1).expect("a part of a batch");
        }
        carry.push(Carried { bytes, first, count, is_void, time_us });
    }
}

/// Whether the seal of the segment before the newest names it, and was synced just now.
fn is_named_by_predecessor(machine: &Machine, chain: &[Link]) -> Result<bool> {
    let [.., pred, newest] = chain else { return Ok(true) };
    let seal = pred.segment.seal()?;
    let file = read_write(machine, &pred.segment.header.head_name())?;
    let synced = file.sync().is_ok();
    Ok(synced && seal.is_some_and(|seal| seal.next == newest.segment.header.reference()))
}

fn read_write(machine: &Machine, name: &str) -> Result<Arc<dyn File>> {
    let file = machine.storage.open(name, Access::ReadWrite);
    file.map_err(Error::io(format!("open {name} for writing")))
}

/// The file that tells readers; without it they lag behind, and the log is as good.
pub(crate) fn live_file(machine: &Machine) -> Option<LiveFile> {
    let boot_id = machine.storage.boot_id()?;
    let file = open_or_make(machine, LIVE).ok()?;
    Some(LiveFile { file, boot_id })
}

fn open_or_make(machine: &Machine, name: &str) -> Result<Arc<dyn File>> {
    let file = match machine.storage.open(name, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => machine.storage.create(name),
        other => other,
    };
    file.map_err(Error::io(format!("open {name}")))
}

/// Files that were to be segments when somebody died: never part of the log.
fn remove_spares(machine: &Machine, names: &[String]) {
    for name in names.iter().filter(|name| spare::is_spare(name)) {
        // One that stays is tried again at the next open; it only takes room.
        let _ = machine.storage.remove(name);
    }
}

/// Texts without a head, of a roll or a removal that did not come to its end: nothing was promised
/// of them. Where something is damaged a head may be lost, and its text is all there is: it stays.
fn remove_headless(machine: &Machine, found: &Inspection) {
    let names = &found.survey.names;
    let has_head = |id: SegmentId| names.contains(&id.head_name());
    let is_headless = |name: &&String| {
        let id = SegmentId::from_any_name(name).filter(|id| id.text_name() == **name);
        id.is_some_and(|id| !has_head(id))
    };
    for name in names.iter().filter(|_| found.damage.is_empty()).filter(is_headless) {
        let _ = machine.storage.remove(name);
    }
}

/// A directory with nothing but texts that say something may be what is left of a log.
fn refuse_lone_texts(machine: &Machine, names: &[String]) -> Result<()> {
    for name in names.iter().filter(|name| SegmentId::from_any_name(name).is_some()) {
        let id = SegmentId::from_file_name(name);
        let file = machine.storage.open(name, Access::Read).and_then(|file| file.is_empty());
        if id.is_none() && !file.map_err(Error::io(format!("look at {name}")))? {
            let found = format!("it holds {name}, without a head or a manifest");
            return Err(Error::NotALog { place: machine.storage.place(), found });
        }
    }
    Ok(())
}

const _: () = assert!(SEGMENT_DEFAULT <= Geometry::SEGMENT_MAX);
