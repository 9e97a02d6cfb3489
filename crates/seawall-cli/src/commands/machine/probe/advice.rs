//! Derives advice for a log in this directory from the figures. Pure: figures in, text out.

use seawall_measure::contest::{Row, Verdict};
use seawall_measure::streams::Streams;
use seawall_output::text::{bytes, rounded};
use serde::Serialize;

/// The measured figures.
pub(super) struct Costs<'a> {
    pub(super) files: &'a [Row],
    /// Rows with their write size in bytes.
    pub(super) sizes: Vec<(&'a Row, usize)>,
    /// Rows with their number of threads.
    pub(super) threads: Vec<(&'a Row, usize)>,
    /// Rows of one thread, each pinned to a processor.
    pub(super) processors: &'a [Row],
    pub(super) streams: Option<&'a Streams>,
    /// Pairs: the number of unsynced bytes, and the duration of their sync in microseconds.
    pub(super) flushes: &'a [(u64, f64)],
}

/// A larger write counts as free if it takes at most this many times as long as the smallest.
const NEARLY_FREE: f64 = 1.25;
/// A sync writes out a cache if it takes more than this many times as long after the most bytes as
/// after the fewest.
const WRITTEN_OUT: f64 = 2.0;

/// A processor is considered nearer to the device if it is this many times as fast.
const NEARER: f64 = 1.15;

/// Advice for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Advice {
    /// The subject.
    pub(super) topic: &'static str,
    pub(super) says: String,
}

/// Derives advice from the figures.
pub(super) fn of(costs: &Costs<'_>) -> Vec<Advice> {
    let is_noisy = |rows: &[(&Row, usize)]| rows.iter().any(|(row, _)| row.verdict.is_unsure());
    let is_unsure = costs.streams.is_some_and(Streams::is_unsure);
    let noisy = [is_noisy(&costs.threads), is_noisy(&costs.sizes), is_unsure];
    let said = [
        ("files", files(costs)),
        ("threads", group_commit(costs).filter(|_| !noisy[0])),
        ("batches", batches(costs).filter(|_| !noisy[1])),
        ("streams", costs.streams.and_then(Streams::says)),
        ("where", nearest(costs)),
        ("cache", cache(costs)),
        ("noise", noisy.contains(&true).then(|| NOISE.to_owned())),
    ];
    said.into_iter().filter_map(|(topic, says)| Some(Advice { topic, says: says? })).collect()
}

const NOISE: &str = "other programs used the disk or the processors: measure again";

fn files(costs: &Costs<'_>) -> Option<String> {
    let [_, others @ ..] = costs.files else { return None };
    let slower = others.iter().filter(|row| row.verdict == Verdict::Slower);
    let slower: Vec<_> = slower
        .map(|row| format!("{:.1}x one that is {}", 1.0 / row.ratio.median.max(1e-9), row.name))
        .collect();
    let slower = Some(slower.join(", ")).filter(|slower| !slower.is_empty())?;
    Some(format!("a file written before is worth {slower}: a log's segments are"))
}

/// Estimates group commit. Committers that share a sync share its cost; at best, all concurrent
/// commits wait for one sync.
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
    // The time of ten syncs, in milliseconds: long enough that the wait dominates, not the sync.
    let delay = (smallest.p50_us / 100.0).ceil().max(1.0);
    let size_text = bytes(u64::try_from(*size).ok()?);
    Some(format!(
        "of {size_text} cost hardly more than one record: append_batch, or, where the last \
         {delay:.0} ms may be lost, Options::new().level(Level::Buffered) \
         .buffered(Duration::from_millis({delay:.0}), {size})"
    ))
}

/// Names the processor nearest to the device. A device with few queues interrupts few processors,
/// and a thread on one of them waits less.
fn nearest(costs: &Costs<'_>) -> Option<String> {
    let rate = |row: &&Row| row.per_second.median;
    if costs.processors.iter().any(|row| row.verdict.is_unsure()) {
        return None;
    }
    let order = |one: &&Row, other: &&Row| rate(one).total_cmp(&rate(other));
    let best = costs.processors.iter().max_by(order)?;
    let worst = costs.processors.iter().min_by(order)?;
    let times = rate(&best) / rate(&worst).max(1e-9);
    (times >= NEARER).then(|| {
        format!(
            "it runs decides: {} makes {times:.2}x the syncs of {}, as the device's interrupts \
             come there. A thread that commits alone gains by staying there, and a figure of one \
             that ran anywhere means little",
            best.name, worst.name
        )
    })
}

/// Judges the write cache. A sync that takes longer after more data writes data out. A constant
/// time proves nothing: the device may have written everything before, or may not write it at all.
fn cache(costs: &Costs<'_>) -> Option<String> {
    let ((few, short), (many, long)) = (costs.flushes.first()?, costs.flushes.last()?);
    let (few, many) = (bytes(*few), bytes(*many));
    Some(if *long > *short * WRITTEN_OUT {
        format!("a sync after {many} takes longer than one after {few}: more to write out")
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
            mean_us: 0.0,
            p50_us: time,
            p99_us: time,
            p999_us: None,
            ratio: flat(ratio),
            verdict,
        }
    }

    const NOTHING: Costs<'_> = Costs {
        files: &[],
        sizes: vec![],
        threads: vec![],
        processors: &[],
        streams: None,
        flushes: &[],
    };

    #[test]
    fn figures_become_advice() {
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
            ..NOTHING
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
        assert!(says(&costs, "noise").contains("measure again"));
        let busy = [sizes[0].clone(), row("64 KiB", 7000.0, 0.9, Verdict::NotRanked)];
        costs.sizes = busy.iter().zip([4096, 65_536]).collect();
        assert_eq!(says(&costs, "batches"), "");
    }

    #[test]
    fn faster_processor_is_named_if_the_difference_matters() {
        let says = |second, verdict| {
            let processors = [
                row("processor 0", 9000.0, 1.0, Verdict::First),
                row("processor 2", second, 1.0, verdict),
            ];
            let costs = Costs { processors: &processors, ..NOTHING };
            of(&costs).pop().map_or(String::new(), |advice| advice.says)
        };
        assert!(
            says(12_000.0, Verdict::Faster)
                .contains("processor 2 makes 1.33x the syncs of processor 0")
        );
        assert!(
            says(7500.0, Verdict::Slower)
                .contains("processor 0 makes 1.20x the syncs of processor 2")
        );
        assert_eq!(says(8000.0, Verdict::Slower), "");
        assert_eq!(says(12_000.0, Verdict::TooNoisy), "");
    }

    #[test]
    fn missing_measurements_give_no_advice() {
        assert_eq!(of(&NOTHING), []);
    }
}
