//! Several writes in flight: whichever returns or fails first, and after a power cut, records are
//! acknowledged in order and no acknowledged record is lost.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test reports failure by panicking"
)]

mod wakers;

use crate::common;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use common::sample::Sample;
use common::watched::{Call, Watch, Watched};
use common::{Bytes, encrypted, judge, lsn, maybe_encoded, open, payload, read, read_own, within};
use seawall::format::Geometry;
use seawall::verify::Verdict;
use seawall::{Error, Lsn, OpenMode, Options};
use seawall_format::{HEADER_SIZE, Manifest, SegmentHeader, SegmentId};
use seawall_io::{Entropy, ManualClock, SeededEntropy};
use seawall_testkit::{MemStorage, Pending, What};

/// The timeout of a test, in seconds.
const PATIENCE: u64 = 60;

/// Gives other threads time to run until they block.
fn pause() {
    thread::park_timeout(Duration::from_millis(20));
}

/// A device whose direct writes each wait until the test decides their outcome.
#[derive(Debug)]
struct Writes {
    device: MemStorage,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    shut: bool,
    /// What the next other write does, such as one of the file `live`.
    beside: Option<Beside>,
    /// The offsets of the writes that wait for an outcome.
    waiting: Vec<u64>,
    fates: BTreeMap<u64, Fate>,
}

/// What a write does that is not one of a batch in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Panics,
    /// It waits until the test takes this away.
    Waits,
    IsWaiting,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lands,
    /// The write fails and keeps a part of its sectors: 0 none, 1 every other, 2 all.
    Fails(u64),
    /// The write reports success, but the device lost the data with its cache.
    Vanishes,
    Panics,
}

impl Writes {
    fn write_beside(&self) {
        let mut state = self.state.lock().unwrap();
        match state.beside {
            Some(Beside::Panics) => {
                state.beside = None;
                drop(state);
                panic!("planned");
            }
            Some(Beside::Waits) => {
                state.beside = Some(Beside::IsWaiting);
                self.changed.notify_all();
                drop(self.changed.wait_while(state, |state| state.beside.is_some()).unwrap());
            }
            Some(Beside::IsWaiting) | None => {}
        }
    }
}

impl Watch for Writes {
    fn before(&self, call: Call) {
        if call == Call::Write {
            return self.write_beside();
        }
        let Call::Direct(offset) = call else { return };
        let mut state = self.state.lock().unwrap();
        if !state.shut {
            return;
        }
        state.waiting.push(offset);
        self.changed.notify_all();
        let mut state =
            self.changed.wait_while(state, |state| !state.fates.contains_key(&offset)).unwrap();
        state.waiting.retain(|other| *other != offset);
        let fate = state.fates.remove(&offset).unwrap();
        self.changed.notify_all();
        drop(state);
        match fate {
            Fate::Lands => {}
            Fate::Fails(part) => {
                let mut turn = 0;
                self.device.fail_sync(0, move |_| {
                    turn += 1;
                    part == 2 || (part == 1 && turn % 2 == 0)
                });
            }
            Fate::Vanishes => self.device.lie_at_sync(0, |_| false),
            Fate::Panics => panic!("planned"),
        }
    }
}

pub(crate) fn options() -> Options {
    let clock = ManualClock::new();
    clock.set_wall_us(7);
    let options = Options::new()
        .geometry(Geometry { block: 512, reach: 512, batch_max: 2048 }, 12 * 512)
        .segment_size(40 * 512)
        .idle_mark(None)
        .preallocate(false)
        .writes_in_flight(3)
        .stream_batch(1, usize::MAX)
        .env(Arc::new(clock), Arc::new(SeededEntropy::new(7)));
    maybe_encoded(options)
}

/// A log with writes in flight, each of one record.
struct Stream {
    device: MemStorage,
    writes: Arc<Writes>,
    log: Option<Arc<Bytes>>,
    /// The number of records acknowledged before those in flight.
    before: u64,
    /// The appends in flight, with the offsets of their writes.
    appends: Vec<(u64, JoinHandle<seawall::Result<Lsn>>)>,
}

/// The payload of record `lsn`: two sectors, headers included.
fn record(lsn: u64) -> Vec<u8> {
    payload(lsn, 1, 600)
}

