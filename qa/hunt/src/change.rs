//! Random corruption of one file of a log: from one flipped bit to 1 MiB of other bytes.

use crate::random::Random;
use crate::sample::Sample;
use seawall_testkit::MemStorage;
use std::ops::Range;

/// The longest run of damage, in bytes.
pub const RUN_MAX: usize = 1 << 20;

/// The kind of corruption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// Flips one bit.
    Bit,
    /// Flips scattered bits of the file.
    Bits,
    /// Overwrites up to eight bytes with random ones.
    Bytes,
    /// Overwrites a range with random bytes.
    Garbage,
    /// Zeroes a range.
    Zeros,
    /// Fills a range with 0xFF.
    Ones,
    /// Overwrites a range with bytes from shortly before or after it.
    Shifted,
    /// Overwrites a range with bytes from another place in the log.
    Elsewhere,
    /// Overwrites a range with the bytes at the same offset of another log.
    Foreign,
    /// Restores a range to its content of some records earlier.
    Earlier,
    /// Truncates the file.
    Cut,
    /// Zeroes the end of the file.
    Blank,
}

impl Act {
    /// Whether the bytes come from a log, so that they may be valid where they are put.
    #[must_use]
    pub fn is_copy(self) -> bool {
        matches!(self, Self::Shifted | Self::Elsewhere | Self::Foreign | Self::Earlier)
    }

    /// All kinds of corruption.
    pub const ALL: [Self; 12] = [
        Self::Bit,
        Self::Bits,
        Self::Bytes,
        Self::Garbage,
        Self::Zeros,
        Self::Ones,
        Self::Shifted,
        Self::Elsewhere,
        Self::Foreign,
        Self::Earlier,
        Self::Cut,
        Self::Blank,
    ];

    /// The name of the change, for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit => "one bit",
            Self::Bits => "scattered bits",
            Self::Bytes => "some bytes",
            Self::Garbage => "garbage",
            Self::Zeros => "zeros",
            Self::Ones => "ones",
            Self::Shifted => "shifted",
            Self::Elsewhere => "from elsewhere",
            Self::Foreign => "from another log",
            Self::Earlier => "an older version",
            Self::Cut => "end cut off",
            Self::Blank => "end zeroed",
        }
    }
}

/// A corrupted file: its new bytes, and where they differ.
#[derive(Clone, Debug)]
pub struct Change {
    /// The kind of corruption.
    pub act: Act,
    /// The name of the file.
    pub file: String,
    /// The range within which bytes may have changed.
    pub range: Range<usize>,
    /// The whole file after the change.
    pub bytes: Vec<u8>,
}

impl Change {
    /// Draws a change of `sample` that alters at least one byte; `other` is a log of the same kind.
    #[must_use]
    pub fn draw(random: &mut Random, sample: &Sample, other: &Sample) -> Self {
        loop {
            let act = *random.pick(&Act::ALL);
            let file = pick_file(random, sample);
            let mut bytes = sample.files[file].clone();
            let range = act.apply(random, &mut bytes, (file, sample, other));
            if bytes != sample.files[file] {
                return Self { act, file: file.clone(), range, bytes };
            }
        }
    }

    /// Returns a copy of the log with this change.
    #[must_use]
    pub fn made(&self, sample: &Sample) -> MemStorage {
        let damaged = sample.device.kill();
        damaged.edit(&self.file, |bytes| bytes.clone_from(&self.bytes));
        damaged
    }

    /// Whether the bytes of these ranges of `file` are unchanged.
    #[must_use]
    pub fn spares(&self, sample: &Sample, file: &str, ranges: &[Range<usize>]) -> bool {
        let now = |range: &Range<usize>| self.bytes.get(range.clone());
        let before = |range: &Range<usize>| sample.files[file].get(range.clone());
        self.file != file || ranges.iter().all(|range| now(range) == before(range))
    }
}

/// Picks a file: mostly a segment, weighted by its used size, and sometimes a small file.
fn pick_file<'a>(random: &mut Random, sample: &'a Sample) -> &'a String {
    let is_small = |name: &str| ["manifest", "live", "keys"].contains(&name);
    let wants_small = random.once_in(12);
    let names: Vec<_> = sample.files.keys().filter(|name| is_small(name) == wants_small).collect();
    let used: Vec<_> = names.iter().map(|name| 512 + used(&sample.files[*name])).collect();
    let mut at = random.below(used.iter().sum());
    let mut index = 0;
    while at >= used[index] {
        at -= used[index];
        index += 1;
    }
    names[index]
}

/// The file's size without trailing zeros.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

impl Act {
    fn apply(
        self,
        random: &mut Random,
        bytes: &mut Vec<u8>,
        (file, sample, other): (&str, &Sample, &Sample),
    ) -> Range<usize> {
        if bytes.is_empty() {
            return 0..0;
        }
        let length = bytes.len();
        // Seven times in eight, the start lies before the trailing zeros.
        let within = if random.once_in(8) { length } else { used(bytes).clamp(1, length) };
        let at = random.below(within);
        let run = at..(at + random.size(RUN_MAX)).min(length);
        match self {
            Self::Bit => {
                bytes[at] ^= 1 << random.below(8);
                return at..(at + 1).min(length);
            }
            Self::Bits => {
                let near = if random.once_in(2) { 64 } else { within };
                for _ in 0..2 + random.below(40) {
                    let at = (at + random.below(near)) % length;
                    bytes[at] ^= 1 << random.below(8);
                }
                return 0..length;
            }
            Self::Bytes => {
                let few = at..(at + random.size(8)).min(length);
                random.fill(&mut bytes[few.clone()]);
                return few;
            }
            Self::Garbage => random.fill(&mut bytes[run.clone()]),
            Self::Zeros => bytes[run.clone()].fill(0),
            Self::Ones => bytes[run.clone()].fill(0xFF),
            Self::Shifted => {
                let by = random.size(4096);
                let from = if random.once_in(2) { at + by } else { at.saturating_sub(by) };
                let from = from.min(length - 1);
                let size = run.len().min(length - from);
                bytes.copy_within(from..from + size, at);
            }
            Self::Elsewhere => {
                let source = &sample.files[pick_file(random, sample)];
                let from = random.below(source.len().max(1));
                put(bytes, &run, source.get(from..).unwrap_or_default());
            }
            Self::Foreign => {
                let same = other.files.get(file).or_else(|| other.files.values().next()).unwrap();
                put(bytes, &run, same.get(at..).unwrap_or_default());
            }
            Self::Earlier => {
                let source = sample.earlier.get(file).map(Vec::as_slice).unwrap_or_default();
                bytes[run.clone()].fill(0);
                put(bytes, &run, source.get(at..).unwrap_or_default());
            }
            Self::Cut => {
                bytes.truncate(at);
                return at..length;
            }
            Self::Blank => {
                bytes[at..].fill(0);
                return at..length;
            }
        }
        run
    }
}

/// Overwrites the start of a range of `bytes` with `source`, up to the length of the shorter one.
fn put(bytes: &mut [u8], run: &Range<usize>, source: &[u8]) {
    let size = run.len().min(source.len());
    bytes[run.start..run.start + size].copy_from_slice(&source[..size]);
}
