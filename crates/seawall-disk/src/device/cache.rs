//! The volatile cache of a device: what a flush makes durable, and what a power cut leaves.

use crate::layout::{SECTOR_SIZE, to_u64, to_usize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A sector. It is durable as a whole or not at all, as devices promise for 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The part of the device, like a partition.
    pub region: usize,
    /// The number of the sector, counted from the start of the region.
    pub sector: u64,
}

/// Bytes that must be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The part of the device.
    pub region: usize,
    /// The offset of the first byte.
    pub offset: u64,
    /// Whole sectors.
    pub bytes: Vec<u8>,
}

/// What happened to the cached sectors in a power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Sectors whose newest version is durable.
    pub kept: u64,
    /// Sectors of which an older unflushed version is durable: the device reordered writes.
    pub older: u64,
    /// Sectors that lost all unflushed versions.
    pub lost: u64,
}

/// The versions of sectors that are not durable yet.
///
/// # Examples
///
/// ```
/// use seawall_disk::device::{Cache, Place};
///
/// let mut cache = Cache::default();
/// cache.write(Place { region: 0, sector: 7 }, &[1; 512]);
/// let flushed = cache.newest();
/// cache.write(Place { region: 0, sector: 7 }, &[2; 512]);
///
/// // A flush that began between the two is over: the first is durable, the second may be lost.
/// assert_eq!(cache.settled(flushed).first().map(|run| run.bytes[0]), Some(1));
/// cache.forget(flushed);
/// assert_eq!(cache.cut(|_| 0).1.lost, 1);
/// ```
#[derive(Debug, Default)]
pub struct Cache {
    /// The versions of each sector, the oldest first; no list is empty.
    sectors: BTreeMap<Place, Vec<Version>>,
    /// The number of versions of all sectors.
    versions: usize,
    /// The number of the newest write.
    newest: u64,
    /// All writes up to this one are durable.
    durable: u64,
}

#[derive(Debug)]
struct Version {
    number: u64,
    /// All sectors of the write; `at` is the index of this one.
    write: Arc<[[u8; SECTOR_SIZE]]>,
    at: usize,
}

impl Version {
    fn bytes(&self) -> &[u8; SECTOR_SIZE] {
        // `at` is always a valid index of `write`.
        self.write.get(self.at).unwrap_or(&[0; SECTOR_SIZE])
    }
}

impl Cache {
    /// Accepts whole sectors.
    ///
    /// # Panics
    ///
    /// If `bytes` is not a whole number of sectors.
    pub fn write(&mut self, at: Place, bytes: &[u8]) {
        let (sectors, rest) = bytes.as_chunks::<SECTOR_SIZE>();
        assert!(rest.is_empty(), "writes consist of whole sectors");
        self.newest += 1;
        let write: Arc<[[u8; SECTOR_SIZE]]> = sectors.into();
        for (sector, at_sector) in (at.sector..).zip(0..write.len()) {
            let version = Version { number: self.newest, write: write.clone(), at: at_sector };
            self.sectors.entry(Place { sector, ..at }).or_default().push(version);
        }
        self.versions += write.len();
    }

    /// Overwrites durable bytes read at `offset` with newer cached ones.
    pub fn read(&self, region: usize, offset: u64, bytes: &mut [u8]) {
        let size = to_u64(SECTOR_SIZE);
        let end = offset.saturating_add(to_u64(bytes.len()));
        let from = Place { region, sector: offset / size };
        let to = Place { region, sector: end.div_ceil(size) };
        for (place, versions) in self.sectors.range(from..to) {
            let newest = versions.last().map(|version| &version.bytes()[..]).unwrap_or_default();
            let begins = place.sector * size;
            // Either the read begins in this sector, or the sector begins in the read.
            let hidden = to_usize(offset.saturating_sub(begins));
            let ahead = to_usize(begins.saturating_sub(offset));
            let target = bytes.iter_mut().skip(ahead);
            target.zip(newest.iter().skip(hidden)).for_each(|(to, from)| *to = *from);
        }
    }

    /// The number of the newest write. A flush that begins now covers all writes up to it.
    #[must_use]
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Returns whether all writes up to this one are durable.
    #[must_use]
    pub fn is_durable(&self, number: u64) -> bool {
        number <= self.durable
    }

