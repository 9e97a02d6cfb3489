//! Checks the on-disk rules of a write-ahead log by exhaustive and randomized crashes and faults.
//!
//! Every crash point of a set of small workloads, times every subset of the sector writes, file
//! lengths and directory changes in flight, times kill or power cut; then a second crash inside
//! recovery or in the appends that follow; then one fault (every contiguous run of 1 to 10
//! sectors, five kinds, in any file; a file lost, swapped, duplicated, cut short or rolled back).
//! At every step a reader beside the writer looks, too. `disk.rs` is the device, `format.rs` and
//! `text.rs` the bytes, `log.rs` the rules. Each rule can be dropped, and then the checker must
//! fail.
//!
//! Run: `cargo run --release -p seawall-model -- check [DEPTH] | faults [1 IN N] | planted [RULE]
//! | random SECONDS [SEED]`;
//! `--features wide` makes sectors larger than batches; WITHOUT=rule drops a rule in any mode,
//! LAYOUT=Dense|Padded|Text keeps to one layout. Exit code 1: a promise was broken where the rules
//! keep it (`planted`: dropping a rule went unnoticed); 2: usage.

#![allow(
    clippy::too_many_arguments,
    clippy::disallowed_methods,
    reason = "a checker, not part of the log: it passes its whole state around and takes the time"
)]

mod disk;
mod format;
mod log;
mod text;

use disk::{Name, Stop, World, SECTOR};
use format::Layout;
use log::{inspect, reader, recover, verify, Inspection, Rules, Tail, Verdict, Writer};
use std::collections::{BTreeMap, HashSet};
use std::process::ExitCode;

#[derive(Clone, Copy, Debug)]
enum Op {
    Append(usize),
    /// Several batches in one write; all of them one atomic set.
    Many(usize),
    Set(usize),
    /// Second barrier first; roll right after.
    Pair(bool, bool),
    Mark,
    Roll,
    Cut(u16),
    Checkpoint(u16),
    Prune(u16),
    /// A clean close, then open.
    Close,
}
use Op::*;

const WORKLOADS: &[(&str, &[Op])] = &[
    ("appends", &[Append(1), Append(2), Append(1)]),
    ("marks", &[Append(1), Mark, Append(1), Mark, Mark]),
    (
        "long",
        &[Append(1), Append(1), Append(1), Append(1), Append(1), Append(1), Append(1), Append(1)],
    ),
    ("roll", &[Append(2), Roll, Append(1), Append(1)]),
    ("cut", &[Append(1), Append(2), Append(1), Cut(2), Append(1), Mark]),
    ("deep cut", &[Append(2), Roll, Append(1), Roll, Append(1), Cut(1), Append(1), Mark]),
    ("cut, roll, cut", &[Append(2), Append(1), Cut(1), Append(1), Cut(1), Roll, Append(1)]),
    ("prune", &[Append(1), Roll, Append(1), Roll, Append(1), Prune(2), Roll, Append(1), Mark]),
    ("many, set", &[Append(1), Many(4), Append(1), Set(4), Append(1)]),
    ("set, cut", &[Set(3), Set(4), Cut(3), Append(1), Set(3)]),
    ("close", &[Append(1), Append(1), Close, Append(1), Append(1)]),
    ("close, cut", &[Append(2), Append(1), Close, Cut(1), Append(1), Close, Append(1)]),
    (
        "checkpoint",
        &[Append(1), Roll, Append(2), Checkpoint(3), Append(1), Roll, Append(1), Cut(2), Append(1)],
    ),
    (
        "close, roll",
        &[
            Append(1),
            Roll,
            Append(1),
            Close,
            Roll,
            Append(1),
            Checkpoint(2),
            Close,
            Cut(2),
            Append(1),
        ],
    ),
];
const PIPELINED: &[(&str, &[Op])] = &[
    ("pair in order", &[Append(1), Pair(false, false), Append(1)]),
    ("pair swapped", &[Append(1), Pair(true, false), Append(1)]),
    ("pair, roll", &[Pair(true, true), Append(1), Mark]),
    ("pair, cut", &[Pair(true, false), Cut(2), Pair(false, false)]),
];

#[derive(Clone, Copy)]
struct Config {
    rules: Rules,
    layout: Layout,
    /// In-flight blocks may come back garbled.
    garble: bool,
    /// Fail each barrier once.
    fail: bool,
    /// A failed barrier garbles.
    spoil: bool,
    /// Apply faults to one state in this many; 0 for none.
    faults: u64,
    depth: usize,
    /// Stop at the first broken promise.
    first: bool,
}