impl Stream {
    fn new(count: usize) -> Self {
        Self::with(count, &options())
    }

    fn with(count: usize, options: &Options) -> Self {
        let device = MemStorage::new();
        let (state, changed) = (Mutex::default(), Condvar::new());
        let writes = Writes { device: device.clone(), state, changed };
        let (watched, writes) = Watched::by(writes, device.clone());
        let log: Bytes = options.open_in(Arc::new(watched)).unwrap();
        let mut before = 0;
        while log.stats().rolls == 0 {
            before += 1;
            log.append(&record(before)).unwrap();
        }
        let log = Some(Arc::new(log));
        let mut stream = Self { device, writes, log, before, appends: vec![] };
        stream.writes.state.lock().unwrap().shut = true;
        for number in 1..=u64::try_from(count).unwrap() {
            stream.launch(before + number);
        }
        stream
    }

    fn log(&self) -> &Arc<Bytes> {
        self.log.as_ref().unwrap()
    }

    /// Appends a record on its own thread, and waits until the write is in flight.
    fn launch(&mut self, number: u64) {
        let (log, record) = (self.log().clone(), record(number));
        self.launch_on(move || log.append(&record));
    }

    fn launch_by_ticket(&mut self, number: u64) {
        let ticket = self.log().submit(&record(number)).unwrap();
        self.launch_on(move || ticket.wait());
    }

    fn launch_on(&mut self, append: impl FnOnce() -> seawall::Result<Lsn> + Send + 'static) {
        let known = self.writes.state.lock().unwrap().waiting.len();
        let append = thread::spawn(append);
        let state = self.writes.state.lock().unwrap();
        let state = self.writes.changed.wait_while(state, |s| s.waiting.len() == known).unwrap();
        let offset = *state.waiting.last().unwrap();
        drop(state);
        self.appends.push((offset, append));
    }

    /// Returns the write of this append with `fate`, and waits until the device has handled it.
    fn returns(&self, append: usize, fate: Fate) {
        let offset = self.appends.get(append).unwrap().0;
        self.writes.state.lock().unwrap().fates.insert(offset, fate);
        self.writes.changed.notify_all();
        let state = self.writes.state.lock().unwrap();
        drop(self.writes.changed.wait_while(state, |s| s.fates.contains_key(&offset)).unwrap());
        // The thread has taken its fate, but may still have to write, or wait for another write.
        let is_written = || {
            let is_of_it =
                |item: &Pending| matches!(item.what, What::Sector(at) if at * 512 == offset);
            let is_of_segment =
                |item: &Pending| SegmentId::from_file_name(&item.file).is_some() && is_of_it(item);
            !self.device.pending().iter().any(is_of_segment)
        };
        while fate != Fate::Panics && !is_written() {
            thread::yield_now();
        }
    }

    /// Waits until `count` writes are in flight.
    fn wait_for(&self, count: usize) {
        let state = self.writes.state.lock().unwrap();
        drop(self.writes.changed.wait_while(state, |s| s.waiting.len() < count).unwrap());
    }

    /// Lets all waiting writes succeed, newest first.
    fn land_all(&self) {
        let offsets = self.writes.state.lock().unwrap().waiting.clone();
        for offset in offsets.into_iter().rev() {
            self.writes.state.lock().unwrap().fates.insert(offset, Fate::Lands);
            self.writes.changed.notify_all();
        }
    }

    /// Lets all waiting writes succeed, oldest first, each after the one before was acknowledged.
    fn land_in_order(&self) {
        let offsets = self.writes.state.lock().unwrap().waiting.clone();
        for offset in offsets {
            self.writes.state.lock().unwrap().fates.insert(offset, Fate::Lands);
            self.writes.changed.notify_all();
            pause();
        }
    }

    fn acknowledged(&self) -> u64 {
        self.log().durable().map_or(0, Lsn::get)
    }

    /// The devices that a power cut now can leave: all, or `most` of them.
    fn cuts(&self, most: u64) -> Vec<MemStorage> {
        let pending = self.device.pending();
        let masks = (1_u64 << pending.len().min(20)).min(most);
        let cut = |mask: u64| {
            let mut index = 0;
            self.device.power_cut(|_| {
                index += 1;
                mask >> (index - 1) & 1 == 1
            })
        };
        let spread = |mask: u64| mask.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        let is_all = masks == 1 << pending.len();
        (0..masks).map(|mask| cut(if is_all { mask } else { spread(mask) })).collect()
    }

