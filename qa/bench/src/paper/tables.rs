//! The results as the paper's tables, with Seawall's rows below: as text, JSON and page.

use super::{Cell, Format, Measured, SIZES, Table};
use crate::args;
use crate::chart::{Names, Series, log_log};
use crate::driver::Fields;
use crate::page::{escaped, table};
use seawall_measure::human::{count, folded, number, rounded, to_f64};
use serde_json::{Value, json};

/// Tables I and II: seconds for 2,000,000 records, in A, B, C.
struct Published {
    write: [f64; 3],
    read: [f64; 3],
}

const PUBLISHED_RECORDS: f64 = 2_000_000.0;

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::MessagePack => "MessagePack",
            Self::Json => "JSON",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::MessagePack => "msgpack",
            Self::Json => "json",
        }
    }

    fn published(self) -> Published {
        match self {
            Self::MessagePack => {
                Published { write: [7.179, 3.858, 2.171], read: [0.709, 0.561, 0.526] }
            }
            Self::Json => Published { write: [8.461, 4.982, 3.154], read: [5.938, 5.714, 5.423] },
        }
    }
}

/// A line of a table: what it is of, and a figure for each size of sets.
struct Line {
    name: &'static str,
    key: &'static str,
    values: [f64; 3],
    is_ratio: bool,
}

impl Line {
    fn shown(&self) -> [String; 3] {
        self.values.map(|value| match value {
            _ if !self.is_ratio => rounded(value),
            large if large >= 100.0 => format!("{}x", rounded(large)),
            small => format!("{small:.1}x"),
        })
    }
}

type Pick = fn(&Cell) -> &[Measured];

/// Records a second, and how ours compare with theirs.
fn lines(table: &Table) -> (Vec<Line>, Vec<Line>) {
    let Published { write, read } = table.format.published();
    let rates = |name, key, pick: Pick| {
        let rate = |cell: &Cell| Cell::of(pick(cell), Measured::per_second);
        Line { name, key, values: table.cells.each_ref().map(rate), is_ratio: false }
    };
    let ratios = |name, key, ours: Pick, theirs: Pick| {
        let ratio = |cell: &Cell| Cell::ratio(ours(cell), theirs(cell));
        Line { name, key, values: table.cells.each_ref().map(ratio), is_ratio: true }
    };
    let published = |seconds: [f64; 3]| Line {
        name: "published",
        key: "published",
        values: seconds.map(|seconds| PUBLISHED_RECORDS / seconds),
        is_ratio: false,
    };
    let written = vec![
        published(write),
        rates("its method, never synced", "unsynced", |cell| &cell.unsynced),
        rates("its method, each set synced", "synced", |cell| &cell.synced),
        rates("seawall, each set synced", "ours_each", |cell| &cell.ours_each),
        rates("seawall, all durable at the end", "ours", |cell| &cell.ours),
        ratios("  beside its method, never synced", "to_unsynced", ours, |c| &c.unsynced),
        ratios("  beside its method, synced", "to_synced", ours, |c| &c.synced),
        ratios("each set synced, beside its", "each_to_synced", |c| &c.ours_each, |c| &c.synced),
    ];
    let read = vec![
        published(read),
        rates("its method", "theirs", |cell| &cell.read),
        rates("seawall, verified and decoded", "ours", |cell| &cell.ours_read),
        ratios("  beside its method", "to_theirs", |c| &c.ours_read, |c| &c.read),
    ];
    (written, read)
}

fn ours(cell: &Cell) -> &[Measured] {
    &cell.ours
}

/// Microseconds of a published write, and of one sync here.
fn of_a_write(tables: &[Table]) -> (f64, f64) {
    let published = Format::MessagePack.published().write[0] * 1e6 / PUBLISHED_RECORDS;
    let here = tables.first().and_then(|table| table.cells.first());
    let here = here.map_or(0.0, |cell| 1e6 / Cell::of(&cell.synced, Measured::per_second));
    (published, here)
}

fn verdict(tables: &[Table]) -> String {
    let (published, here) = of_a_write(tables);
    format!(
        "A published write of one record took {published:.1} us, and no flush of a device is in \
         that: one write with its sync takes {here:.0} us here. So it is compared with the method \
         that does not sync; ours are durable when the clock stops."
    )
}

pub(super) fn head(args: &args::Paper) -> String {
    format!("{} records, medians of {}", number(args.records), count(args.runs.into(), "run"))
}

/// For people.
pub(super) fn lines_of(args: &args::Paper, tables: &[Table]) -> Vec<String> {
    let place = format!("{}; in {}", head(args), args.common.dir.display());
    let mut shown = vec![place, "records a second, in sets of".to_owned()];
    for table in tables {
        let (written, read) = lines(table);
        for (what, lines) in [("written", written), ("read", read)] {
            let sizes = SIZES.map(|(name, size)| format!("{name}: {size}"));
            shown.push(String::new());
            shown.push(row(&format!("{}, {what}", table.format.name()), &sizes));
            let lines = lines.iter().map(|line| row(&format!("  {}", line.name), &line.shown()));
            shown.extend(lines);
        }
    }
    shown.extend([String::new(), folded(&verdict(tables), 0)]);
    shown
}