#[derive(Default, Clone)]
struct Stats {
    runs: u64,
    states: u64,
    recoveries: u64,
    looks: u64,
    faults: u64,
    counts: BTreeMap<String, (u64, String)>,
    seen: HashSet<u64>,
}

impl Stats {
    fn note(&mut self, what: &str, example: impl FnOnce() -> String) {
        let entry = self.counts.entry(what.to_string()).or_insert_with(|| (0, example()));
        entry.0 += 1;
    }
    fn bad(&self) -> u64 {
        self.counts.iter().filter(|(k, _)| k.starts_with('P')).map(|(_, c)| c.0).sum()
    }
    fn add(&mut self, other: Stats) {
        self.runs += other.runs;
        self.states += other.states;
        self.recoveries += other.recoveries;
        self.looks += other.looks;
        self.faults += other.faults;
        for (k, v) in other.counts {
            let e = self.counts.entry(k).or_insert((0, v.1));
            e.0 += v.0;
        }
    }
    fn print(&self, title: &str) {
        println!(
            "== {title}: runs {} states {} recoveries {} readers {} faults {}",
            self.runs, self.states, self.recoveries, self.looks, self.faults
        );
        for (k, (n, example)) in &self.counts {
            println!("   {n:>10}  {k}   e.g. {example}");
        }
    }
}

fn start_world(c: &Config) -> World {
    let mut w = World::new();
    (w.spoil, w.keep_past) = (c.spoil, c.faults > 0);
    w
}

fn perform(w: &mut World, writer: &mut Writer, c: &Config, ops: &[Op]) -> Result<(), Stop> {
    for op in ops {
        match *op {
            Append(n) | Many(n) => writer.append(w, n, false)?,
            Set(n) => writer.append(w, n, true)?,
            Pair(swap, roll) => writer.append_pipelined(w, swap, roll)?,
            Mark => writer.mark(w)?,
            Roll => writer.roll(w)?,
            Cut(lsn) => writer.truncate_after(w, lsn)?,
            Checkpoint(lsn) => writer.checkpoint(w, lsn, false)?,
            Prune(lsn) => writer.checkpoint(w, lsn, true)?,
            Close => {
                writer.close(w)?;
                if let (found, Some(opened)) = recover(w, &c.rules, c.layout)? {
                    adopt(w, &found);
                    *writer = opened;
                }
            }
        }
    }
    Ok(())
}

/// Whether these are the records of the truth; zeros were not judged.
fn agree(found: &Inspection, log: &[u64]) -> bool {
    let (from, total) = (found.start - 1, found.start - 1 + found.records.len());
    from <= total
        && total <= log.len()
        && found.records.iter().zip(&log[from..total]).all(|(a, b)| a == b || *a == 0)
}

/// The states after a crash now; a reader beside the writer has looked just before.
fn crashes(w: &World, c: &Config, s: &mut Stats, trace: &str) -> Vec<World> {
    let mut w = w.clone();
    let found = reader(&w, &c.rules, c.layout);
    s.looks += 1;
    let t = &mut w.truth;
    match &found {
        None if t.acked > t.first_needed => {
            s.note("P8 a reader finds damage where there is none", || trace.into())
        }
        Some(f) => {
            let total = f.start - 1 + f.records.len();
            if total < t.acked.min(t.cut.unwrap_or(usize::MAX)) {
                s.note("P8 a reader misses an acknowledged record", || {
                    format!("{trace} shows {total} truth {t:?}")
                });
            }
            t.shown = t.shown.max(total);
        }
        None => {}
    }
    w.crashes(c.garble)
}

/// Whether what recovery found is what the caller may see; else which promise it breaks.
fn judge(w: &World, found: &Inspection) -> Option<&'static str> {
    let t = &w.truth;
    let from = found.start - 1;
    let total = from + found.records.len();
    let is_prefix = from <= t.first_needed && agree(found, &t.log);
    let checkpoint = found.manifest.map_or(0, |m| m.checkpoints.0) as usize;
    let cut_done = t.cut.is_some_and(|c| total == c);
    match () {
        () if from > t.first_needed => Some("records before the start are missing"),
        () if !is_prefix => Some("wrong or revived records"),
        () if total < t.acked && !cut_done => Some("acknowledged record missing"),
        () if total < t.shown => Some("a reader has shown a record that recovery does not return"),
        () if t.sets.iter().any(|s| s.0 <= total && total < s.1) && !cut_done => {
            Some("half an atomic set")
        }
        () if checkpoint > t.checkpoint || checkpoint > total => {
            Some("a checkpoint beyond what was asked for")
        }
        () => None,
    }
}

