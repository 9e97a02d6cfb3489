//! A stream of JSON values: the readable log format of Pereira and others. As with the stream
//! deserializer of `serde_json`, white space between values is optional.
//!
//! JSON has no checksums. A changed digit or letter is undetectable, and so is a number truncated
//! at the end of the file. Only violations of the JSON grammar are found.

use crate::entries::{CUT_SHORT, ENTRY_MAX, Entries, SYNTAX, Stop};
use crate::feed::Feed;
use serde::de::IgnoredAny;
use std::io::Read;

/// Appends a value and a newline.
pub fn write(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(text);
    out.push(b'\n');
}

/// Checks that `text` is exactly one JSON value.
///
/// # Errors
///
/// Whether the text merely ends within the value, and the reason.
pub fn check(text: &[u8]) -> Result<(), (bool, String)> {
    if let Err(error) = std::str::from_utf8(text) {
        let is_cut = error.error_len().is_none();
        return Err((is_cut, format!("no UTF-8 at byte {} of the value", error.valid_up_to())));
    }
    match serde_json::from_slice::<IgnoredAny>(text) {
        Ok(IgnoredAny) => Ok(()),
        Err(error) => Err((error.is_eof(), error.to_string())),
    }
}

/// Reads the values of a stream as text.
#[derive(Debug)]
pub struct Values<R> {
    feed: Feed<R>,
    lent: usize,
}

impl<R: Read> Values<R> {
    /// Reads values from the start of `input`.
    pub fn new(input: R) -> Self {
        Self { feed: Feed::new(input), lent: 0 }
    }

    /// Skips white space; returns whether anything follows.
    fn pass_space(&mut self) -> Result<bool, Stop> {
        loop {
            let rest = self.feed.rest();
            let spaces = rest.iter().take_while(|byte| is_space(**byte)).count();
            let held = rest.len();
            self.feed.pass(spaces);
            if spaces < held {
                return Ok(true);
            }
            if !self.feed.fill()? {
                return Ok(false);
            }
        }
    }

    /// Returns the length of the next value.
    fn look(&mut self) -> Result<usize, Stop> {
        let (mut scan, mut looked) = (Scan::new(), 0);
        loop {
            let unseen = self.feed.rest().get(looked..).unwrap_or_default();
            for byte in unseen {
                if scan.ends_before(*byte) {
                    return self.accept(looked);
                }
                looked += 1;
                if scan.ends_with(*byte) {
                    return self.accept(looked);
                }
            }
            if looked > ENTRY_MAX {
                return Err(self.syntax_error(looked).unwrap_or(Stop::TooLarge));
            }
            if !self.feed.fill()? {
                if scan.is_bare() {
                    return self.accept(looked);
                }
                let is_cut = || self.feed.damaged(CUT_SHORT, "the file ends within a value");
                return Err(self.syntax_error(looked).unwrap_or_else(is_cut));
            }
        }
    }

    fn accept(&self, length: usize) -> Result<usize, Stop> {
        let checked = check(self.feed.part(0, length));
        checked.map(|()| length).map_err(|(_, why)| self.feed.damaged(SYNTAX, why))
    }

    /// The syntax error within a value without an end. It takes precedence, because the damage may
    /// be much earlier than the missing end.
    fn syntax_error(&self, length: usize) -> Option<Stop> {
        match check(self.feed.part(0, length)) {
            Err((false, why)) => Some(self.feed.damaged(SYNTAX, why)),
            _ => None,
        }
    }
}

impl<R: Read> Entries for Values<R> {
    fn next(&mut self) -> Result<Option<&[u8]>, Stop> {
        self.feed.pass(std::mem::take(&mut self.lent));
        if !self.pass_space()? {
            return Ok(None);
        }
        let length = self.look()?;
        self.lent = length;
        self.feed.deliver();
        Ok(Some(self.feed.part(0, length)))
    }

    fn position(&self) -> u64 {
        self.feed.position()
    }
}

/// The state of the search for the end of a value.
#[derive(Debug)]
struct Scan {
    /// The number of enclosing objects and arrays.
    depth: usize,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Start,
    /// In a number or a literal outside of objects and arrays.
    Bare,
    Text,
    Escape,
    Other,
}

impl Scan {
    fn new() -> Self {
        Self { depth: 0, state: State::Start }
    }

    /// Returns whether the value ended before this byte.
    fn ends_before(&self, byte: u8) -> bool {
        self.is_bare() && (is_space(byte) || b"\"[]{},:".contains(&byte))
    }

    fn is_bare(&self) -> bool {
        self.state == State::Bare
    }

    /// Processes a byte; returns whether the value ends with it.
    fn ends_with(&mut self, byte: u8) -> bool {
        let (depth, state) = match (self.state, byte) {
            (State::Text, b'\\') => (self.depth, State::Escape),
            (State::Text, b'"') => (self.depth, State::Other),
            (State::Text | State::Escape, _) | (_, b'"') => (self.depth, State::Text),
            (_, b'{' | b'[') => (self.depth + 1, State::Other),
            (_, b'}' | b']') => (self.depth.saturating_sub(1), State::Other),
            // No value starts with these: return this byte alone, which the check refuses.
            (State::Start, b',' | b':') | (State::Other, _) => (self.depth, State::Other),
            (State::Start | State::Bare, _) => (self.depth, State::Bare),
        };
        (self.depth, self.state) = (depth, state);
        depth == 0 && state == State::Other
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}
