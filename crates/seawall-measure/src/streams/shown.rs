//! Formats the speed of streams as text and JSON.

use super::{Blocks, Streams, Way};
use crate::contest::{Row, Spread, Verdict};
use crate::human::{bytes, rounded, times, to_u64};
use serde_json::{Value, json};
use std::fmt::{self, Display, Formatter};

/// The question, for people.
const ASKS: &str = "a stream of direct, synced writes, up to 1 MiB in flight, to blocks that are";

impl Blocks {
    /// The name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Growing => "growing",
            Self::Allocated => "allocated",
        }
    }
}

impl Display for Way {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let size = bytes(to_u64(self.bytes));
        write!(f, "{}, {} x {size}", self.blocks.name(), self.in_flight)
    }
}

impl Streams {
    /// Formats a table for people. The first line is empty.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let standings = &self.standings;
        let head = format!(
            "{:26}{:>7}{:>7}{:>8}  against the first, middle half",
            "", "MB/s", "p50 us", "p99 us"
        );
        let mut lines = vec![String::new(), ASKS.to_owned(), head];
        lines.extend(standings.rows.iter().map(line));
        lines.push(standings.noise_line());
        lines.extend(standings.others.says().map(|says| format!("  {says}")));
        lines.extend(self.atomic_write_max.map(|max| {
            let longest = if max == 0 { "none".to_owned() } else { bytes(max.into()) };
            format!("  the longest write that a power cut cannot tear: {longest}")
        }));
        lines
    }

    /// Formats the results as JSON.
    #[must_use]
    pub fn as_json(&self) -> Value {
        let standings = &self.standings;
        let noise = standings.noise;
        let row = |(way, row): (&Way, &Row)| {
            json!({
                "blocks": way.blocks.name(),
                "in_flight": way.in_flight,
                "write_bytes": way.bytes,
                "mb_per_s": row.per_second.median,
                "mb_per_s_quartiles": row.per_second.quartiles,
                "p50_us": row.p50_us,
                "p99_us": row.p99_us,
                "ratio": row.ratio.median,
                "ratio_quartiles": row.ratio.quartiles,
                "verdict": row.verdict.name(),
            })
        };
        json!({
            "rounds": standings.rounds,
            "noise": [noise.lowest, noise.median, noise.highest],
            "others_share": standings.others.share(),
            "rows": self.ways.iter().zip(&standings.rows).map(row).collect::<Vec<_>>(),
            "atomic_write_bytes_max": self.atomic_write_max,
        })
    }

    /// Returns whether the measurement allows no conclusion.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.standings.rows.iter().any(|row| row.verdict.is_unsure())
    }

    /// Explains the speed for a log here; `None` if the measurement allows no conclusion.
    #[must_use]
    pub fn says(&self) -> Option<String> {
        let of = |blocks, in_flight| self.ratio(blocks, in_flight);
        if self.is_unsure() {
            return None;
        }
        let new = [of(Blocks::Allocated, 1)?, of(Blocks::Allocated, 4)?];
        let again = [of(Blocks::Written, 1)?, of(Blocks::Written, 4)?];
        let [one, four] = [gain(again[0], new[0]), gain(again[1], new[1])].map(worded);
        let reuse = format!(
            "with one write in flight, files used again are {one} new ones here, and with four \
             {four} new ones"
        );
        let [again, new] = [gain(again[1], again[0]), gain(new[1], new[0])].map(worded);
        Some(format!(
            "{reuse}; four writes in flight are {again} one in a file used again, and {new} one in \
             a new file"
        ))
    }

    fn ratio(&self, blocks: Blocks, in_flight: usize) -> Option<Spread> {
        let mut ways = self.ways.iter().zip(&self.standings.rows).skip(1);
        let found = ways.find(|(way, _)| way.blocks == blocks && way.in_flight == in_flight);
        found.map(|(_, row)| row.ratio)
    }
}

/// Returns the ratio of the medians of two ways, if most rounds of `one` were faster than most
/// rounds of `other`.
fn gain(one: Spread, other: Spread) -> Option<f64> {
    let is_clear = one.quartiles[0] > other.quartiles[1];
    is_clear.then(|| one.median / other.median.max(1e-9))
}

fn worded(gain: Option<f64>) -> String {
    gain.map_or("no faster than".to_owned(), |gain| format!("{gain:.1} times as fast as"))
}

fn line(row: &Row) -> String {
    let Row { name, per_second, ratio, verdict, .. } = row;
    let times_us = format!("{:>7}{:>8}", rounded(row.p50_us), rounded(row.p99_us));
    let line = format!("  {name:<24}{:>7}{times_us}", rounded(per_second.median));
    if *verdict == Verdict::First {
        return line;
    }
    let [low, high] = ratio.quartiles;
    let ratio = times(ratio.median);
    format!("{line}  {ratio}  {:<9}  {}", format!("{low:.2}-{high:.2}"), verdict.name())
}
