//! Colour for verdicts; their meaning never depends on colour.

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;
use std::io;

/// When to colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorWhen {
    /// On a terminal, unless `NO_COLOR` is set; everywhere with `CLICOLOR_FORCE`
    #[value(help = "On a terminal, unless NO_COLOR is set; everywhere with CLICOLOR_FORCE")]
    Auto,
    /// Also in files and pipes
    Always,
    /// Never
    Never,
}

impl ColorWhen {
    /// Applies to all output of this program, including messages of clap.
    pub fn take_effect(self) {
        match self {
            Self::Auto => anstream::ColorChoice::Auto,
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
        }
        .write_global();
    }
}

/// How good a verdict is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Green: nothing to do.
    Good,
    /// Yellow: needs a closer look.
    Doubtful,
    /// Red: something is lost, or will be.
    Bad,
}

/// Whether standard output is coloured.
#[must_use]
pub fn is_wanted() -> bool {
    anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never
}

/// Colours the last occurrence of `word` in the line.
#[must_use]
pub fn paint(line: &str, word: &str, tone: Tone) -> String {
    let Some((before, after)) = line.rsplit_once(word) else { return line.to_owned() };
    let color = match tone {
        Tone::Good => AnsiColor::Green,
        Tone::Doubtful => AnsiColor::Yellow,
        Tone::Bad => AnsiColor::Red,
    };
    let style = Style::new().bold().fg_color(Some(color.into()));
    format!("{before}{style}{word}{style:#}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_verdict_is_coloured() {
        let painted = paint("clean.wal   clean   exit 0", "clean", Tone::Good);
        assert_eq!(painted, "clean.wal   \u{1b}[1m\u{1b}[32mclean\u{1b}[0m   exit 0");
        assert_eq!(paint("a", "b", Tone::Bad), "a");
    }
}
