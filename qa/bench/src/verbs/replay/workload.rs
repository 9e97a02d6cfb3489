//! Creates the operations to replay, and the log that contains them.

use crate::failure::Failure;
use seawall::{Level, Log, LogReader, Options};
use seawall_replay::{Change, Operation};
use std::path::Path;

/// The log that is replayed.
pub(super) type OperationLog = LogReader<Operation>;

/// Number of keys in the workload with few keys.
pub(super) const FEW: u64 = 1_000;
const VALUE_SIZE: usize = 100;
/// Number of operations in one append.
const SET: u64 = 1_000;

/// The keys of the operations; a key has 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// A different key for each operation, in random order.
    Each,
    /// One of [`FEW`] keys, at random.
    Few,
    /// The same key for all operations.
    One,
}

/// Writes a log of this many operations. Each is a transaction of its own that puts one row.
pub(super) fn log(path: &Path, keys: Keys, count: u64) -> Result<OperationLog, Failure> {
    let fail = |error: seawall::Error| {
        let next = "choose another directory with --dir";
        Failure::new(format!("cannot measure: {error}"), path.display(), next)
    };
    let log: Log<Operation> = Options::new().level(Level::Buffered).open(path).map_err(fail)?;
    let mut next = 0;
    while next < count {
        let end = count.min(next + SET);
        let set: Vec<Operation> = (next..end).map(|number| operation(keys, number)).collect();
        log.append_batch(&set).map_err(fail)?;
        next = end;
    }
    log.close().map_err(fail)?;
    LogReader::open(path).map_err(fail)
}

fn operation(keys: Keys, number: u64) -> Operation {
    let key = match keys {
        Keys::Each => number,
        Keys::Few => mixed(number) % FEW,
        Keys::One => 0,
    };
    let key = [mixed(key), mixed(!key)].map(u64::to_le_bytes).concat();
    let value: Vec<u8> = mixed(number).to_le_bytes().into_iter().cycle().take(VALUE_SIZE).collect();
    Change::put("", key, value).into()
}

/// `SplitMix64` (<https://prng.di.unimi.it/splitmix64.c>). Equal results mean equal input.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_are_as_many_as_they_should_be_and_rows_as_large() {
        let keys = |keys, count| {
            let key = |number| match operation(keys, number) {
                Operation::Atomic(changes) => match changes.as_slice() {
                    [Change::Put { key, value, .. }] => {
                        assert_eq!((key.len(), value.len()), (16, 100));
                        key.clone()
                    }
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            };
            (0..count).map(key).collect::<BTreeSet<_>>().len()
        };
        assert_eq!((keys(Keys::Each, 20_000), keys(Keys::One, 100)), (20_000, 1));
        assert_eq!(keys(Keys::Few, 20_000), 1_000);
    }
}
