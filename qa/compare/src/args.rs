//! The command line of `seawall-compare`.

use crate::payload;
use clap::{Args, Parser, Subcommand, ValueEnum};
use seawall_measure::human;
use std::path::PathBuf;

/// Measure Seawall beside other logs and stores: the same records, by turns, on the same disk
#[derive(Debug, Parser)]
#[command(name = "seawall-compare", version, after_help = format!("{EXAMPLES}\n\n{EXIT_CODES}"))]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) compare: Compare,
}

/// What else can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Damage the logs of the peers, and show what each makes of it
    Damage(Damage),
    /// One step of `damage`, in the current directory
    #[command(hide = true)]
    Step(Step),
}

/// `seawall-compare damage`
#[derive(Debug, Args)]
pub(crate) struct Damage {
    /// Where to write; room for 1 GiB
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Only these logs
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) peers: Vec<String>,
}

/// `seawall-compare step`
#[derive(Debug, Args)]
pub(crate) struct Step {
    #[arg(value_enum)]
    pub(crate) act: Act,
    #[arg(long)]
    pub(crate) peer: String,
}

/// What a step does with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Act {
    /// Writes it, and ends without closing it.
    Write,
    /// Reads all records.
    Read,
    /// Appends one record.
    Append,
}

impl Act {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::Append => "append",
        }
    }
}

/// Measure Seawall beside other logs and stores: the same records, by turns, on the same disk
#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Where to write; needs about 20 GiB if --time is long
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// Measure only these logs; --list names them
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub(crate) peers: Vec<String>,
    /// Number of threads that commit at the same time
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    #[arg(value_parser = human::parse_writers)]
    pub(crate) writers: Vec<usize>,
    /// Seconds for each table; there are three, and one for each number of writers
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_time)]
    pub(crate) time: f64,
    /// Bytes in a record
    #[arg(long, value_name = "BYTES", default_value = "256", value_parser = parse_size)]
    pub(crate) size: usize,
    /// Number of records to read back
    #[arg(long, value_name = "N", default_value = "100000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=10_000_000))]
    pub(crate) records: u32,
    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// List the logs, how each is used, and what it does better, without measuring
    #[arg(long)]
    pub(crate) list: bool,
}

fn parse_time(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.1..=3600.0).contains(number));
    number.ok_or_else(|| format!("`{text}` is not a time from 0.1 to 3600 seconds"))
}

fn parse_size(text: &str) -> Result<usize, String> {
    let size = human::parse_record_size(text)?;
    let size = Some(size).filter(|size| *size >= payload::SIZE_MIN);
    size.ok_or_else(|| format!("`{text}` is too small: at least {} bytes", payload::SIZE_MIN))
}

const EXAMPLES: &str = "\
Examples:
  seawall-compare --list
      the logs, how each is used, and what it does better
  sudo chrt -f 1 target/release/seawall-compare --time 200 --report logs.html
      everything in about 20 minutes, ranked, with charts
  seawall-compare --peers okaywal,raft-engine --writers 8 --time 5 --json
      two of them, for programs
  seawall-compare damage
      what each log does after a flipped bit, a lost sector, a lost or zeroed end";

const EXIT_CODES: &str = "\
Exit codes: 0 measured; 1 I/O or environment error; 2 usage error; 9 the report exists. A log
that fails is named in the result.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_example_is_a_command_line() {
        Cli::command().debug_assert();
        let examples =
            EXAMPLES.lines().filter_map(|line| line.find("seawall-compare ").map(|at| &line[at..]));
        let mut count = 0;
        for example in examples {
            Cli::try_parse_from(example.split_whitespace()).expect(example);
            count += 1;
        }
        assert_eq!(count, 4);
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for wrong in ["--size 4", "--size 2GiB", "--writers 0", "--time 0", "--records 10"] {
            let line = format!("seawall-compare {wrong}");
            Cli::try_parse_from(line.split_whitespace()).expect_err(wrong);
        }
    }
}