    /// The number of bytes that a flush beginning now has to write.
    #[must_use]
    pub fn dirty(&self) -> usize {
        self.sectors.len() * SECTOR_SIZE
    }

    /// The number of bytes of all versions.
    #[must_use]
    pub fn held(&self) -> usize {
        self.versions * SECTOR_SIZE
    }

    /// Returns what a flush of all writes up to `number` makes durable.
    #[must_use]
    pub fn settled(&self, number: u64) -> Vec<Run> {
        let newest_of =
            |versions: &[Version]| versions.iter().rposition(|version| version.number <= number);
        runs(self.sectors.iter().filter_map(|(place, versions)| {
            let version = versions.get(newest_of(versions)?)?;
            Some((*place, version.bytes()))
        }))
    }

    /// Drops all writes up to `number`: they are durable now.
    pub fn forget(&mut self, number: u64) {
        self.sectors.retain(|_, versions| {
            let before = versions.len();
            versions.retain(|version| version.number > number);
            self.versions -= before - versions.len();
            !versions.is_empty()
        });
        self.durable = self.durable.max(number);
    }

    /// Cuts the power. Each sector, independently of all others, keeps its durable bytes or gets
    /// one of its cached versions.
    ///
    /// `choose` receives the number of choices and returns the index of one: 0 for the durable
    /// bytes, then the versions, oldest first.
    #[must_use]
    pub fn cut(&self, mut choose: impl FnMut(usize) -> usize) -> (Vec<Run>, Fate) {
        let mut fate = Fate::default();
        let runs = runs(self.sectors.iter().filter_map(|(place, versions)| {
            let chosen = choose(versions.len() + 1).min(versions.len());
            let version = chosen.checked_sub(1).and_then(|index| versions.get(index));
            match version {
                None => fate.lost += 1,
                Some(_) if chosen == versions.len() => fate.kept += 1,
                Some(_) => fate.older += 1,
            }
            version.map(|version| (*place, version.bytes()))
        }));
        (runs, fate)
    }
}

/// Joins consecutive sectors to runs, in order.
fn runs<'a>(sectors: impl Iterator<Item = (Place, &'a [u8; SECTOR_SIZE])>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (Place { region, sector }, bytes) in sectors {
        let offset = sector * to_u64(SECTOR_SIZE);
        match runs.last_mut() {
            Some(run) if run.region == region && run.end() == offset => {
                run.bytes.extend_from_slice(bytes);
            }
            _ => runs.push(Run { region, offset, bytes: bytes.to_vec() }),
        }
    }
    runs
}

