//! Applies one fault at a time to a closed log, and judges the result of recovery.

use crate::disk::{Name, World, BLOCK, SECTOR};
use crate::format::{self, Layout};
use crate::inspect::{inspect, Inspection, Verdict};
use crate::rules::Ahead;
use crate::search::{agree, Config};
use crate::stats::Stats;
use crate::table;

/// The part of a log that a fault hits.
#[derive(Clone, Copy)]
enum Hit {
    /// A range of the records of the segment with this id.
    Records(u16, usize, usize),
    /// The table of the segment with this id.
    Table(u16),
    /// Anything else.
    Elsewhere,
}

/// Returns the part that a fault in this range of a file hits.
fn hit(name: Name, range: (usize, usize), c: &Config) -> Hit {
    let records = format::data_start(c.layout, c.rules.gap);
    match name {
        Name::Before(id) => Hit::Table(id),
        Name::Segment(_) if c.layout == Layout::Text || range.1 <= records => Hit::Elsewhere,
        Name::Segment(id) | Name::Text(id) => Hit::Records(id, range.0, range.1),
        _ => Hit::Elsewhere,
    }
}

pub fn faults(w: &World, before: &Inspection, c: &Config, s: &mut Stats, trace: &str) {
    let mut w = w.clone();
    let names: Vec<(Name, usize)> = w
        .names
        .iter()
        .filter(|(n, _)| !matches!(n, Name::Temporary(_) | Name::Spare(_)))
        .map(|(n, f)| (*n, *f))
        .collect();
    for (name, file) in &names {
        let good = w.files[*file].cache.clone();
        let stale = w.files[*file].stale.clone();
        let other = names
            .iter()
            .find(|(n, f)| f != file && matches!(n, Name::Segment(_)))
            .map(|(_, f)| w.files[*f].cache.clone());
        let sectors = good.len() / SECTOR;
        for start in 0..sectors {
            for run in 1..=10.min(sectors - start) {
                for kind in ["garbage", "zero", "stale", "moved", "foreign"] {
                    let range = start * SECTOR..(start + run) * SECTOR;
                    let mut bytes = good.clone();
                    for i in range.clone() {
                        bytes[i] = match kind {
                            "garbage" => 0x5A ^ (i as u8).wrapping_mul(113) | 1,
                            "zero" => 0,
                            "stale" => stale.get(i).copied().unwrap_or(0),
                            "moved" => good[(i + 3 * SECTOR) % good.len()],
                            _ => match &other {
                                Some(o) if o.len() > i => o[i],
                                _ => good[i],
                            },
                        };
                    }
                    if bytes == good {
                        continue;
                    }
                    w.files[*file].cache = bytes;
                    let hit = hit(*name, (range.start, range.end), c);
                    after_fault(&w, before, c, s, (kind, hit), &|| {
                        format!("{trace} | {kind} {name:?} sector {start}+{run}")
                    });
                }
            }
        }
        for len in 0..sectors {
            w.files[*file].cache = good[..len * SECTOR].to_vec();
            let kind = if sectors - len <= 10 { "cut short" } else { "cut far short" };
            let hit = hit(*name, (len * SECTOR, good.len()), c);
            after_fault(&w, before, c, s, (kind, hit), &|| {
                format!("{trace} | {kind} {name:?} to {len} sectors")
            });
        }
        let past = w.files[*file].past.clone();
        for (i, old) in past.iter().filter(|p| same_life(*name, p, &good)).enumerate() {
            w.files[*file].cache = old.to_vec();
            let hit = hit(*name, (0, good.len()), c);
            after_fault(&w, before, c, s, ("rolled back", hit), &|| {
                format!("{trace} | {name:?} rolled back to {i}")
            });
        }
        w.files[*file].cache = good;
    }
    let listing = w.names.clone();
    for (name, file) in &names {
        w.names.remove(name);
        let hit = if let Name::Before(id) = name { Hit::Table(*id) } else { Hit::Elsewhere };
        after_fault(&w, before, c, s, ("file lost", hit), &|| format!("{trace} | lost {name:?}"));
        w.names = listing.clone();
        for (other, other_file) in &names {
            if matches!((name, other), (Name::Segment(_), Name::Segment(_))) && other != name {
                w.names.insert(*other, *file);
                after_fault(&w, before, c, s, ("file duplicated", Hit::Elsewhere), &|| {
                    format!("{trace} | {name:?} copied over {other:?}")
                });
                w.names.insert(*name, *other_file);
                after_fault(&w, before, c, s, ("file swapped", Hit::Elsewhere), &|| {
                    format!("{trace} | {name:?} swapped with {other:?}")
                });
                w.names = listing.clone();
            }
        }
        if let Name::Segment(id) = name {
            w.names.insert(Name::Segment(id + 1), *file);
            after_fault(&w, before, c, s, ("file duplicated", Hit::Elsewhere), &|| {
                format!("{trace} | {name:?} copied to the next name")
            });
            w.names = listing.clone();
        }
    }
}

