//! Checks the on-disk rules of a write-ahead log by exhaustive and randomized crashes and faults.
//!
//! The checker tries every crash point of a set of small workloads, with every subset of the sector
//! writes, file lengths and directory changes in flight, as a kill and as a power cut. Then it
//! crashes a second time, inside recovery or in the appends that follow. Then it applies one fault:
//! every contiguous run of 1 to 10 sectors, five kinds, in any file; a file lost, swapped,
//! duplicated, cut short or rolled back. At every step a concurrent reader inspects the log, too.
//!
//! `disk.rs` is the device, `format.rs` and `text.rs` are the bytes; `writer.rs`, `inspect.rs` and
//! `scan.rs` implement the rules, and `search.rs`, `faults.rs`, `random.rs` test them. Each rule of
//! `rules.rs` can be dropped; the checker must then fail.
//!
//! Run: `cargo run --release -p seawall-model -- check [DEPTH] | faults [1 IN N] | planted [RULE]
//! | parity | disk [RULE | long] | random SECONDS [SEED]`;
//! `--features wide` makes sectors larger than batches; WITHOUT=rule drops a rule in any mode,
//! LAYOUT=Dense|Padded|Text selects one layout, ONLY=text the configurations whose name contains
//! it, WORKLOAD=text likewise the workloads. Exit code 1: a promise was broken where the rules
//! keep it (`planted`: dropping a rule went unnoticed); 2: usage.

#![allow(
    clippy::too_many_arguments,
    clippy::disallowed_methods,
    reason = "a checker, not part of the log: it copies its whole state and may be slow"
)]

mod disk;
mod disk_model;
mod faults;
mod format;
mod inspect;
mod parity;
mod random;
mod rules;
mod scan;
mod search;
mod stats;
mod table;
mod text;
mod workload;
mod writer;

use format::Layout;
use random::{one_life, random};
use rules::{Ahead, Features, Rules, Tail};
use search::{base, every_crash, with, Config, Extent};
use stats::Stats;
use std::process::ExitCode;
use workload::workloads;

fn all(c: &Config) -> Stats {
    let mut sum = Stats::default();
    let wanted = std::env::var("WORKLOAD").unwrap_or_default();
    for (name, ops) in workloads(c).into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let mut s = Stats::default();
        let began = std::time::Instant::now();
        every_crash(c, ops, &mut s, name);
        if std::env::var("TIMES").is_ok() {
            eprintln!("{} {name}: {} states {:?}", label(c), s.states, began.elapsed());
        }
        sum.add(s);
        if c.first && sum.bad() > 0 {
            break;
        }
    }
    sum
}

fn in_parallel(jobs: Vec<(String, Config)>) -> Vec<(String, Stats)> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let out = std::sync::Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| loop {
                let i = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let Some((name, c)) = jobs.get(i) else { break };
                let s = all(c);
                s.print(name);
                out.lock().unwrap().push((i, name.clone(), s));
            });
        }
    });
    let mut out = out.into_inner().unwrap();
    out.sort_by_key(|o| o.0);
    out.into_iter().map(|o| (o.1, o.2)).collect()
}

/// (layout, fail, spoil, garble, faults) of the configurations to try for a planted bug.
const PLANTED: &[(Layout, bool, bool, bool, u64)] = &[
    (Layout::Dense, false, false, false, 0),
    (Layout::Padded, false, false, false, 0),
    (Layout::Text, false, false, false, 0),
    (Layout::Dense, true, true, false, 0),
    (Layout::Padded, true, false, false, 0),
    (Layout::Text, true, false, false, 0),
    (Layout::Dense, false, false, false, 500),
    (Layout::Text, false, false, false, 500),
    (Layout::Padded, false, false, false, 500),
];

/// Returns the configurations to try for a planted bug: those with the feature that its description
/// names, else the plain ones first.
fn to_plant(about: &str) -> Vec<Config> {
    let mut out = vec![];
    let names = ["reuse", "flights", "ahead", "ahead, acknowledged by the batch"];
    let feature = names.into_iter().find(|name| about.starts_with(&format!("{name}: ")));
    if feature.is_none() {
        out.extend(PLANTED.iter().map(|&(layout, fail, spoil, garble, faults)| Config {
            fail,
            spoil,
            garble,
            faults,
            depth: if fail { 0 } else { 1 },
            ..base(layout)
        }));
    }
    let kinds = [(Layout::Dense, 1), (Layout::Padded, 2), (Layout::Padded, 4)];
    let kinds = kinds.into_iter().skip(usize::from(feature == Some("flights")));
    let features = kinds.flat_map(|(layout, flights)| {
        let with = |reuse, ahead| with(layout, Features { reuse, flights, ahead });
        match feature {
            Some("reuse") => vec![with(true, Ahead::Off)],
            Some("flights") => vec![with(false, Ahead::Off)],
            Some("ahead") => vec![with(false, Ahead::Both)],
            Some(_) => vec![with(false, Ahead::Batch)],
            None => {
                vec![with(true, Ahead::Off), with(false, Ahead::Batch), with(true, Ahead::Both)]
            }
        }
    });
    for c in features.collect::<Vec<_>>() {
        out.push(Config { depth: 0, ..c });
        out.push(Config { faults: 25, depth: 0, ..c });
        if feature.is_some() {
            out.push(Config { fail: true, depth: 0, ..c });
            out.push(Config { fail: true, spoil: true, depth: 0, ..c });
            out.push(Config { faults: 5, depth: 0, ..c });
            out.push(Config { depth: 1, ..c });
        }
    }
    out
}

