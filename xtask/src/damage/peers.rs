//! What other logs did with the same damage: data for the table, each row with its version.
//!
//! No figure comes from a log's documentation. Each log wrote its records, one change was made to
//! its files, and it was opened and read in its ordinary way, at one place and one record size. The
//! first comparison is written by the comparison program; the other two were measured once.

use super::cases::{
    BIT_IN_ZEROS, LENGTH_BIT, LENGTH_ZEROED, NEWEST_CUT, ONE_BIT, SECTOR_ZEROED, TAIL_BIT,
};

/// What `seawall-compare damage` prints; a test of that program compares it.
const MEASURED: &str = include_str!("../../../qa/compare/damage.txt");

/// A log library under four changes.
#[derive(Debug)]
pub(super) struct Peer {
    /// With the version.
    pub(super) name: &'static str,
    pub(super) did: [&'static str; 4],
}

/// The logs that the comparison program damages: one bit and one sector in the middle, then the
/// last 100 bytes missing and zeroed.
pub(super) fn measured() -> impl Iterator<Item = Peer> {
    MEASURED.lines().skip(1).filter_map(|line| {
        let mut cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        let name = cells.next()?;
        let did: Vec<_> = cells.collect();
        Some(Peer { name, did: did.try_into().ok()? })
    })
}

const fn peer(name: &'static str, did: [&'static str; 4]) -> Peer {
    Peer { name, did }
}

const ERROR: &str = "error at record";
const ONE_WRONG: &str = "2000, 1 WRONG";
const STOPS: &str = "stops at record";
const STOPS_FOR_REPAIR: &str = "stops, Repair()";
const OF_600: &str = "600, 1 WRONG";
const BATCH_LESS: &str = "580 of 600";
const REFUSES_PLACE: &str = "refuses, names it";

/// Logs that were damaged by hand, once, in 2026: one bit and 8 bytes in the middle, then the last
/// 100 bytes missing and zeroed. 2,000 records of 256 bytes; 600 where syncs cannot be left out.
pub(super) const BY_HAND: &[Peer] = &[
    peer("nano-wal 1.0.0", [ONE_WRONG, ONE_WRONG, ERROR, ONE_WRONG]),
    peer("simple_wal 0.3.0", [ERROR, ERROR, "1999, no error", "read error"]),
    peer("tidwall/wal 1.2.1 (Go)", [ONE_WRONG, ONE_WRONG, "does not open", ONE_WRONG]),
    peer("raft-wal 0.4.0 (Go)", [OF_600, OF_600, BATCH_LESS, BATCH_LESS]),
    peer("etcd wal 3.7.3", [REFUSES_PLACE, REFUSES_PLACE, "Repair() first", "torn, Repair()"]),
    peer("prometheus wlog 0.315.0", [STOPS, STOPS, STOPS_FOR_REPAIR, STOPS_FOR_REPAIR]),
];

/// A system that others trust under one change: 200 records of about 1.5 KB (`PostgreSQL` about
/// 0.5 KB), each synced on its own, damage at record 100.
#[derive(Debug)]
pub(super) struct Anchor {
    pub(super) damage: &'static str,
    pub(super) system: &'static str,
    pub(super) reopened: &'static str,
    pub(super) read: &'static str,
}

const fn anchor(
    damage: &'static str,
    system: &'static str,
    reopened: &'static str,
    read: &'static str,
) -> Anchor {
    Anchor { damage, system, reopened, read }
}

/// Below the logs of the comparison program.
pub(super) const MEASURED_NOTE: &str = "\
Seawall: of 2000 records, how many a reader that skips damage reads, and which it reports as lost.
Others: of 600 records of 256 bytes; the process ended after the last sync without a close.
N, error: N intact records were read, and an error was returned. N, no error: the rest is not read
and nothing reports it. DELETED: opening the log removed intact records after the damage. WRONG:
changed bytes were delivered as a record.
";

/// Below the logs that were damaged by hand.
pub(super) const BY_HAND_NOTE: &str = "\
Of 2000 records (raft-wal: 600). Repair(): a call that the program has to make to go on.
";

/// Below the larger systems.
pub(super) const ANCHORS_NOTE: &str = "\
By hand, in 2026: 200 records each, damage at record 100. etcd 3.6.5 with the one repair that its
server makes, raft-wal 0.4.0 (sampled reads), RocksDB by rocksdict 0.3.29 (PointInTime is its
default; \"recycling\": of log files), PostgreSQL 15.
";

const ETCD: &str = "etcd";
const RAFT_WAL: &str = "raft-wal";
const ROCKSDB: &str = "RocksDB PointInTime";
const TOLERATE: &str = "RocksDB TolerateTail";
const ABSOLUTE: &str = "RocksDB Absolute";
const SKIP_ANY: &str = "RocksDB SkipAny";
const OK: &str = "opens";
const REFUSES: &str = "refuses";
const REPAIRED: &str = "opens after its repair";
const NONE: &str = "none";
const HALF_OF_200: &str = "99 of 200";
const WRONG: &str = "200, 1 WRONG";

/// Seawall has no such byte: the one that says what a frame is.
const FRAME_TYPE: &str = "type byte of a frame";

/// The rows of the second comparison.
pub(super) const ANCHORS: &[Anchor] = &[
    anchor(ONE_BIT, ETCD, "refuses, CRC mismatch", NONE),
    anchor(ONE_BIT, RAFT_WAL, OK, WRONG),
    anchor(ONE_BIT, ROCKSDB, OK, HALF_OF_200),
    anchor(ONE_BIT, TOLERATE, "refuses; recycling: opens", "none; recycling: 99"),
    anchor(ONE_BIT, ABSOLUTE, REFUSES, NONE),
    anchor(ONE_BIT, SKIP_ANY, OK, "192 of 200"),
    anchor(ONE_BIT, "PostgreSQL", "opens, one line in its log", HALF_OF_200),
    anchor(SECTOR_ZEROED, ETCD, REPAIRED, HALF_OF_200),
    anchor(SECTOR_ZEROED, RAFT_WAL, OK, WRONG),
    anchor(SECTOR_ZEROED, ROCKSDB, OK, HALF_OF_200),
    anchor(SECTOR_ZEROED, TOLERATE, "refuses; recycling: opens", "none; recycling: 99"),
    anchor(SECTOR_ZEROED, ABSOLUTE, REFUSES, NONE),
    anchor(SECTOR_ZEROED, SKIP_ANY, OK, "192 of 200"),
    anchor(BIT_IN_ZEROS, ETCD, REPAIRED, HALF_OF_200),
    anchor(LENGTH_ZEROED, ETCD, OK, HALF_OF_200),
    anchor(LENGTH_BIT, ETCD, REPAIRED, HALF_OF_200),
    anchor(TAIL_BIT, RAFT_WAL, OK, "199 of 200"),
    anchor(FRAME_TYPE, RAFT_WAL, OK, HALF_OF_200),
    anchor(NEWEST_CUT, ROCKSDB, OK, HALF_OF_200),
    anchor(NEWEST_CUT, TOLERATE, OK, HALF_OF_200),
    anchor(NEWEST_CUT, ABSOLUTE, REFUSES, NONE),
];
