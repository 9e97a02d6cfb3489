//! One fault at a time in a closed log, and the result of recovery.

use crate::disk::{Name, World, SECTOR};
use crate::format::{self, Layout};
use crate::inspect::{inspect, Inspection, Verdict};
use crate::search::{agree, Config};
use crate::stats::Stats;

pub fn faults(w: &World, before: &Inspection, c: &Config, s: &mut Stats, trace: &str) {
    let mut w = w.clone();
    let names: Vec<(Name, usize)> = w
        .names
        .iter()
        .filter(|(n, _)| !matches!(n, Name::Temporary(_)))
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
                    after_fault(&w, before, c, s, kind, &|| {
                        format!("{trace} | {kind} {name:?} sector {start}+{run}")
                    });
                }
            }
        }
        for len in 0..sectors {
            w.files[*file].cache = good[..len * SECTOR].to_vec();
            let kind = if sectors - len <= 10 { "cut short" } else { "cut far short" };
            after_fault(&w, before, c, s, kind, &|| {
                format!("{trace} | {kind} {name:?} to {len} sectors")
            });
        }
        let past = w.files[*file].past.clone();
        for (i, old) in past.iter().filter(|p| same_life(*name, p, &good)).enumerate() {
            w.files[*file].cache = old.to_vec();
            after_fault(&w, before, c, s, "rolled back", &|| {
                format!("{trace} | {name:?} rolled back to {i}")
            });
        }
        w.files[*file].cache = good;
    }
    let listing = w.names.clone();
    for (name, file) in &names {
        w.names.remove(name);
        after_fault(&w, before, c, s, "file lost", &|| format!("{trace} | lost {name:?}"));
        w.names = listing.clone();
        for (other, other_file) in &names {
            if matches!((name, other), (Name::Segment(_), Name::Segment(_))) && other != name {
                w.names.insert(*other, *file);
                after_fault(&w, before, c, s, "file duplicated", &|| {
                    format!("{trace} | {name:?} copied over {other:?}")
                });
                w.names.insert(*name, *other_file);
                after_fault(&w, before, c, s, "file swapped", &|| {
                    format!("{trace} | {name:?} swapped with {other:?}")
                });
                w.names = listing.clone();
            }
        }
        if let Name::Segment(id) = name {
            w.names.insert(Name::Segment(id + 1), *file);
            after_fault(&w, before, c, s, "file duplicated", &|| {
                format!("{trace} | {name:?} copied to the next name")
            });
            w.names = listing.clone();
        }
    }
}

/// Whether a whole file is an older copy of this one, from the same epoch.
fn same_life(name: Name, old: &[u8], now: &[u8]) -> bool {
    let epoch = |bytes: &[u8]| format::Header::decode(bytes).map(|h| h.epoch);
    old != now && (!matches!(name, Name::Segment(_)) || epoch(old) == epoch(now))
}

fn after_fault(
    w: &World,
    before: &Inspection,
    c: &Config,
    s: &mut Stats,
    kind: &str,
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
        return s.note(&format!("P4 wrong bytes after a fault, {:?}", found.verdict), || {
            format!("{} found {:?} truth {t:?}", trace(), found.records)
        });
    }
    let tells = found.verdict == Verdict::Ambiguous;
    if total < t.closed.min(floor) {
        return s.note(
            &format!("P7 lost what a clean close covered, {:?}: {kind}", found.verdict),
            trace,
        );
    }
    // More than one run of damage within reach: promised only up to the last clean close.
    let promised = kind != "rolled back" && !(kind == "cut far short" && c.layout == Layout::Text);
    if promised && total < t.confirmed.min(floor) {
        let key =
            if tells { "P2 confirmed lost, cannot tell" } else { "P2 confirmed lost, SILENT" };
        return s.note(&format!("{key}: {kind}"), || {
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
