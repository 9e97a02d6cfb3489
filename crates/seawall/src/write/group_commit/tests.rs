//! Tests of the group commit state machine.

use super::*;
use crate::write::record_set::RecordSet;

const NOW: Duration = Duration::from_secs(1);

fn room(tail: u64, spare: u64) -> Room {
    Room { tail, spare, spare_padding: 0 }
}

fn sizes(target_batch_bytes: usize) -> BatchSizes {
    BatchSizes { batch_max: 256, target_batch_bytes, stream_batch_bytes: target_batch_bytes / 2 }
}

fn commit() -> Commit {
    let mut commit = Commit::new(Lsn::new(7), Lsn::new(7), sizes(256));
    commit.set_room(room(10_000, 0), 0);
    commit
}

fn enqueue(commit: &mut Commit, payload: &[u8]) -> Position {
    match commit.enqueue(&mut RecordSet::of(&[payload])).unwrap() {
        Enqueued::In(position) => position,
        other => panic!("{other:?}"),
    }
}

#[test]
fn preallocated_file_can_be_freed_only_while_no_record_needs_it() {
    let mut commit = commit();
    commit.set_room(room(0, 200), 0);
    assert!(commit.release_spare());
    let refused = commit.enqueue(&mut RecordSet::of(&[b"a"])).unwrap();
    assert!(matches!(refused, Enqueued::NoRoom(_)), "{refused:?}");
    commit.set_room(room(0, 200), 0);
    enqueue(&mut commit, b"a");
    assert!(!commit.release_spare());
    enqueue(&mut commit, b"b");
}

#[test]
fn records_are_numbered_in_order_and_reached_with_their_batch() {
    let mut commit = commit();
    let first = enqueue(&mut commit, b"a");
    let taken = commit.take().unwrap();
    let second = enqueue(&mut commit, b"b");
    assert_eq!((first.lsn.get(), second.lsn.get()), (8, 9));
    assert!(!commit.reached(first, WaitFor::Durable));
    commit.complete(taken.count, taken.bytes, NOW);
    assert!(commit.reached(first, WaitFor::Durable));
    assert!(!commit.reached(second, WaitFor::Durable));
    assert!(!commit.reached(first, WaitFor::Confirmed));
    commit.confirm();
    assert!(commit.reached(first, WaitFor::Confirmed));
    assert!(!commit.reached(second, WaitFor::Confirmed));
}

#[test]
fn truncated_record_counts_as_reached_but_not_the_next_with_its_lsn() {
    let mut commit = commit();
    let truncated = enqueue(&mut commit, b"a");
    let taken = commit.take().unwrap();
    commit.complete(taken.count, taken.bytes, NOW);
    commit.truncate(Lsn::new(7));
    assert!(commit.reached(truncated, WaitFor::Confirmed));
    let next = enqueue(&mut commit, b"b");
    assert_eq!(next.lsn, truncated.lsn);
    assert!(!commit.reached(next, WaitFor::Durable));
}

#[test]
fn full_batch_accepts_no_record_and_loses_none() {
    let mut commit = commit();
    enqueue(&mut commit, &[1; 100]);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&[2; 100]])).unwrap(), Enqueued::BatchFull);
    assert_eq!(commit.take().unwrap().count, 1);
    assert_eq!(enqueue(&mut commit, &[2; 100]).lsn.get(), 9);
}

#[test]
fn batch_of_the_target_size_is_full_and_a_large_set_may_exceed_it() {
    let mut commit = Commit::new(None, None, sizes(100));
    commit.set_room(room(10_000, 0), 0);
    // Frames of 8 + 80 bytes, 8 + 8 bytes, 8 + 104 bytes.
    enqueue(&mut commit, &[1; 80]);
    enqueue(&mut commit, &[2; 8]);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[b""])).unwrap(), Enqueued::BatchFull);
    assert_eq!(commit.take().unwrap().count, 2);
    enqueue(&mut commit, &[1; 80]);
    enqueue(&mut commit, &[3; 104]);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[b""])).unwrap(), Enqueued::BatchFull);
    assert_eq!(commit.take().unwrap().count, 2);
}

