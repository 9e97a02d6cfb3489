//! `seawall bench replay` as a page.

use super::lanes::{self, LANES};
use super::workload::Keys;
use super::{ABOUT_THEIRS, PUBLISHED, published};
use crate::args::BenchReplay;
use seawall_measure::chart::{Names, Series, bars, log_log};
use seawall_measure::contest::{Contest, Row};
use seawall_measure::machine::Conditions;
use seawall_measure::page;

/// Of two workloads, as CSS writes them.
const COLORS: [&str; 2] = ["#0b6e4f", "#d9a05b"];
const GREY: &str = "#8a94a0";

/// All tables, bars for the ways, and lines for the threads.
pub(super) fn body(args: &BenchReplay, contests: &[Contest], conditions: &Conditions) -> String {
    let about = "A store brought back from a log: the table of HeliosDB Nano's report by its \
                 method, many operations, and the best that the store can do.";
    let mut body = page::head("Operations replayed a second", conditions, (about, &args.dir));
    let of = |name: &str| contests.iter().find(|contest| contest.name == name);
    if let Some((inserts, updates)) = of("inserts").zip(of("updates")) {
        body.extend(["<figure>", &of_many(inserts, updates), "</figure>\n"]);
    }
    let lanes = of("lanes-many-keys").zip(of("lanes-one-key"));
    if let Some((many, one)) = lanes {
        body.extend(["<figure>", &of_lanes(many, one), "</figure>\n"]);
        for keys in [Keys::Each, Keys::One] {
            body.extend(["<p>", &page::escaped(lanes::about(keys)), "</p>\n"]);
        }
    }
    for contest in contests {
        body.push_str(&page::contest(contest));
        if contest.name == "helios" {
            let head = vec![PUBLISHED.map(str::to_owned).into()];
            let rows = published(contest).into_iter().map(Into::into);
            body.push_str(&page::table(&head.into_iter().chain(rows).collect::<Vec<_>>()));
            body.extend(["<p>", &page::escaped(ABOUT_THEIRS), "</p>\n"]);
        }
    }
    body
}

/// Bars for each way, of both workloads.
fn of_many(inserts: &Contest, updates: &Contest) -> String {
    let names = Names { title: "Operations a second", x: "", y: "operations a second" };
    let series = [("a key each", COLORS[0]), ("few keys", COLORS[1])];
    let pairs = inserts.standings.rows.iter().zip(&updates.standings.rows);
    let group = |(one, other): (&Row, &Row)| {
        (one.name.to_string(), vec![one.per_second.median, other.per_second.median])
    };
    bars(&names, &series, &pairs.map(group).collect::<Vec<_>>())
}

fn of_lanes(many: &Contest, one: &Contest) -> String {
    let names = Names {
        title: "Speedup by threads, for a store that waits",
        x: "threads that apply",
        y: "times as fast as one",
    };
    let points = |contest: &Contest| {
        let rows = LANES.iter().zip(&contest.standings.rows);
        rows.map(|((lanes, _), row)| (f64::from(*lanes), row.ratio.median)).collect()
    };
    let most = LANES.iter().map(|(lanes, _)| (f64::from(*lanes), f64::from(*lanes))).collect();
    log_log(
        &names,
        &[
            Series { name: "as many times", color: GREY, points: most },
            Series { name: "a key each", color: COLORS[0], points: points(many) },
            Series { name: "one key", color: COLORS[1], points: points(one) },
        ],
    )
}
