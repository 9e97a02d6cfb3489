//! `seawall completions`: shell completion scripts.

use crate::args::{self, Completions};
use seawall_output::report::Exit;
use seawall_output::stdout::Output;

/// Prints the script for the shell.
pub(crate) fn run(args: &Completions) -> Exit {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut args::shown(), "seawall", &mut script);
    let mut out = Output::lock();
    out.write(|out| out.write_all(&script));
    out.finish()
}
