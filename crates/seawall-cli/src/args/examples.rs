//! The end of each `--help`: exit codes and examples. The texts are in `help`.

use seawall_output::report::MEANINGS;
use std::fmt::Write;

/// The table of exit codes at the end of `seawall --help`.
pub(super) fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in MEANINGS {
        writeln!(text, " {code:>3}  {meaning}").expect("a string takes all");
    }
    text + "What to do: seawall explain CODE\n\nStart with: seawall demo"
}
