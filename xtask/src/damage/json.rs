//! The table for programs: one object a line, of Seawall's cases and of other logs.

use super::Row;
use super::cases::{ONE_BIT, SECTOR_ZEROED, TAIL_CUT, TAIL_ZEROED};
use super::judge::{missing, named_in_vain};
use super::look::{Opened, Seen};
use super::peers::{self, BY_HAND, Peer};
use super::table::{sides, words};
use crate::json::{array, object, quote};
use seawall::Lsn;
use seawall::damage::Damage;

/// An object under construction: names with values that are JSON already.
type Fields = Vec<(&'static str, String)>;

/// All rows, each on a line.
pub(super) fn lines(rows: &[Row]) -> String {
    let ours = rows.iter().map(ours);
    let others = peers::measured().chain(BY_HAND.iter().copied()).flat_map(|log| peer(&log));
    ours.chain(others).map(|fields| object(&fields) + "\n").collect()
}

/// What a log did in each of the four cases.
fn peer(log: &Peer) -> Vec<Fields> {
    let row = |(case, did): (&str, &str)| {
        vec![
            ("row", quote("peer")),
            ("case", quote(case)),
            ("system", quote(log.name)),
            ("did", quote(did)),
        ]
    };
    [ONE_BIT, SECTOR_ZEROED, TAIL_CUT, TAIL_ZEROED].into_iter().zip(log.did).map(row).collect()
}

fn ours(row: &Row) -> Fields {
    let mut fields = vec![
        ("row", quote("seawall")),
        ("case", quote(row.case)),
        ("log", quote(row.end.name())),
        ("parity", row.parity.map_or("null".to_owned(), |scheme| quote(&scheme.to_string()))),
        ("broken", array(row.broken.iter().map(|broken| quote(broken)))),
    ];
    match &row.seen {
        Ok(seen) => fields.extend(seen_fields(seen)),
        Err(error) => fields.push(("failed", quote(error))),
    }
    fields
}

fn seen_fields(seen: &Seen) -> Fields {
    let missing = missing(&seen.reader);
    let (before, after) = sides(&seen.reader.intact, missing.first().copied());
    vec![
        ("verdict", quote(seen.verdict.name())),
        ("opens", quote(words(seen).opens)),
        ("refused", refusal(&seen.open)),
        ("refused_strict", refusal(&seen.strict)),
        ("intact_before", before.to_string()),
        ("intact_after", after.to_string()),
        ("missing", missing.len().to_string()),
        ("wrong", seen.reader.wrong.len().to_string()),
        ("named_and_read", named_in_vain(seen).to_string()),
        ("damage", array(seen.damage.iter().map(damage))),
        ("restored", seen.mended.to_string()),
        ("tail_bytes", seen.tail.map_or(0, |(_, _, bytes)| bytes).to_string()),
    ]
}

fn refusal(opened: &Opened) -> String {
    match opened {
        Opened::Yes(_) => "null".to_owned(),
        Opened::No(why) => quote(why),
    }
}

fn damage(damage: &Damage) -> String {
    let number = |lsn: Option<Lsn>| lsn.map_or("null".to_owned(), |lsn| lsn.to_string());
    object(&[
        ("segment", damage.segment.map_or("null".to_owned(), |id| id.get().to_string())),
        ("offset", damage.offset.0.to_string()),
        ("bytes", damage.bytes.to_string()),
        ("cause", quote(damage.cause.name())),
        ("lost_from", number(damage.lost.map(|lost| lost.from))),
        ("lost_to", number(damage.lost.and_then(|lost| lost.to))),
    ])
}
