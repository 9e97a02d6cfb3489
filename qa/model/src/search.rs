//! The search: every crash of a workload, then every crash of the recovery and appends after it.

use crate::disk::{Stop, World, SECTOR};
use crate::faults::faults;
use crate::format::{self, Layout};
use crate::inspect::{inspect, reader, verify, Inspection, Verdict};
use crate::rules::{Features, Rules};
use crate::stats::Stats;
use crate::workload::{perform, Op, Op::*};
use crate::writer::{recover, Writer};

/// Which workloads a configuration with features gets.
#[derive(Clone, Copy, PartialEq)]
pub enum Extent {
    /// The first two of each feature.
    Few,
    /// All workloads of its features.
    Own,
    /// The plain workloads, too.
    All,
}

#[derive(Clone, Copy)]
pub struct Config {
    pub rules: Rules,
    pub layout: Layout,
    /// Whether blocks in flight may come back garbled.
    pub garble: bool,
    /// Whether to fail each sync once.
    pub fail: bool,
    /// Whether a failed sync garbles its blocks.
    pub spoil: bool,
    /// Faults are applied to one state in this many; 0 for none.
    pub faults: u64,
    pub depth: usize,
    /// Whether to stop at the first broken promise.
    pub first: bool,
    pub extent: Extent,
}

/// Returns a configuration with all rules except the one in the environment variable WITHOUT.
pub fn base(layout: Layout) -> Config {
    let mut rules = Rules::without(&std::env::var("WITHOUT").unwrap_or_default());
    // As many writes as `append_pipelined` has in flight.
    rules.features.flights = if layout == Layout::Padded { 3 } else { 1 };
    Config {
        rules,
        layout,
        garble: false,
        fail: false,
        spoil: false,
        faults: 0,
        depth: 2,
        first: false,
        extent: Extent::Own,
    }
}

/// Returns the same configuration with these features.
pub fn with(layout: Layout, features: Features) -> Config {
    let mut c = base(layout);
    c.rules.features = features;
    c
}

pub fn start_world(c: &Config) -> World {
    let mut w = World::new();
    (w.spoil, w.keep_past) = (c.spoil, c.faults > 0);
    w
}

/// Returns whether the records found are those of the truth. Zeros were not judged.
pub fn agree(found: &Inspection, log: &[u64]) -> bool {
    let (from, total) = (found.start - 1, found.start - 1 + found.records.len());
    from <= total
        && total <= log.len()
        && found.records.iter().zip(&log[from..total]).all(|(a, b)| a == b || *a == 0)
}

/// Explores every state after a crash now, with `depth` more crashes. A reader inspects the log
/// just before. If its sync changes what is durable, the states with and without the sync are
/// explored.
fn crash(w: &World, c: &Config, s: &mut Stats, depth: usize, trace: &str) {
    let mut w = w.clone();
    let synced = look(&mut w, c, s, trace);
    for left in w.crashes(c.garble) {
        // A reader must find the same with any `live` that a detached device brings back on the
        // same boot. States in which no rule can hold are counted by `explore` below.
        let is_hopeless = beyond_help(&left, c) || (c.garble && c.layout != Layout::Padded);
        for mut again in if is_hopeless { vec![] } else { w.detached(&left) } {
            let trace = format!("{trace} | detached, {:?}", again.live);
            look(&mut again, c, s, &trace);
        }
        explore(&left, c, s, depth, trace);
    }
    for left in synced.into_iter().flat_map(|w| w.crashes(c.garble)) {
        explore(&left, c, s, 0, &format!("{trace} | a reader synced"));
    }
}

/// Lets a reader inspect the log. Returns the state after that if the reader must sync first.
fn look(w: &mut World, c: &Config, s: &mut Stats, trace: &str) -> Option<World> {
    s.looks += 1;
    let found = reader(w, &c.rules, c.layout);
    let t = &mut w.truth;
    let Some((f, files)) = found else {
        if t.acked > t.first_needed {
            s.broken("P8 a reader finds damage where there is none", || trace.into());
        }
        return None;
    };
    let total = f.start - 1 + f.records.len();
    if total < t.acked.min(t.cut.unwrap_or(usize::MAX)) {
        s.broken("P8 a reader misses an acknowledged record", || {
            format!("{trace} shows {total} truth {t:?}")
        });
    }
    if files.is_empty() {
        t.shown = t.shown.max(total);
        return None;
    }
    looked(w, (total, &files))
}