    /// Checks that each power cut keeps the acknowledged records, and nothing but a prefix of the
    /// appended ones. Returns the number of power cuts checked.
    fn check_cuts(&self, most: u64, what: &str) -> u64 {
        let (acknowledged, states) = (self.acknowledged(), self.cuts(most));
        for (number, device) in states.iter().enumerate() {
            check(device, acknowledged, &format!("{what}, cut {number}"));
        }
        u64::try_from(states.len()).unwrap()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.writes.state.lock().unwrap().shut = false;
    }
}

fn check(device: &MemStorage, acknowledged: u64, what: &str) {
    let storage: Arc<dyn seawall_io::Storage> = Arc::new(device.clone());
    let found = common::maintenance(&storage).verify().unwrap();
    assert!(matches!(found.verdict, Verdict::Clean | Verdict::Torn), "{what}: {found:?}");
    let log: Bytes = options().mode(OpenMode::Strict).open_in(storage).unwrap();
    let mut last = 0;
    for entry in log.read_from(Lsn::FIRST).unwrap() {
        let (lsn, bytes) = entry.unwrap();
        last += 1;
        assert_eq!((lsn.get(), &bytes), (last, &record(last)), "{what}");
    }
    assert!(last >= acknowledged, "{what}: {last} of {acknowledged} records");
    assert_eq!(log.append(&record(last + 1)).unwrap().get(), last + 1, "{what}");
}

/// The header of the newest segment.
fn newest(device: &MemStorage) -> SegmentHeader {
    let ids = device.names().into_iter().filter_map(|name| SegmentId::from_file_name(&name));
    let bytes = device.bytes(&ids.max().unwrap().file_name()).unwrap();
    SegmentHeader::decode(&bytes).unwrap()
}

/// The thread that acknowledges the first write panics. The second write may still reach the
/// device, so no other writer may have the log.
#[test]
fn panic_beside_a_write_in_flight_keeps_the_lock() {
    within(PATIENCE, || {
        let mut stream = Stream::new(2);
        let open = |stream: &Stream| -> Result<Bytes, Error> {
            options().open_in(Arc::new(stream.device.clone()))
        };
        stream.writes.state.lock().unwrap().beside = Some(Beside::Panics);
        stream.returns(0, Fate::Lands);
        stream.appends.remove(0).1.join().unwrap_err();
        let refused = open(&stream).unwrap_err();
        assert!(matches!(refused, Error::Busy { .. }), "{refused}");
        stream.returns(0, Fate::Lands);
        let told = stream.appends.remove(0).1.join().unwrap();
        assert!(matches!(told, Err(Error::Poisoned { .. })), "{told:?}");
        let log = Arc::into_inner(stream.log.take().unwrap()).unwrap();
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
        assert!(open(&stream).unwrap().durable() >= Lsn::new(stream.before));
    });
}

/// The log is poisoned while another thread has the writer, and closed. A follower is still there.
#[test]
fn close_waits_for_the_thread_that_has_the_writer() {
    within(PATIENCE, || {
        let mut stream = Stream::new(2);
        let follower = stream.log().follow(Lsn::FIRST).unwrap();
        stream.writes.state.lock().unwrap().beside = Some(Beside::Waits);
        stream.returns(0, Fate::Lands);
        let state = stream.writes.state.lock().unwrap();
        let is_coming = |state: &mut State| state.beside == Some(Beside::Waits);
        drop(stream.writes.changed.wait_while(state, is_coming).unwrap());
        stream.returns(1, Fate::Panics);
        stream.appends.remove(1).1.join().unwrap_err();
        let log = stream.log.take().unwrap();
        let closes = thread::spawn(move || log.close_shared());
        pause();
        stream.writes.state.lock().unwrap().beside = None;
        stream.writes.changed.notify_all();
        assert!(matches!(closes.join().unwrap(), Err(Error::Poisoned { .. })));
        let _ = stream.appends.remove(0).1.join().unwrap();
        let again: Bytes = options().open_in(Arc::new(stream.device.clone())).unwrap();
        assert!(again.durable() >= Lsn::new(stream.before));
        drop(follower);
    });
}

