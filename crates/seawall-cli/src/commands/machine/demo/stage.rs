//! Prints the progress and results of the demo.

use seawall_measure::machine::is_terminal;
use seawall_output::color::Tone;
use seawall_output::report::{Exit, Failure, say_over};
use seawall_output::stdout::Output;
use std::io;

/// Record size for the comparison with plain writes, as in the paper on user-space logs.
pub(super) const RECORD_SIZE: usize = 116;

/// The output of the demo.
pub(super) struct Stage {
    pub(super) out: Output,
    pub(super) silent: bool,
    /// All lines, printed or not.
    pub(super) said: Vec<String>,
}

impl Stage {
    pub(super) fn say(&mut self, text: &str) {
        self.said.push(text.to_owned());
        if !self.silent {
            self.out.line(text);
            self.out.flush();
        }
    }

    /// Shows the current step on a terminal until the next line.
    pub(super) fn hint(&self, text: &str) {
        if !self.silent && is_terminal() {
            say_over(text);
        }
    }

    /// Prints a line that ends with `ok` if a guarantee held, otherwise with `BROKEN`.
    pub(super) fn judge(&mut self, text: &str, holds: bool) {
        let (word, tone) = if holds { ("ok", Tone::Good) } else { ("BROKEN", Tone::Bad) };
        let line = format!("{text:<74}{word:>6}");
        self.said.push(line.clone());
        if !self.silent {
            self.out.toned(&line, word, tone);
            self.out.flush();
        }
    }
}

/// An error of the environment, not of the log.
pub(super) fn trouble(act: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot {act}: {error}"));
    failure.at("seawall demo").next("choose another directory with --dir, or try again")
}
