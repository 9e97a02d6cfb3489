//! The page: a table and a chart for each figure and database.

use super::{Experiment, Measured};
use crate::args::{Engine, Figures};
use seawall_bench::chart::{Names, bars};
use seawall_measure::human::rounded;
use seawall_measure::slice::median;
use serde_json::Value;
use std::fmt::Write;

/// A figure of the paper.
struct Figure {
    numbers: &'static str,
    title: &'static str,
    experiment: Experiment,
    /// Names of ways, and their colours.
    ways: &'static [(&'static str, &'static str)],
    /// What the paper's figure shows.
    paper: &'static str,
}

const NATIVE: (&str, &str) = ("native", "#7f8c8d");
const ASYNC: (&str, &str) = ("native, asynchronous", "#bdc3c7");
const CACHED: (&str, &str) = ("native, write cache on", "#8e6b3f");
const CACHED_ASYNC: (&str, &str) = ("native, write cache on, asynchronous", "#d7bf9b");
const PASS_THROUGH: (&str, &str) = ("disk, pass-through", "#2980b9");
const ARMED: (&str, &str) = ("disk, armed", "#c0392b");

const FIGURES: [Figure; 6] = [
    Figure {
        numbers: "1 and 2",
        title: "what synchronous commits cost",
        experiment: Experiment::Slow,
        ways: &[NATIVE, ASYNC, CACHED, CACHED_ASYNC],
        paper: "Asynchronous commits and the drive's write cache each remove most of the cost, and \
                both together little more.",
    },
    Figure {
        numbers: "9",
        title: "native, pass-through and armed",
        experiment: Experiment::Slow,
        ways: &[NATIVE, PASS_THROUGH, ARMED],
        paper: "RapiLog has up to 1.69 (PostgreSQL), 2.10 (MySQL) and 1.63 times (DBMS X) the \
                native rate, and is never below the virtualised one.",
    },
    Figure {
        numbers: "10",
        title: "beside the unsafe options",
        experiment: Experiment::Slow,
        ways: &[ASYNC, CACHED, CACHED_ASYNC, ARMED],
        paper: "RapiLog equals each of the unsafe options, within the error of sampling.",
    },
    Figure {
        numbers: "11",
        title: "on a fast device",
        experiment: Experiment::Fast,
        ways: &[NATIVE, ASYNC, PASS_THROUGH, ARMED],
        paper: "On an SSD RapiLog gains nothing and costs nothing.",
    },
    Figure {
        numbers: "12",
        title: "group commit",
        experiment: Experiment::GroupCommit,
        ways: &[NATIVE, ARMED],
        paper: "Group commit has no effect, with RapiLog or without.",
    },
    Figure {
        numbers: "13",
        title: "number and size of the buffers",
        experiment: Experiment::Buffers,
        ways: &[ARMED],
        paper: "The number has almost no effect; PostgreSQL loses a little below 512 KiB.",
    },
];

/// All figures.
pub(super) struct Page<'a> {
    args: &'a Figures,
    results: &'a [Measured],
}

/// A cell of a result.
struct Cell<'a>(&'a Value);

impl Cell<'_> {
    fn text(&self, name: &str) -> String {
        match self.0.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            _ => String::new(),
        }
    }

    /// The smallest, the middle and the largest of what its windows have by this name.
    fn spread(&self, name: &str) -> [f64; 3] {
        let windows = self.0.get("windows").and_then(Value::as_array);
        let values = windows.into_iter().flatten().filter_map(|window| window.get(name)?.as_f64());
        let mut values: Vec<f64> = values.collect();
        if values.is_empty() {
            return [0.0; 3];
        }
        let middle = median(&mut values);
        let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
        [fold(f64::min).unwrap_or(middle), middle, fold(f64::max).unwrap_or(middle)]
    }

    /// The middle of what its windows have by this name.
    fn middle(&self, name: &str) -> f64 {
        let [_, middle, _] = self.spread(name);
        middle
    }

    /// What differs between the rows of a table.
    fn row(&self, figure: &Figure) -> String {
        let clients = self.text("clients");
        match figure.experiment {
            Experiment::Slow | Experiment::Fast => clients,
            Experiment::GroupCommit => {
                format!("{clients}, commit_delay {} us", self.text("commit_delay_us"))
            }
            Experiment::Buffers => self.text("buffers"),
        }
    }
}

impl<'a> Page<'a> {
    pub(super) fn of(args: &'a Figures, results: &'a [Measured]) -> Self {
        Self { args, results }
    }

