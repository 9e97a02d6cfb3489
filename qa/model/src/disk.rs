//! The device: files, a page cache, unsynced sector writes, unsynced directory changes.
//!
//! Everything that can differ after a crash is a *pending* item, so a crash chooses which pending
//! items reached the disk. A failed sync drops its pending items, but the page cache still shows
//! them: later reads see content that the disk may not have.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub const SECTOR: usize = if cfg!(feature = "wide") { 64 } else { 32 };
/// The block to which pipelined batches are padded, and which a non-powersafe write may garble.
pub const BLOCK: usize = if cfg!(feature = "wide") { SECTOR } else { 2 * SECTOR };

/// The maximum number of subsets to try. Of more subsets, a sample of this size is taken.
const LIMIT: u64 = 1 << 9;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Name {
    Manifest,
    Segment(u16),
    /// The lines of a segment in the text layout; its header, slots and seal are in `Segment`.
    Text(u16),
    Temporary(u16),
    /// The table of the content that a reused segment's file had before.
    Before(u16),
    /// The file of a removed segment, to be reused for a new one.
    Spare(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The run ends here with a crash.
    Crash,
    /// A sync returned an error.
    Failed,
    /// Too many syncs failed in a row, or one of the directory.
    Poisoned,
}

#[derive(Clone, Hash)]
pub struct File {
    pub cache: Vec<u8>,
    pub disk: Vec<u8>,
    /// The content of each sector before its last durable change: the stale image.
    pub stale: Vec<u8>,
    /// The content of the whole file after each sync. Only recorded if faults are applied.
    pub past: Vec<Arc<Vec<u8>>>,
}

/// The sector number that marks a pending change of a file's length.
const LENGTH: usize = usize::MAX;

#[derive(Clone, Hash)]
pub struct Pending {
    pub ticket: u32,
    pub file: usize,
    pub sector: usize,
    pub bytes: [u8; SECTOR],
    /// The length of the file at the time of the write.
    pub len: usize,
}

/// The durable LSN that a writer publishes for readers on the same boot. Once the writer is gone,
/// this proves only that this much is durable. A power cut deletes it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Live {
    pub id: u16,
    pub epoch: u16,
    pub durable: u16,
}

#[derive(Clone, Copy, Hash)]
pub enum DirOp {
    Link(Name, usize),
    Rename(Name, Name),
    Unlink(Name),
}

/// The state that the log promised to its caller; the checker compares recovery with it.
#[derive(Clone, Hash, Default, Debug)]
pub struct Truth {
    /// All records submitted since the last truncation, by LSN - 1.
    pub log: Vec<u64>,
    /// Records acknowledged as `Synced`.
    pub acked: usize,
    /// Records acknowledged as `Confirmed`.
    pub confirmed: usize,
    /// The LSN of a truncation that was requested and is not acknowledged yet.
    pub cut: Option<usize>,
    /// A checkpoint released the records before this LSN.
    pub first_needed: usize,
    /// The highest checkpoint that was requested and not truncated.
    pub checkpoint: usize,
    /// The last LSN at the last clean close.
    pub closed: usize,
    /// The highest LSN that a concurrent reader has shown.
    pub shown: usize,
    /// The first and last LSN of each atomic set.
    pub sets: Vec<(usize, usize)>,
    /// Whether a sync failed, and its records are not yet durable in another segment.
    pub failing: bool,
}

#[derive(Clone)]
pub struct World {
    pub files: Vec<File>,
    pub names: BTreeMap<Name, usize>,
    pub durable_names: BTreeMap<Name, usize>,
    pub pending: Vec<Pending>,
    pub dir_pending: Vec<DirOp>,
    pub truth: Truth,
    pub steps: usize,
    pub crash_at: usize,
    pub syncs: usize,
    /// The syncs to fail, by number, each with a mask of its items that reach the disk all the
    /// same.
    pub fails: Vec<(usize, u32)>,
    /// Whether a failed sync garbles the blocks that would otherwise reach the disk.
    pub spoil: bool,
    pub keep_past: bool,
    pub live: Option<Live>,
    /// Whether the writer of `live` is running and holds it.
    pub live_is_held: bool,
    /// The lowest and highest value that `live` had, by segment id and epoch. `live` is never
    /// synced, so a device that was detached may come back with any of its values.
    told: BTreeMap<(u16, u16), (u16, u16)>,
    /// Whether a sync failed: the cache may show content that the disk lacks, and no later sync
    /// reports that.
    pub is_doubtful: bool,
    pub next_epoch: u16,
    pub next_value: u64,
    /// Whether a directory sync failed: the file system refuses everything until the power is cut.
    dead: bool,
    next_ticket: u32,
}

