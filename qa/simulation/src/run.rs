//! Runs a plan: one life after the other, and checks what each of them leaves.

mod outcome;

pub use outcome::Outcome;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

use scheduler::shuttle::scheduler::RandomScheduler;
use scheduler::shuttle::sync::RwLock;
use scheduler::shuttle::{FailurePersistence, MaxSteps, Runner, thread};
use scheduler::time;
use seawall::format::{CodecId, Geometry};
use seawall::parity::Parity;
use seawall::recovery::TailState;
use seawall::{Compression, Error, Layout, Log, Lsn, Options, Retention};
use seawall_io::{SeededEntropy, Storage};
use seawall_testkit::{Dice, FaultDisk, Kind, MemStorage, harm};

use crate::describe::describe;
use crate::evidence::{Evidence, beginnings, highest_id, oldest};
use crate::keyed;
use crate::ledger::Ledger;
use crate::ledger::given_up::Disk;
use crate::look::{self, parity_damage, refused};
use crate::payload::Stuff;
use crate::plan::reach;
use crate::plan::{Beside, End, Keep, Life, Plan};
use crate::task::Task;
use crate::world::{BLOCK, Bytes, Next, WRONG_READS, World, disk, is_beside, is_parity, lock};

/// Runs a plan to its end, or to the first finding.
#[must_use]
pub fn run(plan: &Plan) -> Outcome {
    run_telling(plan, None)
}

/// Runs a plan and returns a trace of one line for each act, to find the cause of a finding.
#[must_use]
pub fn tell(plan: &Plan) -> (Outcome, Vec<String>) {
    let story = Arc::new(Mutex::new(vec![]));
    let outcome = run_telling(plan, Some(story.clone()));
    let story = lock(&story).clone();
    (outcome, story)
}

fn run_telling(plan: &Plan, story: Option<Arc<Mutex<Vec<String>>>>) -> Outcome {
    quiet();
    let shared = Arc::new(Mutex::new(Outcome::default()));
    let (inside, own) = (shared.clone(), plan.clone());
    let mut config = scheduler::config();
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(TURNS_MAX);
    let random = RandomScheduler::new_from_seed(plan.seed, 1);
    let runner = Runner::new(random, config);
    PANIC.set(Some(String::new()));
    let ran = catch_unwind(AssertUnwindSafe(|| {
        runner.run(move || {
            keyed::begin(own.encrypts());
            reach::begin(own.reach);
            let mut simulation = Simulation::new(&own, &inside);
            simulation.story.clone_from(&story);
            *lock(&inside) = simulation.run(&own);
        });
    }));
    let mut outcome = lock(&shared).clone();
    let what = PANIC.take().unwrap_or_default();
    if ran.is_err() {
        let what = if what.contains("exceeded max_steps") {
            format!("{IN_CIRCLES}: no end after {TURNS_MAX} turns")
        } else {
            format!("panicked: {what}")
        };
        outcome.finding.get_or_insert(what);
    }
    outcome
}

/// More turns of the scheduler than any plan needs.
const TURNS_MAX: usize = 1_000_000;

/// Start of the finding that a run did not end within the limit of turns.
pub(crate) const IN_CIRCLES: &str = "a task runs in circles";

thread_local! {
    /// Message of a panic of a run in this thread; `None` outside runs.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps panics of runs off the terminal, because they are findings. Lets shuttle install its hook
/// first, and replaces it.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        let random = RandomScheduler::new_from_seed(0, 1);
        Runner::new(random, scheduler::config()).run(|| {});
        std::panic::set_hook(Box::new(move |panic| {
            let is_ours = PANIC.with_borrow_mut(|said| {
                said.as_mut().map(|said| *said = panic.to_string()).is_some()
            });
            if !is_ours {
                others(panic);
            }
        }));
    });
}

/// One log, over all its lives.
struct Simulation {
    layout: Layout,
    stuff: Stuff,
    segment_max: u64,
    seed: u64,
    device: MemStorage,
    /// The durable state of the device before the last life.
    earlier: MemStorage,
    /// Whether nothing but the log changed the parity files.
    parity_is_sound: bool,
    /// Whether a sync failed since the machine started, so that the page cache may show bytes that
    /// are not on the disk. No later sync reports it. An open writes them again.
    may_be_gone: bool,
    ledger: Arc<Mutex<Ledger>>,
    serial: Arc<Mutex<u64>>,
    finding: Arc<Mutex<Option<String>>>,
    story: Option<Arc<Mutex<Vec<String>>>>,
    outcome: Outcome,
    /// The outcome so far, for use after a panic.
    shared: Arc<Mutex<Outcome>>,
}

