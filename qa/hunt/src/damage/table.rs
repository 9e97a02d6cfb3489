//! Text output: how Seawall responds to each change, then how other logs respond to some of them.

use super::Row;
use super::cases::{ONE_BIT, SECTOR_ZEROED, TAIL_CUT, TAIL_ZEROED};
use super::judge::{missing, named_in_vain};
use super::look::{Opened, Seen};
use super::peers::{self, MEASURED_NOTE, Peer};
use super::sample::{End, RECORDS};
use seawall::Lsn;
use seawall::damage::{Damage, Lost};
use std::collections::BTreeSet;

/// Text above the tables, after the number of records.
const HEAD: &str = "\
records of 256 bytes, each synced alone, and one change to its files.
log: closed, or crashed (the power was cut after the last record). opens: for append; \"default\":
in the default mode, but not in strict mode. read: intact records before and after the first
missing one. report: lost records, cause, segment:offset; or the tail that an open moves to
quarantine.
";

/// Text above the tables of logs with parity.
const PARITY_HEAD: &str = "
With parity (16+2: two parity blocks for sixteen blocks of records).
log: closed; again: crashed, opened and closed again, then damaged; crashed: without the parity of
its newest file, which need not be durable. A case without a row is restored in full (correctable,
opens in the default mode), or it has the same result as without parity. report: blocks restored,
and the kind of damage.
";

/// The cells of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Words {
    pub(super) verdict: String,
    pub(super) opens: &'static str,
    /// Number of records read before the first missing one, and after it.
    pub(super) read: String,
    pub(super) report: String,
}

/// Formats all tables.
pub(super) fn text(rows: &[Row]) -> String {
    let mut out = format!("A Seawall log of {RECORDS} {HEAD}");
    let (with, without): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.parity.is_some());
    out.push_str(&ours(&without));
    out.push_str(PARITY_HEAD);
    let is_plain = |row: &&Row| is_restored(row) || without.iter().any(|one| same(one, row));
    let others: Vec<_> = with.into_iter().filter(|row| !is_plain(row)).collect();
    out.push_str(&ours(&others));
    out.push_str(&beside_measured(rows));
    out
}

/// Whether every record is read and the log opens, although blocks are damaged.
fn is_restored(row: &Row) -> bool {
    row.seen.as_ref().is_ok_and(|seen| {
        let words = words(seen);
        seen.mended > 0 && words.opens == "default" && missing(&seen.reader).is_empty()
    })
}

/// Whether both rows have the same case and the same result. A log that was closed again after a
/// crash is compared with a closed one.
fn same(without: &Row, with: &Row) -> bool {
    let words = |row: &Row| row.seen.as_ref().ok().map(words);
    let end = if with.end == End::Again { End::Closed } else { with.end };
    without.case == with.case && without.end == end && words(without) == words(with)
}

/// Returns the cells for one result.
pub(super) fn words(seen: &Seen) -> Words {
    let opens = match (&seen.open, &seen.strict) {
        (Opened::Yes(_), Opened::Yes(_)) => "yes",
        (Opened::Yes(_), Opened::No(_)) => "default",
        (Opened::No(_), _) => "no",
    };
    Words {
        verdict: seen.verdict.name().to_owned(),
        opens,
        read: both_sides(seen),
        report: report(seen),
    }
}

fn both_sides(seen: &Seen) -> String {
    let first = missing(&seen.reader).first().copied();
    match sides(&seen.reader.intact, first) {
        (before, 0) => before.to_string(),
        (before, after) => format!("{before}+{after}"),
    }
}

/// Counts the records read before the first missing one, and after it.
pub(super) fn sides(intact: &BTreeSet<Lsn>, missing: Option<Lsn>) -> (usize, usize) {
    let before = intact.iter().filter(|lsn| missing.is_none_or(|first| **lsn < first)).count();
    (before, intact.len() - before)
}

fn report(seen: &Seen) -> String {
    match (seen.damage.first(), seen.tail) {
        (Some(first), _) if seen.mended > 0 && lost(&seen.damage) == NONE => {
            format!("{} restored ({})", seen.mended, first.cause.name())
        }
        (Some(first), _) => {
            let segment = first.segment.map(|id| format!(" {}:{:#x}", id.get(), first.offset.0));
            let vain = match named_in_vain(seen) {
                0 => String::new(),
                read => format!(" ({read} of them read)"),
            };
            let (lost, cause) = (lost(&seen.damage), first.cause.name());
            format!("{lost} {cause}{}{vain}", segment.unwrap_or_default())
        }
        (None, Some((segment, offset, bytes))) => {
            format!("tail {segment}:{offset:#x}, {bytes} bytes")
        }
        (None, None) => "-".to_owned(),
    }
}