/// Drops each rule, or the named one. Returns the number of rules whose absence went unnoticed.
fn planted(only: Option<&String>) -> u64 {
    let mut broken = 0;
    for (name, about) in Rules::NAMES.iter().filter(|n| only.is_none_or(|o| o == n.0)) {
        let mut sum = Stats::default();
        for c in to_plant(about) {
            let features = c.rules.features;
            let rules = Rules { features, ..Rules::without(name) };
            sum.add(all(&Config { rules, first: true, ..c }));
            if sum.bad() > 0 {
                break;
            }
        }
        broken += u64::from(sum.bad() == 0);
        println!(
            "{} {name}: {about}; {} states, {} faults",
            if sum.bad() > 0 { "FOUND " } else { "MISSED" },
            sum.states,
            sum.faults
        );
        if let Some((k, count)) = sum.counts.iter().find(|(_, count)| count.broken) {
            println!("       {k} e.g. {}", count.example.chars().take(230).collect::<String>());
        }
    }
    broken
}

/// Returns configurations with features: a few at level 1, otherwise every combination.
fn with_features(level: usize) -> Vec<Config> {
    let at = |layout, flights, reuse, ahead| with(layout, Features { reuse, flights, ahead });
    let (dense, padded) = (Layout::Dense, Layout::Padded);
    if level <= 1 {
        let all = at(padded, 2, true, Ahead::Both);
        let few = |c| Config { depth: 0, extent: Extent::Few, ..c };
        return vec![
            Config { depth: 1, ..few(at(dense, 1, true, Ahead::Off)) },
            Config { depth: 1, ..few(at(dense, 1, false, Ahead::Both)) },
            Config { depth: 0, ..at(padded, 4, false, Ahead::Off) },
            Config { fail: true, ..few(at(dense, 1, true, Ahead::Both)) },
            Config { depth: 0, ..all },
            Config { depth: 0, garble: true, ..all },
            Config { fail: true, ..few(all) },
            Config { fail: true, spoil: true, ..few(all) },
        ];
    }
    let mut out = vec![];
    for (layout, flights) in [(dense, 1), (padded, 1), (padded, 2), (padded, 4)] {
        for reuse in [false, true] {
            for ahead in [Ahead::Off, Ahead::Batch, Ahead::Both] {
                let c = at(layout, flights, reuse, ahead);
                if c.rules.features == Features::NONE && layout == dense {
                    continue;
                }
                let c = Config { depth: level - 1, extent: Extent::All, ..c };
                out.push(c);
                out.push(Config { garble: true, ..c });
                let depth = level.saturating_sub(2);
                out.push(Config { fail: true, depth, ..c });
                out.push(Config { fail: true, spoil: true, depth, ..c });
            }
        }
    }
    out
}

fn label(c: &Config) -> String {
    let f = c.rules.features;
    let is_plain = f == base(c.layout).rules.features;
    format!(
        "{:?}{}{}{}{}{}{}",
        c.layout,
        if is_plain { String::new() } else { format!(", flights {}", f.flights) },
        if f.reuse { ", reuse" } else { "" },
        match f.ahead {
            Ahead::Off => "",
            Ahead::Batch => ", ahead (batch)",
            Ahead::Both => ", ahead (both)",
        },
        if c.garble { ", garbled" } else { "" },
        if c.fail { ", failed barriers" } else { "" },
        if c.spoil { " that spoil" } else { "" },
    )
}

/// Returns whether promises must hold. A device that garbles blocks in flight breaks promises
/// unless writes are padded (R5).
fn must_hold(c: &Config) -> bool {
    !c.garble || c.layout == Layout::Padded
}

