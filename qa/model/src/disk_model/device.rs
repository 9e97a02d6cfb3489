//! The device: the home, the area of the dump, and the settings. What is written is visible at
//! once, also after a kill of the server; a power failure keeps any of it that was not synced.

use super::memory::{Buffer, Run};

/// Sectors of the home.
pub const SECTORS: usize = 2;
/// Buffers, and places for runs in the area, at most.
pub const SLOTS: usize = 3;

/// The content of a sector: two halves of three bits. Those of a torn one differ.
pub type Sector = u8;

pub fn whole(value: u8) -> Sector {
    value | value << 3
}

/// The sector with one half taken from `new`.
pub fn with_half(old: Sector, new: Sector, half: u8) -> Sector {
    let mask = if half == 0 { 0o07 } else { 0o70 };
    old & !mask | new & mask
}

/// The value, unless the sector is torn.
pub fn value(sector: Sector) -> Option<u8> {
    (sector & 7 == sector >> 3).then_some(sector & 7)
}

pub fn show(sector: Sector) -> String {
    match value(sector) {
        Some(value) => value.to_string(),
        None => format!("{}|{}", sector & 7, sector >> 3),
    }
}

/// A sector of the home.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct HomeSector {
    pub visible: Sector,
    pub durable: Sector,
    /// A bit for each content that was written and not synced.
    unsynced: u64,
}

impl HomeSector {
    pub fn write(&mut self, sector: Sector) {
        self.visible = sector;
        self.unsynced |= 1 << sector;
    }

    pub fn sync(&mut self) {
        if self.unsynced != 0 {
            self.durable = self.visible;
            self.unsynced = 0;
        }
    }

    /// The sync failed: what was not synced is not written again by any later one.
    pub fn sync_failed(&mut self, stays_visible: bool) {
        self.unsynced = 0;
        if !stays_visible {
            self.visible = self.durable;
        }
    }

    /// What it may hold after a power failure.
    fn fates(&self) -> Vec<Self> {
        let others = (0..64).filter(|s| self.unsynced >> s & 1 == 1 && *s != self.durable);
        let at = |s| Self { visible: s, durable: s, unsynced: 0 };
        std::iter::once(self.durable).chain(others).map(at).collect()
    }
}

/// A value that a write replaces as a whole.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Stored<T> {
    pub visible: T,
    pub durable: T,
    is_unsynced: bool,
}

impl<T: Clone + PartialEq> Stored<T> {
    pub fn write(&mut self, value: T) {
        self.visible = value;
        self.is_unsynced = true;
    }

    pub fn sync(&mut self) {
        if self.is_unsynced {
            self.durable = self.visible.clone();
            self.is_unsynced = false;
        }
    }

    pub fn sync_failed(&mut self, stays_visible: bool) {
        self.is_unsynced = false;
        if !stays_visible {
            self.visible = self.durable.clone();
        }
    }

    fn fates(&self, torn: Option<T>) -> Vec<Self> {
        let at = |value: T| Self { visible: value.clone(), durable: value, is_unsynced: false };
        let mut all = vec![self.durable.clone()];
        if self.is_unsynced {
            for value in [Some(self.visible.clone()), torn].into_iter().flatten() {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        all.into_iter().map(at).collect()
    }
}

/// A run in the area; its checksums match.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DumpRun {
    pub generation: u8,
    /// Runs of this dump.
    pub count: u8,
    pub run: Run,
    pub bytes: Buffer,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Device {
    pub home: [HomeSector; SECTORS],
    /// `None` is a place without a valid run.
    pub area: [Stored<Option<DumpRun>>; SLOTS],
    /// The generation of the last dump that was restored.
    pub used: Stored<u8>,
    /// The number of the last start of a server.
    pub serve: Stored<u8>,
}

impl Device {
    pub fn sync_home(&mut self) {
        self.home.iter_mut().for_each(HomeSector::sync);
    }

    pub fn sync_area(&mut self) {
        self.area.iter_mut().for_each(Stored::sync);
    }

    /// Every outcome of a power failure.
    pub fn fates(&self) -> Vec<Device> {
        let mut all = vec![self.clone()];
        for n in 0..SECTORS {
            all = each(&all, self.home[n].fates(), |device, fate| device.home[n] = fate);
        }
        for n in 0..SLOTS {
            let fates = self.area[n].fates(Some(None));
            all = each(&all, fates, |device, fate| device.area[n] = fate);
        }
        all = each(&all, self.used.fates(None), |device, fate| device.used = fate);
        each(&all, self.serve.fates(None), |device, fate| device.serve = fate)
    }

    /// The newest dump that was not restored: its runs in the order of their places, and whether
    /// it is whole by the count in the first of them.
    pub fn dump(&self) -> Option<(Vec<DumpRun>, bool)> {
        let seen = self.area.iter().filter_map(|place| place.visible.as_ref());
        let waiting = seen.filter(|run| run.generation > self.used.visible);
        let newest = waiting.clone().map(|run| run.generation).max()?;
        let runs: Vec<_> = waiting.filter(|run| run.generation == newest).cloned().collect();
        let is_whole = runs.first().is_some_and(|run| usize::from(run.count) <= runs.len());
        Some((runs, is_whole))
    }

    /// The highest generation in the area.
    pub fn newest_generation(&self) -> u8 {
        let seen = self.area.iter().filter_map(|place| place.visible.as_ref());
        seen.map(|run| run.generation).max().unwrap_or(0).max(self.used.visible)
    }
}

fn each<T: Clone>(all: &[Device], fates: Vec<T>, set: impl Fn(&mut Device, T)) -> Vec<Device> {
    let mut out = vec![];
    for device in all {
        for fate in &fates {
            let mut device = device.clone();
            set(&mut device, fate.clone());
            out.push(device);
        }
    }
    out
}
