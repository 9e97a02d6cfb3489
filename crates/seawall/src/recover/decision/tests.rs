//! One test for each row of the recovery table, and tests over all possible evidence.

use super::continuation::*;
use super::*;
use seawall_format::{Epoch, Offset, SegmentId, SegmentRef, lsn_or_zero, next_lsn};

/// A log of nine records, all confirmed, that ends with its last record.
fn sound() -> Evidence {
    Evidence {
        manifest: ManifestState::Readable,
        chain: ChainState::Whole,
        valid: Lsn::new(9),
        confirmed: Lsn::new(9),
        is_whole: true,
        has_damage: false,
        tail: Some(tail::Row::Clean),
    }
}

fn found(evidence: &Evidence) -> (RecoveryCase, Action) {
    (evidence.row(), evidence.row().action())
}

#[test]
fn nothing_yet_is_created() {
    let evidence = Evidence { manifest: ManifestState::Never, ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::NothingYet, Action::Create));
}

#[test]
fn manifest_unreadable_is_damage() {
    let evidence = Evidence { manifest: ManifestState::Lost, ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::ManifestUnreadable, Action::Damage));
}

/// Row and action for a log whose only fault is `fault` in its chain.
fn in_chain(fault: ChainFault) -> (RecoveryCase, Action) {
    let rows = [ChainState::Gap(fault), ChainState::NewestMissing(fault)]
        .map(|chain| found(&Evidence { chain, ..sound() }));
    assert_eq!(rows[0], rows[1]);
    rows[0]
}

#[test]
fn header_unreadable_is_damage() {
    assert_eq!(
        in_chain(ChainFault::HeaderUnreadable),
        (RecoveryCase::HeaderUnreadable, Action::Damage)
    );
}

#[test]
fn misplaced_is_damage() {
    assert_eq!(in_chain(ChainFault::Misplaced), (RecoveryCase::Misplaced, Action::Damage));
}

#[test]
fn text_missing_is_damage() {
    assert_eq!(in_chain(ChainFault::TextMissing), (RecoveryCase::TextMissing, Action::Damage));
}

#[test]
fn oldest_missing_is_damage() {
    assert_eq!(in_chain(ChainFault::OldestMissing), (RecoveryCase::OldestMissing, Action::Damage));
}

#[test]
fn newest_missing_is_damage() {
    assert_eq!(in_chain(ChainFault::NewestMissing), (RecoveryCase::NewestMissing, Action::Damage));
}

#[test]
fn chain_broken_is_damage() {
    assert_eq!(in_chain(ChainFault::ChainBroken), (RecoveryCase::ChainBroken, Action::Damage));
}

#[test]
fn range_lost_is_damage() {
    let evidence = Evidence { valid: Lsn::new(8), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::RangeLost, Action::Damage));
    let evidence = Evidence { tail: None, ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::RangeLost, Action::Damage));
    let evidence = Evidence { has_damage: true, ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::RangeLost, Action::Damage));
}

#[test]
fn cut_short_is_damage() {
    for has_damage in [false, true] {
        let evidence = Evidence { is_whole: false, has_damage, ..sound() };
        assert_eq!(found(&evidence), (RecoveryCase::CutShort, Action::Damage));
    }
}

#[test]
fn clean_is_clean_with_records_that_nothing_confirms_too() {
    assert_eq!(found(&sound()), (RecoveryCase::Clean, Action::Clean));
    let evidence = Evidence { confirmed: Lsn::new(3), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::Clean, Action::Clean));
}

#[test]
fn header_torn_is_torn() {
    let evidence = Evidence { tail: Some(tail::Row::HeaderTorn), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::HeaderTorn, Action::Torn));
}

#[test]
fn body_torn_is_torn() {
    let evidence = Evidence { tail: Some(tail::Row::BodyTorn), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::BodyTorn, Action::Torn));
}

#[test]
fn line_torn_is_torn() {
    let evidence = Evidence { tail: Some(tail::Row::LineTorn), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::LineTorn, Action::Torn));
}

