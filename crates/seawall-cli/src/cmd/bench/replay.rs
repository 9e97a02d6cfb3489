//! `seawall bench replay`: a store brought back from a log: the table of HeliosDB Nano's report
//! by its method, large logs one by one and in batches, and what threads are worth.

mod lanes;
mod page;
mod ways;
mod workload;

use super::beside::{Past, Report, compare};
use super::tell_conditions;
use crate::args::BenchReplay;
use crate::human::{folded, number, times};
use crate::output::Output;
use crate::report::{Exit, Failure};
use crate::scratch::Scratch;
use crate::stores::{self, StoreKind, Stores};
use seawall_measure::contest::{Contest, Entry, hold_whole};
use seawall_measure::machine::Conditions;
use seawall_replay::{MemoryStore, Store};
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::PathBuf;
use workload::Keys;

const SCHEMA: &str = "seawall.bench-replay/1";
/// Entries of its table.
const ENTRIES: u64 = 10_000;
/// Its ways, and its milliseconds for them.
const THEIRS: [(&str, f64); 3] =
    [("each, logged again", 1000.0), ("each", 700.0), ("batches of 100", 100.0)];
const ABOUT_THEIRS: &str = "HeliosDB Nano's report gives these times for its own store and log on \
                            its own machine: compare the steps from row to row, not the rows. \
                            All four read the same log here and write to the same kind of store.";

/// Measures, and says what came of it.
pub(crate) fn run(args: &BenchReplay, built_in: Stores) -> Result<Exit, Failure> {
    let store = store_name(args);
    let settings = [
        ("schema", json!(SCHEMA)),
        ("count", json!(args.count)),
        ("store", json!(store)),
        ("apply_cost_us", json!(args.apply_cost)),
    ];
    let past = Past::read(&args.beside, &settings)?;
    if let Some(past) = &past {
        past.has(questions(args).into_iter().map(|question| (question.name, question.asks)))?;
    }
    let report = Report::begin(args.beside.report.as_deref())?;
    let fresh = Fresh::new(args, built_in)?;
    let scratch = Scratch::new(&args.dir, "seawall-bench")?;
    let bench = Bench { args, fresh, scratch };
    let mut out = Output::new();
    let mut contests = vec![];
    for question in questions(args) {
        let mut contest = bench.hold(&question)?;
        compare(&mut contest, past.as_ref())?;
        if !args.look.json {
            out.lines(&contest.lines());
            if question.kind == Kind::Helios {
                tell_published(&mut out, &contest);
            }
            out.lines(&question.kind.remarks());
        }
        contests.push(contest);
    }
    let conditions = Conditions::of(contests.iter().map(|contest| contest.standings.others));
    tell_conditions(&mut out, args.look, &conditions);
    if args.look.json {
        let mut answer = as_json(args, &contests, &conditions);
        past.as_ref().inspect(|past| past.add_to(&mut answer));
        out.line(&answer.to_string());
    }
    report.write("seawall bench replay", || page::body(args, &contests, &conditions))?;
    Ok(out.finish())
}

/// One contest, before it is held.
struct Question {
    kind: Kind,
    name: &'static str,
    asks: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The table of the report.
    Helios,
    /// Many operations.
    Many(Keys),
    /// 1, 2, 4 and 8 threads, for a store that waits.
    Lanes(Keys),
}

impl Kind {
    fn remarks(self) -> Vec<String> {
        match self {
            Self::Lanes(keys) => vec![folded(lanes::about(keys), 0)],
            Self::Helios | Self::Many(_) => vec![],
        }
    }
}

fn questions(args: &BenchReplay) -> Vec<Question> {
    let store = store_name(args);
    let question = |kind, name, what: &str| Question {
        kind,
        name,
        asks: format!("{what}, into {store}; times are of 1,000"),
    };
    let count = number(args.count);
    let mut asked = vec![
        question(Kind::Helios, "helios", &format!("{} entries", number(ENTRIES))),
        question(Kind::Many(Keys::Each), "inserts", &format!("{count} operations with a key each")),
        question(
            Kind::Many(Keys::Few),
            "updates",
            &format!("{count} operations with {} keys", number(workload::FEW)),
        ),
    ];
    if let Some(cost) = args.apply_cost {
        let few = number(lanes::count(args, cost));
        for (keys, name, with) in
            [(Keys::Each, "lanes-many-keys", "a key each"), (Keys::One, "lanes-one-key", "one key")]
        {
            let what = format!("{few} writes of {cost} us, {with}");
            asked.push(question(Kind::Lanes(keys), name, &what));
        }
    }
    asked
}

/// What all contests share.
struct Bench<'a> {
    args: &'a BenchReplay,
    fresh: Fresh,
    scratch: Scratch,
}

impl Bench<'_> {
    fn hold(&self, question: &Question) -> Result<Contest, Failure> {
        let mut entries = match question.kind {
            Kind::Helios => ways::of_helios(self, ENTRIES)?,
            Kind::Many(keys) => ways::of_many(self, keys)?,
            Kind::Lanes(keys) => lanes::ways(self, keys)?,
        };
        let standings = hold_whole(&mut entries, self.args.rounds)?;
        Ok(Contest { name: question.name, asks: question.asks.clone(), standings })
    }
}

/// The ways of one contest.
type Ways<'a> = Vec<Entry<'a, Failure>>;

