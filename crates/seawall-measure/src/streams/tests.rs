//! Tests of streams to real files, and of the report on their speed.

use super::*;
use crate::contest::{Row, Spread, Verdict};
use crate::load::Others;
use crate::scratch::Scratch;
use serde_json::json;

const REFERENCE_SIZE: usize = 1 << 20;

#[test]
fn new_blocks_are_written_once_and_written_ones_again() {
    let scratch = Scratch::new(&std::env::temp_dir(), "seawall-streams").unwrap();
    let mut memory = AlignedMemory::default();
    memory.first(REFERENCE_SIZE).fill(0x5a);
    let bytes: &[u8] = memory.first(REFERENCE_SIZE);
    for blocks in [Blocks::Growing, Blocks::Allocated, Blocks::Written] {
        let Some(target) = Target::new(scratch.path(), blocks, bytes).unwrap() else { continue };
        let mut found = vec![1; 2 * REFERENCE_SIZE];
        target.prepare().unwrap();
        let length = target.file.read(&mut found, 0).unwrap();
        let (is_new, is_growing) = (blocks != Blocks::Written, blocks == Blocks::Growing);
        assert_eq!(length, if is_growing { 0 } else { found.len() }, "{blocks:?}");
        assert!(is_growing || !is_new || found[0] == 0, "the old bytes are gone: {blocks:?}");
        // After this write, a new file is full; a written one starts over at its beginning.
        target.next.store(FILE_SIZE - (1 << 20), Ordering::Relaxed);
        assert!(target.write(bytes).unwrap(), "{blocks:?}");
        assert_eq!(target.file.read(&mut found, FILE_SIZE - (1 << 20)).unwrap(), REFERENCE_SIZE);
        assert!(found[..REFERENCE_SIZE].iter().all(|byte| *byte == 0x5a), "{blocks:?}");
        assert_eq!(target.write(bytes).unwrap(), !is_new, "{blocks:?}");
        let way = Way { blocks, in_flight: 2, bytes: WRITE };
        let slice = target.slice(way, bytes, Duration::from_millis(5)).unwrap();
        assert!(slice.times.len() >= 2 && slice.per_second > 0.0, "{blocks:?}: {slice:?}");
    }
    drop(scratch);
}

#[test]
fn every_way_is_measured_beside_the_reference() {
    let scratch = Scratch::new(&std::env::temp_dir(), "seawall-streams-all").unwrap();
    let mut rounds = 0;
    let mut tell = |_, _| rounds += 1;
    let found = Streams::measure(scratch.path(), Duration::from_millis(1), &mut tell).unwrap();
    assert_eq!(scratch.path().read_dir().unwrap().count(), 0);
    let Some(streams) = found else { return };
    assert_eq!((rounds, streams.standings.rounds), (12, 12));
    assert_eq!(streams.ways[0], REFERENCE);
    assert!([7, 10].contains(&streams.ways.len()), "{streams:?}");
    for (way, row) in streams.ways.iter().zip(&streams.standings.rows) {
        assert_eq!(way.to_string(), row.name);
        assert_eq!(row.verdict == Verdict::First, *way == REFERENCE);
        assert!(0.0 < row.per_second.lowest && row.p50_us <= row.p99_us, "{row:?}");
    }
}

fn spread(median: f64) -> Spread {
    Spread {
        median,
        lowest: median * 0.8,
        highest: median * 1.2,
        quartiles: [median * 0.96, median * 1.04],
    }
}

/// Results with these ratios: for growing, allocated and written files, each with 1, 2 and 4 writes
/// in flight.
fn streams(ratios: [[f64; 3]; 3]) -> Streams {
    let row = |way: &Way, ratio: f64, verdict| Row {
        name: way.to_string().into(),
        per_second: spread(ratio * 12_346.0),
        mean_us: 12_345.0,
        p50_us: 12_345.0,
        p99_us: 123_456.0,
        p999_us: None,
        ratio: spread(ratio),
        verdict,
    };
    let mut ways = vec![REFERENCE];
    let mut rows = vec![row(&REFERENCE, 1.0, Verdict::First)];
    for (blocks, ratios) in [Blocks::Growing, Blocks::Allocated, Blocks::Written].iter().zip(ratios)
    {
        for (in_flight, ratio) in IN_FLIGHT.into_iter().zip(ratios) {
            let way = Way { blocks: *blocks, in_flight, bytes: WRITE };
            rows.push(row(&way, ratio, Verdict::Slower));
            ways.push(way);
        }
    }
    let standings =
        Standings { rows, noise: spread(1.0), rounds: 12, others: Others::of(Some(0.01)) };
    Streams { ways, standings, atomic_write_max: Some(16 << 10) }
}

const RATIOS: [[f64; 3]; 3] = [[0.1, 0.2, 0.2], [0.3, 0.4, 0.5], [0.45, 0.8, 1.0]];

#[test]
fn table_shows_every_way_and_fits_80_columns() {
    let mut streams = streams(RATIOS);
    let lines = streams.lines();
    assert_eq!(lines.len(), 15, "{lines:#?}");
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:#?}");
    assert!(lines[3].starts_with("  written, 1 x 1.0 MiB"), "{lines:#?}");
    let way = "  allocated, 4 x 256.0 KiB  6,173 12,345 123,456  0.50x  0.48-0.52  slower";
    assert_eq!(lines[9], way);
    assert!(lines[14].ends_with("cannot tear: 16.0 KiB"), "{lines:#?}");
    streams.atomic_write_max = Some(0);
    assert!(streams.lines()[14].ends_with("cannot tear: none"));
    streams.atomic_write_max = None;
    assert_eq!(streams.lines().len(), 14);
    assert!(NOT_DIRECT.iter().all(|line| line.len() <= 80));
}

#[test]
fn json_has_a_row_for_every_way() {
    let found = streams(RATIOS).as_json();
    assert_eq!((&found["rounds"], &found["atomic_write_bytes_max"]), (&json!(12), &json!(16_384)));
    assert_eq!(found["rows"].as_array().unwrap().len(), 10);
    let row = &found["rows"][9];
    let expected = json!(["written", 4, 262_144, 1.0, "slower"]);
    let members = ["blocks", "in_flight", "write_bytes", "ratio", "verdict"];
    assert_eq!(json!(members.map(|member| &row[member])), expected);
}

#[test]
fn clear_gains_are_said_and_unclear_ones_are_not() {
    let said = |ratios| streams(ratios).says().unwrap();
    assert_eq!(
        said(RATIOS),
        "with one write in flight, files used again are 1.5 times as fast as new ones here, and \
         with four 2.0 times as fast as new ones; four writes in flight are 2.2 times as fast as \
         one in a file used again, and 1.7 times as fast as one in a new file"
    );
    // The middle halves of the results overlap, so no difference is certain.
    let even = said([[0.3; 3], [0.3; 3], [0.31; 3]]);
    assert_eq!(even.matches("no faster than").count(), 4, "{even}");
    let mut busy = streams(RATIOS);
    busy.standings.rank_nothing();
    assert!(busy.is_unsure() && busy.says().is_none());
    let mut without = streams(RATIOS);
    without.ways.drain(4..7);
    without.standings.rows.drain(4..7);
    assert!(without.says().is_none(), "nothing was allocated");
}
