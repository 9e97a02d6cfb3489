//! Progress of long operations: a bar for people, JSON lines for programs.

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use seawall_measure::machine::Stopwatch;
use seawall_output::report::{Exit, Failure};
use serde::Serialize;
use std::io::{self, Write};
use std::str::FromStr;
use std::time::Duration;

/// Shorter operations show no bar.
const SILENCE: Duration = Duration::from_millis(500);
/// The default unit.
const BYTES: &str = "bytes";
/// The minimum interval between two reports.
const BETWEEN: Duration = Duration::from_millis(100);

/// `--progress`
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Patience {
    /// Show progress: auto (on a terminal), never, or JSON lines to fd:N
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    progress: Ear,
}

/// Where progress is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    Auto,
    Never,
    Descriptor(u32),
}

impl FromStr for Ear {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("fd:").and_then(|number| number.parse().ok());
        match (text, number) {
            ("auto", _) => Ok(Self::Auto),
            ("never", _) => Ok(Self::Never),
            (_, Some(number)) => Ok(Self::Descriptor(number)),
            _ => Err("write auto, never, or fd:3 for descriptor 3".to_owned()),
        }
    }
}

/// The progress of an operation.
pub(crate) struct Progress {
    watch: Stopwatch,
    /// The time of the next report.
    next: Duration,
    out: Option<Out>,
    /// The last reported value.
    said: Count,
}

/// A line of progress.
#[derive(Clone, Copy, Serialize)]
struct Count {
    done: u64,
    total: Option<u64>,
    /// The unit.
    unit: &'static str,
}

enum Out {
    Bar(ProgressBar),
    Lines(Box<dyn Write>),
}

impl Progress {
    /// Starts reporting; `quiet` suppresses the bar.
    pub(crate) fn start(patience: Patience, quiet: bool) -> Result<Self, Failure> {
        let out = match patience.progress {
            Ear::Auto if !quiet => {
                let bar =
                    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
                (!bar.is_hidden()).then_some(Out::Bar(bar))
            }
            Ear::Auto | Ear::Never => None,
            Ear::Descriptor(number) => match seawall_host::open_descriptor(number) {
                Ok(file) => Some(Out::Lines(Box::new(file))),
                // The reader has closed the pipe: no progress is needed.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => None,
                Err(error) => return Err(deaf(number, &error)),
            },
        };
        let next = if matches!(out, Some(Out::Bar(_))) { SILENCE } else { BETWEEN };
        let said = Count { done: 0, total: None, unit: BYTES };
        Ok(Self { watch: Stopwatch::start(), next, out, said })
    }

    /// Sets a unit other than bytes.
    pub(crate) fn counting(mut self, unit: &'static str) -> Self {
        self.said.unit = unit;
        self
    }

    /// Reports that `done` of `total` units are done.
    pub(crate) fn tell(&mut self, done: u64, total: Option<u64>) {
        (self.said.done, self.said.total) = (done, total);
        if self.out.is_none() {
            return;
        }
        let now = self.watch.elapsed();
        if now >= self.next {
            self.next = now + BETWEEN;
            self.say();
        }
    }

    /// Reports progress from the library.
    pub(crate) fn hear(&mut self, at: seawall::Progress) {
        self.tell(at.done, Some(at.total));
    }

    /// Removes the bar, or sends the last line, whether the operation succeeded or not.
    pub(crate) fn end(&mut self) {
        match &self.out {
            Some(Out::Bar(bar)) => bar.finish_and_clear(),
            Some(Out::Lines(_)) => self.say(),
            None => {}
        }
        self.out = None;
    }

    fn say(&mut self) {
        let Count { done, total, unit } = self.said;
        match &mut self.out {
            Some(Out::Bar(bar)) => {
                if bar.length() != total || bar.position() == 0 {
                    bar.set_style(style(total.is_some(), unit));
                }
                bar.update(|state| {
                    state.set_pos(done);
                    if let Some(total) = total {
                        state.set_len(total);
                    }
                });
            }
            Some(Out::Lines(file)) => {
                // Each line is written in one call.
                let line = serde_json::to_string(&self.said).expect("text and numbers");
                let line = format!("{line}\n");
                match file.write_all(line.as_bytes()) {
                    // A slow reader misses a line.
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.out = None,
                    _ => {}
                }
            }
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Remove the bar before an error is printed.
        self.end();
    }
}

fn deaf(number: u32, error: &io::Error) -> Failure {
    let what = format!("cannot write to descriptor {number}: {error}");
    let failure = Failure::new(Exit::Usage, what).at(format!("--progress fd:{number}"));
    failure.next(format!("open a file or a pipe for this program, as in {number}> FILE"))
}

fn style(has_total: bool, unit: &str) -> ProgressStyle {
    let template = match (has_total, unit) {
        (true, BYTES) => {
            "  [{bar:24}] {percent:>3} %  {binary_bytes} of {binary_total_bytes}  {eta} left"
        }
        (false, BYTES) => "  {spinner} {binary_bytes}  {elapsed}",
        _ => "  [{bar:24}] {percent:>3} %  {pos} of {len}  {eta} left",
    };
    ProgressStyle::with_template(template).expect("a test reads them all").progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_templates_can_be_read() {
        let _ = (style(true, BYTES), style(false, BYTES), style(true, "steps"));
    }

    #[test]
    fn progress_target_is_parsed_or_refused() {
        let read = |text: &str| text.parse::<Ear>().ok();
        assert_eq!(read("auto"), Some(Ear::Auto));
        assert_eq!(read("never"), Some(Ear::Never));
        assert_eq!(read("fd:3"), Some(Ear::Descriptor(3)));
        for wrong in ["", "fd", "fd:", "fd:-1", "fd:x", "3", "always"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
