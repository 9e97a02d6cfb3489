//! Options of `seawall disk measure-holdup`.

use super::power::{self, Power};
use clap::Args;
use seawall_output::Look;

/// `seawall disk measure-holdup`
#[derive(Debug, Args)]
#[group(id = "side", required = true, multiple = false, args = ["to", "witness"])]
pub(crate) struct DiskHoldUp {
    /// The witness, on a machine that keeps running; this machine is the one that fails
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) to: Option<String>,
    /// Be the witness, at this UDP port
    #[arg(long, value_name = "PORT", conflicts_with = "power")]
    pub(crate) witness: Option<u16>,
    /// What announces the power failure beside SIGPWR, as of disk serve
    #[arg(long, value_name = "SOURCE", default_value = "unknown", value_parser = power::parse)]
    pub(crate) power: Power,
    #[command(flatten)]
    pub(crate) look: Look,
}
