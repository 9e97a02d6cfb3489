//! Buffered standard output that becomes silent once its reader closes the pipe.

use crate::color::{self, Tone, paint};
use crate::report::{Exit, Failure};
use crate::width::{self, fitted};
use data_encoding::HEXLOWER;
use serde::Serialize;
use std::borrow::Cow;
use std::io::{self, BufWriter, StdoutLock, Write};

/// The standard output of a verb.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
    state: State,
    /// The width of the terminal in columns; `None` if standard output is not a terminal.
    width: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The reader closed the pipe, as `head` does.
    Closed,
    /// Writing failed, and the error was reported.
    Failed,
}

impl Output {
    /// Locks standard output, until the value is dropped.
    #[must_use]
    pub fn lock() -> Self {
        let out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
        Self { out, state: State::Open, width: width::of_terminal() }
    }

    /// Returns the width for text in columns: that of the terminal, at most 80.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.map_or(80, |width| width.min(80))
    }

    /// Whether output still has a reader.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Whether writing failed for a reason other than a closed pipe.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// Calls `act` to write, unless output has failed or was closed; `finish` reports errors.
    pub fn write(&mut self, act: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
        if self.is_open() {
            let done = act(&mut self.out);
            self.note(done);
        }
    }

    /// Writes one line, wrapped if it is too long for the terminal.
    pub fn line(&mut self, text: &str) {
        let fitted = self.width.map(|width| fitted(text, width));
        let text = fitted.as_deref().unwrap_or(text);
        self.write(|out| writeln!(out, "{text}"));
    }

    /// Writes lines and flushes them.
    pub fn lines(&mut self, texts: &[impl AsRef<str>]) {
        for text in texts {
            self.line(text.as_ref());
        }
        self.flush();
    }

    /// Writes an answer as JSON on one line.
    pub fn json(&mut self, answer: &impl Serialize) {
        self.line(&serde_json::to_string(answer).expect("an answer is text and numbers"));
    }

    /// Writes one line and colours its last `word`, if colour is on.
    pub fn toned(&mut self, text: &str, word: &str, tone: Tone) {
        if color::is_wanted() { self.line(&paint(text, word, tone)) } else { self.line(text) }
    }

    /// Writes the first line of a report: `head`, in which `word` is coloured, and `end` at the
    /// right edge.
    pub fn headline(&mut self, head: &str, (word, tone): (&str, Tone), end: &str) {
        self.toned(&format!("{head:<72}{end:>8}"), word, tone);
    }

    /// Drops all further output, as if the reader had closed the pipe.
    pub fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Flushes the buffer.
    pub fn flush(&mut self) {
        if self.is_open() {
            let done = self.out.flush();
            self.note(done);
        }
    }

    /// Flushes the buffer. Returns the exit code if nothing else failed.
    #[expect(clippy::must_use_candidate, reason = "it is called to write")]
    pub fn finish(mut self) -> Exit {
        self.flush();
        if self.state == State::Failed { Exit::Failed } else { Exit::Fine }
    }

    fn note(&mut self, done: io::Result<()>) {
        let Err(error) = done else { return };
        self.state = State::Closed;
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.state = State::Failed;
            let what = format!("cannot write the answer: {error}");
            let failure = Failure::new(Exit::Failed, what).at("standard output");
            failure.next("free some space there, or redirect the output").tell();
        }
    }
}

/// Makes text a single line that is harmless on a terminal: escapes control characters and
/// backslashes.
#[must_use]
pub fn one_line(text: &str) -> String {
    // Nearly all text is printable ASCII: a check of bytes costs less than decoding them.
    if is_printable_ascii(text) && !text.contains('\\') {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\r' | '\t' | '\\' => shown.extend(character.escape_default()),
            other if is_harmful(other) => shown.extend(other.escape_unicode()),
            other => shown.push(other),
        }
    }
    shown
}

/// Escapes characters in the strings of JSON on one line, so that it is harmless on a terminal. The
/// value stays the same.
#[must_use]
pub fn harmless_json(json: &str) -> Cow<'_, str> {
    if is_printable_ascii(json) || !json.contains(is_harmful) {
        return json.into();
    }
    let mut shown = String::with_capacity(json.len());
    for character in json.chars() {
        if is_harmful(character) {
            let digits = format!("{:04x}", u32::from(character));
            shown.extend(["\\u", &digits]);
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Control characters, and characters that reorder text on a terminal.
fn is_harmful(character: char) -> bool {
    let reorders = matches!(character, '\u{200e}' | '\u{200f}' | '\u{2066}'..='\u{2069}');
    character.is_control() || reorders || ('\u{2028}'..='\u{202e}').contains(&character)
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_becomes_one_harmless_line() {
        assert_eq!(one_line("a\nb\t\\c"), "a\\nb\\t\\\\c");
        assert_eq!(one_line("\u{1b}[2J\u{7f}\u{202e}"), "\\u{1b}[2J\\u{7f}\\u{202e}");
        assert_eq!(one_line("Zo\u{eb} \u{1f30a}"), "Zo\u{eb} \u{1f30a}");
    }

    #[test]
    fn harmless_json_has_the_same_value() {
        let json = "{\"a\u{9b}\":\"\u{7f}\u{202e}\\n\u{eb}\\\\\"}";
        let shown = harmless_json(json);
        assert_eq!(shown, "{\"a\\u009b\":\"\\u007f\\u202e\\n\u{eb}\\\\\"}");
        let value = serde_json::from_str::<serde_json::Value>;
        assert_eq!(value(&shown).unwrap(), value(json).unwrap());
    }

    #[test]
    fn hex_has_two_digits_for_each_byte() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
    }
}
