//! A week of earthquakes in a log with dumps: killed several times, and still with the same result.
//!
//! Each line of `crates/seawall-cli/data/earthquakes.jsonl` has the final values of one event. The
//! example derives two log records from it: a *report* at `time`, and a *revision* at `updated`,
//! when the event got its final values. The file does not have the first report's magnitude, place
//! and depth, so a report holds only the event's id, the network that reported it, and its time.
//! All reports and revisions are merged in order of time.
//!
//! ```text
//! cargo run -p seawall-replay --example quakes                        # all runs in one go
//! cargo run -p seawall-replay --example quakes -- FOLDER --stop-after 700
//! cargo run -p seawall-replay --example quakes -- FOLDER              # continues to the end
//! ```

#![forbid(unsafe_code)]

use seawall::{Log, Lsn};
use seawall_replay::Snapshots;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const LINES: &str = include_str!("../../seawall-cli/data/earthquakes.jsonl");

/// A dump is taken after this number of events.
pub const DUMP_EVERY: u64 = 500;

/// The new events that each process appends before it dies: more and fewer than a dump needs.
const STOPS: [&str; 4] = ["700", "120", "1100", "499"];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The fields of a line that the example uses.
#[derive(Deserialize)]
struct Line {
    id: String,
    net: String,
    time: u64,
    updated: u64,
    mag: f64,
    mag_type: String,
    place: String,
    depth_km: f64,
    status: String,
}

/// A log record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// The first report of an earthquake.
    Report {
        /// The event's id.
        id: String,
        /// The network that reported it.
        net: String,
        /// The time of the earthquake, in milliseconds since 1970.
        time: u64,
    },
    /// The final values of an earthquake.
    Revision {
        /// The event's id.
        id: String,
        /// The time of the revision, in milliseconds since 1970.
        updated: u64,
        /// The final values.
        values: Values,
    },
}

/// The values in a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    magnitude: f64,
    magnitude_type: String,
    place: String,
    depth_km: f64,
    status: String,
}