#[test]
fn batch_of_a_stream_is_full_earlier() {
    let mut commit = Commit::new(None, None, sizes(120));
    for (takes_stream, count) in [(false, 3), (true, 2)] {
        commit.set_room(room(10_000, 0), 511);
        commit.set_takes_stream(takes_stream);
        for _ in 0..count {
            enqueue(&mut commit, &[1; 32]);
        }
        assert_eq!(commit.enqueue(&mut RecordSet::of(&[b""])).unwrap(), Enqueued::BatchFull);
        assert_eq!(commit.take().unwrap().count, count);
    }
}

#[test]
fn buffers_of_two_batches_that_complete_together_are_used_again() {
    let mut commit = commit();
    let taken = [(); 2].map(|()| {
        enqueue(&mut commit, b"x");
        commit.take().unwrap()
    });
    let mut freed = taken.map(|TakenBatch { bytes, count, .. }| {
        let address = bytes.as_ptr().addr();
        commit.complete(count, bytes, NOW);
        address
    });
    let mut used = [(); 2].map(|()| {
        // Discards the open buffer, so that the next record goes to a freed one.
        enqueue(&mut commit, b"x");
        drop(commit.take());
        enqueue(&mut commit, b"x");
        commit.open.as_ptr().addr()
    });
    freed.sort_unstable();
    used.sort_unstable();
    assert_eq!(used, freed);
}

#[test]
fn record_without_reserved_space_is_refused() {
    // A batch of one such record has 48 + 8 + 56 bytes.
    let record = [1; 56];
    let mut commit = commit();
    commit.set_room(room(112, 0), 0);
    enqueue(&mut commit, &record);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(176));
    let taken = commit.take().unwrap();
    assert_eq!(
        commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(),
        Enqueued::NoRoom(112),
        "one is in flight"
    );
    commit.set_room(room(112, 112), 0);
    enqueue(&mut commit, &record);
    commit.complete(taken.count, taken.bytes, NOW);
    commit.set_room(room(0, 112), 0);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(176));
}

#[test]
fn overhead_of_a_text_line_counts_against_the_limit() {
    let record = [1; 56];
    let mut commit = commit();
    commit.set_overhead(Overhead { per_record: 100, ..Overhead::NONE });
    commit.set_room(room(212 + 311, 0), 0);
    enqueue(&mut commit, &record);
    commit.take().unwrap();
    assert_eq!(
        commit.enqueue(&mut RecordSet::of(&[&record, &record])).unwrap(),
        Enqueued::NoRoom(376)
    );
    enqueue(&mut commit, &record);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(376));
}

#[test]
fn set_larger_than_any_batch_is_refused_before_it_gets_an_lsn() {
    let mut commit = commit();
    assert!(matches!(
        commit.enqueue(&mut RecordSet::of(&[&[0; 150], &[0; 150]])),
        Err(Error::TooLarge { .. })
    ));
    assert_eq!(enqueue(&mut commit, b"next").lsn.get(), 8);
}

/// Only a forged header can bring a log this close to the highest LSN.
#[test]
fn record_beyond_the_highest_lsn_is_refused() {
    let mut commit = Commit::new(Lsn::new(u64::MAX - 3), None, sizes(256));
    commit.set_room(room(10_000, 0), 0);
    assert_eq!(enqueue(&mut commit, b"a").lsn.get(), u64::MAX - 2);
    assert!(matches!(
        commit.enqueue(&mut RecordSet::of(&[b"b", b"c"])),
        Err(Error::Poisoned { .. })
    ));
    assert_eq!(enqueue(&mut commit, b"d").lsn.get(), u64::MAX - 1);
    assert!(matches!(commit.enqueue(&mut RecordSet::of(&[b"e"])), Err(Error::Poisoned { .. })));
    let taken = commit.take().unwrap();
    commit.complete(taken.count, taken.bytes, NOW);
    assert_eq!(commit.durable(), Lsn::new(u64::MAX - 1));
}

#[test]
fn after_a_failure_appends_return_the_first_cause() {
    let mut commit = commit();
    commit.fail("the sync failed");
    commit.fail("something later");
    let refused = commit.enqueue(&mut RecordSet::of(&[b"x"])).unwrap_err();
    assert!(matches!(refused, Error::Poisoned { cause, .. } if &*cause == "the sync failed"));
}

