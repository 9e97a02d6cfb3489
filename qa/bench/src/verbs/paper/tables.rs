//! The results as the paper's tables, with rows for Seawall: as text, JSON and page.

mod published;

use super::{Cell, Format, Measured, SIZES, Table};
use crate::args;
use crate::chart::{Names, Series, log_log};
use crate::driver::Fields;
use crate::page::{escaped, table};
use published::{RECORDS, Results};
use seawall_measure::human::{count, folded, number, rounded, to_f64};
use seawall_measure::slice::median;
use serde_json::{Value, json};

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
}

/// How the runs are summarized. The paper prints means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Mean,
    Median,
}

impl Statistic {
    fn of(self, runs: &[Measured], value: impl Fn(Measured) -> f64) -> f64 {
        let mut values: Vec<f64> = runs.iter().map(|run| value(*run)).collect();
        match self {
            Self::Mean => values.iter().sum::<f64>() / to_f64(super::to_u64(values.len().max(1))),
            Self::Median => median(&mut values),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mean => "means",
            Self::Median => "medians",
        }
    }
}

/// A row of a table: three metrics, each in the configurations A, B and C.
struct Row {
    name: &'static str,
    key: &'static str,
    results: Results,
}

impl Row {
    fn of(
        (name, key): (&'static str, &'static str),
        table: &Table,
        (statistic, pick): (Statistic, Pick),
    ) -> Self {
        let cells = table.cells.each_ref();
        let metric = |value: fn(Measured) -> f64| cells.map(|cell| statistic.of(pick(cell), value));
        let results = Results {
            seconds: metric(|run| RECORDS / run.per_second().max(1e-9)),
            megabytes: metric(|run| to_f64(run.bytes) / 1e6 / run.time.as_secs_f64().max(1e-9)),
            records: metric(Measured::per_second),
        };
        Self { name, key, results }
    }

    fn published(results: Results) -> Self {
        Self { name: "published", key: "published", results }
    }

    /// Nine figures: seconds, megabytes per second, and thousands of records per second.
    fn shown(&self) -> impl Iterator<Item = String> {
        let Results { seconds, megabytes, records } = self.results;
        let figures = [seconds, megabytes, records.map(|rate| rate / 1e3)];
        figures.into_iter().flatten().map(three_digits)
    }
}

fn three_digits(value: f64) -> String {
    match value {
        large if large >= 99.95 => rounded(large),
        tens if tens >= 9.995 => format!("{tens:.1}"),
        small => format!("{small:.2}"),
    }
}

type Pick = fn(&Cell) -> &[Measured];

const WRITTEN: [(&str, &str, Pick); 4] = [
    ("method, unsynced", "unsynced", |cell| &cell.unsynced),
    ("method, synced", "synced", |cell| &cell.synced),
    ("Seawall, synced", "ours_each", |cell| &cell.ours_each),
    ("Seawall, at the end", "ours", |cell| &cell.ours),
];
const READ: [(&str, &str, Pick); 2] =
    [("method", "theirs", |cell| &cell.read), ("Seawall", "ours", |cell| &cell.ours_read)];

/// A table of the paper: I for writing, II for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Written,
    Read,
}

impl Which {
    const BOTH: [Self; 2] = [Self::Written, Self::Read];

    fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Read => "read",
        }
    }

    fn rows(self, table: &Table, statistic: Statistic) -> Vec<Row> {
        let (published, ways): (_, &[_]) = match self {
            Self::Written => (table.format.published_write(), &WRITTEN),
            Self::Read => (table.format.published_read(), &READ),
        };
        let row = |(name, key, pick): &(&'static str, &'static str, Pick)| {
            Row::of((name, key), table, (statistic, *pick))
        };
        [Row::published(published)].into_iter().chain(ways.iter().map(row)).collect()
    }
}

/// The ratio of two record rates, in the configurations A, B and C.
struct Ratio {
    name: &'static str,
    key: &'static str,
    values: [f64; 3],
}

