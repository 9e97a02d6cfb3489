//! `seawall replay`: applies committed transactions in commit order to a target with state.

mod answer;
mod failure;
mod job;
mod lines;
mod place;
mod program;
mod tables;

use crate::args::{Replay as Args, StorePlace, Target};
use crate::commands::opener::Opener;
use crate::commands::outside;
use crate::commands::records::cat::judge_end;
use crate::commands::transfer::operations::OperationLog;
use crate::output::progress::Progress;
use crate::stores::{self, Stores};
use answer::{Answer, Told};
use job::{Ended, Job};
use seawall::Lsn;
use seawall::damage::Lost;
use seawall::verify::Verification;
use seawall_output::prometheus::MetricList;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use seawall_replay::{MemoryStore, Phase, Progress as Heard, Store};

const METRICS: MetricList = MetricList {
    prefix: "seawall_replay",
    label: ("log", "/log"),
    lines: include_str!("replay/metrics.txt"),
};

/// Replays the log into the target.
pub(crate) fn run(args: &Args, stores: Stores) -> Result<Exit, Failure> {
    let fail = |error: seawall::Error| Failure::of(&error, "replay", &args.log);
    let threads_for_nothing = args.threads > 1 && !matches!(args.into, Target::Store(_));
    if threads_for_nothing {
        let what = "--threads is for stores: json and programs take one batch at a time";
        let failure = Failure::new(Exit::Usage, what).at("the command line");
        return Err(failure.next("omit it"));
    }
    let keeps_no_place = matches!(args.into, Target::Output | Target::File(_));
    if args.accept.adopt && keeps_no_place {
        let what = "--adopt is for a program or a store: json stores no position";
        return Err(Failure::new(Exit::Usage, what).at("the command line").next("omit it"));
    }
    // A store that is not built in is refused before anything is read.
    let store = match &args.into {
        Target::Store(store) => {
            let at = format!("--into {store}");
            Some((stores::find(stores, &store.name, &at)?, store))
        }
        _ => None,
    };
    let opener = Opener::of(&args.key)?;
    let source = OperationLog::new(opener.reader(&args.log).map_err(fail)?);
    let until = source.last_until(args.until, &args.log)?;
    let progress = Progress::start(args.patience, quiet(args))?.counting("records");
    let mut job = Job { args, source, until, progress };
    let ended = match (&args.into, store) {
        (Target::Output, _) => lines::to_output(&mut job)?,
        (Target::File(path), _) => lines::to_file(&mut job, path)?,
        (Target::Program(program), _) => Ended::Told(program::run(&mut job, program)?),
        (Target::Store(_), store) => {
            let (kind, StorePlace { place, .. }) = store.expect("it was found before");
            outside::check_folder(place)?;
            // Opening a missing store would create it.
            let is_new = args.dry_run && !stores::exists(kind, place)?;
            let store =
                if is_new { Box::new(MemoryStore::new()) } else { stores::open(kind, place)? };
            Ended::Told(into_store(&mut job, &*store)?)
        }
    };
    let Job { mut progress, until, .. } = job;
    progress.end();
    let mut answer = match ended {
        Ended::Told(answer) => answer,
        Ended::Unheard(exit) => return Ok(exit),
    };
    let found = verified(args, &opener, (&answer, until));
    if let Ok(Some(found)) = &found {
        answer.given_up += given_up_after(found, (&answer, until));
    }
    let written = tell(args, &answer);
    let judge = |found| judge_end(&args.log, &found, (answer.from, Exit::Fine));
    Ok(found?.map_or(Exit::Fine, judge).worse(written))
}

fn into_store(job: &mut Job<'_>, store: &dyn Store) -> Result<Answer, Failure> {
    let replay = job.replay();
    if job.args.dry_run {
        let plan = replay.plan(&job.source, store).map_err(|error| job.failure(&error))?;
        return Ok(Answer::of_plan(&plan));
    }
    let mut read = Read::default();
    let progress = &mut job.progress;
    let hear = |heard| {
        let (done, total) = read.hear(heard);
        progress.tell(done, total);
    };
    let report = replay.run_with(&job.source, store, hear);
    let report = report.map_err(|error| job.failure(&error))?;
    Ok(Answer::of_report(&report))
}

