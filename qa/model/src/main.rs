//! Checks the on-disk rules of a write-ahead log by exhaustive and randomized crashes and faults.
//!
//! Every crash point of a set of small workloads, times every subset of the sector writes, file
//! lengths and directory changes in flight, times kill or power cut; then a second crash inside
//! recovery or in the appends that follow; then one fault (every contiguous run of 1 to 10
//! sectors, five kinds, in any file; a file lost, swapped, duplicated, cut short or rolled back).
//! At every step a reader beside the writer looks, too. `disk.rs` is the device, `format.rs` and
//! `text.rs` are the bytes; `writer.rs`, `inspect.rs` and `scan.rs` implement the rules, and
//! `search.rs`, `faults.rs`, `random.rs` test them. Each rule of `rules.rs` can be dropped, then
//! the checker must fail.
//!
//! Run: `cargo run --release -p seawall-model -- check [DEPTH] | faults [1 IN N] | planted [RULE]
//! | parity | random SECONDS [SEED]`;
//! `--features wide` makes sectors larger than batches; WITHOUT=rule drops a rule in any mode,
//! LAYOUT=Dense|Padded|Text keeps to one layout. Exit code 1: a promise was broken where the rules
//! keep it (`planted`: dropping a rule went unnoticed); 2: usage.

#![allow(
    clippy::too_many_arguments,
    clippy::disallowed_methods,
    reason = "a checker, not part of the log: it passes its whole state around and takes the time"
)]

mod disk;
mod faults;
mod format;
mod inspect;
mod parity;
mod random;
mod rules;
mod scan;
mod search;
mod stats;
mod text;
mod workload;
mod writer;

use format::Layout;
use random::{one_life, random};
use rules::{Rules, Tail};
use search::{base, every_crash, Config};
use stats::Stats;
use std::process::ExitCode;
use workload::{Op, PIPELINED, WORKLOADS};

fn all(c: &Config) -> Stats {
    let mut sum = Stats::default();
    let extra: &[(&str, &[Op])] = if c.layout == Layout::Padded { PIPELINED } else { &[] };
    for (name, ops) in WORKLOADS.iter().chain(extra) {
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

/// (layout, failed barriers, spoiled, garbled, faults) to try for a planted bug.
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

/// Drops each rule, or the named one; returns how many went unnoticed.
fn planted(only: Option<&String>) -> u64 {
    let mut broken = 0;
    for (name, about) in Rules::NAMES.iter().filter(|n| only.is_none_or(|o| o == n.0)) {
        let rules = Rules::without(name);
        let mut sum = Stats::default();
        for (layout, fail, spoil, garble, faults) in PLANTED {
            sum.add(all(&Config {
                rules,
                fail: *fail,
                spoil: *spoil,
                garble: *garble,
                faults: *faults,
                depth: if *fail { 0 } else { 1 },
                first: true,
                ..base(*layout)
            }));
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
        if let Some((k, (_, e))) = sum.counts.iter().find(|(k, _)| k.starts_with('P')) {
            println!("       {k} e.g. {}", e.chars().take(230).collect::<String>());
        }
    }
    broken
}

fn label(c: &Config) -> String {
    format!(
        "{:?}{}{}{}",
        c.layout,
        if c.garble { ", garbled" } else { "" },
        if c.fail { ", failed barriers" } else { "" },
        if c.spoil { " that spoil" } else { "" },
    )
}

/// A device that garbles what is in flight breaks promises unless writes are padded (R5).
fn must_hold(c: &Config) -> bool {
    !c.garble || c.layout == Layout::Padded
}

fn usage() -> ExitCode {
    eprintln!(
        "Usage: seawall-model MODE\n\n\
         check [DEPTH]          every crash of small workloads, and crashes in the recovery\n\
         faults [N]             the same, then one fault in every N-th state\n\
         planted [RULE]         drops each rule, or one; fails if no promise breaks\n\
         parity                 crashes and lost blocks with parity\n\
         random SECONDS [SEED]  random workloads, crashes and faults\n\
         seed LIFE              one random workload\n\n\
         Environment: LAYOUT=Dense|Padded|Text checks one layout, WITHOUT=RULE drops a rule.\n\
         Exit codes: 0 success, 1 a broken promise or an unnoticed rule, 2 usage\n\n\
         Rules:"
    );
    for (name, about) in Rules::NAMES {
        eprintln!("  {name}: {about}");
    }
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
    let layouts = layouts.into_iter().filter(|l| only.is_empty() || only == format!("{l:?}"));
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
        }
        Some("faults") => {
            let every = args.get(2).map_or(4, |a| a.parse().unwrap());
            for layout in layouts {
                let mut c = Config { faults: every, depth: 1, ..base(layout) };
                jobs.push(c);
                c.rules.tail = Tail::Watermark;
                jobs.push(c);
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