impl Run {
    fn end(&self) -> u64 {
        self.offset + to_u64(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_testkit::{Dice, each_seed};
    use std::collections::BTreeSet;

    const SECTORS: usize = 6;
    const SIZE: usize = SECTORS * SECTOR_SIZE;
    type Image = [[u8; SIZE]; 2];

    #[derive(Clone, Debug)]
    enum Act {
        Write { region: usize, sector: usize, sectors: usize },
        Begin,
        End,
    }

    fn acts(dice: &mut Dice) -> Vec<Act> {
        let count = 1 + dice.index(59);
        dice.many(count, |dice| match dice.below(7) {
            0 => Act::Begin,
            1 => Act::End,
            _ => {
                let (region, sector) = (dice.index(2), dice.index(SECTORS));
                let sectors = (1 + dice.index(SECTORS)).min(SECTORS - sector);
                Act::Write { region, sector, sectors }
            }
        })
    }

    /// The expected device: its image after each write, and the index of the durable image.
    struct Model {
        images: Vec<Image>,
        durable: usize,
    }

    /// The cache under test, and where the flush in progress began: in the cache and in the model.
    #[derive(Default)]
    struct Tried {
        cache: Cache,
        begun: Option<(u64, usize)>,
    }

    fn put(image: &mut Image, runs: &[Run]) {
        for run in runs {
            let from = to_usize(run.offset);
            image[run.region][from..from + run.bytes.len()].copy_from_slice(&run.bytes);
        }
    }

    /// Performs all acts on the cache and the model. Returns the durable bytes and both of them.
    fn play(acts: &[Act]) -> (Image, Cache, Model) {
        let mut model = Model { images: vec![[[0; SIZE]; 2]], durable: 0 };
        let mut durable = [[0; SIZE]; 2];
        let mut tried = Tried::default();
        for act in acts {
            match *act {
                Act::Write { region, sector, sectors } => {
                    let byte = u8::try_from(model.images.len()).unwrap();
                    let bytes = vec![byte; sectors * SECTOR_SIZE];
                    let mut image = *model.images.last().unwrap();
                    let from = sector * SECTOR_SIZE;
                    image[region][from..from + bytes.len()].copy_from_slice(&bytes);
                    model.images.push(image);
                    tried.cache.write(Place { region, sector: to_u64(sector) }, &bytes);
                }
                Act::Begin => {
                    tried.begun = Some((tried.cache.newest(), model.images.len() - 1));
                }
                Act::End => {
                    if let Some((number, index)) = tried.begun.take() {
                        put(&mut durable, &tried.cache.settled(number));
                        tried.cache.forget(number);
                        assert!(tried.cache.is_durable(number));
                        model.durable = index;
                    }
                }
            }
        }
        (durable, tried.cache, model)
    }

    fn sector(image: &Image, region: usize, sector: usize) -> &[u8] {
        &image[region][sector * SECTOR_SIZE..][..SECTOR_SIZE]
    }

    #[test]
    fn reads_return_the_last_write() {
        each_seed(256, |dice| {
            let (durable, cache, model) = play(&acts(dice));
            let (region, from) = (dice.index(2), dice.index(SIZE));
            let size = dice.index(SIZE).min(SIZE - from);
            let mut bytes = durable[region][from..from + size].to_vec();
            cache.read(region, to_u64(from), &mut bytes);
            assert_eq!(&bytes, &model.images.last().unwrap()[region][from..from + size]);
        });
    }

    #[test]
    fn power_cut_leaves_each_sector_flushed_or_newer() {
        each_seed(256, |dice| {
            let (mut left, cache, model) = play(&acts(dice));
            let (runs, fate) = cache.cut(|choices| dice.index(choices));
            put(&mut left, &runs);
            for (region, at) in (0..2).flat_map(|region| (0..SECTORS).map(move |at| (region, at))) {
                let found = sector(&left, region, at);
                let mut may = model.images[model.durable..].iter();
                assert!(may.any(|image| sector(image, region, at) == found));
            }
            let touched = usize::try_from(fate.kept + fate.older + fate.lost).unwrap();
            assert_eq!(touched * SECTOR_SIZE, cache.dirty());
        });
    }

    #[test]
    fn power_cut_can_leave_any_mixture_of_versions() {
        let mut cache = Cache::default();
        for byte in 1..=3 {
            cache.write(Place { region: 0, sector: 0 }, &[byte; 2 * SECTOR_SIZE]);
        }
        let mixtures: BTreeSet<(u8, u8)> = (0..16)
            .map(|lot| {
                let mut lots = [lot % 4, lot / 4].into_iter();
                let mut image = [[0; SIZE]; 2];
                put(&mut image, &cache.cut(|_| lots.next().unwrap()).0);
                (image[0][0], image[0][SECTOR_SIZE])
            })
            .collect();
        assert_eq!(mixtures.len(), 16);
        assert_eq!(cache.cut(|_| 3).1, Fate { kept: 2, older: 0, lost: 0 });
        assert_eq!(cache.cut(|_| 1).1, Fate { kept: 0, older: 2, lost: 0 });
        assert_eq!(cache.cut(|_| 0).1, Fate { kept: 0, older: 0, lost: 2 });
    }

    #[test]
    fn durable_data_takes_no_memory() {
        let mut cache = Cache::default();
        cache.write(Place { region: 1, sector: 5 }, &[1; 1024]);
        cache.write(Place { region: 1, sector: 5 }, &[2; 512]);
        assert_eq!((cache.dirty(), cache.held()), (1024, 1536));
        cache.forget(1);
        assert_eq!((cache.dirty(), cache.held()), (512, 512));
        cache.forget(2);
        assert_eq!((cache.dirty(), cache.held()), (0, 0));
    }
}