#[test]
fn batch_is_due_at_once_with_a_waiter_and_after_the_delay_without() {
    let delay = Duration::from_millis(10);
    let mut commit = commit();
    let position = enqueue(&mut commit, b"x");
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 1000), None);
    commit.schedule_flush(|| NOW);
    commit.schedule_flush(|| NOW * 2);
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 1000), Some(NOW + delay));
    let never = Duration::MAX;
    assert_eq!(commit.flush_due((never, Duration::ZERO), 1000), Some(never));
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 10), Some(Duration::ZERO));
    commit.note_async_waiter(position.lsn);
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 1000), Some(Duration::ZERO));
}

#[test]
fn small_batch_of_a_stream_waits_for_more_after_the_batch_before() {
    let (delay, gather) = (Duration::from_millis(10), Duration::from_micros(100));
    let mut commit = commit();
    let (position, taken) = (enqueue(&mut commit, b"x"), commit.take().unwrap());
    let awaited = enqueue(&mut commit, b"y");
    commit.note_async_waiter(awaited.lsn);
    commit.schedule_flush(|| NOW);
    assert_eq!(commit.flush_due((delay, gather), 1000), Some(NOW + gather));
    commit.complete(taken.count, taken.bytes, NOW * 2);
    assert!(commit.reached(position, WaitFor::Durable));
    assert_eq!(commit.flush_due((delay, gather), 1000), Some(NOW * 2 + gather));
    assert_eq!(commit.flush_due((delay, gather), 10), Some(Duration::ZERO));
}

#[test]
fn mark_is_due_only_when_an_idle_log_has_something_to_confirm() {
    let idle = Some(Duration::from_millis(100));
    let mut commit = commit();
    assert_eq!(commit.mark_due(idle), None);
    enqueue(&mut commit, b"x");
    let taken = commit.take().unwrap();
    commit.complete(taken.count, taken.bytes, NOW);
    assert_eq!(commit.mark_due(idle), Some(NOW + Duration::from_millis(100)));
    assert_eq!(commit.mark_due(Some(Duration::MAX)), Some(Duration::MAX));
    enqueue(&mut commit, b"y");
    assert_eq!(commit.mark_due(idle), None, "a commit comes first");
}

#[test]
fn batch_is_filled_to_its_last_byte() {
    // A batch of 256 bytes has a header of 48, and frames of 8 plus a multiple of 8.
    let mut commit = commit();
    enqueue(&mut commit, &[1; 200]);
    assert_eq!(commit.take().unwrap().bytes.len(), 256);
    match commit.enqueue(&mut RecordSet::of(&[&[1; 201]])) {
        Err(Error::TooLarge { size, max, .. }) => assert_eq!((size, max), (216, 208)),
        other => panic!("{other:?}"),
    }
    enqueue(&mut commit, &[1; 96]);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&[2; 97]])).unwrap(), Enqueued::BatchFull);
    enqueue(&mut commit, &[2; 96]);
    assert_eq!(commit.take().unwrap().bytes.len(), 256);
}

#[test]
fn set_gets_consecutive_lsns_and_marks_its_last_record() {
    let mut commit = commit();
    let set: [&[u8]; 3] = [b"a", b"", b"ccccccccc"];
    let Enqueued::In(position) = commit.enqueue(&mut RecordSet::of(&set)).unwrap() else {
        panic!()
    };
    assert_eq!((position.lsn.get(), position.batch_seq), (10, 0));
    assert_eq!(enqueue(&mut commit, b"alone").lsn.get(), 11);
    let taken = commit.take().unwrap();
    let frames = frame::Frames::new(&taken.bytes[HEADER_SIZE..], Lsn::FIRST, taken.count);
    let found: Vec<_> = frames.map(|frame| (frame.payload.len(), frame.goes_on)).collect();
    assert_eq!(found, [(1, true), (0, true), (9, false), (5, false)]);
}