/// The text for an empty list of lost records.
const NONE: &str = "none";

/// Formats the records reported as lost as ranges; adjacent ranges are joined.
fn lost(damage: &[Damage]) -> String {
    let mut ranges: Vec<Lost> = damage.iter().filter_map(|damage| damage.lost).collect();
    ranges.dedup_by(|next, range| {
        let joins = range.to.is_some_and(|to| to.next() == next.from);
        if joins {
            range.to = next.to;
        }
        joins
    });
    if ranges.is_empty() {
        return NONE.to_owned();
    }
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

fn range(lost: &Lost) -> String {
    match lost.to {
        Some(to) if to == lost.from => to.to_string(),
        Some(to) => format!("{}-{to}", lost.from),
        None => format!("{}-", lost.from),
    }
}

fn ours(rows: &[&Row]) -> String {
    let mut out = String::new();
    let mut titles: Vec<_> = rows.iter().map(|row| row.group).collect();
    titles.dedup();
    for title in titles {
        let mut grid =
            vec![[title, "log", "verdict", "opens", "read", "report"].map(str::to_owned).to_vec()];
        let group: Vec<_> = rows.iter().copied().filter(|row| row.group == title).collect();
        for logs in group.chunk_by(|one, two| one.case == two.case) {
            grid.extend(lines_of(logs));
        }
        out.push_str(&draw(&grid));
    }
    out
}

/// Formats a case: consecutive logs with the same result share a line.
fn lines_of(logs: &[&Row]) -> Vec<Vec<String>> {
    let words = |row: &Row| row.seen.as_ref().map(words).map_err(Clone::clone);
    let alike = logs.chunk_by(|one, two| words(one).is_ok() && words(one) == words(two));
    let lines = alike.filter_map(|alike| {
        let first = alike.first()?;
        let names: Vec<_> = alike.iter().map(|row| row.end.name()).collect();
        let log = match alike.len() {
            all if all == logs.len() && all > 2 => "all".to_owned(),
            all if all == logs.len() && all > 1 => "both".to_owned(),
            _ => names.join(", "),
        };
        Some(match words(first) {
            Ok(words) => line(first.case, &log, &words),
            Err(error) => cells([first.case, &log, "FAILS", "", "", &error]),
        })
    });
    lines.collect()
}

fn line(case: &str, log: &str, words: &Words) -> Vec<String> {
    cells([case, log, &words.verdict, words.opens, &words.read, &words.report])
}

/// Formats the results of Seawall beside those of the logs that the comparison program damages.
fn beside_measured(rows: &[Row]) -> String {
    let head = ["other logs", "one bit", "512 B zeroed", "last 100 B missing", "100 B zeroed"];
    let mut grid = vec![cells(head)];
    for end in [End::Closed, End::Crashed] {
        let ours = [ONE_BIT, SECTOR_ZEROED, TAIL_CUT, TAIL_ZEROED];
        let ours = ours.map(|case| find(rows, case, end).map_or_else(String::new, in_short));
        grid.push([vec![us(end)], ours.to_vec()].concat());
    }
    grid.extend(peers::measured().map(|peer| peer_line(&peer)));
    draw(&grid) + MEASURED_NOTE
}

fn peer_line(peer: &Peer) -> Vec<String> {
    [vec![peer.name.to_owned()], cells(peer.did)].concat()
}

/// The name of Seawall in the comparison with other logs.
fn us(end: End) -> String {
    format!("Seawall ({})", end.name())
}

fn cells<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// Returns the result of a case in the log without parity.
fn find<'a>(rows: &'a [Row], case: &str, end: End) -> Option<&'a Seen> {
    let is_it = |row: &&Row| row.case == case && row.end == end && row.parity.is_none();
    rows.iter().find(is_it)?.seen.as_ref().ok()
}

fn in_short(seen: &Seen) -> String {
    let read = seen.reader.intact.len();
    let is_lost = seen.damage.iter().any(|damage| damage.lost.is_some());
    match seen.reader.wrong.len() {
        0 if is_lost => format!("{read}, lost {}", lost(&seen.damage)),
        0 => format!("{read}, {}", seen.verdict.name()),
        wrong => format!("{read}, {wrong} WRONG"),
    }
}

/// Formats a table; the first line of `grid` is its head.
fn draw(grid: &[Vec<String>]) -> String {
    let columns = grid.first().map_or(0, Vec::len);
    let width = |at: usize| grid.iter().filter_map(|line| line.get(at)).map(String::len).max();
    let widths: Vec<_> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
    let mut out = "\n".to_owned();
    for (index, line) in grid.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        out.push_str(line.trim_end());
        out.push('\n');
        if index == 0 {
            let rule: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
            out.push_str(&rule.join("  "));
            out.push('\n');
        }
    }
    out
}