#[test]
fn beyond_window_is_ambiguous() {
    let evidence = Evidence { tail: Some(tail::Row::BeyondWindow), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::BeyondWindow, Action::Ambiguous));
}

#[test]
fn otherwise_is_ambiguous() {
    let evidence = Evidence { tail: Some(tail::Row::Otherwise), ..sound() };
    assert_eq!(found(&evidence), (RecoveryCase::Otherwise, Action::Ambiguous));
}

const CASES: [RecoveryCase; 16] = [
    RecoveryCase::NothingYet,
    RecoveryCase::ManifestUnreadable,
    RecoveryCase::HeaderUnreadable,
    RecoveryCase::Misplaced,
    RecoveryCase::TextMissing,
    RecoveryCase::OldestMissing,
    RecoveryCase::NewestMissing,
    RecoveryCase::ChainBroken,
    RecoveryCase::RangeLost,
    RecoveryCase::CutShort,
    RecoveryCase::Clean,
    RecoveryCase::BeyondWindow,
    RecoveryCase::HeaderTorn,
    RecoveryCase::BodyTorn,
    RecoveryCase::LineTorn,
    RecoveryCase::Otherwise,
];
const FAULTS: [ChainFault; 6] = [
    ChainFault::HeaderUnreadable,
    ChainFault::Misplaced,
    ChainFault::TextMissing,
    ChainFault::OldestMissing,
    ChainFault::NewestMissing,
    ChainFault::ChainBroken,
];

/// All states of the chain, the whole one first.
fn chains() -> Vec<ChainState> {
    let faults = FAULTS.into_iter();
    let broken =
        faults.flat_map(|fault| [ChainState::Gap(fault), ChainState::NewestMissing(fault)]);
    [ChainState::Whole].into_iter().chain(broken).collect()
}

const MANIFESTS: [ManifestState; 3] =
    [ManifestState::Readable, ManifestState::Lost, ManifestState::Never];
const TAILS: [Option<tail::Row>; 7] = [
    None,
    Some(tail::Row::Clean),
    Some(tail::Row::BeyondWindow),
    Some(tail::Row::HeaderTorn),
    Some(tail::Row::BodyTorn),
    Some(tail::Row::LineTorn),
    Some(tail::Row::Otherwise),
];

/// All possible evidence, with LSNs up to 2.
fn all_evidence() -> Vec<Evidence> {
    let lsns = [None, Lsn::new(1), Lsn::new(2)];
    let mut all = vec![];
    for bits in 0..4_u8 {
        for manifest in MANIFESTS {
            for chain in chains() {
                for tail in TAILS {
                    for valid in lsns {
                        all.extend(lsns.map(|confirmed| Evidence {
                            manifest,
                            chain,
                            valid,
                            confirmed,
                            is_whole: bits & 1 != 0,
                            has_damage: bits & 2 != 0,
                            tail,
                        }));
                    }
                }
            }
        }
    }
    all
}

/// Variants of `evidence`, each with one more sign that something was lost.
fn with_more_loss(evidence: &Evidence) -> Vec<Evidence> {
    let mut more = vec![
        Evidence { is_whole: false, ..evidence.clone() },
        Evidence { has_damage: true, ..evidence.clone() },
        Evidence { tail: None, ..evidence.clone() },
        Evidence { confirmed: Lsn::new(2), ..evidence.clone() },
        Evidence { manifest: ManifestState::Lost, ..evidence.clone() },
    ];
    match evidence.chain {
        ChainState::Whole => {
            let chains = chains().into_iter();
            more.extend(chains.map(|chain| Evidence { chain, ..evidence.clone() }));
        }
        ChainState::Gap(fault) | ChainState::NewestMissing(fault) => {
            let chain = ChainState::NewestMissing(fault);
            more.push(Evidence { chain, ..evidence.clone() });
        }
    }
    more
}

const MODES: [OpenMode; 3] = [OpenMode::Strict, OpenMode::Standard, OpenMode::Salvage];

