//! The workloads that the checker crashes.

use crate::disk::{Stop, World};
use crate::format::Layout;
use crate::rules::Ahead;
use crate::search::{adopt, base, Config, Extent};
use crate::writer::{recover, Writer};
use Op::*;

#[derive(Clone, Copy, Debug)]
pub enum Op {
    Append(usize),
    /// Several batches in one write. `Set` makes all of them one atomic set.
    Many(usize),
    Set(usize),
    /// Two writes in flight: whether the second sync returns first, and whether a rotation follows.
    Pair(bool, bool),
    /// The number of writes, the records in each, and whether the newest sync returns first.
    Stream(usize, usize, bool),
    Mark,
    Roll,
    Cut(u16),
    Checkpoint(u16),
    Prune(u16),
    /// A clean close, then open.
    Close,
}

pub const WORKLOADS: &[(&str, &[Op])] = &[
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
pub const PIPELINED: &[(&str, &[Op])] = &[
    ("pair in order", &[Append(1), Pair(false, false), Append(1)]),
    ("pair swapped", &[Append(1), Pair(true, false), Append(1)]),
    ("pair, roll", &[Pair(true, true), Append(1), Mark]),
    ("pair, cut", &[Pair(true, false), Cut(2), Pair(false, false)]),
];

const REUSE: &[(&str, &[Op])] = &[
    ("reuse", &[Append(2), Append(1), Roll, Append(1), Prune(3), Roll, Append(1), Many(4), Mark]),
    (
        "reuse twice",
        &[
            Append(1),
            Roll,
            Append(1),
            Prune(1),
            Roll,
            Append(2),
            Append(1),
            Roll,
            Append(1),
            Prune(5),
            Roll,
            Append(1),
        ],
    ),
    (
        "reuse after a cut",
        &[Append(1), Roll, Append(2), Append(1), Cut(1), Append(1), Roll, Many(3)],
    ),
    ("reuse, close", &[Append(2), Roll, Append(1), Prune(2), Roll, Append(1), Close, Append(2)]),
    (
        "reuse, evidence",
        &[
            Append(1),
            Roll,
            Append(1),
            Prune(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
        ],
    ),
];

const AHEAD: &[(&str, &[Op])] = &[
    ("ahead", &[Append(1), Append(1), Roll, Append(1), Append(1), Mark]),
    ("ahead, cut", &[Append(2), Roll, Append(2), Cut(1), Append(1), Roll, Append(1), Cut(1)]),
    ("ahead, full", &[Append(2), Append(2), Append(2), Append(2), Append(1)]),
    ("ahead, sets", &[Append(1), Roll, Set(3), Roll, Many(4), Roll, Mark, Append(1)]),
    ("ahead, close", &[Append(2), Close, Append(1), Roll, Append(1), Close, Append(1)]),
    ("ahead, prune", &[Append(1), Roll, Append(1), Prune(1), Roll, Append(1), Roll, Append(1)]),
    (
        "ahead, evidence",
        &[
            Append(2),
            Roll,
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
            Append(1),
        ],
    ),
];

const FLIGHTS: &[(&str, &[Op])] = &[
    ("stream", &[Append(1), Stream(4, 1, false), Mark, Stream(2, 1, false)]),
    ("stream, newest first", &[Append(1), Stream(4, 1, true), Close, Stream(2, 1, true)]),
    ("stream, long writes", &[Append(1), Roll, Stream(5, 4, true), Append(1)]),
    ("stream, roll", &[Stream(3, 1, true), Roll, Stream(4, 2, true)]),
    ("stream, cut", &[Stream(3, 1, true), Cut(2), Stream(2, 1, false)]),
];

/// Returns the workloads of a configuration: the plain ones, and those of each of its features.
pub fn workloads(c: &Config) -> Vec<(&'static str, &'static [Op])> {
    let f = c.rules.features;
    let plain = base(c.layout).rules.features == f;
    let few = if c.extent == Extent::Few { 2 } else { usize::MAX };
    let mut out = vec![];
    if plain || c.extent == Extent::All {
        out.extend(WORKLOADS);
    }
    if plain && c.layout == Layout::Padded {
        out.extend(PIPELINED);
    }
    if f.reuse {
        out.extend(REUSE.iter().take(few));
    }
    if f.ahead != Ahead::Off {
        out.extend(AHEAD.iter().take(few));
    }
    if !plain && c.layout == Layout::Padded {
        out.extend(FLIGHTS.iter().take(few));
    }
    out
}

pub fn perform(w: &mut World, writer: &mut Writer, c: &Config, ops: &[Op]) -> Result<(), Stop> {
    for op in ops {
        match *op {
            Append(n) | Many(n) => writer.append(w, n, false)?,
            Set(n) => writer.append(w, n, true)?,
            Pair(swap, roll) => writer.append_pipelined(w, swap, roll)?,
            Stream(writes, count, newest) => writer.append_stream(w, writes, count, newest)?,
            Mark => writer.mark(w)?,
            Roll => writer.roll(w)?,
            Cut(lsn) => writer.truncate_after(w, lsn)?,
            Checkpoint(lsn) => writer.checkpoint(w, lsn, false)?,
            Prune(lsn) => writer.checkpoint(w, lsn, true)?,
            Close => {
                writer.close(w)?;
                w.live_is_held = false;
                if let (found, Some(opened)) = recover(w, &c.rules, c.layout)? {
                    adopt(w, &found);
                    *writer = opened;
                }
            }
        }
    }
    Ok(())
}