fn row(name: &str, cells: &[String; 3]) -> String {
    let [a, b, c] = cells;
    format!("{name:<38}{a:>14}{b:>14}{c:>14}")
}

/// For programs.
pub(super) fn as_json(tables: &[Table]) -> Fields {
    let table = |table: &Table| {
        let (written, read) = lines(table);
        let object = |lines: &[Line]| -> Value {
            lines.iter().map(|line| (line.key.to_owned(), json!(line.values))).collect()
        };
        let runs = |runs: &[Measured]| -> Value {
            let run = |run: &Measured| {
                json!({
                    "seconds": run.time.as_secs_f64(),
                    "records": run.records,
                    "bytes": run.bytes,
                })
            };
            runs.iter().map(run).collect()
        };
        let cells = SIZES.iter().zip(&table.cells).map(|((name, size), cell)| {
            json!({
                "name": name,
                "set": size,
                "unsynced": runs(&cell.unsynced),
                "synced": runs(&cell.synced),
                "ours": runs(&cell.ours),
                "ours_each": runs(&cell.ours_each),
                "read": runs(&cell.read),
                "ours_read": runs(&cell.ours_read),
            })
        });
        json!({
            "format": table.format.key(),
            "written_per_s": object(&written),
            "read_per_s": object(&read),
            "runs": cells.collect::<Vec<_>>(),
        })
    };
    let (published_us, sync_us) = of_a_write(tables);
    vec![
        ("published_us_a_write", json!(published_us)),
        ("sync_us", json!(sync_us)),
        ("tables", tables.iter().map(table).collect()),
    ]
}

/// As a page: the paper's metrics, all three, and a chart of each table.
pub(super) fn page(tables: &[Table]) -> String {
    let mut body = format!(
        "<p>{}</p>\n<p>Its method is rebuilt as <em>Design and Reliability of a User Space \
         Write-Ahead Log in Rust</em> describes it; each figure of both is of this run.</p>\n",
        escaped(&verdict(tables)),
    );
    for one in tables {
        let (written, read) = lines(one);
        for (what, lines) in [("written", &written), ("read", &read)] {
            let title = format!("{}, {what}", one.format.name());
            body.extend(["<h2>", &title, "</h2>\n", &chart(lines)]);
            let head = SIZES.map(|(name, size)| format!("{name}: sets of {size}"));
            let mut rows = vec![cells("records a second", head)];
            rows.extend(lines.iter().map(|line| cells(line.name, line.shown())));
            body += &table(&rows);
        }
        body += &table(&metrics(one));
    }
    body
}

fn cells(name: &str, values: [String; 3]) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(values).collect()
}

/// Seconds for all records, and megabytes a second.
fn metrics(one: &Table) -> Vec<Vec<String>> {
    let picks: [(&str, Pick); 4] = [
        ("its method, written, never synced", |cell| &cell.unsynced),
        ("seawall, written, durable", ours),
        ("its method, read", |cell| &cell.read),
        ("seawall, read", |cell| &cell.ours_read),
    ];
    let mut rows = vec![cells("", SIZES.map(|(name, _)| name.to_owned()))];
    for (name, pick) in picks {
        let of = |value: fn(Measured) -> f64, digits: usize| {
            let value = |cell: &Cell| format!("{:.digits$}", Cell::of(pick(cell), value));
            one.cells.each_ref().map(value)
        };
        let seconds = of(|run| run.time.as_secs_f64(), 3);
        let megabytes = of(|run| to_f64(run.bytes) / 1e6 / run.time.as_secs_f64().max(1e-9), 1);
        rows.push(cells(&format!("{name}, s"), seconds));
        rows.push(cells(&format!("{name}, MB/s"), megabytes));
    }
    rows
}

fn chart(lines: &[Line]) -> String {
    let names = Names { title: "", x: "records in a set", y: "records a second" };
    let color = |line: &Line| match line.key {
        "published" => "#8a94a0",
        "synced" => "#d9a05b",
        "ours_each" => "#5fa8d3",
        "ours" => "#0b6e4f",
        _ => "#b3541e",
    };
    let rates = lines.iter().filter(|line| !line.is_ratio);
    let series: Vec<Series<'_>> = rates
        .map(|line| {
            let sizes = SIZES.map(|(_, size)| to_f64(super::to_u64(size)));
            let points = sizes.into_iter().zip(line.values).collect();
            Series { name: line.name, color: color(line), points }
        })
        .collect();
    format!("<figure>{}</figure>\n", log_log(&names, &series))
}