fn usage() -> ExitCode {
    eprintln!(
        "Usage: seawall-model MODE\n\n\
         check [DEPTH]          every crash of small workloads, and crashes in the recovery;\n\
         \x20                      from 2 on with every combination of features\n\
         faults [N]             the same, then one fault in every N-th state\n\
         planted [RULE]         drops each rule, or one; fails if no promise breaks\n\
         parity                 crashes and lost blocks with parity\n\
         disk [RULE | long]     the virtual disk: all rules, then each dropped; or one; or more\n\
         random SECONDS [SEED]  random workloads, crashes and faults\n\
         seed LIFE              one random workload\n\n\
         Environment: LAYOUT=Dense|Padded|Text checks one layout, ONLY=TEXT the configurations\n\
         whose name contains it, WORKLOAD=TEXT such workloads, WITHOUT=RULE drops a rule.\n\
         Exit codes: 0 success, 1 a broken promise or an unnoticed rule, 2 usage\n\n\
         Rules:"
    );
    for (name, about) in Rules::NAMES {
        eprintln!("  {name}: {about}");
    }
    disk_model::usage();
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let is_rule = |name: &str| Rules::NAMES.iter().any(|n| n.0 == name);
    if std::env::var("WITHOUT").is_ok_and(|name| !is_rule(&name)) {
        return usage();
    }
    let mut broken = 0;
    let mut jobs = vec![];
    let only = std::env::var("LAYOUT").unwrap_or_default();
    let layouts = [Layout::Dense, Layout::Padded, Layout::Text];
    let is_wanted = |l: Layout| only.is_empty() || only == format!("{l:?}");
    let layouts = layouts.into_iter().filter(|l| is_wanted(*l));
    match args.get(1).map(String::as_str) {
        Some("check") => {
            let depth: usize = args.get(2).map_or(1, |a| a.parse().unwrap());
            for layout in layouts {
                jobs.push(Config { depth, ..base(layout) });
                jobs.push(Config { garble: true, depth, ..base(layout) });
                let depth = depth.saturating_sub(1);
                jobs.push(Config { fail: true, depth, ..base(layout) });
                jobs.push(Config { fail: true, spoil: true, depth, ..base(layout) });
            }
            jobs.extend(with_features(depth).into_iter().filter(|c| is_wanted(c.layout)));
        }
        Some("faults") => {
            let every = args.get(2).map_or(4, |a| a.parse().unwrap());
            for layout in layouts {
                let mut c = Config { faults: every, depth: 1, ..base(layout) };
                jobs.push(c);
                c.rules.tail = Tail::Watermark;
                jobs.push(c);
            }
            let batch = Features { ahead: Ahead::Batch, ..Features::NONE };
            let configs = with_features(1).into_iter().chain([with(Layout::Dense, batch)]);
            for c in configs.filter(|c| !c.spoil && is_wanted(c.layout)) {
                jobs.push(Config { faults: every, depth: 0, extent: Extent::Own, ..c });
            }
            if only.is_empty() {
                jobs.push(Config {
                    faults: every * 8,
                    depth: 1,
                    garble: true,
                    ..base(Layout::Padded)
                });
                jobs.push(Config {
                    faults: every * 8,
                    depth: 1,
                    fail: true,
                    ..base(Layout::Padded)
                });
            }
        }
        Some("planted") => {
            let only = args.get(2);
            if only.is_some_and(|name| !is_rule(name)) {
                return usage();
            }
            return ExitCode::from(u8::from(planted(only) > 0));
        }
        Some("disk") => {
            return match disk_model::check(args.get(2)) {
                Some(wrong) => ExitCode::from(u8::from(wrong > 0)),
                None => usage(),
            }
        }
        Some("parity") => return ExitCode::from(u8::from(parity::check() > 0)),
        Some("random") => {
            let seconds = args.get(2).map_or(60, |a| a.parse().unwrap());
            let seed = args.get(3).map_or(1, |a| a.parse().unwrap());
            return ExitCode::from(u8::from(random(seconds, seed) > 0));
        }
        Some("seed") => {
            let mut s = Stats::default();
            one_life(args[2].parse().unwrap(), &mut s);
            s.print("one life");
            return ExitCode::from(u8::from(s.bad() > 0));
        }
        _ => return usage(),
    }
    let name = std::env::var("ONLY").unwrap_or_default();
    jobs.retain(|c| label(c).contains(&name));
    if jobs.is_empty() {
        return usage();
    }
    let must_hold: Vec<bool> = jobs.iter().map(must_hold).collect();
    let named = jobs.into_iter().map(|c| (label(&c), c)).collect();
    let mut sum = Stats::default();
    for ((_, s), must_hold) in in_parallel(named).into_iter().zip(must_hold) {
        broken += if must_hold { s.bad() } else { 0 };
        sum.add(s);
    }
    sum.print("total");
    println!("promises broken where the rules keep them: {broken}");
    ExitCode::from(u8::from(broken > 0))
}
