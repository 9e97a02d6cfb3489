//! The page of `seawall-bench replay`.

use super::partitions::{self, THREADS};
use super::ways::{CEILING, CEILING_OF_TWO, READING};
use super::workload::Keys;
use super::{ABOUT_THEIRS, PUBLISHED, published};
use crate::chart::{Names, Series, bars, log_log};
use crate::compared::Compared;
use crate::page;
use seawall_measure::contest::{Contest, Row};

/// The colours of two workloads, in CSS notation.
const COLORS: [&str; 2] = ["#0b6e4f", "#d9a05b"];
const GREY: &str = "#8a94a0";

/// Builds the page: bars for the ways, lines for the threads, and all tables.
pub(super) fn body(held: &[Compared]) -> String {
    let mut body = String::new();
    let contests = || held.iter().map(|compared| &compared.contest);
    let of = |name: &str| contests().find(|contest| contest.name == name);
    for (name, keys) in [("inserts", Keys::Each), ("updates", Keys::Few)] {
        if let Some(contest) = of(name) {
            body.extend(["<figure>", &of_many(contest, keys), "</figure>\n"]);
        }
    }
    let partitions = of("partitions-many-keys").zip(of("partitions-one-key"));
    if let Some((many, one)) = partitions {
        body.extend(["<figure>", &of_partitions(many, one), "</figure>\n"]);
        for keys in [Keys::Each, Keys::One] {
            body.extend(["<p>", &page::escaped(partitions::about(keys)), "</p>\n"]);
        }
    }
    for compared in held {
        let contest = &compared.contest;
        body.push_str(&page::contest(compared));
        if contest.name == "helios" {
            let first = vec![PUBLISHED.map(str::to_owned).into()];
            let rows = published(contest).into_iter().map(Into::into);
            body.push_str(&page::table(&first.into_iter().chain(rows).collect::<Vec<_>>()));
            body.extend(["<p>", &page::escaped(ABOUT_THEIRS), "</p>\n"]);
        }
    }
    body
}

/// Draws a bar for each way to rebuild a store.
fn of_many(contest: &Contest, keys: Keys) -> String {
    let (title, color) = match keys {
        Keys::Each => ("Operations a second, a key each", COLORS[0]),
        _ => ("Operations a second, 1,000 keys", COLORS[1]),
    };
    let names = Names { title, x: "", y: "operations a second" };
    // With few keys, the ceiling has little to write, and its bars would dwarf the others.
    let is_ceiling = |row: &&Row| row.name == CEILING || row.name == CEILING_OF_TWO;
    let is_shown = |row: &&Row| row.name != READING && (keys == Keys::Each || !is_ceiling(row));
    let rows = contest.standings.rows.iter().filter(is_shown);
    let group = |row: &Row| (row.name.to_string(), vec![row.per_second.median]);
    bars(&names, &[("median", color)], &rows.map(group).collect::<Vec<_>>())
}

fn of_partitions(many: &Contest, one: &Contest) -> String {
    let names = Names {
        title: "Speedup by threads, for a store that waits",
        x: "threads that apply",
        y: "times as fast as one",
    };
    let points = |contest: &Contest| {
        let rows = THREADS.iter().zip(&contest.standings.rows);
        rows.map(|((threads, _), row)| (f64::from(*threads), row.ratio.median)).collect()
    };
    let most =
        THREADS.iter().map(|(threads, _)| (f64::from(*threads), f64::from(*threads))).collect();
    log_log(
        &names,
        &[
            Series { name: "as many times", color: GREY, points: most },
            Series { name: "a key each", color: COLORS[0], points: points(many) },
            Series { name: "one key", color: COLORS[1], points: points(one) },
        ],
    )
}