/// Returns the state after a reader has synced these files and shown the records up to `total`, or
/// `None` if its sync proves nothing.
fn looked(w: &World, (total, files): (usize, &[usize])) -> Option<World> {
    let mut w = w.clone();
    // The cache may show what a failed sync has lost; the reader's sync then proves nothing.
    if w.is_doubtful || !w.settle(files) {
        return None;
    }
    w.truth.shown = w.truth.shown.max(total);
    Some(w)
}

/// Returns the promise that the result of recovery breaks, if any.
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

/// Returns whether no rule can hold: writes are unpadded, and the crash came between a failed write
/// that spoiled its block and the next segment. Such states are counted separately.
fn beyond_help(w: &World, c: &Config) -> bool {
    c.spoil && w.truth.failing && c.layout != Layout::Padded
}

pub fn explore(w: &World, c: &Config, s: &mut Stats, depth: usize, trace: &str) {
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
            let example = || format!("{trace} {:?}", w.truth);
            if beyond_help(w, c) {
                return s.note(&format!("spoiled and cut: damage: {why}"), example);
            }
            return s.broken(&format!("P1/P5 crash alone is called damage: {why}"), example);
        }
        Verdict::Ambiguous if c.garble || c.spoil => {
            s.note("garbled: cannot tell", || trace.into())
        }
        Verdict::Ambiguous => s.broken("P5 crash alone: cannot tell", || {
            format!("{trace} {:?} {:?} {}", w.truth, found.records, dump(w, &found))
        }),
        _ => {}
    }
    if let Some(broken) = judge(w, &found) {
        let example =
            || format!("{trace} {:?} found {:?} truth {:?}", found.verdict, found.records, w.truth);
        if beyond_help(w, c) {
            return s.note(&format!("spoiled and cut: {broken}"), example);
        }
        return s.broken(&format!("P1: {broken}"), example);
    }
    let full = verify(w, &c.rules, c.layout);
    if (full.verdict, full.w, full.records.len()) != (found.verdict, found.w, found.records.len()) {
        s.broken("P9 judging every body gives another verdict after a crash", || trace.into());
    }
    if c.faults > 0
        && w.pending.is_empty()
        && w.dir_pending.is_empty()
        && w.fingerprint(77).is_multiple_of(c.faults)
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
                    crash(&again, c, s, depth - 1, &format!("{trace} | recovery cut at {at}"));
                }
                Ok((_, writer)) => break 'recovered (again, writer),
                // The file system refuses everything until the power is cut.
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
                Err(stop) => {
                    return s.broken("P14 recovery stopped", || format!("{trace} {stop:?}"));
                }
            }
        }
        unreachable!()
    };
    let Some(writer) = writer else { return };
    let mut opened = done;
    adopt(&mut opened, &found);
    opened.fresh_run();
    for at in 0.. {
        let (mut next, mut writer) = (opened.clone(), writer.clone());
        next.crash_at = at;
        let is_plain = c.rules.features == base(c.layout).rules.features;
        let plain: &[Op] = &[Append(1), Mark, Append(1)];
        let ops: &[Op] =
            if is_plain { plain } else { &[Append(1), Mark, Roll, Append(1), Append(1)] };
        let result = perform(&mut next, &mut writer, c, ops);
        crash(&next, c, s, depth - 1, &format!("{trace} | reopened, appends cut at {at}"));
        if result.is_ok() {
            break;
        }
    }
}

/// Describes the data of the newest segment, one character for 8 bytes: the first LSN if they begin
/// a batch header, `.` for zeros, `#` for anything else.
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

/// Treats everything that an opened log shows as acknowledged.
pub fn adopt(w: &mut World, found: &Inspection) {
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

/// Crashes a workload at every step and, if requested, again with each of its syncs failed.
pub fn every_crash(c: &Config, ops: &[Op], s: &mut Stats, name: &str) {
    let run = |at: usize, fails: &[(usize, u32)]| {
        let mut w = start_world(c);
        w.crash_at = at;
        w.fails = fails.to_vec();
        let result = Writer::create(&mut w, c.rules, c.layout)
            .and_then(|mut writer| perform(&mut w, &mut writer, c, ops));
        (w, result)
    };
    let (whole, result) = run(usize::MAX, &[]);
    if let Err(stop) = result {
        s.broken("P14 a workload stopped without a fault", || format!("{name}: {stop:?}"));
    }
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
            crash(&w, c, s, c.depth, &trace);
            match result {
                Err(Stop::Crash) => {}
                // The caller gets the error of a failed manifest or checkpoint; the log stops
                // there.
                _ => break,
            }
        }
    }
}