/// The state. It is only in memory, and is restored from the log and the dumps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Week {
    quakes: BTreeMap<String, Quake>,
    networks: BTreeMap<String, Network>,
    /// The strongest earthquake, with its magnitude.
    strongest: Option<(String, f64)>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Quake {
    net: String,
    time: u64,
    revised: Option<(u64, Values)>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Network {
    reports: u64,
    revisions: u64,
    /// The radiated energy in joules, by Gutenberg and Richter: 10^(4.8 + 1.5 M).
    joules: f64,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The last event in the dump that was used.
    pub dump: Option<Lsn>,
    /// The number of records read after the dump.
    pub tail: u64,
    /// The number of events appended.
    pub appended: u64,
    /// The final state.
    pub week: Week,
}

/// Returns the reports and revisions in order of time.
///
/// # Errors
///
/// A line of the file is invalid.
pub fn events() -> Outcome<Vec<Event>> {
    let mut events = vec![];
    for line in LINES.lines() {
        let Line { id, net, time, updated, mag, mag_type, place, depth_km, status } =
            serde_json::from_str(line)?;
        events.push((time, Event::Report { id: id.clone(), net, time }));
        let (magnitude, magnitude_type) = (mag, mag_type);
        let values = Values { magnitude, magnitude_type, place, depth_km, status };
        events.push((updated, Event::Revision { id, updated, values }));
    }
    // A stable sort: a report stays before a revision of the same millisecond, as in the file.
    events.sort_by_key(|(at, _)| *at);
    Ok(events.into_iter().map(|(_, event)| event).collect())
}

impl Week {
    /// Applies an event.
    ///
    /// # Errors
    ///
    /// The event was applied before, or is a revision without a report.
    pub fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Report { id, net, time } => {
                self.networks.entry(net.clone()).or_default().reports += 1;
                let quake = Quake { net, time, revised: None };
                match self.quakes.insert(id.clone(), quake) {
                    Some(_) => Err(format!("{id} was reported before")),
                    None => Ok(()),
                }
            }
            Event::Revision { id, updated, values } => self.revise(id, updated, values),
        }
    }

    fn revise(&mut self, id: String, updated: u64, values: Values) -> Result<(), String> {
        let quake = self.quakes.get_mut(&id).ok_or_else(|| format!("{id} was never reported"))?;
        let network = self.networks.entry(quake.net.clone()).or_default();
        network.revisions += 1;
        network.joules += 10_f64.powf(4.8 + 1.5 * values.magnitude);
        let magnitude = values.magnitude;
        if quake.revised.replace((updated, values)).is_some() {
            return Err(format!("{id} was revised before"));
        }
        if self.strongest.as_ref().is_none_or(|(_, strongest)| magnitude > *strongest) {
            self.strongest = Some((id, magnitude));
        }
        Ok(())
    }

    /// Returns a checksum of the state: FNV-1a over its JSON.
    ///
    /// # Errors
    ///
    /// The state cannot be encoded as JSON; this does not happen in practice.
    pub fn digest(&self) -> Outcome<u64> {
        let step = |digest: u64, byte: u8| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Ok(serde_json::to_vec(self)?.into_iter().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

/// Restores the state and appends the events after the log's last one, until the end or until
/// `stop` returns true.
///
/// # Errors
///
/// The errors of the log and the dumps.
pub fn run(
    log: &Log<Event>,
    dumps: Snapshots<Week>,
    mut stop: impl FnMut(&Run) -> bool,
) -> Outcome<Run> {
    let (mut dumps, restored) = dumps.restore(log, |week, _, event| week.apply(event))?;
    for passed in &restored.passed_over {
        writeln!(io::stderr(), "{passed}")?;
    }
    let known = usize::try_from(restored.last.map_or(0, Lsn::get))?;
    let (dump, tail, week) = (restored.dump, restored.replayed, restored.state);
    let mut run = Run { dump, tail, appended: 0, week };
    for event in events()?.into_iter().skip(known) {
        if stop(&run) {
            break;
        }
        let lsn = append(log, &mut run.week, event)?;
        run.appended += 1;
        if lsn.get().is_multiple_of(DUMP_EVERY) {
            dumps.take(log, lsn, &run.week)?;
            dumps.prune(log)?;
        }
    }
    Ok(run)
}

/// Appends to the log first, then changes the state.
fn append(log: &Log<Event>, week: &mut Week, event: Event) -> Outcome<Lsn> {
    let lsn = log.append(&event)?;
    week.apply(event)?;
    Ok(lsn)
}

/// Runs in a directory and prints the result. After `stop_after` new events the process exits.
fn run_in(folder: &Path, stop_after: Option<u64>) -> Outcome<Run> {
    if !folder.is_dir() {
        std::fs::create_dir(folder)?;
    }
    let log: Log<Event> = Log::open(folder.join("quakes.wal"))?;
    let dumps = Snapshots::open(folder.join("quakes.dumps"), "week", 1)?;
    let ran = run(&log, dumps, |run| {
        if Some(run.appended) == stop_after {
            let _ = tell(run);
            std::process::abort(); // no close, no destructor: as if it was killed
        }
        false
    })?;
    tell(&ran)?;
    log.close()?;
    Ok(ran)
}

fn tell(run: &Run) -> Outcome<()> {
    let dump = run.dump.map_or("no dump".to_owned(), |lsn| format!("a dump at {lsn}"));
    let (Run { tail, appended, .. }, digest) = (run, run.week.digest()?);
    let said = format!("found {dump} and a tail of {tail}; {appended} new events");
    writeln!(io::stdout(), "{said}; digest {digest:016x}")?;
    Ok(())
}

/// Runs processes that die one after the other and one that finishes, then one without
/// interruption.
fn story() -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("seawall-quakes-{}", std::process::id()));
    std::fs::create_dir(&folder)?;
    let killed: PathBuf = folder.join("killed");
    for stop in STOPS {
        let mut process = Command::new(std::env::current_exe()?);
        let status = process.arg(&killed).args(["--stop-after", stop]).status()?;
        writeln!(io::stdout(), "died after {stop} new events: {status}")?;
    }
    let survivor = run_in(&killed, None)?;
    let undisturbed = run_in(&folder.join("undisturbed"), None)?;
    std::fs::remove_dir_all(&folder)?;
    let Week { quakes, networks, strongest } = &survivor.week;
    if let Some((id, magnitude)) = strongest {
        writeln!(io::stdout(), "{} earthquakes, the strongest {id}: {magnitude}", quakes.len())?;
    }
    for (name, Network { reports, revisions, joules }) in networks {
        writeln!(io::stdout(), "{name}: {reports} reports, {revisions} revisions, {joules:.2e} J")?;
    }
    if survivor.week != undisturbed.week {
        return Err("the two runs differ".into());
    }
    writeln!(io::stdout(), "killed {} times, with the same result", STOPS.len())?;
    Ok(())
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        [] => story(),
        [folder] => run_in(Path::new(folder), None).map(drop),
        [folder, "--stop-after", count] => {
            run_in(Path::new(folder), Some(count.parse()?)).map(drop)
        }
        _ => Err("usage: quakes [FOLDER [--stop-after N]]".into()),
    }
}