impl Simulation {
    fn new(plan: &Plan, shared: &Arc<Mutex<Outcome>>) -> Self {
        Self {
            layout: plan.layout,
            stuff: match plan.layout {
                Layout::Text => Stuff::Text,
                _ if plan.compresses() => Stuff::Compressible,
                _ => Stuff::Random,
            },
            segment_max: plan.segment_max,
            seed: plan.seed,
            device: MemStorage::new(),
            earlier: MemStorage::new(),
            parity_is_sound: true,
            may_be_gone: false,
            ledger: Arc::default(),
            serial: Arc::default(),
            finding: Arc::default(),
            story: None,
            outcome: Outcome { encrypted: plan.encrypts().into(), ..Outcome::default() },
            shared: shared.clone(),
        }
    }

    fn run(mut self, plan: &Plan) -> Outcome {
        time::flow();
        for (turn, life) in (1..).zip(&plan.lives) {
            self.live(life, turn);
            if lock(&self.finding).is_some() {
                break;
            }
        }
        if lock(&self.finding).is_none() {
            self.last_look();
        }
        let finding = lock(&self.finding).take();
        self.outcome.finding = finding;
        self.outcome
    }

    fn world(&self, disk: FaultDisk) -> World {
        World {
            layout: self.layout,
            stuff: self.stuff,
            disk,
            ledger: self.ledger.clone(),
            finding: self.finding.clone(),
            serial: self.serial.clone(),
            story: self.story.clone(),
            went_on_at: Arc::default(),
        }
    }

    fn options(&self, life: &Life, turn: u64) -> Options {
        let luck = Dice::new(self.seed ^ (turn << 40)).any();
        let mut options = plain(self.layout, luck)
            .level(life.level)
            .preallocate(life.next.ahead)
            .reuse(life.next.reuse)
            .name_ahead(life.next.name_ahead)
            .writes_in_flight(life.in_flight)
            .stream_batch(1, 1)
            .fill_blocks(life.fills_blocks)
            .idle_mark(life.idle.then_some(Duration::from_millis(100)))
            .buffered(Duration::from_millis(10), 2048);
        let mut ledger = lock(&self.ledger);
        ledger.was_damaged |= ledger.damaged;
        if !ledger.was_damaged {
            // A log that lost its manifest does not know its largest segment.
            options = options.segment_size(self.segment_max);
        }
        drop(ledger);
        options = match life.compress {
            None => options,
            Some(true) => options.compression(Compression::Lz4),
            Some(false) => options.compression(Compression::None),
        };
        options = match life.beside {
            Beside::AsItIs => options,
            Beside::Off => options.parity(None),
            Beside::On(scheme) => options.parity(Some(scheme)),
        };
        match life.keep {
            Keep::All => options,
            Keep::Bytes(bytes) => options.retention(Retention::new().max_bytes(bytes)),
            Keep::Ring(bytes) => {
                options.retention(Retention::new().max_bytes(bytes).without_checkpoints())
            }
        }
    }

    fn live(&mut self, life: &Life, turn: u64) {
        // Only durable data: what was only in the page cache cannot come back as a stale sector.
        self.earlier = self.device.power_cut(|_| false);
        let disk = disk(self.device.clone());
        life.faults.iter().for_each(|(step, fault)| disk.plan(*step, *fault));
        let beside = life.faults_beside.iter();
        beside.for_each(|(step, fault)| disk.plan_for(*step, *fault, is_parity));
        if let Some(step) = life.end.step() {
            disk.stop_after(step);
        }
        let world = self.world(disk);
        {
            let mut ledger = world.ledger();
            ledger.begin(life.keep);
        }
        let options = self.options(life, turn);
        world.tell(|| format!("life {turn}: {life}"));
        let reads_wrong = life.faults.iter().any(|(_, fault)| WRONG_READS.contains(&fault.kind));
        let opened = match self.open(&world, &options, reads_wrong) {
            Ok(log) => {
                self.work(&world, life, log);
                true
            }
            Err(error) => {
                self.not_opened(&world, &error);
                false
            }
        };
        self.end(&world, life, opened);
    }