/// New stores, one for each turn.
struct Fresh {
    /// None: in memory.
    kind: Option<(&'static dyn StoreKind, Scratch)>,
    count: Cell<u64>,
}

/// A store, and its folder, which goes behind it.
struct New {
    store: Box<dyn Store>,
    _folder: Option<Scratch>,
}

impl Fresh {
    fn new(args: &BenchReplay, built_in: Stores) -> Result<Self, Failure> {
        let kind = match &args.store {
            None => None,
            Some(asked) => {
                let kind = stores::find(built_in, &asked.name, &format!("--store {asked}"))?;
                Some((kind, Scratch::new(&asked.place, "seawall-bench-store")?))
            }
        };
        Ok(Self { kind, count: Cell::new(0) })
    }

    fn make(&self) -> Result<New, Failure> {
        let Some((kind, parent)) = &self.kind else {
            return Ok(New { store: Box::new(MemoryStore::new()), _folder: None });
        };
        self.count.set(self.count.get() + 1);
        let path: PathBuf = parent.path().join(self.count.get().to_string());
        let folder = Scratch::around(path.clone())?;
        Ok(New { store: stores::open(*kind, &path)?, _folder: Some(folder) })
    }
}

fn store_name(args: &BenchReplay) -> String {
    args.store.as_ref().map_or("memory".to_owned(), |store| store.name.clone())
}

/// Its published times and ours, in milliseconds for all entries, each with how many times as fast
/// as the first it is.
fn published(contest: &Contest) -> Vec<[String; 3]> {
    let entries = crate::human::to_f64(ENTRIES);
    let row = |row: &seawall_measure::contest::Row| {
        let theirs = THEIRS.iter().find(|(name, _)| *name == row.name);
        let first = THEIRS.first().map_or(1.0, |(_, time)| *time);
        let theirs = theirs
            .map_or("-".to_owned(), |(_, time)| format!("{time:.0}  {}", times(first / time)));
        let here = 1e3 * entries / row.per_second.median.max(1e-9);
        [row.name.to_string(), theirs, format!("{here:.2}  {}", times(row.ratio.median))]
    };
    contest.standings.rows.iter().map(row).collect()
}

const PUBLISHED: [&str; 3] = ["milliseconds", "published", "here"];

fn tell_published(out: &mut Output, contest: &Contest) {
    let line = |[name, published, here]: [&str; 3]| format!("{name:<25}{published:>16}{here:>18}");
    out.line("");
    out.line(&line(PUBLISHED));
    for [name, published, here] in published(contest) {
        out.line(&line([&format!("  {name}"), &published, &here]));
    }
    out.line(&folded(ABOUT_THEIRS, 0));
}

fn as_json(args: &BenchReplay, contests: &[Contest], conditions: &Conditions) -> Value {
    let published: Value =
        THEIRS.iter().map(|(name, time)| ((*name).to_owned(), json!(time))).collect();
    json!({
        "schema": SCHEMA,
        "dir": args.dir.display().to_string(),
        "store": store_name(args),
        "count": args.count,
        "rounds": args.rounds,
        "apply_cost_us": args.apply_cost,
        "ranked": conditions.are_good(),
        "others_share": conditions.others().share(),
        "published_ms": published,
        "contests": contests.iter().map(Contest::as_json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{BenchVerb, Verb, parse_words};
    use crate::stores::held::Held;
    use seawall_replay::StoreError;
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    /// Where stores were made.
    static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

    struct Heap;

    impl StoreKind for Heap {
        fn name(&self) -> &'static str {
            "heap"
        }

        fn open(&self, place: &Path) -> Result<Box<dyn Store>, StoreError> {
            assert!(MADE.lock().unwrap().insert(place.to_owned()), "a new one each time");
            // A folder with something in it.
            drop(seawall::Log::<u32>::open(place).map_err(StoreError::failed)?);
            let (store, folder) = (Arc::new(MemoryStore::new()), Some(place.to_owned()));
            Ok(Box::new(Held { store, folder }))
        }
    }

    #[test]
    fn each_turn_has_a_new_store_which_goes_behind_it() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-bench-stores").unwrap();
        let here = scratch.path().display();
        let line = format!("bench replay --dir {here} --store heap:{here} --count 1000 --rounds 1");
        let Verb::Bench(bench) = parse_words(&line) else { panic!("{line}") };
        let BenchVerb::Replay(args) = bench.what else { panic!("{line}") };
        let fresh = Fresh::new(&args, &[&Heap]).unwrap();
        let first = fresh.make().unwrap();
        let second = fresh.make().unwrap();
        let made: Vec<PathBuf> = MADE.lock().unwrap().iter().cloned().collect();
        assert!(made.len() == 2 && made.iter().all(|path| path.is_dir()), "{made:?}");
        drop((first, second));
        assert!(!made.iter().any(|path| path.exists()), "{made:?}");

        let logs = Scratch::new(scratch.path(), "logs").unwrap();
        let bench = Bench { args: &args, fresh, scratch: logs };
        for question in questions(&args) {
            assert!(!bench.hold(&question).unwrap().standings.rows.is_empty());
        }
        assert!(MADE.lock().unwrap().len() > 10, "each way had its own");
        drop(bench);
        assert_eq!(scratch.path().read_dir().unwrap().count(), 0);
        assert_eq!(store_name(&args), "heap");
    }
}
