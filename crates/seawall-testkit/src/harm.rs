//! Damage at rest: bits rot, sectors revert to old content, files disappear.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::mem_storage::MemStorage;

use crate::dice::Dice;
use crate::file::to_u64;

/// A kind of damage at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Decay {
    /// One bit flips.
    Bit,
    /// A range of bytes becomes garbage.
    Garbage,
    /// A range of bytes becomes zero.
    Zeros,
    /// A range of sectors has the content of an earlier time.
    Stale,
    /// A range of sectors has the content of another position, in the same file or another one.
    Copied,
    /// A file is truncated.
    CutShort,
    /// A file and its name disappear.
    LostFile,
    /// A file replaces another one.
    DuplicatedFile,
    /// A file has the content of an earlier time.
    StaleFile,
}

impl Decay {
    /// All kinds.
    pub const ALL: [Self; 9] = [
        Self::Bit,
        Self::Garbage,
        Self::Zeros,
        Self::Stale,
        Self::Copied,
        Self::CutShort,
        Self::LostFile,
        Self::DuplicatedFile,
        Self::StaleFile,
    ];

    /// Returns the name of the kind.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bit => "bit",
            Self::Garbage => "garbage",
            Self::Zeros => "zeros",
            Self::Stale => "stale",
            Self::Copied => "copied",
            Self::CutShort => "cut-short",
            Self::LostFile => "lost-file",
            Self::DuplicatedFile => "duplicated-file",
            Self::StaleFile => "stale-file",
        }
    }
}

/// Damage to the files of a device: its kind, its maximum size, and the seed of its random choices.
/// The text form, such as `garbage/512:1f`, can be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Harm {
    /// The kind of damage.
    pub decay: Decay,
    /// The maximum number of bytes that change, except in kinds that affect a whole file.
    pub reach: usize,
    /// The seed of the random choices.
    pub seed: u64,
}

impl fmt::Display for Harm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{:x}", self.decay.name(), self.reach, self.seed)
    }
}

impl FromStr for Harm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, numbers) =
            text.split_once('/').ok_or_else(|| format!("not a description of damage: {text}"))?;
        let (reach, seed) = numbers.split_once(':').unwrap_or((numbers, "0"));
        let decay = Decay::ALL.into_iter().find(|decay| decay.name() == name);
        let decay = decay.ok_or_else(|| format!("unknown kind of damage: {name}"))?;
        let reach = reach.parse().map_err(|why| format!("{text}: {why}"))?;
        let seed = u64::from_str_radix(seed, 16).map_err(|why| format!("{text}: {why}"))?;
        Ok(Self { decay, reach, seed })
    }
}

/// The bytes that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Harmed {
    /// The file, with its directory.
    pub file: String,
    /// The range; the whole file if it was lost or replaced.
    pub bytes: Range<usize>,
}

/// Damages one of the device's files whose names `may` accepts. The damage is durable. `earlier` is
/// the same device at an earlier time. Returns `None` if there was nothing to damage or nothing
/// changed.
///
/// # Examples
///
/// ```
/// use seawall_testkit::MemStorage;
/// use seawall_testkit::{Decay, Harm, harm};
/// use seawall::verify::Verdict;
/// use seawall::{Log, Maintenance, Options};
/// use std::sync::Arc;
///
/// let device = MemStorage::new();
/// let log: Log<u32> = Options::new().preallocate(false).open_in(Arc::new(device.clone()))?;
/// (0..100).try_for_each(|number| log.append(&number).map(drop))?;
/// log.close()?;
///
/// let how = Harm { decay: Decay::LostFile, reach: 512, seed: 1 };
/// let harmed = harm(&device, &device, how, |name| name.ends_with(".seg")).expect("a segment");
/// assert_eq!(harmed.file, "000000000001.seg");
/// assert_eq!(Maintenance::on(&(Arc::new(device) as _)).verify()?.verdict, Verdict::Lost);
/// # Ok::<(), seawall::Error>(())
/// ```
pub fn harm(
    device: &MemStorage,
    earlier: &MemStorage,
    how: Harm,
    may: impl Fn(&str) -> bool,
) -> Option<Harmed> {
    let mut dice = Dice::new(how.seed);
    let names: Vec<String> = device.names().into_iter().filter(|name| may(name)).collect();
    let file = dice.pick(&names)?.clone();
    let before = device.bytes(&file)?;
    let whole = 0..before.len();
    let bytes = match how.decay {
        Decay::LostFile => {
            device.remove_raw(&file);
            return Some(Harmed { file, bytes: whole });
        }
        Decay::DuplicatedFile => {
            let other = dice.pick(&names).filter(|other| **other != file)?;
            device.copy_raw(other, &file);
            whole
        }
        Decay::StaleFile => {
            let old = earlier.bytes(&file)?;
            device.edit(&file, |bytes| *bytes = old);
            whole
        }
        Decay::CutShort => {
            let length = place(&mut dice, before.len());
            device.edit(&file, |bytes| bytes.truncate(length));
            length..before.len()
        }
        Decay::Bit => {
            let at = place(&mut dice, before.len());
            let bit = 1 << dice.below(8);
            device.edit(&file, |bytes| bytes.iter_mut().skip(at).take(1).for_each(|b| *b ^= bit));
            at..(at + 1).min(before.len())
        }
        Decay::Garbage | Decay::Zeros | Decay::Stale | Decay::Copied => {
            let run = run(&mut dice, before.len(), how);
            let places = ((device, earlier), (file.as_str(), names.as_slice()));
            let new_bytes = fill(&mut dice, places, (how.decay, run.clone()))?;
            device.edit(&file, |bytes| {
                let target = bytes.iter_mut().skip(run.start).take(run.len());
                target.zip(new_bytes).for_each(|(byte, new)| *byte = new);
            });
            run
        }
    };
    let after = device.bytes(&file)?;
    (after != before).then_some(Harmed { file, bytes })
}

fn place(dice: &mut Dice, length: usize) -> usize {
    usize::try_from(dice.below(to_u64(length))).expect("the number is below a length")
}

const SECTOR: usize = 512;

fn run(dice: &mut Dice, length: usize, how: Harm) -> Range<usize> {
    let by_sector = matches!(how.decay, Decay::Stale | Decay::Copied) || dice.one_in(2);
    let unit = if by_sector { SECTOR } else { 1 };
    let start = place(dice, length) / unit * unit;
    let longest = (how.reach / unit).max(1);
    let size = (place(dice, longest) + 1) * unit;
    start..(start + size.min(how.reach.max(1))).min(length)
}

/// Returns the bytes that replace a range.
fn fill(
    dice: &mut Dice,
    ((device, earlier), (file, names)): ((&MemStorage, &MemStorage), (&str, &[String])),
    (decay, run): (Decay, Range<usize>),
) -> Option<Vec<u8>> {
    match decay {
        Decay::Zeros => Some(vec![0; run.len()]),
        Decay::Stale => {
            let mut old = earlier.bytes(file)?;
            old.resize(old.len().max(run.end), 0);
            old.get(run).map(<[u8]>::to_vec)
        }
        Decay::Copied => {
            let other = if dice.one_in(2) { dice.pick(names)?.as_str() } else { file };
            let other = device.bytes(other)?;
            let from = place(dice, other.len()) / SECTOR * SECTOR;
            other.get(from..(from + run.len()).min(other.len())).map(<[u8]>::to_vec)
        }
        _ => Some(run.map(|_| dice.any().to_le_bytes()).map(|bytes| bytes[0]).collect()),
    }
}
