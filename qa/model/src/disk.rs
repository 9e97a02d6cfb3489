//! The device: files, a page cache, un-synced sector writes, un-synced directory changes.
//!
//! Everything that can differ after a crash is a *pending* item, so a crash is a choice of
//! which pending items reached the disk. A failed barrier drops its pending items but leaves
//! the page cache showing them: later reads see what the disk may not hold.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

pub const SECTOR: usize = if cfg!(feature = "wide") { 64 } else { 32 };
/// The block to which pipelined batches are padded and which a non-powersafe write may garble.
pub const BLOCK: usize = if cfg!(feature = "wide") { SECTOR } else { 2 * SECTOR };

/// Above this many subsets a sample of this size is taken.
const LIMIT: u64 = 1 << 9;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Name {
    Manifest,
    Segment(u16),
    /// The lines of a segment of the readable log; its header, slots and seal are `Segment`.
    Text(u16),
    Temporary(u16),
    /// What the earlier life of a segment's file left.
    Before(u16),
    /// A removed segment, to become a new one.
    Spare(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The run was cut here.
    Crash,
    /// A barrier returned an error.
    Failed,
    /// Too many barriers failed in a row.
    Poisoned,
}

#[derive(Clone, Hash)]
pub struct File {
    pub cache: Vec<u8>,
    pub disk: Vec<u8>,
    /// What each sector held before its last durable change: the stale image.
    pub stale: Vec<u8>,
    /// What the whole file held after each barrier, kept where faults are applied.
    pub past: Vec<Arc<Vec<u8>>>,
}

/// The sector number of a pending change of a file's length.
const LENGTH: usize = usize::MAX;

#[derive(Clone, Hash)]
pub struct Pending {
    pub ticket: u32,
    pub file: usize,
    pub sector: usize,
    pub bytes: [u8; SECTOR],
    /// Length of the file when this was written.
    pub len: usize,
}

/// What a writer tells readers on the same boot: evidence that this much is durable, and of nothing
/// else once its writer is gone. A power cut voids it.
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

/// What the caller has been told; the checker compares recovery with it.
#[derive(Clone, Hash, Default, Debug)]
pub struct Truth {
    /// Every record handed in since the last cut, by LSN - 1.
    pub log: Vec<u64>,
    /// Records acknowledged as `Synced`.
    pub acked: usize,
    /// Records acknowledged as `Confirmed`.
    pub confirmed: usize,
    /// A truncation that has been asked for and not yet acknowledged.
    pub cut: Option<usize>,
    /// Records before this LSN were given up by a checkpoint.
    pub first_needed: usize,
    /// The highest checkpoint asked for and not cut off.
    pub checkpoint: usize,
    /// What the last clean close covered.
    pub closed: usize,
    /// The highest record that a reader beside the writer has shown.
    pub shown: usize,
    /// (first, last) LSN of the atomic sets.
    pub sets: Vec<(usize, usize)>,
    /// A barrier failed and the records are not yet safe elsewhere.
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
    /// Barriers to fail, by number, and which of their items reach the disk all the same.
    pub fails: Vec<(usize, u32)>,
    /// A failed barrier garbles the blocks that it would otherwise have landed.
    pub spoil: bool,
    pub keep_past: bool,
    pub live: Option<Live>,
    /// Its writer runs, and holds it.
    pub live_is_held: bool,
    /// The least and the most that it ever said of a segment: as it is never synced, a device that
    /// went away may bring back any of it.
    told: BTreeMap<(u16, u16), (u16, u16)>,
    /// A barrier failed: the cache may show what the disk has not, and no later barrier tells.
    pub is_doubtful: bool,
    pub next_epoch: u16,
    pub next_value: u64,
    /// A directory sync failed: the file system takes nothing more until the power is cut.
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

    /// A new file: reads as zeros, allocated but nothing of it durable, not even its length.
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

    /// Writes through the page cache; the touched sectors, and a new length, become pending.
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

    /// Cuts a file short, without a barrier.
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

    /// Removes what an earlier writer told readers.
    pub fn retract(&mut self) -> Result<(), Stop> {
        self.step()?;
        (self.live, self.live_is_held) = (None, false);
        Ok(())
    }

    /// A reader syncs these files, and the directory; whether that succeeds.
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

    /// The barrier of one write.
    pub fn complete(&mut self, ticket: u32) -> Result<(), Stop> {
        self.finish(|p| p.ticket == ticket)
    }

    /// The barrier of one file.
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

    /// The process dies, the machine lives: cache and pending writes stay.
    pub fn kill(&self) -> World {
        let mut w = self.clone();
        w.live_is_held = false;
        w.fresh_run();
        w
    }

    /// Power is cut. `choice` picks for each pending sector: 0 lost, 1 landed, 2 block garbled.
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

    /// What is there when a device that went away with such a choice comes back on the same boot:
    /// the same, with any of what `live` said.
    pub fn detached(&self, cut: &World) -> Vec<World> {
        if !self.pending.is_empty() && !cut.pending.is_empty() {
            // The process was killed, and nothing went away.
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

    /// The same by lot.
    pub fn detach(&self, choice: &[u8], lot: usize) -> World {
        let cut = self.power_cut(choice);
        let mut all = self.detached(&cut);
        all.push(cut);
        all.swap_remove(lot % all.len())
    }

    /// Every state that a power cut can leave, plus the one that a kill leaves.
    pub fn crashes(&self, garble: bool) -> Vec<World> {
        let sectors = self.pending.len();
        let n = sectors + self.dir_pending.len();
        let base = if garble { 3u64 } else { 2 };
        let total = base.pow(sectors as u32) << self.dir_pending.len();
        let mut out = vec![];
        if n > 0 {
            out.push(self.kill());
        }
        // More than LIMIT subsets: sampled.
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
