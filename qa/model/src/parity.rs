//! Checks the rules of parity (format.md section 10) on their own: every crash of small workloads,
//! with every subset of the writes in flight, then damage, an open, a crash during the open, and
//! damage again.
//!
//! A block has two cells; a stripe has two data blocks and one parity block, their XOR. Checksums
//! are ideal: each is replaced by a copy of the content, which is only compared.

use std::collections::BTreeMap;

const CELLS: usize = 2;
const BLOCKS: usize = 2;
const STRIPE: usize = CELLS * BLOCKS;
const STRIPES: usize = 3;
const SIZE: usize = STRIPE * STRIPES;
const GARBAGE: u8 = 0xEE;

type Block = [u8; CELLS];

macro_rules! rules {
    ($($name:ident: $about:literal,)*) => {
        /// One switch for each rule: true in the design, false to plant the bug.
        #[derive(Clone, Copy)]
        struct Rules { $($name: bool,)* }
        impl Rules {
            const ALL: Self = Self { $($name: true,)* };
            fn without(name: &str) -> Self {
                let mut rules = Self::ALL;
                $(if name == stringify!($name) { rules.$name = false; })*
                rules
            }
            const NAMES: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), $about),)*];
        }
    };
}

rules! {
    data_first: "a slot is written when what it covers is durable",
    slots_first: "`covered` is raised when the slots are durable",
    keep_contradicted: "an open writes over no slot that contradicts the records",
    check_sums: "parity, and what comes out, have the checksums that were noted",
    zero_behind: "bytes after those that a slot covers count as zero",
    make_up: "an open makes what a crash left out",
    two_heads: "heads are written by turns",
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Known {
    covered: usize,
    blocks: [Block; BLOCKS],
    parity: Block,
}

#[derive(Clone, Copy, Debug)]
enum Write {
    Cell(usize, u8),
    Known(usize, Known),
    Parity(usize, Block),
    Head(usize, u32, usize),
}

/// A device with a cache: pending writes land with a sync, or any subset of them in a crash.
#[derive(Clone)]
struct Disk {
    cells: [u8; SIZE],
    known: [Option<Known>; STRIPES],
    parity: [Option<Block>; STRIPES],
    heads: [Option<(u32, usize)>; 2],
    pending: Vec<Write>,
    /// The number of steps until the crash.
    fuse: usize,
}

struct Crash;

impl Disk {
    fn new() -> Self {
        Self {
            cells: [0; SIZE],
            known: [None; STRIPES],
            parity: [None; STRIPES],
            heads: [None; 2],
            pending: vec![],
            fuse: usize::MAX,
        }
    }

    fn land(&mut self, write: Write) {
        match write {
            Write::Cell(at, value) => self.cells[at] = value,
            Write::Known(stripe, known) => self.known[stripe] = Some(known),
            Write::Parity(stripe, block) => self.parity[stripe] = Some(block),
            Write::Head(copy, sequence, covered) => self.heads[copy] = Some((sequence, covered)),
        }
    }

    fn step(&mut self) -> Result<(), Crash> {
        self.fuse = self.fuse.checked_sub(1).ok_or(Crash)?;
        Ok(())
    }

    fn write(&mut self, write: Write) -> Result<(), Crash> {
        self.step()?;
        self.pending.push(write);
        Ok(())
    }

    /// Syncs the file with the records, or the one with the parity.
    fn sync(&mut self, of_data: bool) -> Result<(), Crash> {
        self.step()?;
        let all = std::mem::take(&mut self.pending);
        for write in all {
            if matches!(write, Write::Cell(..)) == of_data {
                self.land(write);
            } else {
                self.pending.push(write);
            }
        }
        Ok(())
    }

    /// Returns the state that readers see now.
    fn seen(&self) -> Self {
        let mut seen = self.clone();
        for write in std::mem::take(&mut seen.pending) {
            seen.land(write);
        }
        seen
    }

    /// Returns every state that a power cut may leave.
    fn after_cut(&self) -> Vec<Self> {
        let count = self.pending.len();
        assert!(count < 18, "every subset");
        let subset = |mask: u32| {
            let mut left = self.clone();
            for (place, write) in std::mem::take(&mut left.pending).into_iter().enumerate() {
                match write {
                    // A torn head is not valid.
                    Write::Head(copy, ..) if mask >> place & 1 == 0 => left.heads[copy] = None,
                    _ if mask >> place & 1 == 1 => left.land(write),
                    _ => {}
                }
            }
            left.fuse = usize::MAX;
            left
        };
        (0..1 << count).map(subset).collect()
    }

    fn covered(&self) -> usize {
        self.heads.iter().flatten().max().map_or(0, |(_, covered)| *covered)
    }

    fn sequence(&self) -> u32 {
        self.heads.iter().flatten().max().map_or(0, |(sequence, _)| *sequence)
    }

    fn stripe(&self, stripe: usize, covered: usize) -> [Block; BLOCKS] {
        let mut blocks = [[0; CELLS]; BLOCKS];
        for cell in 0..STRIPE.min(covered) {
            blocks[cell / CELLS][cell % CELLS] = self.cells[stripe * STRIPE + cell];
        }
        blocks
    }

    /// Returns the records, with lost blocks restored from parity.
    fn healed(&self, rules: Rules) -> [u8; SIZE] {
        let mut cells = self.cells;
        if self.heads == [None; 2] {
            // The number of blocks in a stripe is unknown.
            return cells;
        }
        for stripe in 0..STRIPES {
            let Some(known) = self.known[stripe] else { continue };
            let covered = if rules.zero_behind { known.covered } else { STRIPE };
            let blocks = self.stripe(stripe, covered);
            let lost: Vec<_> = (0..BLOCKS).filter(|b| blocks[*b] != known.blocks[*b]).collect();
            let Some(parity) = self.parity[stripe] else { continue };
            let ([lost], true) = (&lost[..], !rules.check_sums || parity == known.parity) else {
                continue;
            };
            let mut found = parity;
            for (number, block) in blocks.iter().enumerate() {
                if number != *lost {
                    (0..CELLS).for_each(|cell| found[cell] ^= block[cell]);
                }
            }
            if rules.check_sums && found != known.blocks[*lost] {
                continue;
            }
            for (cell, value) in found.into_iter().enumerate() {
                let at = lost * CELLS + cell;
                if at < covered {
                    cells[stripe * STRIPE + at] = value;
                }
            }
        }
        cells
    }
}

/// Writes parity while records are appended, as `parity/writer.rs` of the log does.
#[derive(Clone)]
struct Side {
    number: usize,
    written: usize,
    end: usize,
}

impl Side {
    fn slot(&mut self, disk: &mut Disk) -> Result<(), Crash> {
        let covered = self.end - self.number * STRIPE;
        if self.end > self.written {
            let blocks = disk.seen().stripe(self.number, covered);
            let mut parity = [0; CELLS];
            for block in blocks {
                (0..CELLS).for_each(|cell| parity[cell] ^= block[cell]);
            }
            disk.write(Write::Known(self.number, Known { covered, blocks, parity }))?;
            disk.write(Write::Parity(self.number, parity))?;
            self.written = self.end;
        }
        Ok(())
    }

    fn follow(&mut self, disk: &mut Disk, end: usize) -> Result<(), Crash> {
        while self.end < end {
            self.end = end.min((self.number + 1) * STRIPE);
            if self.end == (self.number + 1) * STRIPE {
                self.slot(disk)?;
                self.number += 1;
            }
        }
        Ok(())
    }

    fn settle(&mut self, disk: &mut Disk, rules: Rules) -> Result<(), Crash> {
        self.slot(disk)?;
        if rules.slots_first {
            disk.sync(false)?;
        }
        let sequence = disk.seen().sequence() + 1;
        let copy = if rules.two_heads { sequence as usize % 2 } else { 0 };
        disk.write(Write::Head(copy, sequence, self.written))?;
        disk.sync(false)
    }
}

/// Opens the log after a crash: writes the parity that is missing up to the end of the records.
fn open(disk: &mut Disk, rules: Rules) -> Result<(), Crash> {
    let healed = disk.healed(rules);
    let end = healed.iter().take_while(|cell| **cell != 0 && **cell != GARBAGE).count();
    if disk.heads == [None; 2] {
        make_heads(disk)?;
    }
    let number = disk.seen().covered() / STRIPE;
    let mut side = Side { number, written: number * STRIPE, end: number * STRIPE };
    while rules.make_up && side.end < end {
        let until = end.min((side.number + 1) * STRIPE);
        if let (Some(known), true) = (disk.known[side.number], rules.keep_contradicted) {
            let blocks = disk.stripe(side.number, known.covered.min(until - side.number * STRIPE));
            if blocks != known.blocks {
                break;
            }
        }
        side.end = until;
        side.slot(disk)?;
        if until == (side.number + 1) * STRIPE {
            side.number += 1;
        } else {
            break;
        }
    }
    if side.written > disk.covered() || side.end > side.number * STRIPE {
        side.settle(disk, rules)?;
    }
    Ok(())
}

#[derive(Default)]
struct Stats {
    states: u64,
    broken: BTreeMap<&'static str, (u64, String)>,
}

impl Stats {
    fn check(&mut self, holds: bool, promise: &'static str, what: impl FnOnce() -> String) {
        self.states += 1;
        if !holds {
            let entry = self.broken.entry(promise).or_insert_with(|| (0, what()));
            entry.0 += 1;
        }
    }
}

/// Returns the value of cell `at` once it is written.
fn truth(at: usize) -> u8 {
    u8::try_from(at + 1).unwrap()
}

/// Returns whether a reader gets only written values, or the bytes stored in their place.
fn invents_nothing(disk: &Disk, rules: Rules, acknowledged: usize) -> bool {
    let healed = disk.healed(rules);
    (0..SIZE)
        .all(|at| healed[at] == disk.cells[at] || (at < acknowledged && healed[at] == truth(at)))
}

fn lose(disk: &Disk, block: usize, with: u8) -> Disk {
    let mut lost = disk.clone();
    (0..CELLS).for_each(|cell| lost.cells[block * CELLS + cell] = with);
    lost
}

/// Returns every loss of one block of the records, in two ways, and of two blocks at once.
fn losses(disk: &Disk) -> Vec<(Vec<usize>, Disk)> {
    let mut found = vec![];
    for block in 0..SIZE / CELLS {
        for with in [0, GARBAGE] {
            let one = lose(disk, block, with);
            for other in 0..block {
                found.push((vec![other, block], lose(&one, other, GARBAGE)));
            }
            found.push((vec![block], one));
        }
    }
    found
}

/// Checks that parity restores the records below `end` after every loss of one block.
fn all_come_back(disk: &Disk, rules: Rules, end: usize) -> Result<(), String> {
    for (blocks, lost) in losses(disk) {
        let healed = lost.healed(rules);
        if blocks.len() == 1 && (0..end).any(|at| healed[at] != truth(at)) {
            return Err(format!("block {} of {:?} below {end}", blocks[0], disk.cells));
        }
    }
    Ok(())
}

fn judge(disk: &Disk, (rules, acknowledged): (Rules, usize), depth: u32, stats: &mut Stats) {
    let about = || format!("{:?} {:?} covered {}", disk.cells, disk.known, disk.covered());
    stats.check(invents_nothing(disk, rules, acknowledged), "a look invents nothing", about);
    // The slot of the last, partial stripe may be in the middle of a rewrite.
    let promised = disk.covered() / STRIPE * STRIPE;
    let kept = all_come_back(disk, rules, promised.min(acknowledged));
    stats.check(kept.is_ok(), "what is covered comes back", || kept.unwrap_err());
    stats.check(promised <= acknowledged, "no more is covered than there is", about);
    for (_, lost) in losses(disk) {
        stats.check(invents_nothing(&lost, rules, acknowledged), "nothing wrong comes back", about);
    }
    if depth == 0 {
        return;
    }
    let mut opened = disk.clone();
    if open(&mut opened, rules).is_ok() {
        let end = opened.cells.iter().take_while(|cell| **cell != 0).count();
        let kept = all_come_back(&opened, rules, end);
        stats.check(kept.is_ok(), "after an open all comes back", || kept.unwrap_err());
    }
    for (blocks, damaged) in std::iter::once((vec![], disk.clone())).chain(losses(disk)) {
        let before = damaged.healed(rules);
        for fuse in 0.. {
            let mut cut = damaged.clone();
            cut.fuse = fuse;
            let is_done = open(&mut cut, rules).is_ok();
            for left in cut.after_cut().into_iter().chain([cut.seen()]) {
                let after = left.healed(rules);
                let lost = (0..acknowledged)
                    .find(|at| before[*at] == truth(*at) && after[*at] != truth(*at));
                stats.check(lost.is_none(), "an open costs nothing", || {
                    format!("cell {lost:?} of {:?} without {blocks:?}", disk.cells)
                });
                if blocks.is_empty() {
                    judge(&left, (rules, acknowledged), depth - 1, stats);
                }
            }
            if is_done {
                break;
            }
        }
    }
}

/// Workloads: a number appends that many cells, 0 is an idle sync of what was written.
const WORKLOADS: &[&[usize]] = &[
    &[1, 1, 0, 1, 1, 0, 1],
    &[3, 0, 3, 0, 2, 0],
    &[4, 4, 0, 1],
    &[2, 0, 1, 0, 5, 0],
    &[5, 0, 1, 2, 0, 3, 0],
    &[8, 0, 4, 0],
];

/// The progress of a run.
#[derive(Default)]
struct Done {
    acknowledged: usize,
    settled: usize,
}

/// Writes both copies of the head, as in a new file.
fn make_heads(disk: &mut Disk) -> Result<(), Crash> {
    for sequence in [1, 2] {
        disk.write(Write::Head(sequence as usize % 2, sequence, 0))?;
    }
    Ok(())
}

fn run(disk: &mut Disk, workload: &[usize], rules: Rules) -> (Done, Result<(), Crash>) {
    let mut side = Side { number: 0, written: 0, end: 0 };
    let mut end = 0;
    let mut done = Done::default();
    let mut work = || -> Result<(), Crash> {
        make_heads(disk)?;
        for count in workload {
            if *count == 0 {
                side.settle(disk, rules)?;
                done.settled = side.written;
                continue;
            }
            for at in end..end + count {
                disk.write(Write::Cell(at, truth(at)))?;
            }
            end += count;
            if !rules.data_first {
                side.follow(disk, end)?;
            }
            disk.sync(true)?;
            done.acknowledged = end;
            side.follow(disk, end)?;
        }
        Ok(())
    };
    let outcome = work();
    (done, outcome)
}

fn all(rules: Rules) -> Stats {
    let mut stats = Stats::default();
    for workload in WORKLOADS {
        for fuse in 0.. {
            let mut disk = Disk::new();
            disk.fuse = fuse;
            let (done, outcome) = run(&mut disk, workload, rules);
            // A kill leaves all pending writes, a power cut any subset of them.
            let killed = Disk { fuse: usize::MAX, ..disk.seen() };
            for left in disk.after_cut().into_iter().chain([killed]) {
                // A part of an unacknowledged write may be stored.
                let landed = left.cells.iter().take_while(|cell| **cell != 0).count();
                let acknowledged = done.acknowledged.max(landed);
                stats.check(left.covered() >= done.settled, "what was covered stays so", || {
                    format!("{:?}, and it was {}", left.heads, done.settled)
                });
                judge(&left, (rules, acknowledged), 1, &mut stats);
            }
            if outcome.is_ok() {
                break;
            }
        }
    }
    stats
}

/// Checks the rules, then drops each. Returns the number of promises broken with all rules, plus
/// the number of bugs that went unnoticed.
pub fn check() -> u64 {
    let stats = all(Rules::ALL);
    println!("parity: {} states", stats.states);
    for (promise, (count, example)) in &stats.broken {
        println!("  BROKEN {promise}: {count} times, e.g. {example}");
    }
    let mut bad = u64::try_from(stats.broken.len()).unwrap();
    for (name, about) in Rules::NAMES {
        let stats = all(Rules::without(name));
        let found = stats.broken.iter().next();
        println!("{} {name}: {about}", if found.is_some() { "FOUND " } else { "MISSED" });
        if let Some((promise, (count, example))) = found {
            let example: String = example.chars().take(150).collect();
            println!("       {promise}: {count} times, e.g. {example}");
        }
        bad += u64::from(found.is_none());
    }
    bad
}
