//! Statistics of record sizes.

use crate::commands::records::intact::visit_intact;
use hdrhistogram::Histogram;
use seawall::{Error, LogReader, Lsn, Raw};
use seawall_output::text::{self, to_u64};
use serde::Serialize;

/// The largest size to count, above any payload; larger sizes count as this one.
const SIZE_MAX: u64 = 1 << 30;
/// Significant digits of a size.
const DIGITS: u8 = 3;
/// Characters for bars, lowest first.
const BARS: [char; 8] = [
    '\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}',
];

/// The sizes of the payloads, in bytes.
pub(super) struct Sizes {
    counted: Histogram<u64>,
    /// The exact minimum.
    min: u64,
    max: u64,
}

/// The number of records in a size range, both ends included.
#[derive(Serialize)]
pub(super) struct Group {
    from: u64,
    to: u64,
    count: u64,
}

impl Sizes {
    /// Counts every intact record up to `last`.
    pub(super) fn measure(
        reader: Option<LogReader<[u8], Raw>>,
        last: Option<Lsn>,
    ) -> Result<Self, Error> {
        let mut sizes = Self::none();
        let Some((reader, last)) = reader.zip(last) else { return Ok(sizes) };
        visit_intact(reader, |record| {
            let is_counted = record.lsn <= last;
            if is_counted {
                sizes.add(record.payload.len());
            }
            is_counted
        })?;
        Ok(sizes)
    }

    fn none() -> Self {
        let counted = Histogram::new_with_bounds(1, SIZE_MAX, DIGITS);
        Self { counted: counted.expect("it takes these constants"), min: u64::MAX, max: 0 }
    }

    fn add(&mut self, size: usize) {
        let size = to_u64(size);
        (self.min, self.max) = (self.min.min(size), self.max.max(size));
        self.counted.saturating_record(size);
    }

    /// The size that this share of the records does not exceed.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        let found = self.counted.value_at_quantile(share);
        (!self.counted.is_empty()).then(|| found.clamp(self.min, self.max))
    }

    /// Groups with doubling sizes, from the smallest record to the largest.
    pub(super) fn groups(&self) -> Vec<Group> {
        let mut from = 0;
        let mut groups = vec![];
        for step in self.counted.iter_log(1, 2.0) {
            let (to, count) = (step.value_iterated_to(), step.count_since_last_iteration());
            if !groups.is_empty() || count > 0 {
                groups.push(Group { from, to, count });
            }
            from = to + 1;
        }
        while groups.last().is_some_and(|group| group.count == 0) {
            groups.pop();
        }
        groups
    }

    /// A summary on one line; `None` without records.
    pub(super) fn line(&self) -> Option<String> {
        let [p50, p99] = [0.5, 0.99].map(|share| self.quantile(share).map(text::bytes));
        let groups = self.groups();
        let highest = groups.iter().map(|group| group.count).max()?;
        let bars: String = groups.iter().map(|group| bar(group.count, highest)).collect();
        let max = text::bytes(self.max);
        Some(format!("p50 {}   p99 {}   max {max}   {bars}", p50?, p99?))
    }
}

/// Returns a bar for `count` out of `highest`; blank if `count` is 0.
fn bar(count: u64, highest: u64) -> char {
    let eighths = (u128::from(count) * 8).div_ceil(u128::from(highest));
    let place = usize::try_from(eighths).ok().and_then(|eighths| eighths.checked_sub(1));
    place.and_then(|place| BARS.get(place).copied()).unwrap_or(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sizes: &[usize]) -> Sizes {
        let mut found = Sizes::none();
        for size in sizes {
            found.add(*size);
        }
        found
    }

    fn groups(sizes: &[usize]) -> Vec<(u64, u64, u64)> {
        of(sizes).groups().iter().map(|group| (group.from, group.to, group.count)).collect()
    }

    #[test]
    fn every_record_is_counted_in_its_size_group() {
        assert_eq!(groups(&[]), []);
        assert_eq!(groups(&[0]), [(0, 0, 1)]);
        assert_eq!(groups(&[116, 116]), [(64, 127, 2)]);
        assert_eq!(groups(&[1, 2, 3, 9]), [(1, 1, 1), (2, 3, 2), (4, 7, 0), (8, 15, 1)]);
        for shift in 0..24 {
            for size in [1_usize << shift, (2 << shift) - 1] {
                let found = groups(&[size]);
                assert_eq!(found, [(1 << shift, (2 << shift) - 1, 1)], "{size}");
            }
        }
    }

    #[test]
    fn quantiles_are_existing_sizes() {
        let mut sizes = vec![116; 98];
        sizes.extend([100_000, 8_388_552]);
        let found = of(&sizes);
        assert_eq!(found.quantile(0.5), Some(116));
        assert_eq!(found.quantile(1.0), Some(8_388_552));
        let p99 = found.quantile(0.99).unwrap();
        assert!((100_000..100_100).contains(&p99), "{p99}");
        assert_eq!(of(&[]).quantile(0.5), None);
        assert_eq!(of(&[]).line(), None);
    }

    #[test]
    fn bar_height_follows_the_record_count() {
        let heights = [0, 1, 100, 500, 1000].map(|count| bar(count, 1000));
        assert_eq!(heights, [' ', '\u{2581}', '\u{2581}', '\u{2584}', '\u{2588}']);
    }
}
