//! One task of a life: calls the log and compares the results with the ledger.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use scheduler::shuttle::sync::RwLock;
use seawall::verify::Verdict;
use seawall::{Error, Follower, Level, LogReader, Lsn, Raw, Ticket};
use seawall_io::{Clock as _, Storage};
use seawall_testkit::MemStorage;

use crate::evidence::highest_id;
use crate::keyed;
use crate::ledger::{Moment, Stood};
use crate::payload::payload;
use crate::plan::Act;
use crate::world::{Bytes, Next, World};

/// A task that uses the log of a life.
pub(crate) struct Task {
    world: World,
    name: usize,
    log: Arc<Bytes>,
    /// Truncations, checkpoints and prunes lock it exclusively; appends share it.
    gate: Arc<RwLock<()>>,
    tickets: VecDeque<(u64, Ticket)>,
    /// The last LSN that this task was given, and the number of truncations before.
    given: (u64, u64),
    here: Option<Following>,
    elsewhere: Option<Following>,
    /// A reader as in another process, kept with what it caches about the log.
    reader: Option<LogReader<[u8], Raw>>,
}

/// A follower, and the record that it delivered last.
struct Following {
    follower: Follower<[u8], Raw>,
    place: Place,
    /// When the follower last read how far the log goes.
    since: Moment,
}

impl Following {
    fn new(follower: Follower<[u8], Raw>, (who, since): (Who, Moment)) -> Self {
        let place = Place { next: follower.position().get(), last: None, who };
        Self { follower, place, since }
    }
}

/// Where a reader is: the next LSN, and the record before.
struct Place {
    next: u64,
    last: Option<(u64, Option<Stood>)>,
    who: Who,
}

/// The kind of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// In the writer's process.
    Here,
    /// In another process, and follows `live`. When the reader began, `lost` writes of `live` had
    /// failed.
    Told { lost: usize },
    /// In another process, and found no valid `live` after a sync that failed. What this reader
    /// shows may be in the page cache only, and its own sync does not report that.
    Untold,
}

/// A record that a reader delivered.
type Entry = seawall::Result<(Lsn, Vec<u8>)>;

impl Task {
    pub(crate) fn new(
        (name, world): (usize, World),
        log: Arc<Bytes>,
        gate: Arc<RwLock<()>>,
    ) -> Self {
        let (here, elsewhere, reader) = (None, None, None);
        let (tickets, given) = (VecDeque::new(), (0, 0));
        Self { world, name, log, gate, tickets, given, here, elsewhere, reader }
    }

    pub(crate) fn run(mut self, acts: &[Act]) {
        for act in acts {
            if self.world.has_found() {
                return;
            }
            self.world.tell(|| format!("task {}: {act} ...", self.name));
            let done = self.act(act);
            self.world.tell(|| match &done {
                Ok(()) => {
                    let acknowledged = self.world.ledger().acknowledged();
                    format!("task {}: {act} done, {acknowledged}", self.name)
                }
                Err(error) => format!("task {}: {act}: {error:#}", self.name),
            });
            self.world.saw();
            let next =
                done.map_or_else(|e| self.world.bear(&e, &format!("{act}")), |()| Next::GoOn);
            if next == Next::Stop {
                return;
            }
        }
    }

    fn act(&mut self, act: &Act) -> seawall::Result<()> {
        match act {
            Act::Append(size) => self.append(&[*size]),
            Act::Set(sizes) => self.append(sizes),
            Act::Submit(size) => self.submit(*size, Bytes::submit),
            Act::TrySubmit(size) => match self.submit(*size, Bytes::try_submit) {
                Err(Error::WouldBlock { .. }) => Ok(()),
                done => done,
            },
            Act::Wait => self.wait(),
            Act::Flush => self.flush(false),
            Act::Confirm => self.flush(true),
            Act::Checkpoint(back) => self.checkpoint(*back),
            Act::Prune(back) => self.prune(*back),
            Act::Cut(back) => self.cut(*back),
            Act::Read => self.read(),
            Act::Look => self.look(),
            Act::Get(back) => self.get(*back),
            Act::GetElsewhere(back) => self.get_elsewhere(*back),
            Act::Follow => self.follow(),
            Act::FollowElsewhere => self.follow_elsewhere(),
            Act::Verify => self.verify(),
            Act::Copy => self.copy(),
            Act::Rest(time) => {
                scheduler::time::Clock.sleep(Duration::from_millis(*time));
                Ok(())
            }
        }
    }

    fn payloads(&self, sizes: &[usize]) -> Vec<Vec<u8>> {
        let one = |size: &usize| payload(self.world.stuff, self.world.next_number(), *size);
        sizes.iter().map(one).collect()
    }