fn ratios(table: &Table, which: Which) -> Vec<Ratio> {
    let ratio = |name, key, (ours, theirs): (Pick, Pick)| {
        let ratio = |cell: &Cell| Cell::ratio(ours(cell), theirs(cell));
        Ratio { name, key, values: table.cells.each_ref().map(ratio) }
    };
    let ours: Pick = |cell| &cell.ours;
    match which {
        Which::Written => vec![
            ratio("at the end / method, unsynced", "to_unsynced", (ours, |c| &c.unsynced)),
            ratio("at the end / method, synced", "to_synced", (ours, |c| &c.synced)),
            ratio("synced / method, synced", "each_to_synced", (|c| &c.ours_each, |c| &c.synced)),
        ],
        Which::Read => {
            vec![ratio("Seawall / method", "to_theirs", (|c| &c.ours_read, |c| &c.read))]
        }
    }
}

/// The time of a published write, and of a write with its sync measured here, in microseconds.
fn of_a_write(tables: &[Table]) -> (f64, f64) {
    let [published, ..] = Format::MessagePack.published_write().seconds;
    let here = tables.first().and_then(|table| table.cells.first());
    let median = |cell: &Cell| Statistic::Median.of(&cell.synced, Measured::per_second);
    (published * 1e6 / RECORDS, here.map_or(0.0, |cell| 1e6 / median(cell)))
}

fn verdict(tables: &[Table]) -> String {
    let (published, here) = of_a_write(tables);
    format!(
        "A published write of one record took {published:.1} us, and no flush of a device is in \
         that: one write with its sync takes {here:.0} us here. So it is compared with the method \
         that does not sync; \"at the end\", all records are durable when the clock stops."
    )
}