    /// Opens the log, and compares all records with the promises.
    fn open(
        &mut self,
        world: &World,
        options: &Options,
        reads_wrong: bool,
    ) -> seawall::Result<Bytes> {
        let damaged = world.ledger().damaged;
        let asks = damaged || reads_wrong;
        let evidence = asks.then(|| Evidence::of(&self.device));
        let stored = if damaged && reads_wrong { stored(&self.device) } else { BTreeSet::new() };
        let highest = if asks { highest_id(&self.device) } else { None };
        let begins = if asks { beginnings(&self.device) } else { vec![] };
        world.ledger().removals.saw(&self.device);
        let opened = options.open_in(Arc::new(world.disk.clone()));
        // A wrong read may hide the valid slot of the manifest.
        let is_misled = world.wrong_reads() > 0;
        let begins = if is_misled { begins.into_iter().min() } else { begins.last().copied() };
        if asks {
            world.ledger().saw(Disk { begins: begins.unwrap_or(0), highest });
        }
        let log: Bytes = opened?;
        let first = log.oldest();
        let found: seawall::Result<Vec<_>> = log
            .read_from(first)?
            .map(|entry| entry.map(|(lsn, bytes)| (lsn.get(), bytes)))
            .collect();
        let found = found?;
        let last = log.recovery().last.map_or(0, Lsn::get);
        // LSNs that a repair gave up at the end count, too.
        let range = (first.get(), last.max(first.get() - 1));
        let mut ledger = world.ledger();
        world.tell(|| format!("opened: {} to {last}, {:?}", first, log.recovery().tail));
        ledger.is_born = true;
        // One wrong read hides at most what nothing else confirms: the window of guarantees.md,
        // section 2. Two in one open may hide a record and its evidence. But then the open must not
        // report that the tail is clean.
        let wrong_reads = world.wrong_reads();
        // A misdirected read may return zeros, as if nothing had been written here.
        let says_so = log.recovery().tail != TailState::Clean || world.reads_astray();
        let doubted = wrong_reads > 0 && says_so;
        let may_hide_all = doubted && (wrong_reads > 1 || damaged);
        let bound = evidence.as_ref().map_or(u64::MAX, |evidence| evidence.bound(None));
        let bound = if damaged { bound } else { bound.max(ledger.confirmed) };
        // Of what the device lost before only the evidence is left, and one wrong read can hide
        // that.
        let read = evidence.filter(|_| damaged).map(|evidence| evidence.misread(&world.misread()));
        let heard = read.map_or(u64::MAX, |evidence| evidence.bound(None));
        let is_unheard = |lsn| wrong_reads > 0 && lsn > heard && !stored.contains(&lsn);
        let excused = |lsn| lsn > bound || may_hide_all || is_unheard(lsn);
        ledger.damaged |= may_hide_all || (doubted && last < ledger.durable);
        ledger.removals.saw(world.disk.device());
        let oldest = oldest(world.disk.device());
        let judged = ledger.opened(&found, (range, oldest.as_ref(), &excused));
        ledger.removals.saw(world.disk.device());
        let (holes, is_whole) = (ledger.has_holes(), ledger.is_whole);
        drop(ledger);
        world.judge(judged, "an open");
        if damaged && is_whole && !world.is_lied_to() && look::is_undamaged(world.disk.device()) {
            // The damage was where nothing counts any more.
            world.ledger().damaged = false;
        }
        let (delivered, first) = (found.last().map_or(0, |(lsn, _)| *lsn), first.get());
        if !damaged && !holes && delivered != last && last >= first {
            world.find(format!("an open says the last record is {last}, and reads to {delivered}"));
        }
        Self::is_replayed_from_a_checkpoint(world, &log);
        Ok(log)
    }

    fn is_replayed_from_a_checkpoint(world: &World, log: &Bytes) {
        let start = log.replay_start();
        let mut ledger = world.ledger();
        // A checkpoint whose records were removed counts no more.
        let checkpoints = ledger.checkpoints.iter().map(|lsn| log.oldest().get().max(*lsn));
        let known = match ledger.checkpoints.as_slice() {
            [] => start == log.oldest(),
            _ => checkpoints.into_iter().any(|lsn| lsn == start.get()),
        };
        if known || ledger.damaged {
            ledger.checkpoints = vec![start.get()];
            return;
        }
        let checkpoints = ledger.checkpoints.clone();
        drop(ledger);
        world.find(format!("replay starts at {start}, and a checkpoint is one of {checkpoints:?}"));
    }