    fn append(&mut self, sizes: &[usize]) -> seawall::Result<()> {
        let gate = self.gate.clone();
        let _shared = gate.read();
        let began = self.world.disk.steps();
        let set = self.payloads(sizes);
        let turn = self.world.ledger().hand_over(set.clone());
        let records = set.iter().map(Vec::as_slice);
        let appended = match set.as_slice() {
            [one] => self.log.append(one).map(|lsn| lsn..=lsn),
            _ => self.log.append_batch(records),
        };
        let numbers = self.unless_refused(turn, appended)?;
        let payload = set.first().expect("a set holds a record");
        self.numbered(turn, (numbers.start().get(), payload));
        self.given = (self.world.ledger().cuts(), numbers.end().get());
        self.acknowledged(numbers.end().get(), began);
        Ok(())
    }

    fn unless_refused<T>(&self, turn: u64, answer: seawall::Result<T>) -> seawall::Result<T> {
        if let Err(
            Error::DiskFull { .. }
            | Error::TooLarge { .. }
            | Error::Encode { .. }
            | Error::WouldBlock { .. },
        ) = answer
        {
            let judged = self.world.ledger().refused(turn);
            self.world.judge(judged, "an append that was refused");
        }
        answer
    }

    fn numbered(&self, turn: u64, record: (u64, &[u8])) {
        let judged = self.world.ledger().numbered(turn, record);
        self.world.judge(judged, "an append");
    }

    /// Notes the end of an append that began at step `began`. The level decides what that promises.
    fn acknowledged(&self, last: u64, began: u64) {
        let level = self.log.level();
        let durable = self.log.durable().map_or(0, Lsn::get);
        let mut ledger = self.world.ledger();
        let promised = if level == Level::Buffered { durable } else { last };
        let judged = ledger.acknowledge(promised);
        if level == Level::Confirmed {
            ledger.confirm(last);
        }
        drop(ledger);
        if durable >= last {
            // A sync requested after that step has returned.
            let mut survived = crate::world::lock(&self.world.went_on_at);
            *survived = (*survived).max(began);
        }
        self.world.judge(judged, "an acknowledgement");
        if level != Level::Buffered && durable < last {
            self.world.find(format!("{last} was acknowledged, and durable is {durable}"));
        }
    }

    fn submit(
        &mut self,
        size: usize,
        submit: impl FnOnce(&Bytes, &[u8]) -> seawall::Result<Ticket>,
    ) -> seawall::Result<()> {
        let gate = self.gate.clone();
        let _shared = gate.read();
        let set = self.payloads(&[size]);
        let turn = self.world.ledger().hand_over(set.clone());
        let record = set.first().expect("there is one");
        let ticket = self.unless_refused(turn, submit(&self.log, record))?;
        self.numbered(turn, (ticket.lsn().get(), record));
        let cuts = self.world.ledger().cuts();
        self.given = (cuts, ticket.lsn().get());
        self.tickets.push_back((cuts, ticket));
        Ok(())
    }

    fn wait(&mut self) -> seawall::Result<()> {
        let Some((cuts, ticket)) = self.tickets.pop_front() else { return Ok(()) };
        let gate = self.gate.clone();
        let _shared = gate.read();
        if cuts != self.world.ledger().cuts() {
            // A truncation since then may have removed the record: nothing is promised.
            return Ok(());
        }
        let lsn = ticket.wait()?;
        self.acknowledged(lsn.get(), 0);
        Ok(())
    }

    fn flush(&mut self, confirm: bool) -> seawall::Result<()> {
        let gate = self.gate.clone();
        let _shared = gate.read();
        let all = if confirm { self.log.confirm()? } else { self.log.flush()? };
        let last = all.map_or(0, Lsn::get);
        let mut ledger = self.world.ledger();
        let judged = ledger.acknowledge(last);
        if confirm {
            ledger.confirm(last);
        }
        let (cuts, given) = self.given;
        let misses = cuts == ledger.cuts() && last < given;
        drop(ledger);
        if misses {
            self.world.find(format!("a flush ends with {last} after record {given}"));
        }
        self.world.judge(judged, "a flush");
        Ok(())
    }

    /// Returns the LSN of the record `count` before the last promised one.
    fn back(&self, count: u64) -> u64 {
        let oldest = self.log.oldest().get();
        self.world.ledger().durable.saturating_sub(count).max(oldest)
    }

    fn checkpoint(&mut self, back: u64) -> seawall::Result<()> {
        let gate = self.gate.clone();
        let _alone = gate.write();
        let place = self.back(back);
        self.world.ledger().begin_checkpoint(place);
        self.log.checkpoint(Lsn::new(place).expect("the first is 1"))?;
        self.world.ledger().checkpointed(place);
        Ok(())
    }

