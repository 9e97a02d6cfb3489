//! Losses in several segments at once, some of them without the seal that names the next one.

use super::lost::ending_with;
use super::*;

/// Found by simulation. The image: a failed write left no seal, and the header of the next segment
/// is lost. Before it, a segment that was named ahead has lost its first batch, and with it its
/// place in the log. Restored without that header, it would hide the segments before it.
#[test]
pub(crate) fn first_batch_is_restored_together_with_the_header_after_it() {
    let (sound, records) = sample(Layout::Binary);
    let files = data_files(&sound);
    for three in files.windows(3) {
        let [(before, from), (here, _), (next, _)] = three else { unreachable!("three of them") };
        let device = sound.kill();
        spoil(&device, before, from + BLOCK..from + 2 * BLOCK, "garbage");
        spoil(&device, here, 3 * BLOCK..4 * BLOCK, "zeros");
        spoil(&device, here, *from..from + BLOCK, "garbage");
        spoil(&device, next, 0..BLOCK, "garbage");
        assert_whole(&device, Layout::Binary, &records, here);
    }
}

/// The image: no segment has a seal, and each loses no more than parity restores.
#[test]
fn losses_of_several_segments_without_seals_are_rebuilt() {
    let (sound, records) = sample(Layout::Binary);
    let (seed, turns) = (seed(), if is_long() { 2_000 } else { 40 });
    println!("SEAWALL_SEED={seed} chooses the same losses");
    let mut random = Random::new(seed);
    for turn in 0..turns {
        let device = sound.kill();
        for (name, from) in data_files(&sound) {
            spoil(&device, &name, 3 * BLOCK..4 * BLOCK, "zeros");
            if random.below(3) == 0 {
                spoil(&device, &name, 0..BLOCK, "garbage");
            }
            let bytes = sound.bytes(&name).unwrap();
            let length = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
            for stripe in (from..length).step_by(DATA * BLOCK) {
                // One block of the first stripe is left: it says whose parity this is.
                let first = if random.below(2) == 0 { stripe } else { stripe + BLOCK };
                for start in [first, stripe + 2 * BLOCK] {
                    if start < length && random.below(3) > 0 {
                        spoil(&device, &name, start..start + BLOCK, "garbage");
                    }
                }
            }
        }
        let found = judge(&device).unwrap();
        assert!(found.verdict <= Verdict::Correctable, "turn {turn}: {found:?}");
        let found = read(&device, false).unwrap();
        assert_eq!((&found.records, found.errors), (&records, 0), "turn {turn}");
        let reader = LogReader::open_any_in(shared(&device)).unwrap();
        for (number, payload) in records.iter().step_by(7) {
            assert_eq!(reader.get(lsn(*number)).unwrap().as_ref(), Some(payload), "turn {turn}");
        }
        let log = open(&again(2), &device).unwrap_or_else(|e| panic!("turn {turn}: {e}"));
        let own = Found::take(log.read_from(Lsn::FIRST).unwrap()).unwrap();
        assert_eq!(own.records, records, "turn {turn}");
    }
}

/// Of the newest segment, parity knows another last record than is there. Its block is not used,
/// and that keeps no other segment from being restored.
#[test]
fn one_harmful_block_keeps_no_other_segment_from_being_rebuilt() {
    let mut tried = 0;
    for count in 30..50 {
        let ((sound, records), (other, _)) = (ending_with(1, count), ending_with(2, count));
        let files = data_files(&sound);
        let [.., (before, from), (here, _), (next, _), (newest, _)] = &files[..] else { continue };
        let parity = newest.replace("seg", "parity");
        let known = other.bytes(&parity).unwrap();
        sound.edit(&parity, |there| *there = known);
        spoil(&sound, before, from + BLOCK..from + 2 * BLOCK, "garbage");
        spoil(&sound, here, 3 * BLOCK..4 * BLOCK, "zeros");
        spoil(&sound, here, *from..from + BLOCK, "garbage");
        spoil(&sound, next, 0..BLOCK, "garbage");
        assert_whole(&sound, Layout::Binary, &records, &format!("{count} records"));
        tried += 1;
    }
    assert!(tried > 10, "{tried}");
}
