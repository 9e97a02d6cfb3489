//! The page of `bench append`: its table, and what pictures say better.

use crate::args::BenchAppend;
use crate::human::{rounded, times, to_f64};
use seawall_measure::chart::{Names, Series, log_log};
use seawall_measure::machine::Conditions;
use seawall_measure::page;
use seawall_measure::pairs::Row;

const OURS: &str = "#0b6e4f";
const OURS_LIGHT: &str = "#8fc1ae";
const OURS_PALE: &str = "#c9b458";
const PLAIN: &str = "#b3541e";

/// What stands between the page's title and its end.
pub(super) fn body(args: &BenchAppend, rows: &[Row], conditions: &Conditions) -> String {
    let about = format!("{}. {}.", super::about(args), super::PLAIN);
    let title = "Durable commits beside plain syncs";
    let mut body = page::head(title, conditions, (&about, &args.dir));
    // One point is no line.
    if rows.len() > 1 {
        for chart in [ratios(rows), delays(rows)] {
            body.extend(["<figure>", &chart, "</figure>\n"]);
        }
    }
    let head = ["writers", "commits/s", "plain/s", "ratio", "lowest-highest", "p50 us", "p99 us"];
    let row = |row: &Row| {
        vec![
            row.writers.to_string(),
            rounded(row.commits_per_s),
            rounded(row.raw_per_s),
            times(row.ratio),
            format!("{:.2}-{:.2}", row.ratio_min, row.ratio_max),
            rounded(row.p50_us),
            rounded(row.p99_us),
        ]
    };
    let head = vec![head.map(str::to_owned).into()];
    let table: Vec<_> = head.into_iter().chain(rows.iter().map(row)).collect();
    body += &page::table(&table);
    let names: Vec<_> = rows.iter().map(|row| super::writers(row.writers)).collect();
    let changes = names.iter().zip(rows);
    body + &page::changes(changes.filter_map(|(name, row)| Some((&**name, row.change.as_ref()?))))
}

/// Commits a second over the number of writers.
pub(in crate::cmd) fn rates(rows: &[Row]) -> String {
    let names = names("Durable commits a second", "commits a second");
    let ours = line("seawall", OURS, rows, |row| row.commits_per_s);
    let plain = line("a sync each record", PLAIN, rows, |row| row.raw_per_s);
    log_log(&names, &[ours, plain])
}

fn ratios(rows: &[Row]) -> String {
    let names = names("Commits for each plain sync of the same slices", "times");
    let series = [
        line("highest", OURS_LIGHT, rows, |row| row.ratio_max),
        line("median", OURS, rows, |row| row.ratio),
        line("lowest", OURS_PALE, rows, |row| row.ratio_min),
    ];
    log_log(&names, &series)
}

fn delays(rows: &[Row]) -> String {
    let names = names("How long a commit takes", "microseconds");
    let series = [
        line("p99", OURS_LIGHT, rows, |row| row.p99_us),
        line("p50", OURS, rows, |row| row.p50_us),
        line("plain, p50", PLAIN, rows, |row| row.raw_p50_us),
    ];
    log_log(&names, &series)
}

fn names<'a>(title: &'a str, y: &'a str) -> Names<'a> {
    Names { title, x: "writers that commit at the same time", y }
}

fn line<'a>(name: &'a str, color: &'a str, rows: &[Row], value: fn(&Row) -> f64) -> Series<'a> {
    let point = |row: &Row| (to_f64(u64::try_from(row.writers).unwrap_or(u64::MAX)), value(row));
    Series { name, color, points: rows.iter().map(point).collect() }
}