    fn work(&mut self, world: &World, life: &Life, log: Bytes) {
        let (log, gate) = (Arc::new(log), Arc::new(RwLock::new(())));
        let task = |(name, acts): (usize, &Vec<_>)| {
            (Task::new((name, world.clone()), log.clone(), gate.clone()), acts.clone())
        };
        let mut tasks: Vec<_> = life.tasks.iter().enumerate().map(task).collect();
        let own = tasks.pop();
        let others: Vec<_> =
            tasks.into_iter().map(|(task, acts)| thread::spawn(move || task.run(&acts))).collect();
        if let Some((task, acts)) = own {
            task.run(&acts);
        }
        for other in others {
            let _ = other.join();
        }
        self.outcome.records += world.ledger().new_records();
        let Some(log) = Arc::into_inner(log) else { return };
        self.outcome.reused += log.stats().reused;
        self.outcome.named_ahead += log.stats().named_ahead;
        self.outcome.failovers += log.stats().failovers;
        self.outcome.overlapped += log.stats().overlapped;
        self.outcome.compressed += log.stats().compressed;
        match life.end {
            End::Close => {
                if let Err(error) = log.close() {
                    world.bear(&error, "a close");
                } else {
                    let judged = world.ledger().closed();
                    world.judge(judged, "a close");
                }
            }
            End::Drop => drop(log),
            End::Kill(_) | End::Power(..) | End::Detach(..) => {
                // The life ends here if its last step was not reached.
                world.disk.stop_after(0);
                drop(log);
            }
        }
    }

    fn not_opened(&mut self, world: &World, error: &Error) {
        if world.bear(error, "an open") == Next::Stop && !world.disk.is_stopped() {
            return;
        }
        let damaged = world.ledger().damaged;
        if damaged && matches!(error, Error::Damaged { .. }) {
            self.device = look::mend(world, &self.device);
        }
    }

    /// Ends a life: checks the log, and leaves the disk to the next life.
    fn end(&mut self, world: &World, life: &Life, opened: bool) {
        let disk = &world.disk;
        self.outcome.steps += disk.steps();
        self.outcome.trace = self.outcome.trace.rotate_left(7) ^ disk.trace();
        let mut injected = disk.injected();
        for one in &injected {
            world.tell(|| format!("{} went wrong at {} in {:?}", one.fault, one.step, one.file));
        }
        self.outcome.faults += u64::try_from(injected.len()).expect("fits in 64 bits");
        let beside = injected.iter().filter(|one| is_beside(one) && one.fault.kind != Kind::Stall);
        self.parity_is_sound &= beside.count() == 0;
        let lied = injected.iter().any(|one| one.fault.kind.is_damage());
        injected.retain(|one| !is_beside(one));
        *lock(&self.shared) = self.outcome.clone();
        if lock(&self.finding).is_some() {
            return;
        }

        let spoiled_last = injected.iter().rev().find(|one| one.fault.kind == Kind::SpoiledSync);
        // Until the next segment is durable, a power cut loses the records of the spoiled block.
        let survived = spoiled_last.is_some_and(|one| *lock(&world.went_on_at) > one.step);
        // The directory sync of a creation failed: guarantees.md, section 8.
        let is_unborn = !world.ledger().is_born;
        let lost_name =
            injected.iter().any(|one| one.fault.kind == Kind::FailedSync && one.file.is_empty());
        let harmed = (is_unborn && lost_name)
            || injected
                .iter()
                .map(|one| one.fault.kind)
                .any(|kind| kind.is_damage() && !(kind == Kind::SpoiledSync && survived));
        self.outcome.pending_at_end = self.device.pending().len();
        world.ledger().removals.saw(&self.device);
        let failed_sync = injected.iter().any(|one| one.fault.kind == Kind::FailedSync);
        self.device = life.end.left(&self.device);
        world.ledger().damaged |= harmed;
        if harmed || lied {
            self.device.evict();
        }
        let faults = !injected.is_empty();
        world.ledger().may_be_unsure |= faults || life.end.may_tear();
        world.tell(|| format!("left {}", describe(&self.device)));
        self.may_be_gone = match life.end {
            End::Power(..) | End::Detach(..) => false,
            _ => failed_sync || (self.may_be_gone && !opened),
        };
        look::after(world, &self.device, self.may_be_gone);
        if let Some(asked) = life.protect {
            self.protect(world, asked);
        }
        let probed = self.device.kill();
        if life.probes.0 > 0 && !world.ledger().damaged {
            self.outcome.probes += look::probe(world, (&probed, &self.earlier), life.probes);
            refused::probe(world, &probed, life.probes);
        }
        if life.mends.0 > 0 && !world.ledger().damaged {
            let is_sound = self.parity_is_sound;
            let options = self.options(&Life::quiet(life.level), 0xFFFE);
            self.outcome.mends +=
                parity_damage::probe(world, &self.device, (is_sound, &options), life.mends);
        }
        let may = |name: &str| !name.starts_with("quarantine/") && name != "lock";
        let beside = (life.harm_beside, (&is_parity) as &dyn Fn(&str) -> bool);
        for (how, may) in [(life.harm, &may as &dyn Fn(&str) -> bool), beside] {
            if let Some(how) = how
                && let Some(harmed) = harm(&self.device, &self.earlier, how, may)
            {
                world.tell(|| format!("{how} of {} at {:?}", harmed.file, harmed.bytes));
                let is_beside = is_parity(&harmed.file);
                self.parity_is_sound &= !is_beside;
                world.ledger().damaged |= !is_beside;
            }
        }
    }

