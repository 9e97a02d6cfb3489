//! The results of a bench: lines, JSON, a chart, a page.

use crate::args::Bench;
use crate::bench::{Cell, Way};
use crate::database;
use crate::need::Ground;
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
const SERIES: [(Way, &str); 4] = [
    (Way::Native, "#7f8c8d"),
    (Way::NativeAsync, "#bdc3c7"),
    (Way::PassThrough(0.0), "#2980b9"),
    (Way::Armed(0.0), "#c0392b"),
];

/// What there is to say.
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
        // Clients and database are others, too: how busy the machine is besides is not known.
        let conditions = Conditions::of(windows.map(|window| window.others));
        let folder = ground.dir.parent().map_or_else(|| ground.dir.clone(), PathBuf::from);
        Self { args, folder, version, settings, cells, conditions }
    }

    fn cell(&self, way: Way, clients: u32) -> Option<&Cell> {
        self.cells.iter().find(|cell| cell.way == way && cell.clients == clients)
    }

    /// The median of what one cell has by what another has, round by round.
    fn ratio(&self, (way, beside): (Way, Way), clients: u32) -> Option<f64> {
        let (one, other) = (self.cell(way, clients)?, self.cell(beside, clients)?);
        let pairs = one.windows.iter().zip(&other.windows);
        let mut ratios: Vec<f64> =
            pairs.map(|(one, other)| one.measured.rate / other.measured.rate.max(1e-9)).collect();
        (!ratios.is_empty()).then(|| median(&mut ratios))
    }

    fn ways(&self) -> impl Iterator<Item = (f64, u32)> {
        let clients = self.args.clients.iter();
        clients.flat_map(|count| self.args.delays.iter().map(|delay| (*delay, *count)))
    }

    /// A table of the medians, with a head.
    fn table(&self) -> Vec<Vec<String>> {
        let head = ["", "native", "async", "pass-through", "armed"].into_iter().chain([
            "armed by pass-through",
            "armed by native",
            "armed by async",
            "server's processor",
        ]);
        let row = |(delay, clients): (f64, u32)| {
            let (pass, armed) = (Way::PassThrough(delay), Way::Armed(delay));
            let native = Way::native(delay);
            let ways = [native, Way::NativeAsync, pass, armed];
            let shown = |way| self.cell(way, clients).map(|cell| rounded(rate(cell)));
            let beside = [pass, native, Way::NativeAsync];
            let ratio = |other| self.ratio((armed, other), clients).map(times);
            let server = self.cell(armed, clients).and_then(server_share);
            let server = server.map(|share| format!("{:.0} %", share * 100.0));
            let ratios = beside.into_iter().map(ratio);
            let cells = ways.into_iter().map(shown).chain(ratios).chain([server]);
            let name = format!("{clients} clients, +{delay} ms");
            [name].into_iter().chain(cells.map(Option::unwrap_or_default)).collect()
        };
        [head.map(str::to_owned).collect()].into_iter().chain(self.ways().map(row)).collect()
    }

    /// For a terminal.
    pub(crate) fn lines(&self) -> Vec<String> {
        let row = |cells: Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>23}")).collect();
            cells.concat()
        };
        self.table().into_iter().map(row).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let cell = |cell: &Cell| {
            let each = |window: &crate::bench::Window| {
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
                "delay_ms": cell.way.delay(),
                "clients": cell.clients,
                "rate_median": rate(cell),
                "server_share_of_a_processor_median": server_share(cell),
                "windows": cell.windows.iter().map(each).collect::<Vec<_>>(),
            })
        };
        let ratios = self.ways().map(|(delay, clients)| {
            let armed = Way::Armed(delay);
            let pass = Way::PassThrough(delay);
            let by = |other| self.ratio((armed, other), clients);
            let native = Way::native(delay);
            json!({
                "delay_ms": delay,
                "clients": clients,
                "armed_by_pass_through": by(pass),
                "armed_by_native": by(native),
                "armed_by_async": by(Way::NativeAsync),
                "pass_through_by_native": self.ratio((pass, native), clients),
            })
        });
        json!({
            "schema": "seawall.rig.bench/2",
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
        let at = |way: Way, delay: f64| match way {
            Way::Native | Way::Bare(_) => Way::native(delay),
            Way::PassThrough(_) => Way::PassThrough(delay),
            Way::Armed(_) => Way::Armed(delay),
            Way::NativeAsync => Way::NativeAsync,
        };
        let group = |(delay, clients): (f64, u32)| {
            let shown = |(way, _): &(Way, &str)| {
                self.cell(at(*way, delay), clients).map(rate).unwrap_or_default()
            };
            (format!("{clients}, +{delay}"), SERIES.iter().map(shown).collect())
        };
        let groups: Vec<(String, Vec<f64>)> = self.ways().map(group).collect();
        let series = SERIES.map(|(way, color)| (way.name(), color));
        let names = Names {
            title: &format!(
                "{}, by clients and by what a flush of the log's device takes more",
                self.args.workload().about()
            ),
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

/// The median.
fn rate(cell: &Cell) -> f64 {
    median(&mut cell.windows.iter().map(|window| window.measured.rate).collect::<Vec<_>>())
}

/// The median of what the disk's server used of one processor.
fn server_share(cell: &Cell) -> Option<f64> {
    let shares: Option<Vec<f64>> = cell.windows.iter().map(|window| window.server_share).collect();
    shares.map(|mut shares| median(&mut shares))
}