/// Unpadded, and cut between a failed write that spoiled its block and the next segment: no rule
/// can hold here, so what happens is counted apart.
fn beyond_help(w: &World, c: &Config) -> bool {
    c.spoil && w.truth.failing && c.layout != Layout::Padded
}

fn explore(w: &World, c: &Config, s: &mut Stats, depth: usize, trace: &str) {
    if c.first && s.bad() > 0 {
        return;
    }
    if !s.seen.insert(w.fingerprint(depth as u64)) {
        return;
    }
    s.states += 1;
    let found = inspect(w, &c.rules, c.layout);
    s.recoveries += 1;
    match found.verdict {
        Verdict::Damage(why) => {
            let key = if beyond_help(w, c) {
                "spoiled and cut: damage"
            } else {
                "P1/P5 crash alone is called damage"
            };
            return s.note(&format!("{key}: {why}"), || format!("{trace} {:?}", w.truth));
        }
        Verdict::CannotTell if c.garble || c.spoil => {
            s.note("garbled: cannot tell", || trace.into())
        }
        Verdict::CannotTell => s.note("P5 crash alone: cannot tell", || {
            format!("{trace} {:?} {:?} {}", w.truth, found.records, dump(w, &found))
        }),
        _ => {}
    }
    if let Some(broken) = judge(w, &found) {
        let key = if beyond_help(w, c) { "spoiled and cut" } else { "P1" };
        return s.note(&format!("{key}: {broken}"), || {
            format!("{trace} {:?} found {:?} truth {:?}", found.verdict, found.records, w.truth)
        });
    }
    let full = verify(w, &c.rules, c.layout);
    if (full.verdict, full.w, full.records.len()) != (found.verdict, found.w, found.records.len()) {
        s.note("P9 judging every body gives another verdict after a crash", || trace.into());
    }
    if c.faults > 0
        && w.pending.is_empty()
        && w.dir_pending.is_empty()
        && w.fingerprint(77) % c.faults == 0
    {
        faults(w, &found, c, s, trace);
    }
    if depth == 0 {
        return;
    }
    let (done, writer) = 'recovered: {
        for at in 0.. {
            let mut again = w.clone();
            again.crash_at = at;
            s.recoveries += 1;
            match recover(&mut again, &c.rules, c.layout) {
                Err(Stop::Crash) => {
                    for b in crashes(&again, c, s, trace) {
                        explore(&b, c, s, depth - 1, &format!("{trace} | recovery cut at {at}"));
                    }
                }
                Ok((_, writer)) => break 'recovered (again, writer),
                // The file system is dead until the power is cut.
                Err(Stop::Poisoned) => {
                    let choice = vec![0; again.pending.len() + again.dir_pending.len()];
                    return explore(
                        &again.power_cut(&choice),
                        c,
                        s,
                        depth,
                        &format!("{trace} | dead, power cut"),
                    );
                }
                Err(stop) => return s.note("recovery stopped", || format!("{trace} {stop:?}")),
            }
        }
        unreachable!()
    };
    let Some(writer) = writer else { return };
    let mut base = done;
    adopt(&mut base, &found);
    base.fresh_run();
    for at in 0.. {
        let (mut next, mut writer) = (base.clone(), writer.clone());
        next.crash_at = at;
        let result = perform(&mut next, &mut writer, c, &[Append(1), Mark, Append(1)]);
        for b in crashes(&next, c, s, trace) {
            explore(&b, c, s, depth - 1, &format!("{trace} | reopened, appends cut at {at}"));
        }
        if result.is_ok() {
            break;
        }
    }
}

