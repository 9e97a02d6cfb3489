//! Standard output: lines for people, or one JSON object for programs.

use crate::failure::Failure;
use std::io::{self, Write};

/// Prints lines. A closed pipe is not an error.
///
/// # Errors
///
/// If standard output cannot be written for another reason.
pub fn say(lines: &[impl AsRef<str>]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut write = |line: &_| writeln!(out, "{}", AsRef::<str>::as_ref(line));
    let said = lines.iter().try_for_each(&mut write).and_then(|()| out.flush());
    match said {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let what = format!("cannot write the answer: {error}");
            Err(Failure::new(what, "standard output", "make room there, or send it elsewhere"))
        }
        _ => Ok(()),
    }
}
