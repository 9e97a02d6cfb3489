//! The results of a bench as lines, JSON, a chart and a page.

use crate::args::{Bench, Buffers, Kinds};
use crate::database;
use crate::need::Ground;
use crate::verbs::bench::{Cell, Way};
use seawall_bench::chart::{Names, bars};
use seawall_bench::page;
use seawall_measure::human::{rounded, times};
use seawall_measure::machine::Conditions;
use seawall_measure::slice::median;
use serde_json::{Value, json};
use std::path::PathBuf;

const ABOUT: &str = "An unchanged database as Debian has it, with its log on the file system of \
    the machine or, for a slow device, on it by nbdfuse and ext4 (native), and on a Seawall disk. \
    Asynchronous, and the data directory in every cell: on the file system of the machine. Each \
    round measured every cell once, in an order that rotated. Every PostgreSQL made a checkpoint \
    before each round.";

const TITLE: &str = "A database with its log on a Seawall disk";
const SERIES: [(Kinds, &str); 6] = [
    (Kinds::Native, "#7f8c8d"),
    (Kinds::Async, "#bdc3c7"),
    (Kinds::Cached, "#8e6b3f"),
    (Kinds::CachedAsync, "#d7bf9b"),
    (Kinds::PassThrough, "#2980b9"),
    (Kinds::Armed, "#c0392b"),
];

/// The settings that compared cells have in common.
#[derive(Clone, Copy, Debug)]
struct Row {
    delay: f64,
    buffers: Buffers,
    commit_delay: u32,
    clients: u32,
}

impl Row {
    fn name(self, args: &Bench) -> String {
        let buffers = (args.buffers.len() > 1).then(|| format!(", {}", self.buffers));
        let delay = || format!(", commit_delay {}", self.commit_delay);
        let delay = (args.commit_delays.len() > 1).then(delay);
        let more = buffers.into_iter().chain(delay).collect::<String>();
        format!("{} clients, +{} ms{more}", self.clients, self.delay)
    }
}

/// Everything that the report shows.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    args: &'a Bench,
    folder: PathBuf,
    version: String,
    settings: String,
    cells: &'a [Cell],
    conditions: Conditions,
}

impl<'a> Report<'a> {
    pub(crate) fn of(args: &'a Bench, ground: &Ground, cells: &'a [Cell]) -> Self {
        let [version, settings] = database::about(args.database, ground);
        let windows = cells.iter().flat_map(|cell| &cell.windows);
        // Others include clients and database, so it is unknown how busy the machine is otherwise.
        let conditions = Conditions::of(windows.map(|window| window.others));
        let folder = ground.dir.parent().map_or_else(|| ground.dir.clone(), PathBuf::from);
        Self { args, folder, version, settings, cells, conditions }
    }

    fn cell(&self, kind: Kinds, row: Row) -> Option<&Cell> {
        let way = Way::of(kind, row.delay, row.buffers);
        self.cells.iter().find(|cell| {
            cell.way == way && cell.clients == row.clients && cell.commit_delay == row.commit_delay
        })
    }

    /// The median, over all rounds, of the rate of one cell divided by that of another.
    fn ratio(&self, (kind, beside): (Kinds, Kinds), row: Row) -> Option<f64> {
        let (one, other) = (self.cell(kind, row)?, self.cell(beside, row)?);
        let pairs = one.windows.iter().zip(&other.windows);
        let mut ratios: Vec<f64> =
            pairs.map(|(one, other)| one.measured.rate / other.measured.rate.max(1e-9)).collect();
        (!ratios.is_empty()).then(|| median(&mut ratios))
    }

    fn rows(&self) -> Vec<Row> {
        let Bench { clients, delays, buffers, commit_delays, .. } = self.args;
        let mut rows = Vec::new();
        for &clients in clients {
            for &delay in delays {
                for &buffers in buffers {
                    rows.extend(commit_delays.iter().map(|&commit_delay| Row {
                        delay,
                        buffers,
                        commit_delay,
                        clients,
                    }));
                }
            }
        }
        rows
    }

    /// The kinds that were measured, with their colours.
    fn series(&self) -> Vec<(Kinds, &'static str)> {
        SERIES.into_iter().filter(|(kind, _)| self.args.ways.contains(kind)).collect()
    }

    /// A table of the medians, with a header row.
    fn table(&self) -> Vec<Vec<String>> {
        let series = self.series();
        let name = |kind| Way::of(kind, 0.0, Buffers::USUAL).name().to_owned();
        let beside: Vec<Kinds> =
            series.iter().map(|(kind, _)| *kind).filter(|kind| *kind != Kinds::Armed).collect();
        let mut head = vec![String::new()];
        head.extend(series.iter().map(|(kind, _)| name(*kind)));
        head.extend(beside.iter().map(|kind| format!("armed by {}", name(*kind))));
        head.push("server's processor".to_owned());
        let row = |row: Row| {
            let shown = |kind| self.cell(kind, row).map(|cell| rounded(rate(cell)));
            let ratio = |kind: &Kinds| self.ratio((Kinds::Armed, *kind), row).map(times);
            let server = self.cell(Kinds::Armed, row).and_then(server_share);
            let server = server.map(|share| format!("{:.0} %", share * 100.0));
            let cells = series.iter().map(|(kind, _)| shown(*kind));
            let cells = cells.chain(beside.iter().map(ratio)).chain([server]);
            [row.name(self.args)].into_iter().chain(cells.map(Option::unwrap_or_default)).collect()
        };
        [head].into_iter().chain(self.rows().into_iter().map(row)).collect()
    }

