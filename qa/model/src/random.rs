//! Random workloads with many crashes and reopens.

use crate::disk::Stop;
use crate::format::Layout;
use crate::inspect::{inspect, reader};
use crate::rules::{Ahead, Features};
use crate::search::{adopt, base, explore, start_world, Config};
use crate::stats::Stats;
use crate::workload::{perform, Op::*};
use crate::writer::{recover, Writer};

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

/// Runs long random workloads: appends, truncations, rotations, several failed syncs, up to six
/// crashes. Returns the number of broken promises.
pub fn random(seconds: u64, seed: u64) -> u64 {
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

pub fn one_life(seed: u64, s: &mut Stats) {
    let mut d = Dice(seed);
    let layout = [Layout::Dense, Layout::Padded, Layout::Text][d.roll(3) as usize];
    let pad = layout == Layout::Padded;
    let (garble, spoil) = (pad && d.roll(3) == 0, pad && d.roll(3) == 0);
    let faults = if d.roll(40) == 0 { 1 } else { 0 };
    let mut c = Config { garble, spoil, faults, depth: 0, ..base(layout) };
    let is_plain = d.roll(3) == 0;
    if !is_plain && layout != Layout::Text {
        let flights = if pad { 1 + d.roll(4) as u16 } else { 1 };
        let ahead = [Ahead::Off, Ahead::Batch, Ahead::Both][d.roll(3) as usize];
        c.rules.features = Features { reuse: d.roll(2) == 0, flights, ahead };
    }
    let mut w = start_world(&c);
    let mut writer: Option<Writer> = None;
    let mut trace =
        format!("seed {seed} {layout:?} garble {garble} spoil {spoil} {:?}", c.rules.features);
    for _ in 0..1 + d.roll(6) {
        w.fresh_run();
        w.crash_at = d.roll(if is_plain { 40 } else { 80 }) as usize;
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
                    4..6 if pad && is_plain => Pair(d.roll(2) == 0, d.roll(4) == 0),
                    4..6 if pad => {
                        Stream(1 + d.roll(5) as usize, 1 + d.roll(4) as usize, d.roll(2) == 0)
                    }
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
        // A reader inspects the log just before the crash. One that must sync does so in half of
        // the cases.
        if let Some((f, files)) = reader(&w, &c.rules, layout) {
            let may_show = files.is_empty()
                || (w.steps.is_multiple_of(2) && !w.is_doubtful && w.settle(&files));
            if may_show {
                w.truth.shown = w.truth.shown.max(f.start - 1 + f.records.len());
            }
        }
        let sectors = w.pending.len();
        let choice: Vec<u8> = (0..sectors + w.dir_pending.len())
            .map(|i| d.roll(if garble && i < sectors { 3 } else { 2 }) as u8)
            .collect();
        w = match (d.roll(3), w.steps % 3) {
            (0, _) => w.kill(),
            (_, 0) => w.detach(&choice, w.steps / 3),
            _ => w.power_cut(&choice),
        };
        writer = None;
        let before = s.bad();
        explore(&w, &c, s, 0, &trace);
        if s.bad() > before {
            return;
        }
    }
}