impl World {
    pub fn new() -> World {
        World {
            files: vec![],
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: vec![],
            dir_pending: vec![],
            truth: Truth::default(),
            steps: 0,
            crash_at: usize::MAX,
            syncs: 0,
            fails: vec![],
            spoil: false,
            keep_past: false,
            live: None,
            live_is_held: false,
            told: BTreeMap::new(),
            is_doubtful: false,
            next_epoch: 1,
            next_value: 1,
            dead: false,
            next_ticket: 1,
        }
    }

    fn step(&mut self) -> Result<(), Stop> {
        if self.dead {
            return Err(Stop::Poisoned);
        }
        if self.steps >= self.crash_at {
            return Err(Stop::Crash);
        }
        self.steps += 1;
        Ok(())
    }

    /// Creates a file. It reads as zeros, but nothing of it is durable, not even its length.
    pub fn add_file(&mut self, len: usize) -> usize {
        self.files.push(File { cache: vec![0; len], disk: vec![], stale: vec![], past: vec![] });
        let file = self.files.len() - 1;
        if len > 0 {
            self.pend(file, LENGTH, [0; SECTOR]);
        }
        file
    }

    fn pend(&mut self, file: usize, sector: usize, bytes: [u8; SECTOR]) {
        let len = self.files[file].cache.len();
        self.pending.push(Pending { ticket: self.next_ticket, file, sector, bytes, len });
    }

    /// Writes through the page cache. The changed sectors, and a new length, become pending.
    pub fn write(&mut self, file: usize, at: usize, bytes: &[u8]) -> Result<u32, Stop> {
        self.step()?;
        let f = &mut self.files[file];
        let (end, grows) = (at + bytes.len(), f.cache.len() < at + bytes.len());
        f.cache.resize(f.cache.len().max(end), 0);
        f.cache[at..end].copy_from_slice(bytes);
        for sector in at / SECTOR..end.div_ceil(SECTOR) {
            let f = &self.files[file];
            let range = sector * SECTOR..((sector + 1) * SECTOR).min(f.cache.len());
            let mut image = [0; SECTOR];
            image[..range.len()].copy_from_slice(&f.cache[range.clone()]);
            let same = f.disk.get(range.clone()) == Some(&f.cache[range]);
            if !same || self.pending.iter().any(|p| p.file == file && p.sector == sector) {
                self.pend(file, sector, image);
            }
        }
        if grows {
            self.pend(file, LENGTH, [0; SECTOR]);
        }
        self.next_ticket += 1;
        Ok(self.next_ticket - 1)
    }

    /// Truncates a file, without a sync.
    pub fn shorten(&mut self, file: usize, len: usize) -> Result<(), Stop> {
        self.step()?;
        self.files[file].cache.truncate(len);
        self.pend(file, LENGTH, [0; SECTOR]);
        self.next_ticket += 1;
        Ok(())
    }

    pub fn tell(&mut self, live: Live) -> Result<(), Stop> {
        self.step()?;
        self.live = Some(live);
        self.live_is_held = true;
        let told = self.told.entry((live.id, live.epoch)).or_insert((live.durable, live.durable));
        *told = (told.0.min(live.durable), told.1.max(live.durable));
        Ok(())
    }

    /// Removes the `live` of an earlier writer, unless it remains true of a log that ends with
    /// `last`.
    pub fn retract_beyond(&mut self, last: u16) -> Result<(), Stop> {
        if self.live.is_some_and(|live| live.durable > last) {
            self.step()?;
            (self.live, self.live_is_held) = (None, false);
        }
        Ok(())
    }

