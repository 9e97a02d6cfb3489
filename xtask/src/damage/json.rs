//! The answer for machines: one object a line, of Seawall's cases, its peers and larger systems.

use super::Row;
use super::cases::{EIGHT_BYTES, ONE_BIT, TAIL_CUT, TAIL_ZEROED};
use super::judge::{missing, named_in_vain};
use super::look::{Opened, Seen};
use super::peers::{ANCHORS, PEERS};
use super::table::{sides, words};
use crate::json::{array, object, quote};
use seawall::Lsn;
use seawall::damage::Damage;

/// An object under construction: names with values that are JSON already.
type Fields = Vec<(&'static str, String)>;

/// All rows, each on a line.
pub(super) fn lines(rows: &[Row]) -> String {
    let ours = rows.iter().map(ours);
    let peers = PEERS.iter().flat_map(|peer| {
        let cases = [ONE_BIT, EIGHT_BYTES, TAIL_CUT, TAIL_ZEROED];
        cases.into_iter().zip(peer.did).map(|(case, did)| {
            vec![
                ("row", quote("peer")),
                ("case", quote(case)),
                ("system", quote(peer.name)),
                ("version", quote(peer.version)),
                ("did", quote(did)),
            ]
        })
    });
    let anchors = ANCHORS.iter().map(|row| {
        vec![
            ("row", quote("system")),
            ("case", quote(row.damage)),
            ("system", quote(row.system)),
            ("opens", quote(row.reopened)),
            ("read", quote(row.read)),
        ]
    });
    ours.chain(peers).chain(anchors).map(|fields| object(&fields) + "\n").collect()
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
    let (before, behind) = sides(&seen.reader.intact, missing.first().copied());
    vec![
        ("verdict", quote(seen.verdict.name())),
        ("opens", quote(words(seen).opens)),
        ("refused", refusal(&seen.open)),
        ("refused_strict", refusal(&seen.strict)),
        ("intact_before", before.to_string()),
        ("intact_behind", behind.to_string()),
        ("missing", missing.len().to_string()),
        ("wrong", seen.reader.wrong.len().to_string()),
        ("named_and_read", named_in_vain(seen).to_string()),
        ("damage", array(seen.damage.iter().map(damage))),
        ("mended", seen.mended.to_string()),
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
