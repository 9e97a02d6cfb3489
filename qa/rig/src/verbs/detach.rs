//! A device disappears under a log and comes back while the machine keeps running. Then every
//! reader must show every acknowledged record and exit with code 0.

#[expect(unsafe_code, reason = "one ioctl, for which rustix has no safe call")]
mod shutdown;
mod volume;
mod writer;

use crate::process::{Failure, output, pause, wait_for};
use crate::rig::say;
use crate::verbs::detach::volume::Volume;
use crate::verbs::detach::writer::Writer;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Records before the file system, with `live`, is synced, as the system does by itself in time.
const BEFORE: u64 = 20;
/// Records after that; for these, `live` is only in memory.
const BEHIND: u64 = 60;
/// Records that a truncation removes.
const CUT: u64 = 8;
/// How long a writer may take to open the log.
const OPENED: Duration = Duration::from_secs(30);
/// More records than a writer under load has time for.
const MANY: u64 = 1_000_000;

/// The result of a run.
#[derive(Debug)]
pub(crate) enum Came {
    /// Nothing was tested, for this reason.
    Skipped(String),
    /// All readers showed all acknowledged records.
    Kept,
    /// At least one reader did not show them all.
    Broken,
}

/// How the log is used before its device goes away.
#[derive(Clone, Copy, Debug)]
struct Way {
    name: &'static str,
    /// The value of `append --log-format`.
    layout: &'static str,
    /// Whether records are truncated and others written in their place.
    is_cut: bool,
    /// Whether the device disappears while records are being written.
    is_busy: bool,
}

const WAYS: &[Way] = &[
    Way { name: "appended", layout: "binary", is_cut: false, is_busy: false },
    Way { name: "cut, appended", layout: "binary", is_cut: true, is_busy: false },
    Way { name: "under load", layout: "binary", is_cut: false, is_busy: true },
    Way { name: "readable", layout: "json", is_cut: false, is_busy: false },
    Way { name: "readable, cut", layout: "json", is_cut: true, is_busy: false },
];

/// Runs all cycles.
///
/// # Errors
///
/// The rig itself failed; this says nothing about the log.
pub(crate) fn run(cycles: u32, dir: &Path, seawall: &Path) -> Result<Came, Failure> {
    // If nothing can be mounted here, the log is not at fault.
    let volume = match Volume::make(dir) {
        Ok(volume) => volume,
        Err(why) => return Ok(Came::Skipped(why.to_string())),
    };
    let (mut tried, mut broken) = (0, 0);
    for cycle in 1..=cycles {
        for way in WAYS {
            let folder = volume.mounted().join(format!("case-{tried}"));
            fs::create_dir(&folder)?;
            let case = Case { way, volume: &volume, log: folder.join("log"), seawall };
            let Some(written) = case.pulled(cycle)? else {
                return Ok(Came::Skipped("ext4 cannot be shut down here".to_owned()));
            };
            volume.come_back()?;
            let wrong = case.look(&written)?;
            fs::remove_dir_all(&folder)?;
            tried += 1;
            broken += u32::from(!wrong.is_empty());
            let acknowledged = written.acknowledged;
            let verdict = if wrong.is_empty() { "all shown".to_owned() } else { wrong.join("; ") };
            say(&format!("{:<14} {cycle:>4}  acknowledged {acknowledged:>6}  {verdict}", way.name));
        }
    }
    say(&format!("detach: {} passed, {broken} failed", tried - broken));
    Ok(if broken == 0 { Came::Kept } else { Came::Broken })
}

/// The records written, numbered from 1, and the number of the last one acknowledged.
struct Written {
    records: Vec<String>,
    acknowledged: u64,
}

/// One log on the volume.
struct Case<'a> {
    way: &'a Way,
    volume: &'a Volume,
    log: PathBuf,
    seawall: &'a Path,
}

