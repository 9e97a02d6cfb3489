//! The page: a chart for each figure and database, and a table for each experiment.

use super::{Experiment, Measured};
use crate::args::Engine;
use clap::ValueEnum;
use clap::builder::PossibleValue;
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
    /// Names of the ways shown, and their colours.
    ways: &'static [(&'static str, &'static str)],
    /// The finding of the paper's figure.
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

/// The page with all figures.
pub(super) struct Page<'a> {
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

    /// The minimum, median and maximum of this value over all windows.
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

    /// The median of this value over all windows.
    fn middle(&self, name: &str) -> f64 {
        let [_, middle, _] = self.spread(name);
        middle
    }

    /// The label of the cell's row in a table.
    fn row(&self, experiment: Experiment) -> String {
        let clients = self.text("clients");
        match experiment {
            Experiment::Slow | Experiment::Fast => clients,
            Experiment::GroupCommit => {
                format!("{clients}, commit_delay {} us", self.text("commit_delay_us"))
            }
            Experiment::Buffers => self.text("buffers"),
        }
    }
}

impl<'a> Page<'a> {
    pub(super) fn of(results: &'a [Measured]) -> Self {
        Self { results }
    }

    /// Returns the page as Markdown.
    pub(super) fn text(&self) -> String {
        let mut text =
            "# RapiLog's figures\n\nNew orders a minute of TPC-C without think time and, in \
            brackets, the mean response time of an order in milliseconds; medians of all rounds, \
            with the lowest and highest rate. Clients are outside the database (go-tpc); those of \
            SQLite, which is a library, take turns in our own driver. Figures 1, 2, 9, 10, 12 and \
            13: a flush of the log's device takes 8.3 ms more.\n"
                .to_owned();
        for result in self.results.iter().filter(|it| it.experiment == Experiment::Slow) {
            let _ = writeln!(text, "\n{}", about(result));
        }
        for figure in &FIGURES {
            let plural = if figure.numbers.contains(' ') { "s" } else { "" };
            let _ = writeln!(text, "\n## Figure{plural} {}: {}\n", figure.numbers, figure.title);
            let _ = writeln!(text, "The paper: {}", figure.paper);
            for result in self.of_figure(figure).filter(|_| has_chart(figure)) {
                let (name, file) = (result.engine.name(), chart_name(figure, result.engine));
                let _ = writeln!(text, "\n![{name}: {}]({file})", figure.title);
            }
            if is_last_of_experiment(figure) {
                for result in self.of_figure(figure) {
                    let table = table(figure.experiment, &result.result);
                    let _ = writeln!(text, "\n{}:\n\n{table}", result.engine.name());
                }
            }
        }
        text + &self.processor()
    }

    /// Returns the file names and contents of the charts.
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

    /// Table 3: the processor time that the server uses.
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

/// Describes a database, its workload and the command that measures it.
fn about(measured: &Measured) -> String {
    let text = |name| measured.result.get(name).and_then(Value::as_str).unwrap_or_default();
    let number = |name| measured.result.get(name).and_then(Value::as_u64).unwrap_or_default();
    let (engine, workload) = (measured.engine, text("workload"));
    let warehouses = workload.rsplit(' ').next().unwrap_or_default();
    let (rounds, seconds) = (number("rounds"), number("seconds"));
    let database = engine.to_possible_value();
    let database = database.as_ref().map(PossibleValue::get_name).unwrap_or_default();
    let settings = match text("settings") {
        "" => String::new(),
        settings => format!(" Settings: {settings}."),
    };
    format!(
        "**{}** ({}); the disk is {}: `seawall-rig figures --databases {database} --warehouses \
         {warehouses} --rounds {rounds} --seconds {seconds} --out DIR`.{settings}",
        engine.name(),
        text("database"),
        text("transport"),
    )
}

fn cells(result: &Value) -> impl Iterator<Item = Cell<'_>> {
    result.get("cells").and_then(Value::as_array).into_iter().flatten().map(Cell)
}

/// Numbers of clients, each with the server's share of a processor while armed.
fn shares(result: &Value) -> Vec<(String, String)> {
    let armed = cells(result).filter(|cell| cell.text("way") == ARMED.0);
    let share = |cell: Cell<'_>| {
        let share = cell.middle("server_share_of_a_processor");
        (cell.text("clients"), format!("{:.0} %", share * 100.0))
    };
    armed.map(share).collect()
}

/// Whether no later figure is of the same experiment, so that the experiment's table follows here.
fn is_last_of_experiment(figure: &Figure) -> bool {
    let mut same = FIGURES.iter().filter(|other| other.experiment == figure.experiment);
    same.next_back().is_some_and(|last| last.numbers == figure.numbers)
}

fn table(experiment: Experiment, result: &Value) -> String {
    let (mut rows, mut ways): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for cell in cells(result) {
        for (all, one) in [(&mut rows, cell.row(experiment)), (&mut ways, cell.text("way"))] {
            if !one.is_empty() && !all.contains(&one) {
                all.push(one);
            }
        }
    }
    let mut text =
        format!("| clients | {} |\n|---|{}", ways.join(" | "), "---|".repeat(ways.len()));
    if experiment == Experiment::Buffers {
        text = text.replacen("clients", "8 clients, buffers", 1);
    }
    for row in rows {
        let shown = |way: &String| {
            let mut found = cells(result).filter(|cell| cell.text("way") == *way);
            let found = found.find(|cell| cell.row(experiment) == row);
            found.map_or_else(String::new, |cell| {
                let [low, rate, high] = cell.spread("rate").map(rounded);
                let latency = cell.middle("latency_ms");
                format!("{rate} ({latency:.1}), {low}-{high}")
            })
        };
        let shown: Vec<String> = ways.iter().map(shown).collect();
        let _ = write!(text, "\n| {row} | {} |", shown.join(" | "));
    }
    text
}

/// Whether the rows of the figure's experiment are numbers of clients.
fn has_chart(figure: &Figure) -> bool {
    matches!(figure.experiment, Experiment::Slow | Experiment::Fast)
}

fn chart_name(figure: &Figure, engine: Engine) -> String {
    let number = figure.numbers.replace(" and ", "-");
    format!("figure-{number}-{}.svg", engine.name().to_lowercase())
}

/// Draws a group of bars for each number of clients.
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