/// Counts the records read in both passes.
#[derive(Default)]
struct Read {
    planned: u64,
    done: u64,
}

impl Read {
    fn hear(&mut self, heard: Heard) -> (u64, Option<u64>) {
        let Heard { phase, at, last, records } = heard;
        if phase == Phase::Plan {
            self.planned = records;
            self.done = records;
            return (records, None);
        }
        self.done = self.done.max(self.planned + records);
        let left = last.map(|last| last.get().saturating_sub(at.get()));
        (self.done, left.map(|left| self.done + left))
    }
}

/// Prints the answer; to standard error if standard output has the transactions.
fn tell(args: &Args, answer: &Answer) -> Exit {
    let lines = if args.prometheus {
        let answer = serde_json::to_value(Told::of(args, answer)).expect("text and numbers");
        METRICS.render(&answer).lines().map(str::to_owned).collect()
    } else if args.look.json {
        vec![serde_json::to_string(&Told::of(args, answer)).expect("text and numbers")]
    } else if args.look.quiet {
        vec![]
    } else {
        answer.lines(args)
    };
    if args.into == Target::Output {
        for line in &lines {
            say(line);
        }
        return Exit::Fine;
    }
    let mut out = Output::lock();
    out.lines(&lines);
    out.finish()
}

/// Verifies the log, unless record `until` was reached. Only verification tells whether the last
/// record that was read is the end of the log.
fn verified(
    args: &Args,
    opener: &Opener,
    (answer, until): (&Answer, Option<Lsn>),
) -> Result<Option<Verification>, Failure> {
    // A record `until` that was not reached may be lost.
    if until.is_some() && answer.last >= until {
        return Ok(None);
    }
    let found = opener.maintenance(&args.log).verify();
    found.map(Some).map_err(|error| Failure::of(&error, "replay", &args.log))
}

/// Counts the records given up after the last one that was read.
fn given_up_after(found: &Verification, (answer, until): (&Answer, Option<Lsn>)) -> u64 {
    let first = answer.last.map_or(answer.from, Lsn::next).get();
    let last = until.map_or(u64::MAX, Lsn::get);
    let count = |lost: &Lost| {
        let (from, to) = (lost.from.get(), lost.to.map_or(0, Lsn::get));
        to.min(last).saturating_add(1).saturating_sub(from.max(first))
    };
    found.given_up.iter().map(count).sum()
}