const FAILURES: [Fate; 4] = [Fate::Lands, Fate::Fails(0), Fate::Fails(1), Fate::Fails(2)];
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Checks power cuts with three writes in flight. Returns how many were checked.
pub(crate) fn cut_with_three_in_flight() -> u64 {
    let stream = Stream::new(3);
    assert_eq!(newest(&stream.device).in_flight_max, 3);
    assert_eq!(stream.log().stats().overlapped, 2);
    let states = stream.check_cuts(1 << 12, "three in flight");
    assert_eq!(stream.acknowledged(), stream.before);
    (0..3).for_each(|append| stream.returns(append, Fate::Lands));
    states
}

#[test]
fn crash_with_three_writes_in_flight_loses_nothing_acknowledged() {
    let states = within(PATIENCE, cut_with_three_in_flight);
    assert!(states >= 1 << 6, "{states} states");
}

#[test]
fn writes_return_and_fail_in_any_order_and_are_acknowledged_in_theirs() {
    within(PATIENCE, || fail_in_any_order(8_000));
}

/// Runs each order and outcome of three writes. Together they must check more than `least` states.
pub(crate) fn fail_in_any_order(least: u64) {
    let (mut states, mut runs, mut sample) = (0, 0, Sample::one_in(3));
    for order in ORDERS {
        for case in 0..64_usize {
            if !sample.takes_next() {
                continue;
            }
            let fates =
                [case % 4, case / 4 % 4, case / 16].map(|fate| *FAILURES.get(fate).unwrap());
            let what = format!("{fates:?} in order {order:?}");
            let mut stream = Stream::new(3);
            let before = stream.before;
            let mut returned = [false; 3];
            for append in order {
                stream.returns(append, *fates.get(append).unwrap());
                *returned.get_mut(append).unwrap() = true;
                // Only records before the first write that is in flight or failed may be
                // acknowledged.
                let sound = (0..3).take_while(|append| {
                    *returned.get(*append).unwrap() && fates.get(*append) == Some(&Fate::Lands)
                });
                let most = before + u64::try_from(sound.count()).unwrap();
                if returned != [true; 3] {
                    thread::yield_now();
                    assert!(stream.acknowledged() <= most, "{what}: {}", stream.acknowledged());
                }
                states += stream.check_cuts(16, &what);
            }
            for (number, (_, append)) in (before + 1..).zip(stream.appends.drain(..)) {
                assert_eq!(append.join().unwrap().unwrap().get(), number, "{what}");
            }
            let has_failed = fates.iter().any(|fate| *fate != Fate::Lands);
            assert_eq!(stream.log().stats().failovers, u64::from(has_failed), "{what}");
            check(&stream.device.power_cut(|_| false), before + 3, &what);
            check(&stream.device.kill(), before + 3, &what);
            runs += 1;
        }
    }
    println!("{runs} runs, {states} states");
    assert!(states > sample.least(least), "{states}");
}

/// A later write is on the disk, but the one before it is not. With damage before both, the later
/// record looks like an intact record after a lost one.
#[test]
fn parity_restores_what_a_torn_end_follows() {
    within(PATIENCE, || {
        let options = options().parity(Some("2+1".parse().unwrap()));
        let mut stream = Stream::with(1, &options);
        let last = stream.before + 1;
        stream.returns(0, Fate::Lands);
        let (offset, append) = stream.appends.pop().unwrap();
        assert_eq!(append.join().unwrap().unwrap(), lsn(last));
        (1..=2).for_each(|more| stream.launch(last + more));
        stream.returns(1, Fate::Lands);
        // Everything is stored except the first of the two writes.
        let sector = stream.appends.first().unwrap().0 / 512;
        let unstored = sector..sector + 2;
        let is_lost = |what: &What| matches!(what, What::Sector(at) if unstored.contains(at));
        let left = stream.device.power_cut(|item| !is_lost(&item.what));
        let at = usize::try_from(offset).unwrap();
        let lose = |bytes: &mut Vec<u8>| bytes.get_mut(at..at + 512).unwrap().fill(0);
        left.edit(&newest(&left).id.file_name(), lose);
        // Garbage in its place may have been an acknowledged record, so later records stay visible.
        let garbled = left.kill();
        let place = usize::try_from(sector * 512).unwrap();
        let garble = |bytes: &mut Vec<u8>| bytes.get_mut(place..place + 1024).unwrap().fill(0xA5);
        garbled.edit(&newest(&left).id.file_name(), garble);
        assert_eq!(judge(&garbled).unwrap().verdict, Verdict::Lost);
        assert_eq!(read(&garbled, true).unwrap().end(), Some(last + 2));
        assert_eq!(judge(&left).unwrap().verdict, Verdict::Correctable);
        assert_eq!(read(&left, false).unwrap().end(), Some(last));
        let log: Bytes = open(&options, &left).unwrap();
        assert_eq!(read_own(&log).end(), Some(last));
        stream.returns(0, Fate::Lands);
    });
}

