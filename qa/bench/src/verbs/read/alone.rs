//! Measures the memory of a reader, in a process that only reads.

use super::logs::Sample;
use super::ways::{Replay, Scan};
use crate::args::Reader;
use crate::driver::failure;
use crate::failure::Failure;
use crate::output::say;
use seawall::{LogReader, Lsn};
use seawall_measure::machine::peak_memory;
use seawall_measure::pairs::Trouble;
use serde_json::{Value, json};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Scans and decodes the whole log and prints the peak memory use of this process.
pub(crate) fn run(args: &Reader) -> Result<(), Failure> {
    let read = || -> Result<u64, Trouble> {
        let records = count(&args.log).map_err(Trouble::Ours)?;
        let all = Lsn::FIRST..Lsn::new(records + 1).expect("they are numbered from 1");
        Replay::of(&args.log, all)?.advance(records)?;
        Ok(records)
    };
    let records = read().map_err(|trouble| failure(&args.log, &trouble))?;
    say(&[json!({ "records": records, "peak_rss_bytes": peak_memory() }).to_string()])
}

fn count(log: &Path) -> seawall::Result<u64> {
    let mut cursor = LogReader::open_any(log)?.cursor(Lsn::FIRST)?;
    let mut records = 0;
    while cursor.next_record()?.is_some() {
        records += 1;
    }
    Ok(records)
}

/// Runs a process that reads this log. `None` where the system does not report its memory use.
pub(super) fn peak(sample: &Sample) -> Result<Option<u64>, Trouble> {
    // Read the log here once, so that the process reads it from the page cache.
    Scan::of(&sample.path, sample.all())?.advance(sample.records)?;
    let said = std::env::current_exe().and_then(|program| {
        let mut reader = Command::new(program);
        reader.arg("reader").arg(&sample.path).stdin(Stdio::null()).output()
    });
    let said = said.map_err(Trouble::Plain)?;
    let answer: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    if answer.get("records") != Some(&json!(sample.records)) {
        let why = String::from_utf8_lossy(&said.stderr).into_owned();
        return Err(Trouble::Plain(io::Error::other(format!("the reader alone: {why}"))));
    }
    Ok(answer.get("peak_rss_bytes").and_then(Value::as_u64))
}
