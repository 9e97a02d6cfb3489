//! How other logs responded to the same damage: data for the table, each row with its version.
//!
//! No figure comes from a log's documentation. Each log wrote its records, one change was made to
//! its files, and then it was opened and read in its ordinary way. Each was tested at one place and
//! with one record size only. The comparison program prints the logs in the table; the others were
//! measured once by hand and appear only in the JSON.

/// The output of `seawall-compare damage`; a test of that program compares the file with it.
const MEASURED: &str = include_str!("../../../compare/damage.txt");

/// How another log responded to four changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    /// The name and version of the log.
    pub(super) name: &'static str,
    pub(super) did: [&'static str; 4],
}

/// The results that the comparison program printed: one bit and one sector changed in the middle,
/// then the last 100 bytes missing and zeroed.
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

/// Note below the results of the comparison program.
pub(super) const MEASURED_NOTE: &str = "\
Seawall: of 2000 records, how many a reader that skips damage reads, and which it reports as lost.
Others: of 600 records of 256 bytes; the process ended after the last sync without a close.
N, error: N intact records were read, and an error was returned. N, no error: the rest is not read
and nothing reports it. DELETED: opening the log removed intact records after the damage. WRONG:
changed bytes were delivered as a record.
";

const ERROR: &str = "error at record";
const NOT_TRIED: &str = "-";
const NO_OPEN: &str = "does not open";
const HALF: &str = "99 of 200";
const WRONG: &str = "1 WRONG";
const STOPS: &str = "stops at record";
const NEEDS_CALL: &str = "needs Repair()";

/// Logs that were damaged once, by hand, in 2026: one bit and one sector in the middle, then the
/// last 100 bytes missing and zeroed. The libraries wrote 600 or 2,000 records of 256 bytes; the
/// larger systems wrote 200 of about 1.5 KB (`PostgreSQL` about 0.5 KB). Each record was synced
/// alone.
///
/// "N of M": N of M records were read intact. etcd's server makes one repair by itself; a program
/// that uses its wal package must call it. `RocksDB` was used through rocksdict 0.3.29:
/// `PointInTime` is its default, and "recycling" means that it reuses log files. `PostgreSQL`
/// writes one line to its own log.
pub(super) const BY_HAND: &[Peer] = &[
    peer("nano-wal 1.0.0", [WRONG, NOT_TRIED, ERROR, WRONG]),
    peer("simple_wal 0.3.0", [ERROR, NOT_TRIED, "1999, no error", "read error"]),
    peer("tidwall/wal 1.2.1 (Go)", [WRONG, NOT_TRIED, NO_OPEN, WRONG]),
    peer("raft-wal 0.4.0 (Go)", [WRONG, WRONG, "580 of 600", "580 of 600"]),
    peer("prometheus wlog 0.315.0", [STOPS, NOT_TRIED, NEEDS_CALL, NEEDS_CALL]),
    peer("etcd 3.6.5, wal 3.7.3", [NO_OPEN, HALF, NEEDS_CALL, NEEDS_CALL]),
    peer("RocksDB PointInTime", [HALF, HALF, NOT_TRIED, NOT_TRIED]),
    peer("RocksDB TolerateTail", [NO_OPEN, NO_OPEN, NOT_TRIED, NOT_TRIED]),
    peer("the same, recycling", [HALF, HALF, NOT_TRIED, NOT_TRIED]),
    peer("RocksDB Absolute", [NO_OPEN, NO_OPEN, NOT_TRIED, NOT_TRIED]),
    peer("RocksDB SkipAny", ["192 of 200", "192 of 200", NOT_TRIED, NOT_TRIED]),
    peer("PostgreSQL 15", [HALF, NOT_TRIED, NOT_TRIED, NOT_TRIED]),
];
