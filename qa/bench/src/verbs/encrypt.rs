//! `seawall-bench encrypt`: the cost of encryption for commits and for a stream.

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use crate::page;
use crate::processor::{Costs, Usage};
use crate::verbs::parity::name_of;
use crate::verbs::stream::{Stream, Streamed};
use seawall::encryption::Key;
use seawall::{Log, Options, Raw, Retention};
use seawall_measure::contest::{Contest, Entry, hold_in_slices};
use seawall_measure::human::{bytes, count, to_f64, to_u64};
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::{Slice, by_threads};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Bytes of a stream that may be in flight, not yet durable.
const WINDOW: u64 = 1 << 20;
/// Retention of a log, in bytes.
const KEPT: u64 = 128 << 20;
/// Bytes of the records that fill a log before its stream is measured.
const FILL: usize = 64 << 10;
/// Long enough to include the work in the background.
const SLICE: Duration = Duration::from_millis(250);

impl Bench for args::Encrypt {
    const NAME: &'static str = "encrypt";
    const TITLE: &'static str = "What encryption costs";
    type Found = Vec<Costs>;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "A plain log and an encrypted one, by turns, with the same options otherwise: commits of \
         threads that wait for each record, then a stream of one thread."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![("record_bytes", json!(self.common.size(Self::NAME)))]
    }

    fn contests(&self) -> Vec<(&'static str, String)> {
        let size = self.common.size(Self::NAME);
        let contest =
            |load: &Load| (load.name(), format!("{}, records of {size} bytes", load.says()));
        self.loads().iter().map(contest).collect()
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Vec<Costs>, Failure> {
        let size = self.common.size(Self::NAME);
        let make = |name, options| Side::new(&stage.folder().join(name), &options, size);
        let [plain, encrypted] = options();
        let plain = make("plain", plain);
        let plain = plain.map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        let encrypted = make("encrypted", encrypted);
        let encrypted = encrypted.map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        let mut costs = vec![];
        for ((name, asks), load) in self.contests().into_iter().zip(self.loads()) {
            let prepared = [&plain, &encrypted].into_iter().try_for_each(|side| side.prepare(load));
            prepared.map_err(|error| stage.failure(&Trouble::Ours(error)))?;
            let mut entries: Vec<Entry<'_, Trouble>> = vec![
                Entry::new("plain", |time| plain.slice(load, time)),
                Entry::new("encrypted", |time| encrypted.slice(load, time)),
            ];
            let standings = hold_in_slices(&mut entries, stage.time(), SLICE)
                .map_err(|trouble| stage.failure(&trouble))?;
            drop(entries);
            let cost = Costs([plain.usage.take_us(), encrypted.usage.take_us()]);
            stage.keep(Contest { name, asks, standings })?;
            stage.say(&[says(&cost)])?;
            costs.push(cost);
        }
        let closed = [plain, encrypted].into_iter().try_for_each(|side| side.log.close());
        closed.map_err(|error| stage.failure(&Trouble::Ours(error)))?;
        Ok(costs)
    }

    fn results(&self, costs: &Vec<Costs>, held: &[Compared]) -> Fields {
        let costs = costs
            .iter()
            .map(|Costs([plain, encrypted])| json!({ "plain": plain, "encrypted": encrypted }));
        vec![
            ("processor_us", costs.collect()),
            ("contests", held.iter().map(Compared::as_json).collect()),
        ]
    }

    fn page(&self, costs: &Vec<Costs>, held: &[Compared]) -> String {
        let one = |(compared, cost): (&Compared, &Costs)| {
            page::contest(compared) + &format!("<p>{}</p>\n", page::escaped(&says(cost)))
        };
        held.iter().zip(costs).map(one).collect()
    }
}

impl args::Encrypt {
    /// The loads to measure, one contest for each.
    fn loads(&self) -> Vec<Load> {
        self.writers.iter().copied().map(Load::Commits).chain([Load::Stream]).collect()
    }
}

/// The processor cost of a record, as text.
fn says(costs: &Costs) -> String {
    costs.says("A record", ["plain", "encrypted"])
}

/// The options of the plain log and of the encrypted one.
fn options() -> [Options; 2] {
    [Options::new(), Options::new().key(Key::new(&[7; 32]))]
}

/// The load on a log.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// This many threads append, and each waits for every one of its records.
    Commits(usize),
    /// One thread appends, and waits only when more than a window is not yet durable.
    Stream,
}

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Commits(writers) => name_of(writers),
            Self::Stream => "stream",
        }
    }

    fn says(self) -> String {
        match self {
            Self::Commits(writers) => {
                format!("synced commits by {}", count(to_u64(writers), "thread"))
            }
            Self::Stream => format!("a stream with {} on its way", bytes(WINDOW)),
        }
    }
}

/// One of the two logs, and its processor time.
struct Side {
    log: Log<[u8], Raw>,
    record: Vec<u8>,
    usage: Usage,
}

impl Side {
    fn new(path: &Path, options: &Options, size: usize) -> seawall::Result<Self> {
        let kept = Retention::new().max_bytes(KEPT).without_checkpoints();
        let log = options.clone().idle_mark(None).retention(kept).open(path)?;
        Ok(Self { log, record: vec![0x5a; size], usage: Usage::default() })
    }

    /// Prepares the log for a load.
    fn prepare(&self, load: Load) -> seawall::Result<()> {
        match load {
            // Each commit would take twice as long in files that a stream has just created.
            Load::Commits(_) => Ok(()),
            Load::Stream => Stream { log: &self.log, record: vec![0x5a; FILL] }.fill(KEPT),
        }
    }

    fn slice(&self, load: Load, time: Duration) -> Result<Slice, Trouble> {
        let act = || match load {
            Load::Commits(writers) => self.commits(writers, time),
            Load::Stream => self.stream(time),
        };
        self.usage.add(act).map_err(Trouble::Ours)
    }

    fn commits(&self, writers: usize, time: Duration) -> seawall::Result<(u64, Slice)> {
        let Self { log, record, .. } = self;
        let slice = by_threads((writers, time), &|_| log.append(record).map(drop))?;
        Ok((to_u64(slice.times.len()), slice))
    }

    fn stream(&self, time: Duration) -> seawall::Result<(u64, Slice)> {
        let stream = Stream { log: &self.log, record: self.record.clone() };
        let Streamed { records, took, times } = stream.run(WINDOW, time)?;
        let per_second = to_f64(records) / took.as_secs_f64().max(1e-9);
        Ok((records, Slice { per_second, times }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::encryption::KeyError;
    use seawall_measure::scratch::Scratch;

    #[test]
    fn only_one_of_the_two_logs_needs_a_key() {
        let folder = Scratch::new(&std::env::temp_dir(), "seawall-bench-options").unwrap();
        let open = |name, options: &Options| -> seawall::Result<Log<[u8], Raw>> {
            options.open(folder.path().join(name))
        };
        for (name, options) in ["plain", "encrypted"].into_iter().zip(options()) {
            open(name, &options).unwrap().close().unwrap();
            let opened = open(name, &Options::new());
            let no_key = KeyError::NoKey;
            let is_refused =
                matches!(opened, Err(seawall::Error::Key { source, .. }) if source == no_key);
            assert_eq!(is_refused, name == "encrypted");
        }
    }
}