impl Case<'_> {
    /// Uses the log until its device is gone. Returns `None` if this system cannot remove it.
    fn pulled(&self, cycle: u32) -> Result<Option<Written>, Failure> {
        let mut records: Vec<String> = (1..=BEFORE).map(|lsn| format!("first {lsn}")).collect();
        let writer = self.append(records.clone())?;
        writer.wait_for(BEFORE)?;
        let mut writer = if self.way.is_cut {
            writer.close()?;
            let kept = BEFORE - CUT;
            output(self.tool("truncate").arg("--after").arg(kept.to_string()).arg("--yes"))?;
            records.truncate(usize::try_from(kept)?);
            None
        } else {
            Some(writer)
        };
        self.volume.settle()?;
        let from = u64::try_from(records.len())? + 1;
        let count = if self.way.is_busy { MANY } else { BEHIND };
        let behind: Vec<String> = (from..from + count).map(|lsn| format!("then {lsn}")).collect();
        records.extend(behind.iter().cloned());
        match &mut writer {
            Some(writer) => writer.send(behind),
            None => writer = Some(self.append(behind)?),
        }
        let writer = writer.ok_or("there is a writer by now")?;
        writer.wait_for(from + BEHIND - 1)?;
        if self.way.is_busy {
            // A different moment in each cycle, but the same whenever that cycle is repeated.
            pause(Duration::from_millis(u64::from(cycle) * 379 % 200));
        }
        if self.volume.pull().is_err() {
            return Ok(None);
        }
        let acknowledged = writer.kill();
        Ok(Some(Written { records, acknowledged }))
    }

    fn append(&self, lines: Vec<String>) -> Result<Writer, Failure> {
        let mut command = self.tool("append");
        command.arg("--ack").args(["--segment-size", "1MiB"]);
        command.args(["--log-format", self.way.layout]);
        Writer::start(&mut command, lines)
    }

    /// Returns a command whose first argument is the log.
    fn tool(&self, verb: &str) -> Command {
        let mut command = Command::new(self.seawall);
        command.arg(verb).arg(&self.log);
        command
    }

    /// Reads the log with every tool and returns the discrepancies.
    fn look(&self, written: &Written) -> Result<Vec<String>, Failure> {
        let mut wrong = vec![];
        let mut last = None;
        let mut compare = |who: &str, found: Result<u64, Failure>| match found {
            Ok(found) => {
                let agreed = *last.get_or_insert(found);
                if found < written.acknowledged || found != agreed {
                    wrong.push(format!("{who} ENDS WITH {found}"));
                }
            }
            Err(why) => wrong.push(format!("{who}: {why}")),
        };
        let (copied, converted) = (self.beside("copy"), self.beside("json"));
        compare("verify", self.verified());
        compare("cat", self.shown(&self.log, written));
        compare("copy", self.copied(&copied, written));
        compare("convert", self.converted(&converted));
        // This writer opens the log and writes nothing.
        let writer = self.append(vec![])?;
        let has_opened = || self.is_in_use().then_some(());
        wait_for(OPENED, has_opened).ok_or("a writer does not open the log")?;
        compare("cat beside a writer", self.shown(&self.log, written));
        writer.close()?;
        compare("verify after an open", self.verified());
        compare("cat after an open", self.shown(&self.log, written));
        Ok(wrong)
    }

    fn beside(&self, ending: &str) -> PathBuf {
        self.log.with_extension(ending)
    }

    fn verified(&self) -> Result<u64, Failure> {
        let said = output(self.tool("verify").arg("--json"))?;
        let found: Value = serde_json::from_str(&said)?;
        found.get("last_lsn").and_then(Value::as_u64).ok_or_else(|| said.into())
    }

    fn is_in_use(&self) -> bool {
        let said = output(self.tool("stat").arg("--json")).unwrap_or_default();
        let found: Option<Value> = serde_json::from_str(&said).ok();
        found.and_then(|found| found.get("in_use")?.as_bool()) == Some(true)
    }

    /// Returns the number of the last record that `cat` prints, if all records are as written.
    fn shown(&self, log: &Path, written: &Written) -> Result<u64, Failure> {
        let said = output(Command::new(self.seawall).arg("cat").arg(log).args(["-o", "json"]))?;
        let mut count = 0;
        for (line, record) in said.lines().zip(&written.records) {
            let found: Value = serde_json::from_str(line)?;
            count += 1;
            let lsn = found.get("lsn").and_then(Value::as_u64);
            let data = found.get("data").and_then(Value::as_str);
            if (lsn, data) != (Some(count), Some(record)) {
                return Err(format!("prints {line}, where record {count} is `{record}`").into());
            }
        }
        Ok(count)
    }

    fn copied(&self, target: &Path, written: &Written) -> Result<u64, Failure> {
        output(self.tool("copy").arg(target))?;
        self.shown(target, written)
    }

    fn converted(&self, target: &Path) -> Result<u64, Failure> {
        output(self.tool("convert").arg(target).args(["--to", "json"]))?;
        Ok(u64::try_from(fs::read_to_string(target)?.lines().count())?)
    }
}