    /// As Markdown.
    pub(super) fn text(&self) -> String {
        let Figures { warehouses, rounds, seconds, .. } = self.args;
        let mut text = format!(
            "# RapiLog's figures\n\nNew orders a minute of TPC-C (go-tpc, {warehouses} \
             warehouses, no think time, clients outside the database) and, in brackets, the mean \
             response time of an order in milliseconds; medians of {rounds} rounds of {seconds} s, \
             with the lowest and highest rate. Figures 1, 2, 9, 10, 12 and 13: a flush of the \
             log's device takes 8.3 ms more. `seawall-rig figures --out DIR --warehouses \
             {warehouses} --rounds {rounds} --seconds {seconds}` measures all of it.\n"
        );
        for result in self.results.iter().filter(|it| it.experiment == Experiment::Slow) {
            let about = |name| result.result.get(name).and_then(Value::as_str).unwrap_or_default();
            let _ = writeln!(text, "\n{}; {}.", about("database"), about("settings"));
        }
        for figure in &FIGURES {
            let _ = writeln!(text, "\n## Figure {}: {}\n", figure.numbers, figure.title);
            let _ = writeln!(text, "The paper: {}", figure.paper);
            for result in self.of_figure(figure) {
                let name = result.engine.name();
                let _ = writeln!(text, "\n{name}:\n\n{}", table(figure, &result.result));
                if has_chart(figure) {
                    let file = chart_name(figure, result.engine);
                    let _ = writeln!(text, "\n![{name}: {}]({file})", figure.title);
                }
            }
        }
        text + &self.processor()
    }

    /// The charts, and the names of their files.
    pub(super) fn charts(&self) -> Vec<(String, String)> {
        let with_charts = FIGURES.iter().filter(|figure| has_chart(figure));
        let of = |figure: &'static Figure| {
            let chart =
                move |result: &Measured| (chart_name(figure, result.engine), chart(figure, result));
            self.of_figure(figure).map(chart)
        };
        with_charts.flat_map(of).collect()
    }

    fn of_figure(&self, figure: &'static Figure) -> impl Iterator<Item = &'a Measured> {
        self.results.iter().filter(|result| result.experiment == figure.experiment)
    }

    /// Table 3: what the disk costs.
    fn processor(&self) -> String {
        let mut text = "\n## Table 3: the server's share of a processor\n\nThe paper: 1 % of the \
            processors' time is spent outside the guest.\n\n| clients, armed |"
            .to_owned();
        let fitting = || self.results.iter().filter(|it| it.experiment == Experiment::Slow);
        let shares: Vec<Vec<(String, String)>> = fitting().map(|it| shares(&it.result)).collect();
        for result in fitting() {
            let _ = write!(text, " {} |", result.engine.name());
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(shares.len()));
        for (n, (clients, _)) in shares.first().into_iter().flatten().enumerate() {
            let row = shares.iter().map(|all| all.get(n).map_or("", |(_, share)| share));
            let _ = writeln!(text, "| {clients} | {} |", row.collect::<Vec<_>>().join(" | "));
        }
        text
    }
}

fn cells(result: &Value) -> impl Iterator<Item = Cell<'_>> {
    result.get("cells").and_then(Value::as_array).into_iter().flatten().map(Cell)
}

/// Clients, and the server's share while armed.
fn shares(result: &Value) -> Vec<(String, String)> {
    let armed = cells(result).filter(|cell| cell.text("way") == ARMED.0);
    let share = |cell: Cell<'_>| {
        let share = cell.middle("server_share_of_a_processor");
        (cell.text("clients"), format!("{:.0} %", share * 100.0))
    };
    armed.map(share).collect()
}

fn table(figure: &Figure, result: &Value) -> String {
    let mut rows: Vec<String> = Vec::new();
    for cell in cells(result) {
        let row = cell.row(figure);
        if !row.is_empty() && !rows.contains(&row) {
            rows.push(row);
        }
    }
    let names: Vec<&str> = figure.ways.iter().map(|(name, _)| *name).collect();
    let mut text =
        format!("| clients | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    if figure.experiment == Experiment::Buffers {
        text = text.replacen("clients", "8 clients, buffers", 1);
    }
    for row in rows {
        let shown = |name: &&str| {
            let found =
                cells(result).find(|cell| cell.text("way") == **name && cell.row(figure) == row);
            found.map_or_else(String::new, |cell| {
                let [low, rate, high] = cell.spread("rate").map(rounded);
                let latency = cell.middle("latency_ms");
                format!("{rate} ({latency:.1}), {low}-{high}")
            })
        };
        let shown: Vec<String> = names.iter().map(shown).collect();
        let _ = write!(text, "\n| {row} | {} |", shown.join(" | "));
    }
    text
}

/// Whether its rows are numbers of clients.
fn has_chart(figure: &Figure) -> bool {
    matches!(figure.experiment, Experiment::Slow | Experiment::Fast)
}

fn chart_name(figure: &Figure, engine: Engine) -> String {
    let number = figure.numbers.replace(" and ", "-");
    format!("figure-{number}-{}.svg", engine.name().to_lowercase())
}

/// Bars for each number of clients.
fn chart(figure: &Figure, measured: &Measured) -> String {
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for cell in cells(&measured.result) {
        let clients = cell.text("clients");
        if !groups.iter().any(|(name, _)| *name == clients) {
            let rate = |(way, _): &(&str, &str)| {
                let is_it = |it: &Cell<'_>| it.text("way") == *way && it.text("clients") == clients;
                cells(&measured.result).find(is_it).map_or(0.0, |it| it.middle("rate"))
            };
            groups.push((clients.clone(), figure.ways.iter().map(rate).collect()));
        }
    }
    let names = Names {
        title: &format!("{}: {}", measured.engine.name(), figure.title),
        x: "clients",
        y: "new orders a minute",
    };
    bars(&names, figure.ways, &groups)
}
