//! The paper's record, and its sets.

use serde::{Deserialize, Serialize};

/// The structs of the paper's listing 2, with its names.
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

/// So many different ones are written in turn.
const DIFFERENT: u32 = 20_000;

/// Records as large as the paper's in `MessagePack`: its tables' bytes are those of six pairs of
/// numbers with ten digits, and a comment of 33 letters. In JSON they are some 10 % smaller than
/// the paper's, so its rows for JSON compare less exactly.
pub(crate) fn records() -> Vec<Record> {
    let mut state = 1_u32;
    let mut number = move || {
        // The minimal standard generator of Park and Miller; all that counts is ten digits.
        state = u32::try_from(u64::from(state) * 48_271 % 2_147_483_647).expect("below 2^31");
        1_000_000_000 + state
    };
    let record = |id| Record {
        id,
        comment: format!("record {id:010} of a group of many", id = number()),
        objects: (0..6).map(|_| Data { a: number(), b: number() }).collect(),
    };
    (0..DIFFERENT).map(record).collect()
}

/// Sets of `size` records, `total` records in all, which go round.
pub(super) fn sets(records: &[Record], size: usize, total: u64) -> impl Iterator<Item = &[Record]> {
    let count = total / u64::try_from(size).expect("a few");
    let round = records.chunks_exact(size).cycle();
    round.take(usize::try_from(count).expect("fits in memory"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_as_large_as_the_papers() {
        let records = records();
        let mean = |size: usize| {
            let bytes: usize = records
                .chunks_exact(size)
                .map(|set| rmp_serde::to_vec(set).unwrap().len() + 5)
                .sum();
            f64::from(u32::try_from(bytes).unwrap()) / f64::from(DIFFERENT)
        };
        // Table I: 116.2, 111.4, 108.1 bytes a record.
        for (size, published) in [(1, 116.2), (2, 111.4), (4, 108.1)] {
            let ours = mean(size);
            assert!((ours / published - 1.0).abs() < 0.03, "{size}: {ours} and {published}");
        }
        assert_eq!(sets(&records, 4, 100_000).map(<[Record]>::len).sum::<usize>(), 100_000);
    }
}
