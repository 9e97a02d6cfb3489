//! `seawall-bench open`: the time to open a log after its process was killed, from files that are
//! not in the page cache.

mod opener;

pub(crate) use opener::run as opener;

use crate::args::{self, Common};
use crate::compared::Compared;
use crate::driver::{Bench, Fields, Stage};
use crate::failure::Failure;
use crate::page;
use opener::{Killed, Opened};
use seawall_host::RawFile;
use seawall_measure::human::{bytes, to_f64, to_u64};
use seawall_measure::load::Watch;
use seawall_measure::machine::{Conditions, Stopwatch};
use seawall_measure::pairs::Trouble;
use seawall_measure::slice::median;
use serde_json::{Value, json};
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The segment sizes that are allowed here.
const SEGMENTS: RangeInclusive<u64> = 1 << 20..=64 << 20;
/// Bytes of one call of the plain read.
const READ_SIZE: usize = 256 << 10;

/// The opens of two logs: the next segment of one is in a new file, of the other in a reused file.
pub(crate) struct Found {
    logs: [Opens; 2],
    conditions: Conditions,
}

impl Bench for args::Open {
    const NAME: &'static str = "open";
    const TITLE: &'static str = "Opening a log after a kill";
    type Found = Found;

    fn common(&self) -> &Common {
        &self.common
    }

    fn about(&self) -> String {
        "What it takes to open a log whose process was killed, out of files that the system was \
         told to forget, beside plain reads of the same segments."
            .to_owned()
    }

    fn settings(&self) -> Fields {
        vec![
            ("record_bytes", json!(self.common.size(Self::NAME))),
            ("segment_bytes", json!(self.segment_size)),
        ]
    }

    fn measure(&self, stage: &mut Stage<'_>) -> Result<Found, Failure> {
        if !SEGMENTS.contains(&self.segment_size) {
            let says =
                format!("segments of {} are not between 1 and 64 MiB", bytes(self.segment_size));
            return Err(Failure::usage(says, "--segment-size", "give a size in between, as 16MiB"));
        }
        let watch = Watch::start();
        let mut measured = vec![];
        for (name, reuse) in [("a new file", false), ("a file used before", true)] {
            let log = stage.folder().join(if reuse { "used" } else { "new" });
            let opens = Opens::time(name, &log, self, reuse);
            let opens = opens.map_err(|error| stage.failure(&Trouble::Plain(error)))?;
            stage.say(&[opens.says(self.segment_size)])?;
            measured.push(opens);
        }
        let logs = measured.try_into().map_err(|_| "two").expect("two logs were measured");
        Ok(Found { logs, conditions: Conditions::of([watch.others()]) })
    }

    fn conditions(&self, found: &Found, _: &[Compared]) -> Conditions {
        found.conditions
    }

    fn results(&self, found: &Found, _: &[Compared]) -> Fields {
        vec![("opens", found.logs.iter().map(Opens::as_json).collect())]
    }

    fn page(&self, found: &Found, _: &[Compared]) -> String {
        let says = found.logs.each_ref().map(|opens| page::escaped(&opens.says(self.segment_size)));
        format!("<p>{}</p>\n", says.join("</p>\n<p>"))
    }
}

/// Opens of one log after kills, each with a plain read of the log's segments before it.
struct Opens {
    name: &'static str,
    all: Vec<Opened>,
    plain_ms: Vec<f64>,
    segment_bytes: u64,
}

impl Opens {
    fn time(name: &'static str, log: &Path, args: &args::Open, reuse: bool) -> io::Result<Self> {
        let mut opens = Self { name, all: vec![], plain_ms: vec![], segment_bytes: 0 };
        for round in 0..=args.rounds {
            if round > 0 {
                let segments = files(log, "seg")?;
                forget(log)?;
                let watch = Stopwatch::start();
                opens.segment_bytes = read(&segments)?;
                opens.plain_ms.push(watch.elapsed().as_secs_f64() * 1e3);
                forget(log)?;
            }
            // The first round creates the log and does not count.
            let opened = Killed::after_opening(log, args, reuse)?.opened;
            opens.all.extend(Some(opened).filter(|_| round > 0));
        }
        Ok(opens)
    }

    /// The medians of the opens and of the plain reads, in milliseconds.
    fn medians(&self) -> [f64; 2] {
        let mut opens: Vec<_> = self.all.iter().map(|opened| opened.took_ms).collect();
        [median(&mut opens), median(&mut self.plain_ms.clone())]
    }

    /// The mean, not the median: the system counts processor time in hundredths of a second.
    fn mean(&self, of: impl Fn(&Opened) -> f64) -> f64 {
        self.all.iter().map(of).sum::<f64>() / to_f64(to_u64(self.all.len().max(1)))
    }

    fn says(&self, segment: u64) -> String {
        let [open, plain] = self.medians();
        let fold = |pick: fn(f64, f64) -> f64, start| {
            self.all.iter().map(|opened| opened.took_ms).fold(start, pick)
        };
        let [mean_cpu, read] =
            [self.mean(|opened| opened.processor_ms), self.mean(|opened| opened.read_bytes)];
        format!(
            "open after a kill, segment of {} nearly full, the next one in {}, {} times: median \
             {open:.0} ms ({:.0} to {:.0}), processor {mean_cpu:.0} ms, read {:.0} MiB; plain cold \
             read of the segments, {:.0} MiB: {plain:.0} ms",
            bytes(segment),
            self.name,
            self.all.len(),
            fold(f64::min, f64::INFINITY),
            fold(f64::max, 0.0),
            read / f64::from(1 << 20),
            to_f64(self.segment_bytes) / f64::from(1 << 20),
        )
    }

    fn as_json(&self) -> Value {
        let [open, plain] = self.medians();
        json!({
            "next_segment": self.name,
            "count": self.all.len(),
            "median_ms": open,
            "all_ms": self.all.iter().map(|opened| opened.took_ms).collect::<Vec<_>>(),
            "processor_mean_ms": self.mean(|opened| opened.processor_ms),
            "read_mean_bytes": self.mean(|opened| opened.read_bytes),
            "segment_bytes": self.segment_bytes,
            "plain_read_median_ms": plain,
        })
    }
}

/// The files in the log's folder whose names have this ending.
fn files(log: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let paths = log.read_dir()?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>()?;
    paths.retain(|path| path.is_file() && path.to_string_lossy().ends_with(ending));
    paths.sort();
    Ok(paths)
}

fn forget(log: &Path) -> io::Result<()> {
    files(log, "")?.iter().try_for_each(|file| RawFile::open(file)?.forget_cached())
}

/// Reads the files one after the other and returns the number of bytes.
fn read(files: &[PathBuf]) -> io::Result<u64> {
    let (mut buffer, mut all) = (vec![0; READ_SIZE], 0);
    for file in files {
        let (file, mut at) = (RawFile::open(file)?, 0);
        loop {
            match file.read(&mut buffer, at)? {
                0 => break,
                count => at += to_u64(count),
            }
        }
        all += at;
    }
    Ok(all)
}