#[test]
fn every_case_and_every_decision_is_reached_by_some_evidence() {
    let all = all_evidence();
    let reached: Vec<_> = all.iter().map(Evidence::row).collect();
    for case in CASES {
        assert!(reached.contains(&case), "{case:?}");
    }
    let expected: [&[Decision]; 3] = [
        &[
            Decision::Create,
            Decision::Refuse(Refusal::Damaged),
            Decision::Refuse(Refusal::Ambiguous),
            Decision::Resume,
        ],
        &[Decision::Create, Decision::Refuse(Refusal::Damaged), Decision::Resume],
        &[Decision::Create, Decision::Refuse(Refusal::Damaged), Decision::Resume],
    ];
    for (mode, expected) in MODES.into_iter().zip(expected) {
        let reached: Vec<_> = all.iter().map(|evidence| evidence.decide(mode)).collect();
        assert!(expected.iter().all(|decision| reached.contains(decision)), "{mode:?}");
        assert!(reached.iter().all(|decision| expected.contains(decision)), "{mode:?}");
    }
}

#[test]
fn more_evidence_of_loss_never_turns_damage_into_a_log_that_opens() {
    for evidence in all_evidence() {
        if evidence.row().action() != Action::Damage {
            continue;
        }
        for more in with_more_loss(&evidence) {
            assert_eq!(more.row().action(), Action::Damage, "{evidence:?}, then {more:?}");
        }
        for mode in [OpenMode::Strict, OpenMode::Standard] {
            assert_eq!(evidence.decide(mode), Decision::Refuse(Refusal::Damaged), "{evidence:?}");
        }
    }
}

#[test]
fn a_log_without_manifest_or_newest_segment_is_never_resumed() {
    for evidence in all_evidence() {
        let has_newest = !matches!(evidence.chain, ChainState::NewestMissing(_));
        if evidence.manifest != ManifestState::Readable || !has_newest {
            for mode in MODES {
                assert_ne!(evidence.decide(mode), Decision::Resume, "{evidence:?}, {mode:?}");
            }
        }
    }
}

#[test]
fn a_confirmed_record_after_the_valid_ones_is_reported_unless_salvage_is_requested() {
    for evidence in all_evidence() {
        let is_readable = evidence.manifest == ManifestState::Readable;
        if is_readable && evidence.valid < evidence.confirmed {
            for mode in [OpenMode::Strict, OpenMode::Standard] {
                assert_eq!(evidence.decide(mode), Decision::Refuse(Refusal::Damaged));
            }
        }
    }
}

/// Evidence of a log of two segments with bases 1 and 4; the newest holds `batches`.
fn resumable(batches: &[FoundBatch]) -> ResumeEvidence<'_> {
    let base = Lsn::new(4).unwrap();
    let last = batches.last().map_or(base.previous(), |batch| Some(batch.last));
    ResumeEvidence {
        bases: vec![Lsn::FIRST, base],
        before_gap: 0,
        newest: NewestSegment {
            reference: SegmentRef { id: SegmentId::new(2).unwrap(), epoch: Epoch(7) },
            block: 512,
            takes_batches: true,
            is_as_written: true,
            is_named: true,
        },
        batches,
        chain_before: 30,
        last,
        confirmed: last,
        tail: Some(TailForm { row: tail::Row::Clean, is_exact: true }),
        damaged: Damaged::Nothing,
        damaged_to: None,
        has_salvaged: false,
        oldest_base: Lsn::FIRST,
        both_slots_are_readable: true,
    }
}

/// Batches of one, two and one record, numbered from `first`, that end at the offsets `ends`.
fn batches(first: u64, ends: &[u64]) -> Vec<FoundBatch> {
    let counts = [1, 2, 1];
    let mut next = Lsn::new(first).unwrap();
    let batch = |(end, count): (&u64, u64)| {
        let (first, last) = (next, next.plus(count - 1));
        next = last.next();
        FoundBatch { first, last, chain: 100 + last.get(), end: Offset(*end) }
    };
    ends.iter().zip(counts).map(batch).collect()
}