#[test]
fn what_needs_the_log_alone_waits_until_nothing_is_in_flight() {
    type Act = fn(&Bytes) -> seawall::Result<()>;
    let acts: [(&str, Act); 5] = [
        ("confirm", |log| log.confirm().map(drop)),
        ("truncate_after", |log| log.truncate_after(Some(lsn(2)))),
        ("truncate_before", |log| log.truncate_before(lsn(9)).map(drop)),
        ("checkpoint", |log| log.checkpoint(lsn(3))),
        ("rotation", |log| log.append(&payload(1, 2, 1900)).map(drop)),
    ];
    for (name, act) in acts {
        within(PATIENCE, move || {
            let mut stream = Stream::new(2);
            let log = stream.log().clone();
            if name == "rotation" {
                while newest(&stream.device).size > stream.appends.last().unwrap().0 + 2048 {
                    stream.returns(stream.appends.len() - 2, Fate::Lands);
                    stream.returns(stream.appends.len() - 1, Fate::Lands);
                    let next = stream.before + 1 + u64::try_from(stream.appends.len()).unwrap();
                    stream.launch(next);
                    stream.launch(next + 1);
                }
            }
            let segments = newest(&stream.device).id;
            let act = thread::spawn(move || act(&log));
            pause();
            let steps = stream.device.steps();
            let (first, second) = (stream.appends.len() - 2, stream.appends.len() - 1);
            stream.returns(second, Fate::Lands);
            pause();
            assert!(!act.is_finished(), "{name}");
            // Only the write of the second append happened.
            assert_eq!((stream.device.steps() - steps, newest(&stream.device).id), (2, segments));
            stream.returns(first, Fate::Lands);
            act.join().unwrap().unwrap();
            for (_, append) in stream.appends.drain(..) {
                append.join().unwrap().unwrap();
            }
        });
    }
}

#[test]
fn stream_without_waiters_has_several_writes_in_flight() {
    within(PATIENCE, || {
        let stream = Stream::with(0, &options().stream_batch(1, 1));
        let log = stream.log();
        for number in 1..=3 {
            for count in 1..=2 {
                // Let all threads go to sleep first.
                pause();
                drop(log.submit(&record(stream.before + 1)).unwrap());
                stream.wait_for(count);
            }
            stream.land_all();
            log.flush().unwrap();
            assert_eq!(log.stats().overlapped, number);
        }
    });
}

#[test]
fn mark_is_not_written_beside_a_batch_in_flight() {
    within(PATIENCE, || {
        let stream = Stream::new(1);
        let log = stream.log().clone();
        // The next batch is large enough to be written, by the thread that confirms.
        let ticket = log.submit(&record(stream.before + 2)).unwrap();
        let confirm = thread::spawn(move || log.confirm());
        stream.wait_for(2);
        pause();
        assert!(!confirm.is_finished());
        assert_eq!(stream.log().stats().marks, 0);
        stream.land_all();
        assert_eq!(confirm.join().unwrap().unwrap(), lsn(stream.before + 2).into());
        assert_eq!(
            (ticket.wait().unwrap(), stream.log().stats().marks),
            (lsn(stream.before + 2), 1)
        );
        check(&stream.device.power_cut(|_| false), stream.before + 2, "marked");
    });
}