    /// Returns the lines for a terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let row = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>23}")).collect();
            cells.concat()
        };
        self.table().into_iter().map(row).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let cell = |cell: &Cell| {
            let each = |window: &crate::verbs::bench::Window| {
                json!({
                    "rate": window.measured.rate,
                    "latency_ms": window.measured.latency_ms,
                    "server_share_of_a_processor": window.server_share,
                    "flushes_at_once": window.flushes.map(|[early, _]| early),
                    "flushes_waited": window.flushes.map(|[_, waited]| waited),
                })
            };
            json!({
                "way": cell.way.name(),
                "delay_ms": cell.way.delay,
                "buffers": cell.way.buffers().map(|buffers| buffers.to_string()),
                "commit_delay_us": cell.commit_delay,
                "clients": cell.clients,
                "rate_median": rate(cell),
                "server_share_of_a_processor_median": server_share(cell),
                "windows": cell.windows.iter().map(each).collect::<Vec<_>>(),
            })
        };
        let ratios = self.rows().into_iter().map(|row| {
            let by = |other| self.ratio((Kinds::Armed, other), row);
            json!({
                "delay_ms": row.delay,
                "buffers": row.buffers.to_string(),
                "commit_delay_us": row.commit_delay,
                "clients": row.clients,
                "armed_by_pass_through": by(Kinds::PassThrough),
                "armed_by_native": by(Kinds::Native),
                "armed_by_async": by(Kinds::Async),
                "pass_through_by_native": self.ratio((Kinds::PassThrough, Kinds::Native), row),
            })
        });
        json!({
            "schema": "seawall.rig.bench/3",
            "about": ABOUT,
            "database": self.version,
            "settings": self.settings,
            "workload": self.args.workload().about(),
            "unit": self.args.workload().unit(),
            "transport": self.args.transport.about(),
            "rounds": self.args.rounds,
            "seconds": self.args.seconds,
            "hold_up_ms": self.args.hold_up,
            "processors_used_share_by_all": self.conditions.others().share(),
            "ratios": ratios.collect::<Vec<_>>(),
            "cells": self.cells.iter().map(cell).collect::<Vec<_>>(),
        })
    }

    pub(crate) fn svg(&self) -> String {
        let series = self.series();
        let group = |row: Row| {
            let shown =
                |(kind, _): &(Kinds, &str)| self.cell(*kind, row).map(rate).unwrap_or_default();
            (row.name(self.args), series.iter().map(shown).collect())
        };
        let groups: Vec<(String, Vec<f64>)> = self.rows().into_iter().map(group).collect();
        let series: Vec<(&str, &str)> = series
            .iter()
            .map(|(kind, color)| (Way::of(*kind, 0.0, Buffers::USUAL).name(), *color))
            .collect();
        let names = Names {
            title: &self.args.workload().about(),
            x: "clients, and milliseconds that a flush takes more",
            y: &format!("{}, median", self.args.workload().unit()),
        };
        bars(&names, &series, &groups)
    }

    pub(crate) fn html(&self) -> String {
        let Bench { rounds, seconds, hold_up, .. } = self.args;
        let note = format!(
            "The disk is {}. {}; {}, {rounds} rounds of {seconds} s for each cell, a hold-up of \
             {hold_up} ms. Medians of rates ({}); medians of the ratios within a round. Beside the \
             defaults: {}. Armed, a crash of the kernel loses what was acknowledged early; \
             asynchronous, a crash of the database does, too.",
            self.args.transport.about(),
            self.version,
            self.args.workload().about(),
            self.args.workload().unit(),
            self.settings
        );
        let about = format!(
            "<h1>{}</h1>\n<p>{} Measured in <code>{}</code></p>\n",
            page::escaped(TITLE),
            page::escaped(ABOUT),
            page::escaped(&self.folder.display().to_string())
        );
        let body = format!(
            "{about}{}<p class=note>{}</p>\n{}",
            page::table(&self.table()),
            page::escaped(&note),
            self.svg()
        );
        page::page(TITLE, &body)
    }
}

/// The median rate.
fn rate(cell: &Cell) -> f64 {
    median(&mut cell.windows.iter().map(|window| window.measured.rate).collect::<Vec<_>>())
}

/// The median share of one processor that the disk's server used.
fn server_share(cell: &Cell) -> Option<f64> {
    let shares: Option<Vec<f64>> = cell.windows.iter().map(|window| window.server_share).collect();
    shares.map(|mut shares| median(&mut shares))
}