/// No batches, and batches in one block, in separate blocks and across blocks.
const ENDS: [&[u64]; 6] =
    [&[], &[100], &[100, 200, 300], &[512, 1024, 1536], &[300, 700, 1100], &[700, 1024]];

/// Calls `check` with all combinations of evidence that decide how a log continues: for logs that
/// the recovery table resumes, and for logs under repair.
fn for_all_resumable(mut check: impl FnMut(&ResumeEvidence<'_>)) {
    for bases in [&[1][..], &[4], &[1, 4], &[1, 4, 4], &[1, 2, 4]] {
        for ends in ENDS {
            let found = batches(*bases.last().unwrap(), ends);
            let bases: Vec<_> = bases.iter().map(|base| Lsn::new(*base).unwrap()).collect();
            let before = bases.last().and_then(|base| base.previous());
            let last = found.last().map_or(before, |batch| Some(batch.last));
            for confirmed in lsn_or_zero(before)..=lsn_or_zero(last) {
                let confirmed = Lsn::new(confirmed);
                let sound = ResumeEvidence { last, confirmed, ..resumable(&found) };
                let sound = ResumeEvidence { bases: bases.clone(), ..sound };
                for sound in with_damage(&sound) {
                    for tail in TAILS {
                        (0..128).for_each(|bits| check(&changed(&sound, tail, bits)));
                    }
                }
            }
        }
    }
}

/// The same evidence without damage, and with damage anywhere, which loses no record or those up
/// to any, and a gap before any segment.
fn with_damage<'a>(sound: &ResumeEvidence<'a>) -> Vec<ResumeEvidence<'a>> {
    let newest = lsn_or_zero(sound.bases.last().copied())..=lsn_or_zero(sound.last);
    let lost = newest.map(|to| (Damaged::Newest, Lsn::new(to)));
    let damage: Vec<_> =
        [(Damaged::Elsewhere, None), (Damaged::Newest, None)].into_iter().chain(lost).collect();
    let with_gap = |before_gap: usize| {
        damage.iter().map(move |&(damaged, damaged_to)| ResumeEvidence {
            before_gap,
            damaged,
            damaged_to,
            ..sound.clone()
        })
    };
    let damaged = (0..sound.bases.len()).flat_map(with_gap);
    [sound.clone()].into_iter().chain(damaged).collect()
}

/// The same evidence with `tail`, and with its seven booleans set to the bits of `flags`.
fn changed<'a>(
    evidence: &ResumeEvidence<'a>,
    tail: Option<tail::Row>,
    flags: u16,
) -> ResumeEvidence<'a> {
    let is = |bit: u16| flags & (1 << bit) != 0;
    let newest = NewestSegment {
        takes_batches: is(0),
        is_as_written: is(1),
        is_named: is(2),
        ..evidence.newest
    };
    ResumeEvidence {
        newest,
        tail: tail.map(|row| TailForm { row, is_exact: is(3) }),
        has_salvaged: is(4),
        oldest_base: if is(5) { Lsn::FIRST } else { Lsn::new(9).unwrap() },
        both_slots_are_readable: is(6),
        ..evidence.clone()
    }
}

/// Returns the last record that stays where it is, and the last record that is kept or carried.
fn kept_and_carried(
    evidence: &ResumeEvidence<'_>,
    plan: &Continuation,
) -> (Option<Lsn>, Option<Lsn>) {
    match plan.target {
        Target::InPlace => (evidence.last, evidence.last),
        Target::NewSegment(new) => match new.carry {
            Carry::UpTo(last) => (new.base.previous(), last),
            Carry::Salvaged => (new.base.previous(), evidence.last),
        },
    }
}