/// How many times as fast as JSON `MessagePack` is read in configuration A, as text.
fn of_the_formats(tables: &[Table]) -> Option<String> {
    let [packed, json] = tables else { return None };
    let rates = |table| {
        let rows = Which::Read.rows(table, Statistic::Mean);
        rows.into_iter().map(|row| row.results.records[0])
    };
    let ratios = rates(packed).zip(rates(json)).map(|(packed, json)| packed / json.max(1e-9));
    let names = ["published", "its method", "Seawall"];
    let shown = names.iter().zip(ratios).map(|(name, ratio)| format!("{name} {ratio:.1}"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    Some(format!("Read in A, MessagePack / JSON: {shown}."))
}

pub(super) fn head(args: &args::Paper) -> String {
    format!("{} records, {}", number(args.records), count(args.runs.into(), "run"))
}

/// Both tables as text, with the means and then with the medians.
pub(super) fn lines_of(args: &args::Paper, tables: &[Table]) -> Vec<String> {
    let mut shown = vec![format!("{}; in {}", head(args), args.common.dir.display())];
    for statistic in [Statistic::Mean, Statistic::Median] {
        let metrics = ["seconds for 2,000,000", "MB/s", "thousand records/s"];
        let [seconds, megabytes, records] = metrics;
        shown.push(String::new());
        shown.push(format!("{:<20}{seconds:>21}{megabytes:>19}{records:>20}", statistic.name()));
        for (table, which) in each(tables) {
            let title = format!("{}, {}", table.format.name(), which.name());
            let sizes = SIZES.map(|(name, _)| name.to_owned());
            shown.push(line(&title, (0..3).flat_map(|_| sizes.clone())));
            let rows = which.rows(table, statistic);
            shown.extend(rows.iter().map(|row| line(&format!("  {}", row.name), row.shown())));
        }
    }
    shown.extend([String::new(), "times as many records a second, medians".to_owned()]);
    for (table, which) in each(tables) {
        for Ratio { name, values, .. } in ratios(table, which) {
            let title = format!("{}, {}: {name}", table.format.name(), which.name());
            let [a, b, c] = values.map(three_digits);
            shown.push(format!("{title:<52}{a:>8}{b:>8}{c:>8}"));
        }
    }
    shown.push(String::new());
    shown.extend(of_the_formats(tables));
    shown.push(folded(&verdict(tables), 0));
    shown
}

fn each(tables: &[Table]) -> impl Iterator<Item = (&Table, Which)> {
    Which::BOTH.into_iter().flat_map(|which| tables.iter().map(move |table| (table, which)))
}

fn line(name: &str, figures: impl Iterator<Item = String>) -> String {
    let gap = |number: usize| if number > 0 && number.is_multiple_of(3) { 8 } else { 6 };
    let cells = figures.enumerate().map(|(number, cell)| format!("{cell:>0$}", gap(number)));
    format!("{name:<22}{}", cells.collect::<String>())
}

/// Both tables as JSON.
pub(super) fn as_json(tables: &[Table]) -> Fields {
    let (published_us, sync_us) = of_a_write(tables);
    vec![
        ("published_us_a_write", json!(published_us)),
        ("sync_us", json!(sync_us)),
        ("tables", tables.iter().map(table_as_json).collect()),
    ]
}

fn table_as_json(table: &Table) -> Value {
    let metrics = |results: &Results| {
        let Results { seconds, megabytes, records } = results;
        json!({ "seconds": seconds, "mb_per_s": megabytes, "records_per_s": records })
    };
    let of = |which: Which, statistic| -> Value {
        let rows = which.rows(table, statistic);
        rows.iter().map(|row| (row.key.to_owned(), metrics(&row.results))).collect()
    };
    let both = |which: Which| {
        let ratios = ratios(table, which).into_iter();
        let ratios = ratios.map(|ratio| (ratio.key.to_owned(), json!(ratio.values)));
        json!({
            "means": of(which, Statistic::Mean),
            "medians": of(which, Statistic::Median),
            "ratios": ratios.collect::<Value>(),
        })
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
        "written": both(Which::Written),
        "read": both(Which::Read),
        "runs": cells.collect::<Vec<_>>(),
    })
}

fn runs(runs: &[Measured]) -> Value {
    let run = |run: &Measured| {
        json!({
            "seconds": run.time.as_secs_f64(),
            "records": run.records,
            "bytes": run.bytes,
        })
    };
    runs.iter().map(run).collect()
}

/// Both tables of each format as a page, with a chart for each.
pub(super) fn page(tables: &[Table]) -> String {
    let mut body = format!(
        "<p>{}</p>\n<p>Its method is rebuilt as <em>Design and Reliability of a User Space \
         Write-Ahead Log in Rust</em> describes it; each figure of both is of this run.</p>\n",
        escaped(&verdict(tables)),
    );
    for (one, which) in each(tables) {
        let title = format!("{}, {}", one.format.name(), which.name());
        body.extend(["<h2>", &title, "</h2>\n", &chart(&which.rows(one, Statistic::Median))]);
        for statistic in [Statistic::Mean, Statistic::Median] {
            let head = ["s", "MB/s", "thousand records/s"];
            let head =
                head.iter().flat_map(|unit| SIZES.map(|(name, _)| format!("{name}, {unit}")));
            let first = [statistic.name().to_owned()].into_iter().chain(head).collect();
            let row = |row: &Row| [row.name.to_owned()].into_iter().chain(row.shown()).collect();
            let rows = which.rows(one, statistic);
            body += &table(&[first].into_iter().chain(rows.iter().map(row)).collect::<Vec<_>>());
        }
    }
    body
}

fn chart(rows: &[Row]) -> String {
    let names = Names { title: "", x: "records in a set", y: "records a second" };
    let color = |row: &Row| match row.key {
        "published" => "#8a94a0",
        "synced" => "#d9a05b",
        "ours_each" => "#5fa8d3",
        "ours" => "#0b6e4f",
        _ => "#b3541e",
    };
    let series = |row: &'_ Row| -> Series<'static> {
        let sizes = SIZES.map(|(_, size)| to_f64(super::to_u64(size)));
        let points = sizes.into_iter().zip(row.results.records).collect();
        Series { name: row.name, color: color(row), points }
    };
    let series: Vec<_> = rows.iter().map(series).collect();
    format!("<figure>{}</figure>\n", log_log(&names, &series))
}
