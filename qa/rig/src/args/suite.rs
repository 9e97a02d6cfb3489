//! The options of `suite`.

use super::{Engine, Place, parse_delay};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct Suite {
    /// The database, as Debian has it
    #[arg(long, value_enum)]
    pub(crate) database: SuiteOf,
    /// Number of power cuts inside the run
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) cuts: u32,
    /// Tests of `parallel_schedule`, after `test_setup`; or tests, suites and collections of
    /// mysql-test-run [default: all tests, or the collection `smoke_test`]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) tests: Vec<String>,
    /// Seed of the moments of the cuts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Cut without a warning: the control, which must break
    #[arg(long)]
    pub(crate) unannounced: bool,
    /// Time that a flush of the disk's device takes, in milliseconds
    #[arg(long, value_name = "MS", default_value = "1", value_parser = parse_delay)]
    pub(crate) delay: f64,
    /// Time from the warning to the loss of power, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 150)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) hold_up: u32,
    /// The built folder src/test/regress of the PostgreSQL source of the server's version
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/cache/seawall-rig/postgresql/src/test/regress"
    )]
    pub(crate) regress: PathBuf,
    /// Also write the result to this file, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) place: Place,
}

/// A database with a test suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SuiteOf {
    /// The regression tests of PostgreSQL 15
    Postgres,
    /// mysql-test-run of Debian's package mariadb-test
    Mariadb,
}

impl SuiteOf {
    pub(crate) fn engine(self) -> Engine {
        match self {
            Self::Postgres => Engine::Postgres,
            Self::Mariadb => Engine::Mariadb,
        }
    }
}

pub(super) const SUITE: &str = "\
Examples:
  seawall-rig suite --database postgres --cuts 5 --seed 7
  seawall-rig suite --database mariadb --tests innodb,main.xa --out suite.json
  seawall-rig suite --database postgres --unannounced

The suite runs twice. First without a disk: a test that fails then is skipped by
name. Then with the log on an armed disk, for MariaDB with all files of its
servers. Before each cut a client commits numbered rows. After it the database
has to recover, to pass its own check, and to have every acknowledged row; then
the interrupted tests run again. In the end each test has passed on the disk.

The exit code is 0 if all of that holds, 10 if not, and 77 if the suite is
missing: the message says how to get it.";