#[test]
fn every_record_is_kept_or_carried() {
    for_all_resumable(|evidence| {
        let plan = evidence.continuation();
        let (kept, carried) = kept_and_carried(evidence, &plan);
        assert!(kept <= carried && carried == evidence.last, "{evidence:?}: {plan:?}");
        // A record that is kept is either confirmed or reported as part of a damaged log.
        let known = evidence.confirmed.max(evidence.damaged_to);
        assert!(kept <= known || evidence.tail.is_none(), "{evidence:?}: {plan:?}");
    });
}

/// Otherwise nothing durable would name the lost records, and their LSNs would be used again.
#[test]
fn a_new_segment_begins_after_the_records_that_are_lost() {
    for_all_resumable(|evidence| {
        let Target::NewSegment(new) = evidence.continuation().target else { return };
        let is_after = evidence.damaged_to < Some(new.base) || evidence.has_salvaged;
        assert!(is_after, "{evidence:?}: {new:?}");
    });
}

#[test]
fn a_segment_is_removed_only_if_all_of_it_is_carried() {
    for_all_resumable(|evidence| {
        let Target::NewSegment(new) = evidence.continuation().target else { return };
        assert!((1..=evidence.bases.len()).contains(&new.segments_kept), "{evidence:?}");
        let removed = &evidence.bases[new.segments_kept..];
        assert!(removed.iter().all(|base| *base >= new.base), "{evidence:?}: {new:?}");
    });
}

/// A segment in front of a gap counts up to the gap, and the segment after the gap tells where that
/// is.
#[test]
fn a_gap_is_never_passed() {
    let mut count = 0;
    for_all_resumable(|evidence| {
        let Target::NewSegment(new) = evidence.continuation().target else { return };
        assert!(new.segments_kept > evidence.before_gap, "{evidence:?}: {new:?}");
        count += u32::from(evidence.before_gap > 0);
    });
    assert!(count > 0);
}

/// What is damaged cannot be carried, and a segment after a gap has no predecessor to return to.
#[test]
fn a_damaged_segment_and_one_after_a_gap_stay() {
    for_all_resumable(|evidence| {
        let last = evidence.bases.len() - 1;
        let follows_gap = evidence.before_gap > 0 && evidence.before_gap == last;
        let holds_sure = evidence.last.min(evidence.confirmed) >= evidence.bases.last().copied();
        if follows_gap || (evidence.damaged == Damaged::Newest && holds_sure) {
            let Target::NewSegment(new) = evidence.continuation().target else { return };
            assert_eq!(new.segments_kept, last + 1, "{evidence:?}: {new:?}");
        }
    });
}

#[test]
fn a_log_continues_in_place_only_if_nothing_is_in_doubt() {
    let mut count = 0;
    for_all_resumable(|evidence| {
        let plan = evidence.continuation();
        assert_eq!(plan.target == Target::InPlace, plan.manifest.closed.is_some());
        if plan.target == Target::InPlace {
            count += 1;
            let tail = evidence.tail.expect("the end was found");
            let newest = evidence.newest;
            assert!(tail.is_exact && tail.row == tail::Row::Clean, "{evidence:?}");
            assert!(newest.is_named && newest.is_as_written && newest.takes_batches);
            assert_eq!(evidence.last, evidence.confirmed, "{evidence:?}");
            assert!(evidence.last >= evidence.bases.last().copied(), "{evidence:?}");
        }
    });
    assert!(count > 0);
}

#[test]
fn more_doubt_never_lets_a_log_continue_in_place_or_carry_less() {
    for_all_resumable(|evidence| {
        let plan = evidence.continuation();
        let base = |plan: &Continuation| match plan.target {
            Target::InPlace => next_lsn(evidence.last),
            Target::NewSegment(new) => new.base,
        };
        let newest = NewestSegment { is_named: false, ..evidence.newest };
        let repaired = NewestSegment { is_as_written: false, ..evidence.newest };
        let sealed = NewestSegment { takes_batches: false, ..evidence.newest };
        let edited = evidence.tail.map(|tail| TailForm { is_exact: false, ..tail });
        let more = [
            ResumeEvidence { newest, ..evidence.clone() },
            ResumeEvidence { newest: repaired, ..evidence.clone() },
            ResumeEvidence { newest: sealed, ..evidence.clone() },
            ResumeEvidence { tail: edited, ..evidence.clone() },
            ResumeEvidence { confirmed: evidence.bases[0].previous(), ..evidence.clone() },
        ];
        for more in more {
            let other = more.continuation();
            assert!(base(&other) <= base(&plan), "{evidence:?}: {plan:?}, then {other:?}");
            let was_in_place = plan.target == Target::InPlace;
            assert!(was_in_place || other.target != Target::InPlace, "{more:?}");
        }
    });
}