#[test]
fn no_write_begins_after_one_has_failed() {
    within(PATIENCE, || {
        let mut stream = Stream::new(2);
        stream.returns(1, Fate::Fails(1));
        let (log, number) = (stream.log().clone(), stream.before + 3);
        let append = thread::spawn(move || log.append(&record(number)));
        pause();
        assert_eq!(stream.writes.state.lock().unwrap().waiting.len(), 1);
        stream.returns(0, Fate::Lands);
        assert_eq!(append.join().unwrap().unwrap().get(), number);
        for (_, append) in stream.appends.drain(..) {
            append.join().unwrap().unwrap();
        }
        assert_eq!(stream.log().stats().failovers, 1);
        check(&stream.device.power_cut(|_| false), number, "failed over");
    });
}

/// A device that lost its cache may report the loss to one write and success to another.
#[test]
fn batch_before_a_failed_one_is_written_again() {
    within(PATIENCE, || {
        let mut stream = Stream::new(2);
        stream.returns(1, Fate::Fails(0));
        stream.returns(0, Fate::Vanishes);
        for (_, append) in stream.appends.drain(..) {
            append.join().unwrap().unwrap();
        }
        assert_eq!(newest(&stream.device).base.get(), stream.before + 1);
        check(&stream.device.power_cut(|_| false), stream.before + 2, "the cache was lost");
    });
}

/// Programs without support for several writes in flight read the manifest first. It must make them
/// refuse the log before any segment uses the feature.
#[test]
fn manifest_says_it_before_a_segment_does() {
    let run = |stop| {
        let device = MemStorage::new();
        device.stop_after(stop);
        let log: seawall::Result<Bytes> = options().open_in(Arc::new(device.clone()));
        let appended = log
            .and_then(|log| (1..20).try_for_each(|number| log.append(&record(number)).map(drop)));
        (device, appended.is_ok())
    };
    let (mut states, steps) = (0, run(u64::MAX).0.steps());
    for stop in 0..=steps {
        let (device, _) = run(stop);
        for mask in 0..64_u64 {
            let mut index = 0;
            let device = device.power_cut(|_| {
                index += 1;
                mask >> (index % 6) & 1 == 1
            });
            let names = device.names().into_iter();
            let is_segment = |name: &String| SegmentId::from_file_name(name).is_some();
            let headers = names.filter(is_segment).filter_map(|name| {
                SegmentHeader::decode(device.bytes(&name)?.get(..HEADER_SIZE)?).ok()
            });
            let most = headers.map(|header| header.in_flight_max).max().unwrap_or(1);
            let slots = Manifest::decode_file(&device.bytes("manifest").unwrap_or_default());
            let all = slots.iter().flatten().all(|slot| slot.in_flight_max >= most);
            assert!(all, "step {stop}, kept {mask:b}: {most}, {slots:?}");
            states += u64::from(most > 1);
        }
    }
    assert!(states > 500, "{states}");
}

#[test]
fn panic_in_a_write_poisons_the_log_and_close_waits_for_the_others() {
    within(PATIENCE, || {
        let mut stream = Stream::new(2);
        let before = stream.before;
        // Unlike a call on the log, a ticket can be waited for while the log closes.
        stream.launch_by_ticket(before + 3);
        stream.returns(1, Fate::Panics);
        stream.returns(0, Fate::Lands);
        let (_, third) = stream.appends.remove(2);
        let (_, second) = stream.appends.remove(1);
        let (_, first) = stream.appends.remove(0);
        assert!(second.join().is_err(), "the panic reaches the caller");
        assert!(matches!(first.join().unwrap(), Err(Error::Poisoned { .. }) | Ok(_)));
        let log = Arc::into_inner(stream.log.take().unwrap()).unwrap();
        let offset = *stream.writes.state.lock().unwrap().waiting.first().unwrap();
        let close = thread::spawn(move || log.close());
        pause();
        assert!(!close.is_finished(), "another process could open the log before the write");
        stream.writes.state.lock().unwrap().fates.insert(offset, Fate::Lands);
        stream.writes.changed.notify_all();
        assert!(matches!(third.join().unwrap(), Err(Error::Poisoned { .. })));
        assert!(matches!(close.join().unwrap(), Err(Error::Poisoned { .. })));
        let device = stream.device.clone();
        check(&device.power_cut(|_| false), before, "after a panic");
        check(&device.kill(), before, "after a panic, killed");
    });
}

