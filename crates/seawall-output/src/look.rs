//! `--json`, `--quiet` and `--verbose`.

use crate::stdout::Output;
use clap::Args;
use serde::Serialize;

/// How to print the result.
#[derive(Clone, Copy, Debug, Args)]
pub struct Look {
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
    /// Print errors only (verify prints nothing)
    #[arg(short, long)]
    pub quiet: bool,
    /// Show files opened, effective options and timing
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

impl Look {
    /// Prints the result as JSON, or calls `tell` to print it for people.
    pub fn show(self, out: &mut Output, answer: &impl Serialize, tell: impl FnOnce(&mut Output)) {
        if self.json {
            out.json(answer);
        } else if !self.quiet {
            tell(out);
        }
    }
}
