//! The device: the home, the area of the dump, and the settings. A write is visible at once, also
//! after a kill of the server. A power failure keeps any part of the unsynced writes.

use super::memory::{Buffer, Run};

/// The number of sectors of the home.
pub const SECTORS: usize = 2;
/// The maximum number of buffers, and of places for runs in the area.
pub const SLOTS: usize = 3;

/// The content of a sector: two halves of three bits each, which differ if the sector is torn.
pub type Sector = u8;

pub fn whole(value: u8) -> Sector {
    value | value << 3
}

/// Returns the sector with one half taken from `new`.
pub fn with_half(old: Sector, new: Sector, half: u8) -> Sector {
    let mask = if half == 0 { 0o07 } else { 0o70 };
    old & !mask | new & mask
}

/// Returns the value, or `None` if the sector is torn.
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
    /// The contents written since the last sync, one bit each.
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

    /// Fails a sync: no later sync writes the unsynced contents.
    pub fn sync_failed(&mut self, stays_visible: bool) {
        self.unsynced = 0;
        if !stays_visible {
            self.visible = self.durable;
        }
    }

    /// Returns every state that the sector can have after a power failure.
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

/// A run in the area whose checksums match.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DumpRun {
    pub generation: u8,
    /// The number of runs in this dump.
    pub count: u8,
    pub run: Run,
    pub bytes: Buffer,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct Device {
    pub home: [HomeSector; SECTORS],
    /// The run in each place, or `None` if the place has no valid run.
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

    /// Returns every state that a power failure can leave.
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

    /// Returns the newest dump that was not restored: its runs in the order of their places, and
    /// whether it is complete by the count in its first run.
    pub fn dump(&self) -> Option<(Vec<DumpRun>, bool)> {
        let seen = self.area.iter().filter_map(|place| place.visible.as_ref());
        let waiting = seen.filter(|run| run.generation > self.used.visible);
        let newest = waiting.clone().map(|run| run.generation).max()?;
        let runs: Vec<_> = waiting.filter(|run| run.generation == newest).cloned().collect();
        let is_whole = runs.first().is_some_and(|run| usize::from(run.count) <= runs.len());
        Some((runs, is_whole))
    }

    /// Returns the highest generation of all dumps in the area and of the dump last restored.
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
