//! Changes the file that contains a certain record, wherever a log keeps that file.

use super::{MIDDLE, SIZE};
use crate::peer::Done;
use seawall_io::{Access, File, PosixStorage, Storage};
use std::path::Path;
use std::sync::Arc;

/// Number of bytes of a file that are searched at once.
const SEARCHED: usize = 64 << 10;
const SECTOR: u64 = 512;
/// Number of bytes of the last record that are changed.
const TAIL: usize = 100;

/// A change to a file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// One bit flips in a record in the middle.
    Bit,
    /// The sector of 512 bytes around the middle of that record is zeroed.
    Sector,
    /// The file ends 100 bytes before the last record does.
    Cut,
    /// The last 100 bytes of the last record are zeroed.
    TailZeros,
}

/// The location of some bytes.
pub(super) struct Found {
    file: Arc<dyn File>,
    offset: u64,
}

impl Change {
    /// Applies the change to a file below `folder`.
    pub(super) fn apply(self, folder: &Path, records: &[Vec<u8>]) -> Done {
        let record = match self {
            Self::Bit | Self::Sector => records.get(MIDDLE),
            Self::Cut | Self::TailZeros => records.last(),
        };
        let record = record.ok_or("there are fewer records")?;
        let Found { file, offset } = find(folder, record)?.ok_or("a record is in no file")?;
        let middle = offset + u64::try_from(SIZE / 2)?;
        let tail = offset + u64::try_from(SIZE - TAIL)?;
        match self {
            Self::Bit => flip(&*file, middle),
            Self::Sector => Ok(file.write_at(&[0; 512], middle / SECTOR * SECTOR)?),
            Self::Cut => Ok(file.set_len(tail)?),
            Self::TailZeros => Ok(file.write_at(&[0; TAIL], tail)?),
        }
    }
}

fn flip(file: &dyn File, offset: u64) -> Done {
    let mut byte = [0];
    if file.read_at(&mut byte, offset)? != 1 {
        return Err("the record is not there".into());
    }
    Ok(file.write_at(&byte.map(|byte| byte ^ 0x10), offset)?)
}

/// Finds these bytes in the largest file below `folder` that contains them.
pub(super) fn find(folder: &Path, bytes: &[u8]) -> Done<Option<Found>> {
    let mut best: Option<(u64, Found)> = None;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let storage = PosixStorage::open(&folder)?;
        for name in storage.list()? {
            let file = storage.open(&name, Access::ReadWrite)?;
            let length = file.len()?;
            if let Some(offset) = find_in(&*file, bytes)?
                && best.as_ref().is_none_or(|(largest, _)| length > *largest)
            {
                best = Some((length, Found { file, offset }));
            }
        }
        let others = storage.list_others()?;
        folders.extend(others.iter().map(|name| folder.join(name)).filter(|path| path.is_dir()));
    }
    Ok(best.map(|(_, found)| found))
}

fn find_in(file: &dyn File, bytes: &[u8]) -> Done<Option<u64>> {
    let overlap = bytes.len().saturating_sub(1);
    let mut buffer = vec![0; SEARCHED + overlap];
    let zeros = vec![0; SEARCHED + overlap];
    let mut at = 0;
    while let Some(written) = file.next_written(at)? {
        at = written;
        let read = file.read_at(&mut buffer, at)?;
        let part = buffer.get(..read).unwrap_or_default();
        // Logs preallocate files with zeros.
        if zeros.get(..read) != Some(part)
            && let Some(place) = part.windows(bytes.len()).position(|window| window == bytes)
        {
            return Ok(Some(at + u64::try_from(place)?));
        }
        if read < buffer.len() {
            return Ok(None);
        }
        at += u64::try_from(SEARCHED)?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payloads;
    use seawall_measure::scratch::Scratch;

    fn scratch(name: &str) -> Scratch {
        Scratch::new(&std::env::temp_dir(), name).unwrap()
    }

    /// Writes a file of zeros, followed by the records, in a folder of its own.
    fn written(scratch: &Scratch, records: &[Vec<u8>]) -> Arc<dyn File> {
        let storage = PosixStorage::create(&scratch.path().join("below")).unwrap();
        let file = storage.create("log").unwrap();
        file.write_at(&records.concat(), START).unwrap();
        file
    }

    /// An offset that is not a multiple of the searched size.
    const START: u64 = 200_003;

    #[test]
    fn each_change_hits_the_record_that_it_is_for() {
        let records = Payloads::new(SIZE).first(MIDDLE + 10);
        let before = records.concat();
        for (change, changed) in
            [(Change::Bit, 1), (Change::Sector, 512), (Change::Cut, 100), (Change::TailZeros, 100)]
        {
            let scratch = scratch(&format!("seawall-change-{change:?}"));
            let file = written(&scratch, &records);
            change.apply(scratch.path(), &records).unwrap();
            let mut after = vec![0; before.len()];
            file.read_at(&mut after, START).unwrap();
            let differ = before.iter().zip(&after).filter(|(one, two)| one != two).count();
            // Some of the changed bytes may have been zero before.
            assert!((changed - changed / 20..=changed).contains(&differ), "{change:?}: {differ}");
            let record =
                if matches!(change, Change::Bit | Change::Sector) { MIDDLE } else { MIDDLE + 9 };
            let range = record * SIZE..(record + 1) * SIZE;
            assert_ne!(before[range.clone()], after[range], "{change:?}");
        }
    }

    #[test]
    fn bytes_that_are_in_no_file_are_not_found() {
        let scratch = scratch("seawall-change-none");
        let records = Payloads::new(SIZE).first(11);
        written(&scratch, &records[..10]);
        assert!(find(scratch.path(), &records[9]).unwrap().is_some());
        assert!(find(scratch.path(), &records[10]).unwrap().is_none());
    }
}