/// The data of the newest segment, one letter a sector: zero, or the first epoch byte that fits.
fn dump(w: &World, found: &Inspection) -> String {
    let Some(seg) = found.chain.last() else {
        return String::new();
    };
    let file = &w.files[seg.file].cache;
    let mut out = format!("{:?} ", seg.header);
    for at in (format::data_start(Layout::Dense, true)..file.len()).step_by(8) {
        out.push(if let Some(h) = format::decode_header(file, at, seg.header.epoch) {
            char::from(b'0' + h.first as u8 % 70)
        } else if format::zero(file, at, at + 8) {
            '.'
        } else {
            '#'
        });
        if at % SECTOR == SECTOR - 8 {
            out.push(' ')
        }
    }
    out
}

/// What an open log shows is acknowledged from then on.
fn adopt(w: &mut World, found: &Inspection) {
    let t = &mut w.truth;
    let total = found.start - 1 + found.records.len();
    t.log.truncate(total);
    t.acked = total;
    t.confirmed = t.confirmed.min(total).max(found.w.min(total));
    t.cut = None;
    t.first_needed = t.first_needed.max(found.start - 1);
    (t.closed, t.checkpoint, t.failing) = (t.closed.min(total), t.checkpoint.min(total), false);
    t.sets.retain(|s| s.1 <= total);
}

fn faults(w: &World, before: &Inspection, c: &Config, s: &mut Stats, trace: &str) {
    let mut w = w.clone();
    let names: Vec<(Name, usize)> = w
        .names
        .iter()
        .filter(|(n, _)| !matches!(n, Name::Temporary(_)))
        .map(|(n, f)| (*n, *f))
        .collect();
    for (name, file) in &names {
        let good = w.files[*file].cache.clone();
        let stale = w.files[*file].stale.clone();
        let other = names
            .iter()
            .find(|(n, f)| f != file && matches!(n, Name::Segment(_)))
            .map(|(_, f)| w.files[*f].cache.clone());
        let sectors = good.len() / SECTOR;
        for start in 0..sectors {
            for run in 1..=10.min(sectors - start) {
                for kind in ["garbage", "zero", "stale", "moved", "foreign"] {
                    let range = start * SECTOR..(start + run) * SECTOR;
                    let mut bytes = good.clone();
                    for i in range.clone() {
                        bytes[i] = match kind {
                            "garbage" => 0x5A ^ (i as u8).wrapping_mul(113) | 1,
                            "zero" => 0,
                            "stale" => stale.get(i).copied().unwrap_or(0),
                            "moved" => good[(i + 3 * SECTOR) % good.len()],
                            _ => match &other {
                                Some(o) if o.len() > i => o[i],
                                _ => good[i],
                            },
                        };
                    }
                    if bytes == good {
                        continue;
                    }
                    w.files[*file].cache = bytes;
                    after_fault(&w, before, c, s, kind, &|| {
                        format!("{trace} | {kind} {name:?} sector {start}+{run}")
                    });
                }
            }
        }
        for len in 0..sectors {
            w.files[*file].cache = good[..len * SECTOR].to_vec();
            let kind = if sectors - len <= 10 { "cut short" } else { "cut far short" };
            after_fault(&w, before, c, s, kind, &|| {
                format!("{trace} | {kind} {name:?} to {len} sectors")
            });
        }
        let past = w.files[*file].past.clone();
        for (i, old) in past.iter().filter(|p| same_life(*name, p, &good)).enumerate() {
            w.files[*file].cache = old.to_vec();
            after_fault(&w, before, c, s, "rolled back", &|| {
                format!("{trace} | {name:?} rolled back to {i}")
            });
        }
        w.files[*file].cache = good;
    }
    let listing = w.names.clone();
    for (name, file) in &names {
        w.names.remove(name);
        after_fault(&w, before, c, s, "file lost", &|| format!("{trace} | lost {name:?}"));
        w.names = listing.clone();
        for (other, other_file) in &names {
            if matches!((name, other), (Name::Segment(_), Name::Segment(_))) && other != name {
                w.names.insert(*other, *file);
                after_fault(&w, before, c, s, "file duplicated", &|| {
                    format!("{trace} | {name:?} copied over {other:?}")
                });
                w.names.insert(*name, *other_file);
                after_fault(&w, before, c, s, "file swapped", &|| {
                    format!("{trace} | {name:?} swapped with {other:?}")
                });
                w.names = listing.clone();
            }
        }
        if let Name::Segment(id) = name {
            w.names.insert(Name::Segment(id + 1), *file);
            after_fault(&w, before, c, s, "file duplicated", &|| {
                format!("{trace} | {name:?} copied to the next name")
            });
            w.names = listing.clone();
        }
    }
}

