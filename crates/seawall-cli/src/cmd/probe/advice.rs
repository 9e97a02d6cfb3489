//! What the figures mean for a log in this place. Figures go in, words come out.

use super::contest::{Row, Verdict};
use crate::human::{bytes, rounded};

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

/// Puts lines below the first one of an advice.
const INDENT: &str = "          ";

/// Lines for people.
pub(super) fn of(costs: &Costs<'_>) -> Vec<String> {
    let mut lines = vec![];
    lines.extend(files(costs));
    let mut is_noisy = false;
    for (rows, advice) in [
        (&costs.threads, group_commit as fn(&Costs<'_>) -> Option<String>),
        (&costs.sizes, batches),
    ] {
        if rows.iter().any(|(row, _)| row.verdict == Verdict::TooNoisy) {
            is_noisy = true;
        } else {
            lines.extend(advice(costs));
        }
    }
    lines.extend(cache(costs));
    if is_noisy {
        lines
            .push("noise     other work used the disk or the processors: measure once more".into());
    }
    lines
}

fn files(costs: &Costs<'_>) -> Option<String> {
    let [_, others @ ..] = costs.files else { return None };
    let slower = others.iter().filter(|row| row.verdict == Verdict::Slower);
    let slower: Vec<_> = slower
        .map(|row| format!("{:.1}x one that is {}", 1.0 / row.ratio.median.max(1e-9), row.name))
        .collect();
    if slower.is_empty() {
        return None;
    }
    Some(format!(
        "files     a file written before is worth {}: a log's segments are",
        slower.join(", ")
    ))
}

/// Whoever shares a sync shares its time: at best all commits of a moment wait for one.
fn group_commit(costs: &Costs<'_>) -> Option<String> {
    let (one, _) = costs.threads.first()?;
    let rate = one.per_second.median;
    let [eight, many] = [8.0, 64.0].map(|threads| rounded(rate * threads));
    Some(format!(
        "threads   that share one sync at a time reach {eight}/s at most with 8, {many}/s with 64"
    ))
}

fn batches(costs: &Costs<'_>) -> Option<String> {
    let (smallest, _) = costs.sizes.first()?;
    let limit = smallest.p50_us * NEARLY_FREE;
    let free = costs.sizes.iter().take_while(|(row, _)| row.p50_us <= limit).last();
    let (_, size) = free.filter(|(_, size)| *size > 4096)?;
    let (size_text, delay) = (bytes(u64::try_from(*size).ok()?), smallest_delay(smallest));
    Some(format!(
        "batches   of {size_text} cost hardly more than one record: append_batch, or, where the\n\
         {INDENT}last {delay:.0} ms may be lost, Options::new().level(Level::Buffered)\n\
         {INDENT}.buffered(Duration::from_millis({delay:.0}), {size})"
    ))
}

/// Long enough that waiting, not syncing, decides: ten syncs, in milliseconds.
fn smallest_delay(row: &Row) -> f64 {
    (row.p50_us / 100.0).ceil().max(1.0)
}

/// A flush that takes longer the more there is to flush has something to do. One that does not
/// proves nothing: the device may have written it all before, or may not write it at all.
fn cache(costs: &Costs<'_>) -> Option<String> {
    let ((few, short), (many, long)) = (costs.flushes.first()?, costs.flushes.last()?);
    let (few, many) = (bytes(*few), bytes(*many));
    Some(if *long > *short * WRITTEN_OUT {
        format!(
            "cache     a sync behind {many} takes longer than one behind {few}: it\n{INDENT}has them to write out"
        )
    } else {
        format!(
            "cache     a sync behind {many} takes no longer than behind {few}, which proves\n\
             {INDENT}nothing. Whether what is synced survives a power cut cannot be\n\
             {INDENT}seen from here; only cutting it shows"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::contest::Spread;
    use super::*;

    fn row(name: &'static str, per_second: f64, ratio: f64, verdict: Verdict) -> Row {
        let flat = |value| Spread { median: value, lowest: value, highest: value };
        let (per_second, ratio) = (flat(per_second), flat(ratio));
        let time = 1e6 / per_second.median;
        Row { name, per_second, p50_us: time, p99_us: time, p999_us: None, ratio, verdict }
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
        let lines = of(&costs);
        assert!(lines[0].contains("worth 1.6x one that is growing: a log's"), "{lines:?}");
        assert!(lines[1].contains("64,000/s at most with 8, 512,000/s with 64"), "{lines:?}");
        assert!(lines[2].contains("of 64.0 KiB cost") && lines[2].contains("65536)"), "{lines:?}");
        assert!(lines[3].contains("proves nothing"), "{lines:?}");
        let costs = Costs { flushes: &[(1 << 20, 60.0), (64 << 20, 170.0)], ..costs };
        assert!(of(&costs)[3].contains("write out"));
        for line in of(&costs).iter().flat_map(|text| text.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
        let noisy = [sizes[0].clone(), row("64 KiB", 7000.0, 0.9, Verdict::TooNoisy)];
        let lines = of(&Costs { sizes: noisy.iter().zip([4096, 65_536]).collect(), ..costs });
        assert!(lines.iter().all(|line| !line.contains("batches")), "{lines:?}");
        assert!(lines[3].contains("once more"), "{lines:?}");
    }

    #[test]
    fn what_was_not_measured_is_not_spoken_of() {
        let costs = Costs { files: &[], sizes: vec![], threads: vec![], flushes: &[] };
        assert_eq!(of(&costs), [""; 0]);
    }
}
