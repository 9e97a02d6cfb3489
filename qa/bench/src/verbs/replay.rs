//! `seawall-bench replay`: rebuilds a store from a log. Measures the table of HeliosDB Nano's
//! report with its method, then large logs one by one, in batches, and with several threads.

mod page;
mod partitions;
mod ways;
mod workload;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use crate::stores::{Stores, find, open};
use seawall_cli::StoreKind;
use seawall_measure::contest::{Contest, Entry, Row, hold_whole};
use seawall_measure::human::{folded, number, times, to_f64};
use seawall_measure::scratch::Scratch;
use seawall_replay::{MemoryStore, Store};
use serde_json::{Value, json};
use std::cell::Cell;
use std::path::PathBuf;
use workload::Keys;

/// Number of log entries in the table of HeliosDB Nano's report.
const ENTRIES: u64 = 10_000;
/// The ways in the report, and their times in milliseconds.
const THEIRS: [(&str, f64); 3] =
    [("each, logged again", 1000.0), ("each", 700.0), ("batches of 100", 100.0)];
const ABOUT_THEIRS: &str = "HeliosDB Nano's report gives these times for its own store and log on \
                            its own machine: compare the steps from row to row, not the rows. \
                            All four read the same log here and write to the same kind of store.";

/// `seawall-bench replay`, with the stores that the program was built with.
pub(crate) struct Stored {
    pub(crate) args: args::Replay,
    pub(crate) stores: Stores,
}

impl Bench for Stored {
    const NAME: &'static str = "replay";
    const TITLE: &'static str = "Operations replayed a second";
    type Found = ();

    fn common(&self) -> &Common {
        &self.args.common
    }

    fn about(&self) -> String {
        "A store brought back from a log: the table of HeliosDB Nano's report by its method, many \
         operations, and the best that the store can do."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![
            ("store", json!(store_name(&self.args))),
            ("count", json!(self.args.count)),
            ("apply_cost_us", json!(self.args.apply_cost)),
        ]
    }

    fn also(&self) -> Fields {
        vec![("rounds", json!(self.args.rounds))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let questions = questions(&self.args).into_iter();
        questions.map(|question| (question.name, question.asks)).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<(), Failure> {
        let args = &self.args;
        let hall =
            Hall { args, fresh: Fresh::new(args, self.stores)?, folder: stage.folder().into() };
        for question in questions(args) {
            let contest = stage.keep(hall.hold(&question)?)?;
            let published = match question.kind {
                Kind::Helios => told_published(contest),
                _ => vec![],
            };
            stage.say(&published)?;
            stage.say(&question.kind.remarks())?;
        }
        Ok(())
    }

    fn results(&self, (): &(), held: &[Compared]) -> Fields {
        let published: Value =
            THEIRS.iter().map(|(name, time)| ((*name).to_owned(), json!(time))).collect();
        vec![
            ("published_ms", published),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, (): &(), held: &[Compared]) -> String {
        page::body(held)
    }
}

/// A contest that is not measured yet.
struct Question {
    kind: Kind,
    name: &'static str,
    asks: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The table of the report, with its entries.
    Helios,
    /// A large number of operations, with these keys.
    Many(Keys),
    /// 1, 2, 4 and 8 threads, writing to a store that waits.
    Partitions(Keys),
}

impl Kind {
    fn remarks(self) -> Vec<String> {
        match self {
            Self::Partitions(keys) => vec![folded(partitions::about(keys), 0)],
            Self::Helios | Self::Many(_) => vec![],
        }
    }
}

fn questions(args: &args::Replay) -> Vec<Question> {
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
        let few = number(partitions::count(args, cost));
        for (keys, name, with) in [
            (Keys::Each, "partitions-many-keys", "a key each"),
            (Keys::One, "partitions-one-key", "one key"),
        ] {
            let what = format!("{few} writes of {cost} us, {with}");
            asked.push(question(Kind::Partitions(keys), name, &what));
        }
    }
    asked
}

/// The environment of all contests.
struct Hall<'a> {
    args: &'a args::Replay,
    fresh: Fresh,
    folder: PathBuf,
}

impl Hall<'_> {
    fn hold(&self, question: &Question) -> Result<Contest, Failure> {
        let mut entries = match question.kind {
            Kind::Helios => ways::of_helios(self, ENTRIES)?,
            Kind::Many(keys) => ways::of_many(self, keys)?,
            Kind::Partitions(keys) => partitions::ways(self, keys)?,
        };
        let standings = hold_whole(&mut entries, self.args.rounds)?;
        Ok(Contest { name: question.name, asks: question.asks.clone(), standings })
    }
}