    fn prune(&mut self, back: u64) -> seawall::Result<()> {
        let gate = self.gate.clone();
        let _alone = gate.write();
        let place = self.back(back);
        self.world.ledger().may_prune(place);
        let first = self.log.truncate_before(Lsn::new(place).expect("the first is 1"))?;
        let judged = self.world.ledger().pruned(first.get());
        self.world.judge(judged, "a prune");
        Ok(())
    }

    fn cut(&mut self, back: u64) -> seawall::Result<()> {
        let gate = self.gate.clone();
        let _alone = gate.write();
        if self.world.ledger().is_cutting() {
            // A truncation failed, and only the next open shows its effect.
            return Ok(());
        }
        // A flush writes the pending records, so that there is a last record to count from.
        let last = self.log.flush()?.map_or(0, Lsn::get);
        let oldest = self.log.oldest().get();
        let place = last.saturating_sub(back).max(oldest.saturating_sub(1));
        {
            let mut ledger = self.world.ledger();
            let judged = ledger.acknowledge(last);
            ledger.begin_cut(place, highest_id(self.world.disk.device()));
            drop(ledger);
            self.world.judge(judged, "a flush before a cut");
        }
        match self.log.truncate_after(Lsn::new(place)) {
            Ok(()) => {
                self.world.ledger().cut(place);
                Ok(())
            }
            Err(error) => {
                if self.log.truncate_after(Lsn::new(last)).is_ok() {
                    // The log continues: `live` could not be lowered, and nothing was truncated.
                    self.world.ledger().cut_refused();
                }
                Err(error)
            }
        }
    }

    /// Checks what a reader delivers that began to read at the moment `since`; LSNs rise by one
    /// from `first`. Returns the last LSN.
    fn take(
        &self,
        entries: impl Iterator<Item = Entry>,
        (first, since): (u64, Moment),
        who: Who,
    ) -> seawall::Result<u64> {
        let mut place = Place { next: first, last: None, who };
        for entry in entries {
            self.deliver(entry?, (&mut place, since));
        }
        Ok(place.next - 1)
    }

    /// Checks a delivered record: it was in the log at some time since `since`, and at some moment
    /// together with the record before.
    fn deliver(&self, (lsn, payload): (Lsn, Vec<u8>), (place, since): (&mut Place, Moment)) {
        self.world.tell(|| format!("task {}: delivered {lsn}, {} bytes", self.name, payload.len()));
        place.who = self.still(place.who);
        let mut ledger = self.world.ledger();
        let judged = match place.who {
            // What this reader shows is not promised.
            Who::Untold => ledger.clone().shown((lsn.get(), &payload), since),
            Who::Here | Who::Told { .. } => ledger.shown((lsn.get(), &payload), since),
        };
        let excused = ledger.damaged || ledger.has_holes();
        drop(ledger);
        if place.next != lsn.get() && !excused {
            self.world.find(format!("a reader delivers {lsn} where {} comes next", place.next));
        }
        let here = judged.as_ref().ok().copied();
        self.world.judge(judged.map(drop), "a reader");
        let before = place.last.replace((lsn.get(), here));
        if let (Some((last, Some(last_stood))), Some(stood)) = (before, here)
            && last + 1 == lsn.get()
            && !last_stood.together(stood)
        {
            self.world
                .find(format!("a reader delivers {lsn} after a record that was truncated before"));
        }
        place.next = lsn.get() + 1;
    }

    fn read(&mut self) -> seawall::Result<()> {
        let (before, since) = self.begin();
        let oldest = self.log.oldest();
        let last = self.take(self.log.read_from(oldest)?, (oldest.get(), since), Who::Here)?;
        self.is_complete(last, before, since);
        Ok(())
    }

    /// Returns the kind of a reader in another process, given the current `live`.
    fn still(&self, who: Who) -> Who {
        match who {
            Who::Told { lost }
                if self.world.has_failed_sync()
                    && (!self.world.has_word() || self.world.lost_words() > lost) =>
            {
                Who::Untold
            }
            who => who,
        }
    }

    /// Returns the kind of a reader in another process that begins now.
    fn begin_elsewhere(&self) -> Who {
        self.still(Who::Told { lost: self.world.lost_words() })
    }

    /// Returns the highest acknowledged LSN, and the current moment.
    fn begin(&self) -> (u64, Moment) {
        let ledger = self.world.ledger();
        (ledger.acknowledged(), ledger.now())
    }

    /// Checks that a reader got everything that was acknowledged when it began and was not
    /// truncated since.
    fn is_complete(&self, last: u64, before: u64, since: Moment) {
        let ledger = self.world.ledger();
        let (sure, damaged) = (ledger.left_since(since, before), ledger.damaged);
        drop(ledger);
        if !damaged && !self.world.is_lied_to() && last < sure && !self.world.disk.is_stopped() {
            self.world.find(format!("a reader ends with {last}, and {sure} was acknowledged"));
        }
    }

    fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(self.world.disk.clone())
    }

    fn look(&mut self) -> seawall::Result<()> {
        let (before, since) = self.begin();
        let who = self.begin_elsewhere();
        let reader = keyed::reader(self.storage())?;
        let oldest = reader.oldest()?;
        let last = self.take(reader.read_from(oldest)?, (oldest.get(), since), who)?;
        self.is_complete(last, before, since);
        Ok(())
    }

    fn get(&mut self, back: u64) -> seawall::Result<()> {
        let place = self.back(back);
        let (before, since) = self.begin();
        let got = self.log.get(Lsn::new(place).expect("the first is 1"))?;
        self.is_got((place, got), (before, since), Who::Here);
        Ok(())
    }

    fn get_elsewhere(&mut self, back: u64) -> seawall::Result<()> {
        let place = self.back(back);
        let reader = match self.reader.take() {
            Some(reader) => reader,
            None => keyed::reader(self.storage())?,
        };
        let (before, since) = self.begin();
        let who = self.begin_elsewhere();
        let got = reader.get(Lsn::new(place).expect("the first is 1"));
        let who = self.still(who);
        self.reader = Some(reader);
        let got = got?;
        self.is_got((place, got), (before, since), who);
        Ok(())
    }

    /// Checks the result of a get: the right record, and not `None` if it was promised and not
    /// truncated since.
    fn is_got(
        &self,
        (place, got): (u64, Option<Vec<u8>>),
        (before, since): (u64, Moment),
        who: Who,
    ) {
        let mut ledger = self.world.ledger();
        let judged = match got {
            Some(payload) if who == Who::Untold => {
                ledger.clone().shown((place, &payload), since).map(drop)
            }
            Some(payload) => ledger.shown((place, &payload), since).map(drop),
            None if place <= ledger.left_since(since, before)
                && !ledger.damaged
                && !self.world.is_lied_to() =>
            {
                Err(format!("record {place} of {before} is not there"))
            }
            None => Ok(()),
        };
        drop(ledger);
        self.world.judge(judged, &format!("a get, {who:?}"));
    }

    fn follow(&mut self) -> seawall::Result<()> {
        let mut following = if let Some(following) = self.here.take() {
            following
        } else {
            let (_, since) = self.begin();
            Following::new(self.log.follow(self.log.oldest())?, (Who::Here, since))
        };
        self.go_on(&mut following)?;
        self.here = Some(following);
        Ok(())
    }

    fn follow_elsewhere(&mut self) -> seawall::Result<()> {
        let mut following = if let Some(following) = self.elsewhere.take() {
            following
        } else {
            let (_, since) = self.begin();
            let who = self.begin_elsewhere();
            let reader = keyed::reader(self.storage())?;
            Following::new(reader.follow(reader.oldest()?)?, (who, since))
        };
        self.go_on(&mut following)?;
        self.elsewhere = Some(following);
        Ok(())
    }

    /// Checks all records that the follower delivers without waiting.
    fn go_on(&self, following: &mut Following) -> seawall::Result<()> {
        loop {
            let (before, asked) = self.begin();
            let Following { follower, place, since } = following;
            let Some(entry) = follower.next_within(Duration::ZERO)? else {
                // The follower has read how far the log goes, and caches nothing from before.
                *since = asked;
                if self.still(place.who) != Who::Untold {
                    self.is_complete(place.next - 1, before, asked);
                }
                return Ok(());
            };
            self.deliver(entry, (place, *since));
        }
    }

    fn verify(&mut self) -> seawall::Result<()> {
        let (before, since) = self.begin();
        let found = keyed::maintenance(&self.storage()).verify()?;
        let sound = matches!(found.verdict, Verdict::Clean | Verdict::Torn | Verdict::Unsure);
        let calm = !self.world.ledger().damaged && self.world.injected().is_empty();
        if !sound && calm {
            self.world.find(format!("beside its writer the log is called {found:?}"));
        }
        // A log whose records were all pruned has no last one.
        if let Some(last) = found.last_lsn.filter(|_| calm) {
            self.is_complete(last.get(), before, since);
        }
        Ok(())
    }

    fn copy(&mut self) -> seawall::Result<()> {
        let (before, since) = self.begin();
        let who = self.begin_elsewhere();
        let device = MemStorage::new();
        let target: Arc<dyn Storage> = Arc::new(device.clone());
        keyed::maintenance(&self.storage()).back_up_to(&target)?;
        let reader = keyed::reader(Arc::new(device.power_cut(|_| false)))?;
        let oldest = reader.oldest()?;
        let last = self.take(reader.read_from(oldest)?, (oldest.get(), since), who)?;
        self.is_complete(last, before, since);
        Ok(())
    }
}