/// Whether a whole file is an older copy of this one, from the same epoch.
fn same_life(name: Name, old: &[u8], now: &[u8]) -> bool {
    let epoch = |bytes: &[u8]| format::Header::decode(bytes).map(|h| h.epoch);
    old != now && (!matches!(name, Name::Segment(_)) || epoch(old) == epoch(now))
}

fn after_fault(
    w: &World,
    before: &Inspection,
    c: &Config,
    s: &mut Stats,
    kind: &str,
    trace: &dyn Fn() -> String,
) {
    s.faults += 1;
    let found = inspect(w, &c.rules, c.layout);
    let t = &w.truth;
    if let Verdict::Damage(_) = found.verdict {
        return s.note(&format!("fault noticed: {kind}"), trace);
    }
    let from = found.start - 1;
    let total = from + found.records.len();
    let floor = t.cut.map_or(usize::MAX, |x| x);
    if from > t.first_needed || !agree(&found, &t.log) {
        return s.note(&format!("P4 wrong bytes after a fault, {:?}", found.verdict), || {
            format!("{} found {:?} truth {t:?}", trace(), found.records)
        });
    }
    let tells = found.verdict == Verdict::CannotTell;
    if total < t.closed.min(floor) {
        return s.note(
            &format!("P7 lost what a clean close covered, {:?}: {kind}", found.verdict),
            trace,
        );
    }
    // More than one run of damage within reach: promised only up to the last clean close.
    let promised = kind != "rolled back" && !(kind == "cut far short" && c.layout == Layout::Text);
    if promised && total < t.confirmed.min(floor) {
        let key =
            if tells { "P2 confirmed lost, cannot tell" } else { "P2 confirmed lost, SILENT" };
        return s.note(&format!("{key}: {kind}"), || {
            let segments: Vec<_> = w
                .names
                .iter()
                .filter(|(n, _)| matches!(n, Name::Segment(_)))
                .map(|(n, f)| {
                    (
                        n,
                        format::Header::decode(&w.files[*f].cache),
                        format::decode_seal(&w.files[*f].cache),
                    )
                })
                .collect();
            format!("{} truth {t:?} found {} {segments:?}", trace(), found.records.len())
        });
    }
    if total < t.acked.min(floor) {
        let key = if tells { "synced lost, cannot tell" } else { "synced lost, silent" };
        let far = if promised { String::new() } else { format!(": {kind}") };
        return s.note(&format!("{key}{far}"), trace);
    }
    let same = found.records.len() == before.records.len() && found.start == before.start;
    let key = match (same, found.verdict == before.verdict) {
        (true, true) => "fault harmless",
        (true, false) => "fault reported, nothing lost",
        (false, _) => "unacknowledged tail changed by a fault",
    };
    s.note(key, trace);
}

fn workload(c: &Config, ops: &[Op], s: &mut Stats, name: &str) {
    let run = |at: usize, fails: &[(usize, u32)]| {
        let mut w = start_world(c);
        w.crash_at = at;
        w.fails = fails.to_vec();
        let result = Writer::create(&mut w, c.rules, c.layout)
            .and_then(|mut writer| perform(&mut w, &mut writer, c, ops));
        (w, result)
    };
    let (whole, _) = run(usize::MAX, &[]);
    let mut plans: Vec<Vec<(usize, u32)>> = vec![vec![]];
    if c.fail {
        for n in 0..whole.syncs {
            plans.extend([0, 1, 2, 5, u32::MAX].into_iter().map(|mask| vec![(n, mask)]));
        }
    }
    for plan in plans {
        for at in 0.. {
            if c.first && s.bad() > 0 {
                return;
            }
            let (w, result) = run(at, &plan);
            s.runs += 1;
            let trace = format!("{name} {plan:?} cut at {at}");
            for b in crashes(&w, c, s, &trace) {
                explore(&b, c, s, c.depth, &trace);
            }
            match result {
                Err(Stop::Crash) => {}
                // A failed manifest or checkpoint is the caller's to see; the log stops there.
                _ => break,
            }
        }
    }
}

