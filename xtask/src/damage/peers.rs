//! What other logs did with the same damage: measured once, in 2026, with the versions named here.
//!
//! The figures do not come from their documentation: each log wrote its records, one change was
//! made to its data, and it was opened and read in its ordinary way, once, at one place and one
//! record size. Logs of 2,000 records of 256 bytes; 600 where syncing cannot be left out.

use super::cases::{
    BIT_IN_ZEROS, LENGTH_BIT, LENGTH_ZEROED, NEWEST_CUT, ONE_BIT, SECTOR_ZEROED, TAIL_BIT,
};

/// A log library under the four changes of the first comparison.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// One bit mid-log, 8 bytes mid-log, last 100 bytes cut off, last 100 bytes zeroed.
    pub(super) did: [&'static str; 4],
}

const fn peer(name: &'static str, version: &'static str, did: [&'static str; 4]) -> Peer {
    Peer { name, version, did }
}

const CANNOT_OPEN: &str = "cannot open";
const UNREADABLE: &str = "unreadable";
const AT_RECORD: &str = "error there";
const ONE_LESS: &str = "1999, ok";
const ONE_WRONG: &str = "2000, 1 WRONG";
const STOPS: &str = "stops there";
const REPAIR_FIRST: &str = "Repair() first";
const HALF: &str = "1000, SILENT";
const OF_600: &str = "600, 1 WRONG";
const NAMED: &str = "refuses, named";

/// The logs of the first comparison.
pub(super) const PEERS: &[Peer] = &[
    peer("okaywal", "0.3.1", [CANNOT_OPEN; 4]),
    peer("walrus-rust", "0.2.0", [HALF, HALF, ONE_LESS, ONE_LESS]),
    peer("raft-engine", "0.4.2", [AT_RECORD, AT_RECORD, ONE_LESS, ONE_LESS]),
    peer("commitlog", "0.2.0", [UNREADABLE, UNREADABLE, "fails", "fails"]),
    peer("nano-wal", "1.0.0", [ONE_WRONG, ONE_WRONG, AT_RECORD, ONE_WRONG]),
    peer("simple_wal", "0.3.0", [AT_RECORD, AT_RECORD, ONE_LESS, "read error"]),
    peer("fjall (journal)", "3.1.13", [CANNOT_OPEN, CANNOT_OPEN, ONE_LESS, ONE_LESS]),
    peer("tidwall/wal", "1.2.1", [ONE_WRONG, ONE_WRONG, CANNOT_OPEN, ONE_WRONG]),
    peer("raft-wal", "0.4.0", [OF_600, OF_600, "580, batch of 20", "580, batch of 20"]),
    peer("etcd wal", "3.7.3", [NAMED, NAMED, REPAIR_FIRST, "torn, Repair()"]),
    peer("prometheus wlog", "0.315.0", [STOPS, STOPS, "stops, Repair()", "stops, Repair()"]),
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

/// What belongs below the first comparison.
pub(super) const PEERS_NOTE: &str = "\
Seawall: what a reader that skips damage gives. Others: measured in 2026, opened and read in their
ordinary way; 600 records where syncs cannot be left out. SILENT: records gone, no error. WRONG:
delivered as good, no error. Repair(): a call of the user's.
";

/// What belongs below the second comparison.
pub(super) const ANCHORS_NOTE: &str = "\
Others: measured in 2026, 200 records each, damage at record 100: etcd 3.6.5 with the one repair
that its server makes, raft-wal 0.4.0 (sampled reads), RocksDB by rocksdict 0.3.29 (PointInTime is
its default; \"recycling\": of log files), PostgreSQL 15.
";

const ETCD: &str = "etcd";
const RAFT_WAL: &str = "raft-wal";
const ROCKSDB: &str = "RocksDB PointInTime";
const TOLERATE: &str = "RocksDB TolerateTail";
const ABSOLUTE: &str = "RocksDB Absolute";
const SKIP_ANY: &str = "RocksDB SkipAny";
const OK: &str = "ok";
const REFUSES: &str = "refuses";
const REPAIRED: &str = "ok after its repair";
const NONE: &str = "none";
const HALF_OF_200: &str = "99 of 200";
const WRONG: &str = "200, 1 WRONG";

/// Beside no case of ours: the byte that says what a frame is.
const FRAME_TYPE: &str = "type byte of a frame";

/// The rows of the second comparison.
pub(super) const ANCHORS: &[Anchor] = &[
    anchor(ONE_BIT, ETCD, "refuses, CRC mismatch", NONE),
    anchor(ONE_BIT, RAFT_WAL, OK, WRONG),
    anchor(ONE_BIT, ROCKSDB, OK, HALF_OF_200),
    anchor(ONE_BIT, TOLERATE, "refuses; recycling: ok", "none; recycling: 99"),
    anchor(ONE_BIT, ABSOLUTE, REFUSES, NONE),
    anchor(ONE_BIT, SKIP_ANY, OK, "192 of 200"),
    anchor(ONE_BIT, "PostgreSQL", "ok, one line in its log", HALF_OF_200),
    anchor(SECTOR_ZEROED, ETCD, REPAIRED, HALF_OF_200),
    anchor(SECTOR_ZEROED, RAFT_WAL, OK, WRONG),
    anchor(SECTOR_ZEROED, ROCKSDB, OK, HALF_OF_200),
    anchor(SECTOR_ZEROED, TOLERATE, "refuses; recycling: ok", "none; recycling: 99"),
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