#[test]
fn the_whole_of_an_unnamed_segment_is_carried() {
    for_all_resumable(|evidence| {
        let follows_gap = evidence.before_gap > 0;
        let is_replaced = match evidence.damaged {
            Damaged::Nothing => true,
            Damaged::Elsewhere => evidence.tail.is_some() && !follows_gap,
            Damaged::Newest => false,
        };
        if evidence.newest.is_named || evidence.has_salvaged || !is_replaced {
            return;
        }
        let Target::NewSegment(new) = evidence.continuation().target else {
            panic!("{evidence:?}")
        };
        assert!(Some(new.base) <= evidence.bases.last().copied(), "{evidence:?}: {new:?}");
    });
}

#[test]
fn the_batches_of_a_shared_block_are_carried() {
    let base = |ends: &[u64], confirmed: u64| {
        let found = batches(4, ends);
        let unquiet = Some(TailForm { row: tail::Row::HeaderTorn, is_exact: true });
        let evidence =
            ResumeEvidence { confirmed: Lsn::new(confirmed), tail: unquiet, ..resumable(&found) };
        match evidence.continuation().target {
            Target::InPlace => panic!("{evidence:?}"),
            Target::NewSegment(new) => (new.base.get(), new.chain_before, new.segments_kept),
        }
    };
    // The batches hold record 4, records 5 and 6, and record 7. Segment 2 is kept if record 4 stays
    // in it.
    assert_eq!(base(&[512, 1024, 1536], 7), (8, 107, 2));
    assert_eq!(base(&[512, 1024, 1536], 6), (7, 106, 2));
    assert_eq!(base(&[300, 700, 1100], 7), (7, 106, 2));
    assert_eq!(base(&[300, 700, 1100], 6), (5, 104, 2));
    assert_eq!(base(&[100, 200, 300], 7), (4, 30, 1));
    assert_eq!(base(&[], 3), (4, 30, 1));
}

#[test]
fn a_manifest_never_starts_after_the_end_and_its_doubtful_slot_is_written_first() {
    for_all_resumable(|evidence| {
        let update = evidence.continuation().manifest;
        assert!(update.oldest_base <= next_lsn(evidence.last), "{evidence:?}");
        assert!(update.oldest_base <= evidence.oldest_base, "{evidence:?}");
        assert_eq!(update.newest_slot_first, evidence.both_slots_are_readable);
    });
}

#[test]
fn orphans_stay_in_a_damaged_log() {
    for_all_resumable(|evidence| {
        assert_eq!(evidence.continuation().removes_orphans, evidence.damaged == Damaged::Nothing);
    });
}

#[test]
fn every_way_to_continue_is_reached_by_some_evidence() {
    let mut reached = [false; 6];
    for_all_resumable(|evidence| {
        let number = match evidence.continuation().target {
            Target::InPlace => 0,
            Target::NewSegment(NewSegment { carry: Carry::Salvaged, .. }) => 1,
            Target::NewSegment(new) if new.segments_kept < evidence.bases.len() => 2,
            Target::NewSegment(new) if new.base == next_lsn(evidence.last) => 3,
            Target::NewSegment(new) if Some(&new.base) == evidence.bases.last() => 4,
            Target::NewSegment(_) => 5,
        };
        reached[number] = true;
    });
    assert_eq!(reached, [true; 6]);
}