/// Whether to hide the progress bar: it would disturb transactions on standard output.
fn quiet(args: &Args) -> bool {
    args.look.quiet || args.into == Target::Output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Verb, parse_words};
    use crate::stores::held::Held;
    use crate::stores::{OpenError, StoreKind};
    use seawall::{Log, LogReader};
    use seawall_measure::scratch::Scratch;
    use seawall_replay::{Change, Operation, TxId};
    use std::path::Path;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, LazyLock};

    /// How often the store was opened.
    static OPENED: AtomicU32 = AtomicU32::new(0);
    static HELD: LazyLock<Arc<MemoryStore>> = LazyLock::new(|| Arc::new(MemoryStore::new()));

    /// Opens the same store in memory each time.
    struct Heap;

    impl StoreKind for Heap {
        fn name(&self) -> &'static str {
            "heap"
        }

        fn open(&self, _place: &Path) -> Result<Box<dyn Store>, OpenError> {
            OPENED.fetch_add(1, Ordering::Relaxed);
            Ok(Box::new(Held { store: HELD.clone(), folder: None }))
        }

        fn exists(&self, _place: &Path) -> Result<bool, OpenError> {
            Ok(false)
        }
    }

    /// Two committed transactions, an aborted and an unfinished one.
    fn operations() -> Vec<Operation> {
        let put = |tx, key: &str| Operation::Change(TxId(tx), Change::put("", key, "v"));
        vec![
            Operation::Begin(TxId(1)),
            put(1, "a"),
            Change::put("", "b", "v").into(),
            Operation::Begin(TxId(2)),
            put(2, "c"),
            Operation::Abort(TxId(2)),
            Operation::Commit(TxId(1)),
            Operation::Begin(TxId(3)),
            put(3, "d"),
        ]
    }

    fn args(line: &str) -> Args {
        let Verb::Replay(args) = parse_words(line) else { panic!("{line}") };
        args
    }

    fn answer(args: &Args, store: &dyn Store) -> Answer {
        let source = OperationLog::new(LogReader::open_any(&args.log).unwrap());
        let until = source.last_until(args.until, &args.log).unwrap();
        let progress = Progress::start(args.patience, true).unwrap();
        into_store(&mut Job { args, source, until, progress }, store).unwrap()
    }

    fn as_json(args: &Args, answer: &Answer) -> serde_json::Value {
        serde_json::to_value(Told::of(args, answer)).unwrap()
    }

    #[test]
    fn store_gets_committed_changes_once_and_a_dry_run_changes_nothing() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-into-store").unwrap();
        let path = scratch.path().join("log");
        let log: Log<Operation> = Log::open(&path).unwrap();
        log.append_batch(&operations()).unwrap();
        let line = format!("replay {} --into heap:anywhere", path.display());
        let keys = |store: &MemoryStore| store.rows("").into_keys().collect::<Vec<_>>().concat();

        let store = MemoryStore::new();
        let dry = args(&format!("{line} --dry-run"));
        let plan = answer(&dry, &store);
        assert_eq!((plan.applied, plan.had, plan.aborted, plan.unfinished), (2, 0, 1, 1));
        assert!(plan.lines(&dry).concat().contains("nothing was changed"));
        assert_eq!(as_json(&dry, &plan)["needed_from_lsn"], serde_json::Value::Null);
        assert_eq!((keys(&store), store.watermarks().unwrap()), (vec![], vec![]));

        let until = answer(&args(&format!("{line} --until 6 --batch 1")), &store);
        assert_eq!((until.applied, until.unfinished, keys(&store)), (1, 1, b"b".to_vec()));
        let all = args(&format!("{line} --threads 2 --json"));
        let found = as_json(&all, &answer(&all, &store));
        assert_eq!((&found["applied"], &found["had_already"]), (&1.into(), &1.into()));
        assert_eq!((&found["applied_lsn"], &found["needed_from_lsn"]), (&7.into(), &7.into()));
        assert_eq!((&found["lanes"], &found["oldest_unfinished"]["tx"]), (&2.into(), &3.into()));
        assert_eq!(keys(&store), b"ab");

        // `run` gives the same result; it opens the store by its kind.
        let replay = |options: &str| run(&args(&format!("{line} -q {options}")), &[&Heap]).unwrap();
        assert_eq!(replay("--dry-run"), Exit::Fine);
        assert_eq!((OPENED.load(Ordering::Relaxed), keys(&HELD)), (0, vec![]));
        assert_eq!((replay("--from 1"), keys(&HELD)), (Exit::Fine, b"ab".to_vec()));
        let inside = args(&format!("replay {0} --into heap:{0}/store/new", path.display()));
        assert_eq!(run(&inside, &[&Heap]).unwrap_err().exit, Exit::Usage);
        assert_eq!(OPENED.load(Ordering::Relaxed), 1);
        drop(log);
    }

    #[test]
    fn progress_covers_both_passes_and_never_decreases() {
        let lsn = |number| Lsn::new(number).unwrap();
        let mut read = Read::default();
        let plan = |at, records| Heard { phase: Phase::Plan, at: lsn(at), last: None, records };
        let apply = |at, records| {
            let last = Some(lsn(110));
            Heard { phase: Phase::Apply, at: lsn(at), last, records }
        };
        assert_eq!(read.hear(plan(60, 50)), (50, None));
        assert_eq!(read.hear(plan(110, 100)), (100, None));
        assert_eq!(read.hear(apply(30, 20)), (120, Some(200)));
        // A second run starts from the beginning.
        assert_eq!(read.hear(apply(20, 10)), (120, Some(210)));
        assert_eq!(read.hear(apply(110, 100)), (200, Some(200)));
    }
}