/// Returns whether `old` is an older content of this file, from the same epoch.
fn same_life(name: Name, old: &[u8], now: &[u8]) -> bool {
    let epoch = |bytes: &[u8]| format::Header::decode(bytes).map(|h| h.epoch);
    old != now && (!matches!(name, Name::Segment(_)) || epoch(old) == epoch(now))
}

fn after_fault(
    w: &World,
    before: &Inspection,
    c: &Config,
    s: &mut Stats,
    (kind, hit): (&str, Hit),
    trace: &dyn Fn() -> String,
) {
    s.faults += 1;
    let found = inspect(w, &c.rules, c.layout);
    let t = &w.truth;
    if let Verdict::Damage(_) = found.verdict {
        return s.note(&format!("fault noticed: {kind}"), trace);
    }
    let from = found.start - 1;
    let total = from + found.records.len();
    let floor = t.cut.map_or(usize::MAX, |x| x);
    if from > t.first_needed || !agree(&found, &t.log) {
        return s.broken(&format!("P4 wrong bytes after a fault, {:?}", found.verdict), || {
            format!("{} found {:?} truth {t:?}", trace(), found.records)
        });
    }
    if let Some(broken) = judge_reuse(w, &found, c, (kind, hit)) {
        return s.broken(broken, trace);
    }
    let tells = found.verdict == Verdict::Ambiguous;
    if w.live.is_some_and(|live| total < (live.durable as usize).min(floor)) {
        return s.broken(&format!("P13 a log that ends before what `live` says: {kind}"), trace);
    }
    if total < t.closed.min(floor) {
        return s.broken(
            &format!("P7 lost what a clean close covered, {:?}: {kind}", found.verdict),
            trace,
        );
    }
    // These faults damage more than one run within reach: records are promised only up to the last
    // clean close.
    let promised = kind != "rolled back" && !(kind == "cut far short" && c.layout == Layout::Text);
    if promised && total < t.confirmed.min(floor) {
        let key =
            if tells { "P2 confirmed lost, cannot tell" } else { "P2 confirmed lost, SILENT" };
        return s.broken(&format!("{key}: {kind}"), || {
            let segments: Vec<_> = w
                .names
                .iter()
                .filter(|(n, _)| matches!(n, Name::Segment(_)))
                .map(|(n, f)| {
                    (
                        n,
                        format::Header::decode(&w.files[*f].cache),
                        format::decode_seal(&w.files[*f].cache),
                    )
                })
                .collect();
            format!("{} truth {t:?} found {} {segments:?}", trace(), found.records.len())
        });
    }
    if total < t.acked.min(floor) {
        // A lost file that only a note names leaves no trace of its records, so doubt is allowed.
        let may_doubt = c.rules.features.ahead == Ahead::Batch && kind == "file lost";
        if matches!(hit, Hit::Elsewhere) && promised && !(tells && may_doubt) {
            let how = if tells { "cannot tell" } else { "SILENT" };
            return s
                .broken(&format!("P10 synced lost to a fault elsewhere, {how}: {kind}"), trace);
        }
        let key = if tells { "synced lost, cannot tell" } else { "synced lost, silent" };
        let far = if promised { String::new() } else { format!(": {kind}") };
        return s.note(&format!("{key}{far}"), trace);
    }
    let same = found.records.len() == before.records.len() && found.start == before.start;
    let key = match (same, found.verdict == before.verdict) {
        (true, true) => "fault harmless",
        (true, false) => "fault reported, nothing lost",
        (false, _) => "unacknowledged tail changed by a fault",
    };
    s.note(key, trace);
}

/// Returns how the verdict on a reused segment hides what its table would show, if it does so.
fn judge_reuse(
    w: &World,
    found: &Inspection,
    c: &Config,
    (kind, hit): (&str, Hit),
) -> Option<&'static str> {
    let seg = found.chain.last().filter(|s| s.header.reused)?;
    let is_quiet = matches!(found.verdict, Verdict::Clean | Verdict::Torn);
    match hit {
        Hit::Table(id) if id == seg.header.id => {
            let is_full = found.end == w.files[seg.file].cache.len();
            (is_quiet && !is_full).then_some("P11 a lost table is not reported")
        }
        Hit::Records(id, from, to)
            if id == seg.header.id && kind == "zero" && found.verdict == Verdict::Clean =>
        {
            let data = format::data_start(c.layout, c.rules.gap);
            let zero = table::sums(&[0; SECTOR], 0)[0];
            let beyond = from.max(found.end.next_multiple_of(BLOCK));
            let sums = table::of(w, &seg.header)?;
            let differs = |at: usize| sums.get((at - data) / SECTOR).is_some_and(|s| *s != zero);
            let promised = w.truth.acked.min(w.truth.cut.unwrap_or(usize::MAX));
            let is_lost = found.start - 1 + found.records.len() < promised;
            let shows = (beyond..to).step_by(SECTOR).any(differs);
            (is_lost && shows).then_some("P12 zeros after the block of P pass for an end")
        }
        _ => None,
    }
}
