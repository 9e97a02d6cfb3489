//! The results of `read` as text, JSON and page.

use super::{COST_REPLAY, COST_SCAN, Found};
use crate::chart::{Names, Series, log_log};
use crate::compared::Compared;
use crate::page;
use seawall_measure::human::{bytes, number, rounded, to_f64};
use serde_json::{Value, json};

pub(super) const ABOUT: &str = "the paper's records, in sets of one";

/// The results for one log size.
struct Line {
    records: u64,
    log_bytes: u64,
    open_us: f64,
    /// Nanoseconds per record, including the time to open the log again at its end.
    scan_ns: f64,
    replay_ns: f64,
    peak_memory: Option<u64>,
}

const COLUMNS: [&str; 6] = ["records", "log", "open, us", "scan, ns", "decode, ns", "peak memory"];

impl Line {
    fn cells(&self) -> [String; 6] {
        [
            number(self.records),
            bytes(self.log_bytes),
            rounded(self.open_us),
            format!("{:.1}", self.scan_ns),
            format!("{:.0}", self.replay_ns),
            self.peak_memory.map_or("-".to_owned(), bytes),
        ]
    }
}

fn lines(found: &Found, held: &[Compared]) -> Vec<Line> {
    let times = |name: &str| {
        let held = held.iter().filter(|held| held.contest.name == name);
        let rows = held.flat_map(|held| &held.contest.standings.rows);
        rows.map(|row| 1e9 / row.per_second.median.max(1e-9)).collect::<Vec<f64>>()
    };
    let costs = times(COST_SCAN).into_iter().zip(times(COST_REPLAY));
    let line = |(sample, (scan_ns, replay_ns)): (&super::Sample, (f64, f64))| Line {
        records: sample.records,
        log_bytes: sample.bytes,
        open_us: sample.open_us,
        scan_ns,
        replay_ns,
        peak_memory: sample.peak_memory,
    };
    found.samples.iter().zip(costs).map(line).collect()
}

/// The cost of a record by log size, as text.
pub(super) fn sizes(found: &Found, held: &[Compared]) -> Vec<String> {
    let line = |[records, log, open, scan, replay, peak]: [&str; 6]| {
        format!("{records:>13}{log:>13}{open:>11}{scan:>11}{replay:>13}{peak:>14}")
    };
    let mut shown =
        vec![String::new(), "a record by the size of the log, opening it included".to_owned()];
    shown.push(line(COLUMNS));
    let cells = lines(found, held).into_iter().map(|line| line.cells());
    shown.extend(cells.map(|cells| line(cells.each_ref().map(String::as_str))));
    shown
}

/// The costs as JSON.
pub(super) fn as_json(found: &Found, held: &[Compared]) -> Value {
    let size = |line: Line| {
        json!({
            "records": line.records,
            "log_bytes": line.log_bytes,
            "open_us": line.open_us,
            "scan_ns": line.scan_ns,
            "decode_ns": line.replay_ns,
            "peak_rss_bytes": line.peak_memory,
        })
    };
    lines(found, held).into_iter().map(size).collect()
}

/// The results as a page: a chart and a table of the costs by log size, and all contests.
pub(super) fn page(found: &Found, held: &[Compared]) -> String {
    let lines = lines(found, held);
    let mut body = String::new();
    // A chart needs at least two points.
    if lines.len() > 1 {
        body.extend(["<figure>", &chart(&lines), "</figure>\n"]);
    }
    let first = vec![COLUMNS.map(str::to_owned).into()];
    let rows: Vec<_> =
        first.into_iter().chain(lines.iter().map(|line| line.cells().into())).collect();
    body += &page::table(&rows);
    body.extend(held.iter().map(page::contest));
    body + &format!("<p>{}.</p>\n", page::escaped(&found.fetched.says()))
}

fn chart(lines: &[Line]) -> String {
    let names = Names {
        title: "A record by the size of the log, opening it included",
        x: "records in the log",
        y: "nanoseconds",
    };
    let series = |name, color, value: fn(&Line) -> f64| {
        let points = lines.iter().map(|line| (to_f64(line.records), value(line))).collect();
        Series { name, color, points }
    };
    let scan = series("scan", "#0b6e4f", |line| line.scan_ns);
    let replay = series("decode", "#b3541e", |line| line.replay_ns);
    log_log(&names, &[replay, scan])
}