#[test]
fn batches_are_counted_and_an_empty_one_is_not_written() {
    let mut commit = commit();
    assert!(commit.take().is_none());
    assert_eq!(commit.last_enqueued(), Some(Position { lsn: Lsn::new(7).unwrap(), batch_seq: 0 }));
    for number in 0..3 {
        let position = enqueue(&mut commit, b"x");
        assert_eq!(position.batch_seq, number);
        assert_eq!(commit.last_enqueued(), Some(position));
        assert!(commit.has_open_batch());
        let taken = commit.take().unwrap();
        assert_eq!((taken.batch_seq, taken.count), (number, 1));
        assert!(!commit.has_open_batch());
        assert_eq!(commit.last_enqueued(), Some(position), "its batch is in flight");
        commit.complete(taken.count, taken.bytes, NOW);
        assert_eq!(commit.durable(), Some(position.lsn));
    }
}

#[test]
fn durable_records_need_a_mark_until_they_are_confirmed() {
    let mut commit = commit();
    assert!(!commit.wants_mark());
    enqueue(&mut commit, b"x");
    assert!(!commit.wants_mark());
    let taken = commit.take().unwrap();
    commit.complete(taken.count, taken.bytes, NOW);
    assert!(commit.wants_mark());
    assert_eq!(commit.mark_due(None), None, "no marks were requested");
    commit.confirm();
    assert!(!commit.wants_mark());
}

#[test]
fn waiting_for_a_batch_in_flight_does_not_hurry_the_open_batch() {
    let delay = Duration::from_millis(10);
    let mut commit = commit();
    let under_way = enqueue(&mut commit, b"x");
    let _taken = commit.take().unwrap();
    commit.note_async_waiter(under_way.lsn);
    commit.schedule_flush(|| NOW);
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 1000), None, "nothing is open");
    let open = enqueue(&mut commit, b"y");
    commit.schedule_flush(|| NOW * 3);
    commit.note_async_waiter(under_way.lsn);
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 1000), Some(NOW * 3 + delay));
    // A batch of one byte has 48 + 8 + 8 bytes.
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 65), Some(NOW * 3 + delay));
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 64), Some(Duration::ZERO));
    commit.note_async_waiter(open.lsn);
    assert_eq!(commit.flush_due((delay, Duration::ZERO), 1000), Some(Duration::ZERO));
    commit.take().unwrap();
    enqueue(&mut commit, b"z");
    assert_eq!(
        commit.flush_due((delay, Duration::ZERO), 1000),
        None,
        "the next batch has a waiter"
    );
    commit.schedule_flush(|| NOW);
    assert_eq!(
        commit.flush_due((delay, Duration::ZERO), 1000),
        Some(NOW + delay),
        "and no async waiter"
    );
}

#[test]
fn space_counts_the_batch_in_flight_and_the_open_batch() {
    let record = [1; 56];
    let mut commit = commit();
    // Both batches fit into the tail, to the last byte.
    commit.set_room(room(224, 0), 0);
    enqueue(&mut commit, &record);
    let taken = commit.take().unwrap();
    enqueue(&mut commit, &record);
    commit.complete(taken.count, taken.bytes, NOW);
    commit.take().unwrap();
    // The batch in flight does not fit into the tail, so both must fit into the preallocated
    // segment.
    commit.set_room(room(111, 223), 0);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(112));
    commit.set_room(room(111, 224), 0);
    enqueue(&mut commit, &record);
}

#[test]
fn first_batch_of_the_next_segment_may_fill_its_block() {
    let record = [1; 56];
    let mut commit = commit();
    commit.set_room(Room { spare_padding: 511, ..room(0, 112) }, 0);
    enqueue(&mut commit, &record);
    commit.take().unwrap();
    commit.set_room(Room { spare_padding: 511, ..room(0, 224 + 510) }, 0);
    assert_eq!(commit.enqueue(&mut RecordSet::of(&[&record])).unwrap(), Enqueued::NoRoom(112));
    commit.set_room(Room { spare_padding: 511, ..room(0, 224 + 511) }, 0);
    enqueue(&mut commit, &record);
}

#[test]
fn closed_log_reports_closed_unless_it_failed_before() {
    let mut commit = commit();
    commit.close();
    assert!(matches!(commit.enqueue(&mut RecordSet::of(&[b"x"])), Err(Error::Closed { .. })));
    commit.fail("the sync failed");
    assert!(matches!(commit.check(), Err(Error::Poisoned { .. })));
}