fn all(c: &Config) -> Stats {
    let mut sum = Stats::default();
    let extra: &[(&str, &[Op])] = if c.layout == Layout::Padded { PIPELINED } else { &[] };
    for (name, ops) in WORKLOADS.iter().chain(extra) {
        let mut s = Stats::default();
        let began = std::time::Instant::now();
        workload(c, ops, &mut s, name);
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

/// All rules, less the one named in the environment variable WITHOUT.
fn base(layout: Layout) -> Config {
    let rules = Rules::without(&std::env::var("WITHOUT").unwrap_or_default());
    Config {
        rules,
        layout,
        garble: false,
        fail: false,
        spoil: false,
        faults: 0,
        depth: 2,
        first: false,
    }
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

struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ z >> 31) % n
    }
}

/// Long random lives: appends, cuts, rolls, several failed barriers, up to six crashes.
/// Returns how many promises were broken.
fn random(seconds: u64, seed: u64) -> u64 {
    let began = std::time::Instant::now();
    std::thread::scope(|scope| {
        let lives = [0, 1].map(|thread| {
            scope.spawn(move || {
                let mut s = Stats::default();
                let mut life = seed * 1_000_000_000 + thread * 500_000_000;
                while began.elapsed().as_secs() < seconds {
                    life += 1;
                    one_life(life, &mut s);
                    s.seen.clear();
                }
                s.print(&format!("random, thread {thread}, seed {seed}"));
                s.bad()
            })
        });
        lives.into_iter().map(|lives| lives.join().expect("the checker does not panic")).sum()
    })
}

fn one_life(seed: u64, s: &mut Stats) {
    let mut d = Dice(seed);
    let layout = [Layout::Dense, Layout::Padded, Layout::Text][d.roll(3) as usize];
    let pad = layout == Layout::Padded;
    let (garble, spoil) = (pad && d.roll(3) == 0, pad && d.roll(3) == 0);
    let faults = if d.roll(40) == 0 { 1 } else { 0 };
    let c = Config { garble, spoil, faults, depth: 0, ..base(layout) };
    let mut w = start_world(&c);
    let mut writer: Option<Writer> = None;
    let mut trace = format!("seed {seed} {layout:?} garble {garble} spoil {spoil}");
    for _ in 0..1 + d.roll(6) {
        w.fresh_run();
        w.crash_at = d.roll(40) as usize;
        for _ in 0..d.roll(3) {
            w.fails.push((d.roll(20) as usize, d.roll(256) as u32));
        }
        s.runs += 1;
        let lived = (|| -> Result<(), Stop> {
            if writer.is_none() {
                let found = inspect(&w, &c.rules, c.layout);
                writer = match recover(&mut w, &c.rules, layout)? {
                    (_, Some(opened)) => Some(opened),
                    _ => return Ok(()),
                };
                adopt(&mut w, &found);
            }
            let me = writer.as_mut().expect("opened above");
            for _ in 0..12 {
                let lsn = d.roll(w.truth.acked.max(1) as u64) as u16;
                let op = match d.roll(16) {
                    0..4 => Append(1 + d.roll(2) as usize),
                    4..6 if pad => Pair(d.roll(2) == 0, d.roll(4) == 0),
                    6 | 7 => Mark,
                    8 => Roll,
                    9 => Cut(lsn),
                    10 => Prune(lsn),
                    11 => Checkpoint(lsn),
                    12 => Many(3 + d.roll(2) as usize),
                    13 => Set(2 + d.roll(3) as usize),
                    14 => Close,
                    _ => Append(1),
                };
                perform(&mut w, me, &c, &[op])?;
            }
            Ok(())
        })();
        trace += &format!(" | {lived:?} at {}", w.steps);
        // A reader looks just before the crash.
        if let Some(f) = reader(&w, &c.rules, layout) {
            w.truth.shown = w.truth.shown.max(f.start - 1 + f.records.len());
        }
        let sectors = w.pending.len();
        let choice: Vec<u8> = (0..sectors + w.dir_pending.len())
            .map(|i| d.roll(if garble && i < sectors { 3 } else { 2 }) as u8)
            .collect();
        w = if d.roll(3) == 0 { w.kill() } else { w.power_cut(&choice) };
        writer = None;
        let before = s.bad();
        explore(&w, &c, s, 0, &trace);
        if s.bad() > before {
            return;
        }
    }
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
        "check [DEPTH] | faults [1 IN N] | planted [RULE] | random SECONDS [SEED] | seed LIFE"
    );
    eprintln!("LAYOUT is Dense, Padded or Text; RULE and WITHOUT are one of:");
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
            return ExitCode::from(u8::from(broken > 0));
        }
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
