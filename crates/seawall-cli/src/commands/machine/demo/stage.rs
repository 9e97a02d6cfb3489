//! Where the demo prints its story.

use crate::output::color::Tone;
use crate::output::report::{Exit, Failure, say_over};
use crate::output::stdout::Output;
use seawall_measure::machine::is_terminal;
use std::io;

/// What a plain write is compared with: the record of the paper that Seawall starts from.
pub(super) const RECORD_SIZE: usize = 116;

/// Where the story is told.
pub(super) struct Stage {
    pub(super) out: Output,
    pub(super) silent: bool,
    /// All lines, also when they are not printed.
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

    /// Shows the present step on a terminal, until the next line.
    pub(super) fn hint(&self, text: &str) {
        if !self.silent && is_terminal() {
            say_over(text);
        }
    }

    /// A line that ends with whether a promise held.
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

/// The environment is in the way.
pub(super) fn trouble(act: &str, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot {act}: {error}"));
    failure.at("seawall demo").next("choose another place with --dir, or try again")
}
