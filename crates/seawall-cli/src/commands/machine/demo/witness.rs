//! The independent witness: kills the writer, and keeps every acknowledgement sent before that.

use super::earthquake::Catalogue;
use super::stage::{Stage, trouble};
use seawall::verify::Verdict;
use seawall::{LogReader, Lsn};
use seawall_io::{Entropy, SeededEntropy};
use seawall_output::report::{Exit, Failure};
use seawall_output::text::to_u64;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

const KILLS: u64 = 20;
/// A writer that is silent for longer is considered stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// The parameters of the kills.
pub(super) struct Plot<'a> {
    pub(super) log: &'a Path,
    /// How long a writer lives after its first acknowledgement, in milliseconds.
    pub(super) delay_ms: RangeInclusive<u64>,
    pub(super) dice: &'a SeededEntropy,
    pub(super) stage: &'a Stage,
}

/// What the witness observed.
#[derive(Debug, Default, Serialize)]
pub(super) struct Witness {
    pub(super) kills: u64,
    /// How many kills left a torn tail.
    pub(super) torn: u64,
    /// The event of each acknowledged LSN.
    #[serde(serialize_with = "as_count")]
    acknowledged: BTreeMap<u64, usize>,
    /// How many LSNs were acknowledged twice.
    #[serde(skip)]
    twice: u64,
    #[serde(skip)]
    damaged: u64,
}

fn as_count<S: Serializer>(events: &BTreeMap<u64, usize>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(to_u64(events.len()))
}

/// The log compared with the acknowledgements.
#[derive(Debug, Default, Serialize)]
pub(super) struct Compared {
    /// Acknowledged records with the right content.
    pub(super) found: u64,
    /// Acknowledged records that are missing.
    pub(super) lost: u64,
    /// Records with wrong content.
    pub(super) wrong: u64,
    /// Skipped LSNs.
    pub(super) gaps: u64,
    /// Records without an acknowledgement.
    pub(super) unacknowledged_found: u64,
}

impl Compared {
    /// Whether the log has all acknowledged records, and else only those in flight at a kill.
    pub(super) fn holds(&self) -> bool {
        self.lost == 0 && self.wrong == 0 && self.gaps == 0
    }
}

/// Starts the writer, kills it and inspects its log, repeatedly.
pub(super) fn kill_again_and_again(plot: &Plot<'_>) -> Result<Witness, Failure> {
    let mut witness = Witness::default();
    let mut next = 0;
    for kill in 1..=KILLS {
        let (low, high) = plot.delay_ms.clone().into_inner();
        let draw = plot.dice.random().map_err(|error| trouble("draw a number", &error))?;
        let delay = Duration::from_millis(low + draw % (high - low + 1));
        for (lsn, event) in watch_one(plot.log, next, delay)? {
            next = next.max(event + 1);
            witness.twice += u64::from(witness.acknowledged.insert(lsn, event).is_some());
        }
        witness.kills = kill;
        let left = seawall::Maintenance::at(plot.log).verify();
        match left.map_err(|error| Failure::of(&error, "demo", plot.log))?.verdict {
            Verdict::Clean => {}
            Verdict::Torn | Verdict::Unsure => witness.torn += 1,
            _ => witness.damaged += 1,
        }
        plot.stage.hint(&format!("  kill {kill} of {KILLS}"));
    }
    plot.stage.hint("");
    Ok(witness)
}

/// Runs the writer once. Returns all acknowledgements sent as whole lines.
fn watch_one(log: &Path, next: usize, delay: Duration) -> Result<Vec<(u64, usize)>, Failure> {
    let program = std::env::current_exe().map_err(|error| trouble("find this program", &error))?;
    let mut writer = Command::new(program)
        .args(["demo-writer".as_ref(), log.as_os_str(), next.to_string().as_ref()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| trouble("start the writer", &error))?;
    let pipe = writer.stdout.take().expect("it was asked for");
    let (said, heard) = mpsc::channel();
    let listener = thread::Builder::new().spawn(move || listen(pipe, &said));
    let listener = listener.map_err(|error| {
        // It may have ended by itself.
        let _ = writer.kill();
        let _ = writer.wait();
        trouble("start a thread", &error)
    })?;
    let first = heard.recv_timeout(PATIENCE);
    // The listener sends nothing more, so this waits until the delay is over or the writer ends.
    let second = first.and_then(|()| heard.recv_timeout(delay));
    let killed = writer.kill();
    let ended = writer.wait().map_err(|error| trouble("wait for the writer", &error))?;
    let lines = listener.join().expect("the listener returns");
    if first.is_err() || second != Err(RecvTimeoutError::Timeout) {
        let what = format!("the writer ended by itself: {ended}");
        let failure = Failure::new(Exit::Failed, what).at(log.display());
        return Err(failure.next("see its message above; choose another directory with --dir"));
    }
    killed.map_err(|error| trouble("kill the writer", &error))?;
    lines
}

/// Reads the pipe to its end, and signals the first line.
fn listen(pipe: impl Read, said: &Sender<()>) -> Result<Vec<(u64, usize)>, Failure> {
    let mut pipe = BufReader::new(pipe);
    let mut found = vec![];
    let mut line = vec![];
    loop {
        line.clear();
        let read = pipe.read_until(b'\n', &mut line);
        read.map_err(|error| trouble("listen to the writer", &error))?;
        // A line without its newline was cut off by the kill.
        let Some(whole) = line.strip_suffix(b"\n") else { return Ok(found) };
        let text = String::from_utf8_lossy(whole);
        let numbers = text.split_once(' ').and_then(|(lsn, event)| {
            Some((lsn.parse::<u64>().ok()?, event.parse::<usize>().ok()?))
        });
        let Some(numbers) = numbers else {
            let failure = Failure::new(Exit::Failed, format!("the writer said {text:?}"));
            return Err(failure.at("seawall demo").next("please report this"));
        };
        if found.is_empty() {
            let _ = said.send(());
        }
        found.push(numbers);
    }
}

impl Witness {
    pub(super) fn acknowledged(&self) -> u64 {
        to_u64(self.acknowledged.len())
    }

    /// Whether the log was undamaged after every kill, and no LSN was acknowledged twice.
    pub(super) fn never_damaged(&self) -> bool {
        self.damaged == 0 && self.twice == 0
    }

    /// Compares every acknowledged record with the log, byte for byte.
    pub(super) fn compare(&self, log: &Path, catalogue: &Catalogue) -> seawall::Result<Compared> {
        let mut cursor = LogReader::open_any(log)?.cursor(Lsn::FIRST)?;
        let mut compared = Compared::default();
        let mut expected = Lsn::FIRST;
        while let Some(record) = cursor.next_record()? {
            compared.gaps += u64::from(record.lsn != expected);
            expected = record.lsn.next();
            match self.acknowledged.get(&record.lsn.get()) {
                Some(event) if record.payload == catalogue.payload(*event) => compared.found += 1,
                None if catalogue.knows(record.payload) => {
                    compared.unacknowledged_found += 1;
                }
                _ => compared.wrong += 1,
            }
        }
        compared.lost = self.acknowledged().saturating_sub(compared.found + compared.wrong);
        Ok(compared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_cut_off_by_a_kill_is_not_an_acknowledgement() {
        let (said, heard) = mpsc::channel();
        let found = listen(&b"1 0\n2 1\n3"[..], &said).unwrap();
        assert_eq!(found, [(1, 0), (2, 1)]);
        assert_eq!(heard.try_iter().count(), 1);
        listen(&b"1 0\nx\n"[..], &said).unwrap_err();
    }
}