    /// Syncs these files and the directory for a reader. Returns whether that succeeds.
    pub fn settle(&mut self, files: &[usize]) -> bool {
        if self.dead {
            return false;
        }
        let pending = std::mem::take(&mut self.pending);
        let (mine, rest): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|p| files.contains(&p.file));
        self.pending = rest;
        mine.iter().for_each(|p| self.land(p));
        for op in std::mem::take(&mut self.dir_pending) {
            apply(&mut self.durable_names, op);
        }
        true
    }

    fn land(&mut self, p: &Pending) {
        let f = &mut self.files[p.file];
        if p.sector == LENGTH {
            f.disk.resize(p.len, 0);
            return f.stale.resize(p.len, 0);
        }
        let range = p.sector * SECTOR..((p.sector + 1) * SECTOR).min(p.len);
        if f.disk.len() < range.end {
            f.disk.resize(range.end, 0);
            f.stale.resize(range.end, 0);
        }
        let new = &p.bytes[..range.len()];
        if f.disk[range.clone()] != *new {
            let old = f.disk[range.clone()].to_vec();
            f.stale[range.clone()].copy_from_slice(&old);
            f.disk[range].copy_from_slice(new);
        }
    }

    fn garble(&mut self, p: &Pending) {
        if p.sector == LENGTH {
            return self.land(p);
        }
        let start = p.sector * SECTOR / BLOCK * BLOCK;
        let disk = &mut self.files[p.file].disk;
        for i in start..(start + BLOCK).min(disk.len()) {
            disk[i] = 0xA5 ^ ((i - start) as u8).wrapping_mul(37);
        }
    }

    fn finish(&mut self, done: impl Fn(&Pending) -> bool) -> Result<(), Stop> {
        self.step()?;
        let fail = self.fails.iter().find(|f| f.0 == self.syncs).copied();
        let (failing, mask) = (fail.is_some(), fail.map_or(0, |f| f.1));
        self.syncs += 1;
        let (mine, rest): (Vec<_>, Vec<_>) = self.pending.drain(..).partition(|p| done(p));
        self.pending = rest;
        for (i, p) in mine.iter().enumerate() {
            match !failing || mask >> i.min(31) & 1 == 1 {
                true if failing && self.spoil => self.garble(p),
                true => self.land(p),
                false => {}
            }
        }
        if self.keep_past && !failing {
            for f in &mut self.files {
                if f.past.last().is_none_or(|p| **p != f.disk) {
                    f.past.push(Arc::new(f.disk.clone()));
                }
            }
        }
        if failing {
            self.is_doubtful = true;
            Err(Stop::Failed)
        } else {
            Ok(())
        }
    }

    /// Syncs one write.
    pub fn complete(&mut self, ticket: u32) -> Result<(), Stop> {
        self.finish(|p| p.ticket == ticket)
    }

    /// Syncs one file.
    pub fn sync(&mut self, file: usize) -> Result<(), Stop> {
        self.finish(|p| p.file == file)
    }

    pub fn dir(&mut self, op: DirOp) -> Result<(), Stop> {
        self.step()?;
        apply(&mut self.names, op);
        self.dir_pending.push(op);
        Ok(())
    }

    pub fn sync_dir(&mut self) -> Result<(), Stop> {
        self.step()?;
        let fail = self.fails.iter().find(|f| f.0 == self.syncs).copied();
        let (failing, mask) = (fail.is_some(), fail.map_or(0, |f| f.1));
        self.syncs += 1;
        for (i, op) in std::mem::take(&mut self.dir_pending).into_iter().enumerate() {
            if !failing || mask >> i.min(31) & 1 == 1 {
                apply(&mut self.durable_names, op);
            }
        }
        self.dead = failing;
        self.is_doubtful |= failing;
        if failing {
            Err(Stop::Poisoned)
        } else {
            Ok(())
        }
    }

    /// Kills the process. The machine keeps running, so cache and pending writes stay.
    pub fn kill(&self) -> World {
        let mut w = self.clone();
        w.live_is_held = false;
        w.fresh_run();
        w
    }

    /// Cuts the power. For each pending sector, `choice` is 0: lost, 1: written, 2: block garbled.
    pub fn power_cut(&self, choice: &[u8]) -> World {
        let mut w = self.clone();
        let pending = std::mem::take(&mut w.pending);
        for (p, c) in pending.iter().zip(choice) {
            match c {
                0 => {}
                1 => w.land(p),
                _ => w.garble(p),
            }
        }
        let ops = std::mem::take(&mut w.dir_pending);
        for (op, c) in ops.into_iter().zip(&choice[pending.len()..]) {
            if *c != 0 {
                apply(&mut w.durable_names, op);
            }
        }
        for f in &mut w.files {
            f.cache = f.disk.clone();
        }
        w.names = w.durable_names.clone();
        (w.live, w.live_is_held) = (None, false);
        (w.dead, w.is_doubtful) = (false, false);
        w.fresh_run();
        w
    }

    /// Returns the states in which a device can come back on the same boot if it was detached and
    /// left `cut`: the same files, with any value that `live` had.
    pub fn detached(&self, cut: &World) -> Vec<World> {
        if !self.pending.is_empty() && !cut.pending.is_empty() {
            // The process was killed, so the device was not detached.
            return vec![];
        }
        let segments = cut.names.keys().filter_map(|n| match n {
            Name::Segment(id) => Some(*id),
            _ => None,
        });
        let Some(newest) = segments.max() else { return vec![] };
        let said = self.told.iter().filter(|((id, _), _)| *id == newest);
        let said = said.flat_map(|((id, epoch), (least, most))| {
            [least, most].map(|durable| Live { id: *id, epoch: *epoch, durable: *durable })
        });
        said.map(|live| World { live: Some(live), ..cut.clone() }).collect()
    }

    /// Returns one of those states, or the state after the power cut, chosen by `lot`.
    pub fn detach(&self, choice: &[u8], lot: usize) -> World {
        let cut = self.power_cut(choice);
        let mut all = self.detached(&cut);
        all.push(cut);
        all.swap_remove(lot % all.len())
    }

    /// Returns every state that a power cut can leave, and the one that a kill leaves.
    pub fn crashes(&self, garble: bool) -> Vec<World> {
        let sectors = self.pending.len();
        let n = sectors + self.dir_pending.len();
        let base = if garble { 3u64 } else { 2 };
        let total = base.pow(sectors as u32) << self.dir_pending.len();
        let mut out = vec![];
        if n > 0 || self.live.is_some() {
            out.push(self.kill());
        }
        // Above LIMIT subsets, a sample is taken.
        for nth in 0..total.min(LIMIT) {
            let mut rest =
                if total <= LIMIT { nth } else { nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) % total };
            let mut choice = vec![0u8; n];
            for (i, c) in choice.iter_mut().enumerate() {
                let b = if i < sectors { base } else { 2 };
                *c = (rest % b) as u8;
                rest /= b;
            }
            let cut = self.power_cut(&choice);
            out.push(cut);
        }
        out
    }

    pub fn fresh_run(&mut self) {
        self.steps = 0;
        self.crash_at = usize::MAX;
        self.fails.clear();
        self.syncs = 0;
    }

    pub fn fingerprint(&self, extra: u64) -> u64 {
        let mut h = std::collections::hash_map::DefaultHasher::new();
        (&self.files, &self.names, &self.durable_names, &self.truth, extra).hash(&mut h);
        (&self.dir_pending, self.pending.len(), self.dead, self.live).hash(&mut h);
        (self.live_is_held, self.is_doubtful).hash(&mut h);
        for p in &self.pending {
            (p.file, p.sector, p.bytes, p.len).hash(&mut h);
        }
        h.finish()
    }
}

fn apply(names: &mut BTreeMap<Name, usize>, op: DirOp) {
    match op {
        DirOp::Link(name, file) => {
            names.insert(name, file);
        }
        DirOp::Rename(from, to) => {
            if let Some(file) = names.remove(&from) {
                names.insert(to, file);
            }
        }
        DirOp::Unlink(name) => {
            names.remove(&name);
        }
    }
}
