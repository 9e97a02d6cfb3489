//! JSON output: one object for each of Seawall's cases and for each case of another log.

use super::Row;
use super::cases::{ONE_BIT, SECTOR_ZEROED, TAIL_CUT, TAIL_ZEROED};
use super::judge::{missing, named_in_vain};
use super::look::{Opened, Seen};
use super::peers::{self, BY_HAND, Peer};
use super::table::{sides, words};
use seawall::Lsn;
use seawall::damage::Damage;
use serde::Serialize;

/// How another log behaved in one case.
#[derive(Serialize)]
struct PeerRow<'a> {
    row: &'a str,
    case: &'a str,
    system: &'a str,
    did: &'a str,
}

/// How Seawall behaved in one case.
#[derive(Serialize)]
struct SeawallRow<'a> {
    row: &'a str,
    case: &'a str,
    log: &'a str,
    parity: Option<String>,
    broken: &'a [String],
    #[serde(flatten)]
    result: CaseResult<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum CaseResult<'a> {
    Seen(SeenFields<'a>),
    Failed { failed: &'a str },
}

#[derive(Serialize)]
struct SeenFields<'a> {
    verdict: &'a str,
    opens: &'a str,
    refused: Option<&'a str>,
    refused_strict: Option<&'a str>,
    intact_before: usize,
    intact_after: usize,
    missing: usize,
    wrong: usize,
    named_and_read: usize,
    damage: Vec<DamageFields>,
    restored: usize,
    tail_bytes: u64,
}

#[derive(Serialize)]
struct DamageFields {
    segment: Option<u64>,
    offset: u64,
    bytes: u64,
    cause: &'static str,
    lost_from: Option<u64>,
    lost_to: Option<u64>,
}

/// Formats all rows, one per line.
pub(super) fn lines(rows: &[Row]) -> String {
    let ours = rows.iter().map(|row| line(&seawall_row(row)));
    let others = peers::measured().chain(BY_HAND.iter().copied());
    ours.chain(others.flat_map(|log| peer_rows(&log))).collect()
}

fn line(row: &impl Serialize) -> String {
    serde_json::to_string(row).expect("rows have only strings and numbers") + "\n"
}

/// Formats the behaviour of another log in each of the four common cases.
fn peer_rows(log: &Peer) -> Vec<String> {
    let cases = [ONE_BIT, SECTOR_ZEROED, TAIL_CUT, TAIL_ZEROED].into_iter().zip(log.did);
    cases.map(|(case, did)| line(&PeerRow { row: "peer", case, system: log.name, did })).collect()
}

fn seawall_row(row: &Row) -> SeawallRow<'_> {
    SeawallRow {
        row: "seawall",
        case: row.case,
        log: row.end.name(),
        parity: row.parity.map(|scheme| scheme.to_string()),
        broken: &row.broken,
        result: match &row.seen {
            Ok(seen) => CaseResult::Seen(seen_fields(seen)),
            Err(error) => CaseResult::Failed { failed: error },
        },
    }
}

fn seen_fields(seen: &Seen) -> SeenFields<'_> {
    let missing = missing(&seen.reader);
    let (intact_before, intact_after) = sides(&seen.reader.intact, missing.first().copied());
    SeenFields {
        verdict: seen.verdict.name(),
        opens: words(seen).opens,
        refused: refusal(&seen.open),
        refused_strict: refusal(&seen.strict),
        intact_before,
        intact_after,
        missing: missing.len(),
        wrong: seen.reader.wrong.len(),
        named_and_read: named_in_vain(seen),
        damage: seen.damage.iter().map(damage_fields).collect(),
        restored: seen.mended,
        tail_bytes: seen.tail.map_or(0, |(_, _, bytes)| bytes),
    }
}

fn refusal(opened: &Opened) -> Option<&str> {
    match opened {
        Opened::Yes(_) => None,
        Opened::No(why) => Some(why),
    }
}

fn damage_fields(damage: &Damage) -> DamageFields {
    DamageFields {
        segment: damage.segment.map(seawall_format::SegmentId::get),
        offset: damage.offset.0,
        bytes: damage.bytes,
        cause: damage.cause.name(),
        lost_from: damage.lost.map(|lost| lost.from.get()),
        lost_to: damage.lost.and_then(|lost| lost.to).map(Lsn::get),
    }
}
