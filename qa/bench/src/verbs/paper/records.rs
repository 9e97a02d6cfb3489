//! The paper's record and its sets.

use serde::{Deserialize, Serialize};

/// The structs of the paper's listing 2, with the same names.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Record {
    pub(super) id: u32,
    pub(super) comment: String,
    pub(super) objects: Vec<Data>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Data {
    pub(super) a: u32,
    pub(super) b: u32,
}

/// Number of different records, which are written in turn.
const DIFFERENT: u32 = 20_000;
/// Pairs of numbers in a record.
const PAIRS: usize = 10;

/// Makes sets of `size` records. Each set is one value of listing 2, written by one call.
///
/// The byte counts in the paper's tables show that a set has a single frame: in JSON, each set
/// takes 41 bytes and each record in it 256, while an array of records would take 2 bytes. So a set
/// is one value whose vector holds the pairs of all its records. Ten pairs per record, of numbers
/// with 5 digits (16 of 100), 7 digits (72) and 8 digits (12), give the published sizes in both
/// formats.
pub(crate) fn records(size: usize) -> Vec<Record> {
    let mut state = 1_u32;
    // The minimal standard generator of Park and Miller.
    let mut random = move |below: u32| {
        state = u32::try_from(u64::from(state) * 48_271 % 2_147_483_647).expect("below 2^31");
        state % below
    };
    let mut number = move || match random(100) {
        0..16 => 10_000 + random(55_536),
        16..88 => 1_000_000 + random(9_000_000),
        _ => 10_000_000 + random(90_000_000),
    };
    let mut record = |id| Record {
        id,
        comment: String::new(),
        objects: (0..PAIRS * size).map(|_| Data { a: number(), b: number() }).collect(),
    };
    let sets = DIFFERENT / u32::try_from(size).expect("a few");
    (10_000_000..10_000_000 + sets).map(&mut record).collect()
}

/// Repeats `sets` until they have `total` records, `size` in each.
pub(super) fn sets(sets: &[Record], size: usize, total: u64) -> impl Iterator<Item = &Record> {
    let count = total / u64::try_from(size).expect("a few");
    sets.iter().cycle().take(usize::try_from(count).expect("fits in memory"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_measure::human::to_f64;

    #[test]
    fn records_are_as_large_as_the_papers_in_both_formats() {
        // From Table I: megabytes per second divided by records per second.
        let published = [(1, 116.16, 296.91), (2, 111.39, 276.41), (4, 108.05, 266.39)];
        for (size, packed, json) in published {
            let records = records(size);
            let mean = |bytes: &dyn Fn(&Record) -> usize| {
                let sum: usize = records.iter().map(bytes).sum();
                to_f64(u64::try_from(sum).unwrap()) / f64::from(DIFFERENT)
            };
            // Adds the checksum in one format, and the line break in the other.
            let ours = mean(&|record| rmp_serde::to_vec(record).unwrap().len() + 5);
            assert!((ours / packed - 1.0).abs() < 0.007, "{size}: {ours} and {packed}");
            let ours = mean(&|record| serde_json::to_vec(record).unwrap().len() + 1);
            assert!((ours / json - 1.0).abs() < 0.002, "{size}: {ours} and {json}");
        }
        assert_eq!(sets(&records(4), 4, 100_000).count(), 25_000);
    }
}
