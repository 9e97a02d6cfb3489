//! The options of `figures`.

use super::{Engine, Place};
use clap::Args;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct Figures {
    /// The databases
    #[arg(long, value_enum, value_delimiter = ',', default_value = "postgres,mariadb")]
    pub(crate) databases: Vec<Engine>,
    /// Number of warehouses
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) warehouses: u32,
    /// Rounds; each measures every cell once
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Seconds for each cell
    #[arg(long, value_name = "S", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
    /// The folder for results, charts and the page; a run that was stopped continues there
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) place: Place,
}

pub(super) const FIGURES: &str = "\
Examples:
  seawall-rig figures --out figures
  seawall-rig figures --out figures --databases postgres --rounds 3 --seconds 3
  seawall-rig figures --out short --warehouses 1 --rounds 1 --seconds 1

TPC-C runs without think time, with go-tpc's clients outside the database. Each
experiment ends in a file NAME-DATABASE.json of DIR, which is not measured again.
DIR/figures.md has the tables, and DIR/*.svg the charts.";