/// The ways of one contest.
type Ways<'a> = Vec<Entry<'a, Failure>>;

/// Creates a new store for each turn.
struct Fresh {
    /// The kind of store and the folder for all of them; `None` for stores in memory.
    kind: Option<(&'static dyn StoreKind, Scratch)>,
    count: Cell<u64>,
}

/// A store, and its folder, which is removed after the store is closed.
struct New {
    store: Box<dyn Store>,
    _folder: Option<Scratch>,
}

impl Fresh {
    fn new(args: &args::Replay, built_in: Stores) -> Result<Self, Failure> {
        let kind = match &args.store {
            None => None,
            Some(asked) => {
                let kind = find(built_in, asked)?;
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
        let store = open(*kind, &path)?;
        Ok(New { store, _folder: Some(folder) })
    }
}

fn store_name(args: &args::Replay) -> String {
    args.store.as_ref().map_or("memory".to_owned(), |store| store.name.clone())
}

/// The published times and those measured here, in milliseconds for all entries, each with its
/// speed relative to the first way.
fn published(contest: &Contest) -> Vec<[String; 3]> {
    let entries = to_f64(ENTRIES);
    let row = |row: &Row| {
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

fn told_published(contest: &Contest) -> Vec<String> {
    let line = |[name, published, here]: [&str; 3]| format!("{name:<25}{published:>16}{here:>18}");
    let mut lines = vec![String::new(), line(PUBLISHED)];
    for [name, published, here] in published(contest) {
        lines.push(line([&format!("  {name}"), &published, &here]));
    }
    lines.push(folded(ABOUT_THEIRS, 0));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Verb};
    use clap::Parser;
    use seawall_cli::OpenError;
    use seawall_replay::{Batch, StoreError, Watermark};
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    /// The folders of all stores that were created.
    static MADE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

    /// A store in memory that checks on each write that its folder still exists.
    struct Held {
        store: Arc<MemoryStore>,
        folder: PathBuf,
    }

    impl Store for Held {
        fn watermarks(&self) -> Result<Vec<Watermark>, StoreError> {
            self.store.watermarks()
        }

        fn get(&self, table: &str, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
            self.store.get(table, key)
        }

        fn write(&self, batch: &Batch) -> Result<(), StoreError> {
            assert!(self.folder.is_dir(), "it is gone");
            self.store.write(batch)
        }

        fn flush(&self) -> Result<(), StoreError> {
            self.store.flush()
        }

        fn partitions_max(&self) -> usize {
            2
        }
    }

    struct Heap;

    impl StoreKind for Heap {
        fn name(&self) -> &'static str {
            "heap"
        }

        fn open(&self, place: &Path) -> Result<Box<dyn Store>, OpenError> {
            assert!(MADE.lock().unwrap().insert(place.to_owned()), "a new one each time");
            // Put a file into the folder.
            drop(seawall::Log::<u32>::open(place).unwrap());
            let (store, folder) = (Arc::new(MemoryStore::new()), place.to_owned());
            Ok(Box::new(Held { store, folder }))
        }

        fn exists(&self, _place: &Path) -> Result<bool, OpenError> {
            Ok(false)
        }
    }

    #[test]
    fn each_turn_has_a_new_store_that_is_removed_after_it() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-bench-stores").unwrap();
        let here = scratch.path().display();
        let line = format!("seawall-bench replay --store heap:{here} --count 1000 --rounds 1");
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Verb::Replay(args) = cli.verb else { panic!("{line}") };
        let fresh = Fresh::new(&args, &[&Heap]).unwrap();
        let first = fresh.make().unwrap();
        let second = fresh.make().unwrap();
        let made: Vec<PathBuf> = MADE.lock().unwrap().iter().cloned().collect();
        assert!(made.len() == 2 && made.iter().all(|path| path.is_dir()), "{made:?}");
        drop((first, second));
        assert!(!made.iter().any(|path| path.exists()), "{made:?}");

        let logs = Scratch::new(scratch.path(), "logs").unwrap();
        let hall = Hall { args: &args, fresh, folder: logs.path().into() };
        for question in questions(&args) {
            assert!(!hall.hold(&question).unwrap().standings.rows.is_empty());
        }
        assert!(MADE.lock().unwrap().len() > 10, "each way had its own");
        drop((hall, logs));
        assert_eq!(scratch.path().read_dir().unwrap().count(), 0);
        assert_eq!(store_name(&args), "heap");
    }
}