#[test]
fn batch_that_is_completed_ahead_is_not_written_before_the_oldest_returns() {
    within(PATIENCE, || {
        let mut stream = Stream::new(3);
        let number = stream.before + 4;
        let (log, record) = (stream.log().clone(), record(number));
        let ahead = thread::spawn(move || log.append(&record));
        pause();
        assert_eq!(stream.writes.state.lock().unwrap().waiting.len(), 3, "three may be written");
        stream.returns(2, Fate::Lands);
        stream.returns(1, Fate::Lands);
        pause();
        assert_eq!(
            stream.writes.state.lock().unwrap().waiting.len(),
            1,
            "the oldest is on its way"
        );
        stream.returns(0, Fate::Lands);
        stream.wait_for(1);
        stream.land_all();
        assert_eq!(ahead.join().unwrap().unwrap(), lsn(number));
        for (_, append) in stream.appends.drain(..) {
            append.join().unwrap().unwrap();
        }
        check(&stream.device.power_cut(|_| false), number, "one more than three");
    });
}

/// Random bits, until the source is switched off and fails.
#[derive(Debug)]
struct Switched(SeededEntropy, AtomicBool);

impl Entropy for Switched {
    fn random(&self) -> io::Result<u64> {
        if self.1.load(Ordering::SeqCst) {
            Err(io::ErrorKind::Other.into())
        } else {
            self.0.random()
        }
    }
}

#[test]
fn batch_that_cannot_be_encrypted_ends_the_log_and_releases_everybody() {
    let test = || {
        let entropy = Arc::new(Switched(SeededEntropy::new(7), AtomicBool::new(false)));
        let options = options().env(Arc::new(ManualClock::new()), entropy.clone());
        let mut stream = Stream::with(2, &options);
        entropy.1.store(true, Ordering::SeqCst);
        let (log, before) = (stream.log().clone(), stream.before);
        let third = thread::spawn(move || log.append(&record(before + 3)));
        assert!(third.join().unwrap().is_err(), "without a nonce nothing is written");
        stream.returns(1, Fate::Lands);
        stream.returns(0, Fate::Lands);
        for (_, append) in stream.appends.drain(..) {
            assert!(matches!(append.join().unwrap(), Err(Error::Poisoned { .. }) | Ok(_)));
        }
        let log = Arc::into_inner(stream.log.take().unwrap()).unwrap();
        assert!(matches!(log.close(), Err(Error::Poisoned { .. })));
        check(&stream.device.power_cut(|_| false), before, "without random bits");
    };
    within(PATIENCE, move || encrypted(test));
}

#[test]
fn open_with_fewer_writes_in_flight_limits_a_segment_that_allows_more() {
    within(PATIENCE, || {
        let mut stream = Stream::new(0);
        let (device, writes) = (stream.device.clone(), stream.writes.clone());
        writes.state.lock().unwrap().shut = false;
        Arc::into_inner(stream.log.take().unwrap()).unwrap().close().unwrap();
        let watched = Watched::of(&writes, device.clone());
        let log = options().writes_in_flight(1).open_in(Arc::new(watched)).unwrap();
        let log: Arc<Bytes> = Arc::new(log);
        assert_eq!(newest(&device).in_flight_max, 3);
        writes.state.lock().unwrap().shut = true;
        let append = |number| {
            let log = log.clone();
            thread::spawn(move || log.append(&record(number)).unwrap())
        };
        let appends = [append(1), append(2)];
        let waiting = || writes.state.lock().unwrap().waiting.clone();
        while !appends.iter().all(JoinHandle::is_finished) && waiting().len() < 2 {
            thread::yield_now();
        }
        let fates = waiting().into_iter().map(|offset| (offset, Fate::Lands));
        writes.state.lock().unwrap().fates.extend(fates);
        writes.changed.notify_all();
        for append in appends {
            append.join().unwrap();
        }
        assert_eq!(log.stats().overlapped, 0);
    });
}
