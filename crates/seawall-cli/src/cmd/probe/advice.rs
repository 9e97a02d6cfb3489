//! What the figures mean for a log in this place. Figures go in, words come out.

use crate::human::{bytes, rounded};
use seawall_measure::contest::{Row, Verdict};

/// What was measured.
pub(super) struct Costs<'a> {
    pub(super) files: &'a [Row],
    /// Rows with the bytes of a write.
    pub(super) sizes: Vec<(&'a Row, usize)>,
    /// Rows with the number of threads.
    pub(super) threads: Vec<(&'a Row, usize)>,
    /// Bytes that were not synced, and how long the sync took, in microseconds.
    pub(super) flushes: &'a [(u64, f64)],
}

/// A write that takes at most so many times as long as the smallest is as good as free.
const NEARLY_FREE: f64 = 1.25;
/// A cache that were written out for a sync would show: so many times the bytes, at least so many
/// times as long.
const WRITTEN_OUT: f64 = 2.0;

/// What to make of the figures, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Advice {
    /// What it is about.
    pub(super) topic: &'static str,
    pub(super) says: String,
}

/// What the figures allow to be said.
pub(super) fn of(costs: &Costs<'_>) -> Vec<Advice> {
    let is_noisy = |rows: &[(&Row, usize)]| rows.iter().any(|(row, _)| row.verdict.is_unsure());
    let noisy = [is_noisy(&costs.threads), is_noisy(&costs.sizes)];
    let said = [
        ("files", files(costs)),
        ("threads", group_commit(costs).filter(|_| !noisy[0])),
        ("batches", batches(costs).filter(|_| !noisy[1])),
        ("cache", cache(costs)),
        ("noise", noisy.contains(&true).then(|| NOISE.to_owned())),
    ];
    said.into_iter().filter_map(|(topic, says)| Some(Advice { topic, says: says? })).collect()
}

const NOISE: &str = "other work used the disk or the processors: measure once more";

fn files(costs: &Costs<'_>) -> Option<String> {
    let [_, others @ ..] = costs.files else { return None };
    let slower = others.iter().filter(|row| row.verdict == Verdict::Slower);
    let slower: Vec<_> = slower
        .map(|row| format!("{:.1}x one that is {}", 1.0 / row.ratio.median.max(1e-9), row.name))
        .collect();
    let slower = Some(slower.join(", ")).filter(|slower| !slower.is_empty())?;
    Some(format!("a file written before is worth {slower}: a log's segments are"))
}

/// Whoever shares a sync shares its time: at best all commits of a moment wait for one.
fn group_commit(costs: &Costs<'_>) -> Option<String> {
    let (one, _) = costs.threads.first()?;
    let rate = one.per_second.median;
    let [eight, many] = [8.0, 64.0].map(|threads| rounded(rate * threads));
    Some(format!("that share one sync at a time reach {eight}/s at most with 8, {many}/s with 64"))
}

fn batches(costs: &Costs<'_>) -> Option<String> {
    let (smallest, _) = costs.sizes.first()?;
    let limit = smallest.p50_us * NEARLY_FREE;
    let free = costs.sizes.iter().take_while(|(row, _)| row.p50_us <= limit).last();
    let (_, size) = free.filter(|(_, size)| *size > 4096)?;
    // Long enough that waiting, not syncing, decides: ten syncs, in milliseconds.
    let delay = (smallest.p50_us / 100.0).ceil().max(1.0);
    let size_text = bytes(u64::try_from(*size).ok()?);
    Some(format!(
        "of {size_text} cost hardly more than one record: append_batch, or, where the last \
         {delay:.0} ms may be lost, Options::new().level(Level::Buffered) \
         .buffered(Duration::from_millis({delay:.0}), {size})"
    ))
}

/// A flush that takes longer the more there is to flush has something to do. One that does not
/// proves nothing: the device may have written it all before, or may not write it at all.
fn cache(costs: &Costs<'_>) -> Option<String> {
    let ((few, short), (many, long)) = (costs.flushes.first()?, costs.flushes.last()?);
    let (few, many) = (bytes(*few), bytes(*many));
    Some(if *long > *short * WRITTEN_OUT {
        format!("a sync behind {many} takes longer than one behind {few}: it has them to write out")
    } else {
        format!(
            "a sync behind {many} takes no longer than behind {few}, which proves nothing. Whether \
             what is synced survives a power cut cannot be seen from here; only cutting it shows"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall_measure::contest::Spread;

    fn row(name: &'static str, per_second: f64, ratio: f64, verdict: Verdict) -> Row {
        let flat =
            |value| Spread { median: value, lowest: value, highest: value, quartiles: [value; 2] };
        let time = 1e6 / per_second;
        Row {
            name: name.into(),
            per_second: flat(per_second),
            p50_us: time,
            p99_us: time,
            p999_us: None,
            ratio: flat(ratio),
            verdict,
            change: None,
        }
    }

    #[test]
    fn figures_are_put_into_words() {
        let files = [
            row("written before", 8000.0, 1.0, Verdict::First),
            row("growing", 5000.0, 0.625, Verdict::Slower),
            row("allocated, not written", 8100.0, 1.01, Verdict::Same),
        ];
        let sizes = [
            row("4 KiB", 8000.0, 1.0, Verdict::First),
            row("64 KiB", 7000.0, 0.9, Verdict::Slower),
            row("1 MiB", 2000.0, 0.25, Verdict::Slower),
        ];
        let costs = Costs {
            files: &files,
            sizes: sizes.iter().zip([4096, 65_536, 1 << 20]).collect(),
            threads: vec![(&files[0], 1)],
            flushes: &[(1 << 20, 60.0), (64 << 20, 70.0)],
        };
        let says = |costs: &Costs<'_>, topic: &str| {
            let found = of(costs).into_iter().find(|advice| advice.topic == topic);
            found.map_or(String::new(), |advice| advice.says)
        };
        let has = |topic: &str, part: &str| {
            assert!(says(&costs, topic).contains(part), "{:?}", of(&costs));
        };
        has("files", "worth 1.6x one that is growing: a log's");
        has("threads", "64,000/s at most with 8, 512,000/s with 64");
        has("batches", "of 64.0 KiB cost");
        has("batches", "65536)");
        has("cache", "proves nothing");
        let costs = Costs { flushes: &[(1 << 20, 60.0), (64 << 20, 170.0)], ..costs };
        assert!(says(&costs, "cache").contains("write out"));
        let noisy = [sizes[0].clone(), row("64 KiB", 7000.0, 0.9, Verdict::TooNoisy)];
        let mut costs = Costs { sizes: noisy.iter().zip([4096, 65_536]).collect(), ..costs };
        assert_eq!(says(&costs, "batches"), "");
        assert!(says(&costs, "noise").contains("once more"));
        let busy = [sizes[0].clone(), row("64 KiB", 7000.0, 0.9, Verdict::NotRanked)];
        costs.sizes = busy.iter().zip([4096, 65_536]).collect();
        assert_eq!(says(&costs, "batches"), "");
    }

    #[test]
    fn what_was_not_measured_is_not_spoken_of() {
        let costs = Costs { files: &[], sizes: vec![], threads: vec![], flushes: &[] };
        assert_eq!(of(&costs), []);
    }
}
