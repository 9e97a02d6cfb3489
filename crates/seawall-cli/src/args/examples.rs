//! The end of each `--help`: exit codes and examples. The texts are in `help`.

use crate::output::report::MEANINGS;
use std::fmt::Write;

/// A text, without the line break at its end.
macro_rules! help {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/args/help/", $name, ".txt"))
            .trim_ascii_end()
    };
}
pub(super) use help;

/// The table of exit codes at the end of `seawall --help`.
pub(super) fn exit_codes() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in MEANINGS {
        writeln!(text, " {code:>3}  {meaning}").expect("a string takes all");
    }
    text + "What to do: seawall explain CODE\n\nStart with: seawall demo"
}