    /// Builds the missing parity without a writer, as `protect` does. A crash may interrupt it.
    fn protect(&mut self, world: &World, (scheme, end): (Parity, End)) {
        if world.ledger().damaged || lock(&self.finding).is_some() {
            return;
        }
        let disk = disk(self.device.clone());
        if let Some(step) = end.step() {
            disk.stop_after(step);
        }
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        let made = keyed::maintenance(&storage).build_parity(scheme);
        world.tell(|| format!("protected with {scheme}, {} steps: {made:?}", disk.steps()));
        self.outcome.steps += disk.steps();
        self.outcome.trace = self.outcome.trace.rotate_left(7) ^ disk.trace();
        match made {
            _ if disk.is_stopped() => {}
            Ok(made) if !made.open.is_empty() && made.unsure == 0 => {
                world.find(format!("protect leaves without parity: {made:?}"));
            }
            Err(Error::NotALog { .. }) => {}
            // Damaged parity may contradict the records; `protect` keeps it and fails.
            Err(error) if self.parity_is_sound => world.find(format!("protect: {error:#}")),
            _ => {}
        }
        world.ledger().may_be_unsure |= end.may_tear();
        self.device = end.left(&self.device);
        self.may_be_gone &= !matches!(end, End::Power(..) | End::Detach(..));
        look::after(world, &self.device, self.may_be_gone);
    }

    /// Checks that the log opens without help after the last life, closes, and is clean.
    fn last_look(&mut self) {
        let world = self.world(disk(self.device.clone()));
        let life = Life::quiet(seawall::Level::Synced);
        match self.open(&world, &self.options(&life, 0xFFFF), false) {
            Ok(log) => {
                let closed = log.close();
                if let Err(error) = closed {
                    world.bear(&error, "a close");
                }
                look::is_clean(&world, &self.device);
            }
            Err(error) => self.not_opened(&world, &error),
        }
        self.outcome.steps += world.disk.steps();
        self.outcome.trace = self.outcome.trace.rotate_left(7) ^ world.disk.trace();
    }
}

/// Returns the LSNs of the records that a reader finds when all reads are correct.
fn stored(device: &MemStorage) -> BTreeSet<u64> {
    let entries = read(&device.kill(), true).unwrap_or_default();
    entries.into_iter().flatten().map(|(lsn, _)| lsn).collect()
}

/// Returns the options of all simulated logs; `luck` seeds their random bits.
pub(crate) fn plain(layout: Layout, luck: u64) -> Options {
    let geometry = Geometry { block: BLOCK, reach: reach::get(), batch_max: 1024 };
    let least = if layout == Layout::Text { 1024 } else { geometry.segment_size(1024, 0) };
    let options = Options::new()
        .geometry(geometry, least)
        // Encode small batches too, in several pieces.
        .encode_sizes(0, 300)
        .env(Arc::new(time::Clock), Arc::new(SeededEntropy::new(luck)));
    match layout {
        Layout::Text => options.codec(CodecId::Json).layout(layout),
        _ => keyed::options(options),
    }
}

/// A record that a reader delivered, or its error.
pub(crate) type Entry = seawall::Result<(u64, Vec<u8>)>;

/// Reads everything as a reader without the lock.
pub(crate) fn read(device: &MemStorage, skip: bool) -> seawall::Result<Vec<Entry>> {
    let reader = keyed::reader(Arc::new(device.clone()))?.skip_damaged(skip);
    let oldest = reader.oldest()?;
    let entries = reader.read_from(oldest)?;
    Ok(entries.map(|entry| entry.map(|(lsn, bytes)| (lsn.get(), bytes))).collect())
}

const _: fn() = || {
    // Shuttle runs the simulation in a thread of its own.
    fn is_send<T: Send>() {}
    is_send::<Log<[u8], seawall::Raw>>();
};
