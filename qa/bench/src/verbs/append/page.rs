//! The page of `bench append`: its table and charts.

use super::Paired;
use crate::chart::{Names, Series, log_log};
use crate::page;
use seawall_measure::human::{rounded, times, to_f64, to_u64};
use seawall_measure::pairs::Row;

const OURS: &str = "#0b6e4f";
const OURS_LIGHT: &str = "#8fc1ae";
const OURS_PALE: &str = "#c9b458";
const PLAIN: &str = "#b3541e";

/// Builds the charts and tables of the page.
pub(super) fn body(paired: &[Paired]) -> String {
    let rows: Vec<&Row> = paired.iter().map(|(row, _)| row).collect();
    let mut body = String::new();
    // A chart needs at least two points.
    if rows.len() > 1 {
        for chart in [ratios(&rows), delays(&rows)] {
            body.extend(["<figure>", &chart, "</figure>\n"]);
        }
    }
    let head = ["writers", "commits/s", "plain/s", "ratio", "lowest-highest", "p50 us", "p99 us"];
    let cells = |row: &&Row| {
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
    let table: Vec<_> = head.into_iter().chain(rows.iter().map(cells)).collect();
    body += &page::table(&table);
    let names: Vec<_> = rows.iter().map(|row| super::writers(row)).collect();
    let changes = names.iter().zip(paired);
    body + &page::changes(
        changes.filter_map(|(name, (_, change))| Some((&**name, change.as_ref()?))),
    )
}

fn ratios(rows: &[&Row]) -> String {
    let names = names("Commits for each plain sync of the same slices", "times");
    let series = [
        line("highest", OURS_LIGHT, rows, |row| row.ratio_max),
        line("median", OURS, rows, |row| row.ratio),
        line("lowest", OURS_PALE, rows, |row| row.ratio_min),
    ];
    log_log(&names, &series)
}

fn delays(rows: &[&Row]) -> String {
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

fn line<'a>(name: &'a str, color: &'a str, rows: &[&Row], value: fn(&Row) -> f64) -> Series<'a> {
    let point = |row: &&Row| (to_f64(to_u64(row.writers)), value(row));
    Series { name, color, points: rows.iter().map(point).collect() }
}
