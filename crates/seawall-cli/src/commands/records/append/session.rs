//! Appends one run of standard input: splits it, appends, waits, acknowledges and counts.

use crate::args::{Append, Format};
use crate::commands::records::signals::{Waiter, Wake};
use seawall::format::{CodecId, Geometry};
use seawall::{Error, Level, Log, Raw, Ticket};
use seawall_foreign::framing::{Broken, Found, Framer};
use seawall_foreign::value;
use seawall_host::PIECE_MAX;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use seawall_output::text;
use serde::Serialize;
use signal_hook::consts::SIGPIPE;
use signal_hook::low_level::signal_name;
use std::borrow::Cow;
use std::fmt::Write;
use std::io::{self, Read};
use std::ops::RangeInclusive;

/// The maximum number of input bytes to read, and so to acknowledge, at once.
const CHUNK: usize = 64 * 1024;
/// The maximum length of an acknowledgement in bytes: `{"lsn":`, 20 digits, `}` and a newline.
const LINE_MAX: usize = 29;
/// The maximum number of refused records to name.
const NAMED_MAX: u64 = 10;

/// One run over standard input.
pub(super) struct Session<'a> {
    args: &'a Append,
    opener: &'a dyn Fn() -> Result<Log<[u8], Raw>, Failure>,
    /// `None` until needed.
    pub(super) log: Option<Log<[u8], Raw>>,
    codec: CodecId,
    pub(super) out: Output,
    pub(super) tally: Tally,
    /// The ticket of the last appended record, and the number of records appended from this chunk.
    pending: Option<(Ticket, u64)>,
}

/// Counts of records by outcome.
#[derive(Debug, Default, Serialize)]
#[serde(tag = "schema", rename = "seawall.append/1")]
pub(super) struct Tally {
    log: String,
    records: u64,
    first_lsn: Option<u64>,
    last_lsn: Option<u64>,
    bytes: u64,
    pub(super) refused: u64,
    pub(super) failovers: u64,
}

impl<'a> Session<'a> {
    pub(super) fn new(
        args: &'a Append,
        codec: CodecId,
        opener: &'a dyn Fn() -> Result<Log<[u8], Raw>, Failure>,
    ) -> Self {
        let tally = Tally { log: args.log.display().to_string(), ..Tally::default() };
        let out = Output::lock();
        Self { args, opener, log: None, codec, out, tally, pending: None }
    }

    /// Opens the log, unless it is open already.
    pub(super) fn open(&mut self) -> Result<&Log<[u8], Raw>, Failure> {
        let log = match self.log.take() {
            Some(log) => log,
            None => (self.opener)()?,
        };
        Ok(self.log.insert(log))
    }

    /// Appends all of `input`. Returns the exit code if nothing was refused.
    pub(super) fn feed(&mut self, waiter: &Waiter, input: &mut dyn Read) -> Result<Exit, Failure> {
        let max = Geometry::DEFAULT.payload_max();
        let mut framer = Framer::new(self.args.format.into(), max);
        let mut chunk = vec![0; CHUNK];
        loop {
            match waiter.wait().map_err(|error| self.unreadable(&error))? {
                Wake::Input => {}
                Wake::Signal(signal) => return Ok(self.interrupted(signal, &framer)),
                Wake::OutputClosed => return Ok(self.unheard()),
            }
            let read = match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unreadable(&error)),
            };
            framer.feed(chunk.get(..read).expect("no more is read than fits"));
            let taken = self.take_all(&mut framer);
            let stopped = self.commit(waiter)?;
            taken?;
            if let Some(signal) = stopped {
                return Ok(self.interrupted(signal, &framer));
            }
            if self.args.ack && !self.out.is_open() && !self.out.has_failed() {
                return Ok(self.unheard());
            }
        }
        // Only the end of the input makes this record complete, and a signal may have caused that.
        if framer.unfinished() > 0
            && let Some(signal) = waiter.signal_at_end().map_err(|error| self.unreadable(&error))?
        {
            return Ok(self.interrupted(signal, &framer));
        }
        let last = framer.finish().map_err(|broken| self.broken(&broken))?;
        if let Some(found) = last {
            self.take(&framer, &found)?;
        }
        let stopped = self.commit(waiter)?;
        Ok(stopped.map_or(Exit::Fine, |signal| self.interrupted(signal, &framer)))
    }

    /// Reports that a signal stopped the append. Every record that was read completely is durable.
    fn interrupted(&self, signal: i32, framer: &Framer) -> Exit {
        let name = signal_name(signal).unwrap_or("a signal");
        let left = match framer.unfinished() {
            0 => String::new(),
            bytes => format!(
                "; the input ended inside a record: its {} are not appended",
                text::count(bytes, "byte")
            ),
        };
        if !self.args.look.quiet {
            say(&format!("seawall: stopped by {name}{left}"));
        }
        Exit::Signalled(u8::try_from(signal).unwrap_or(u8::MAX >> 1))
    }

    /// Reports a closed pipe: later records could not be acknowledged.
    fn unheard(&self) -> Exit {
        if !self.args.look.quiet {
            say("seawall: the reader of the acknowledgements has closed the pipe: stopped");
        }
        Exit::Signalled(u8::try_from(SIGPIPE).unwrap_or(u8::MAX >> 1))
    }

    fn take_all(&mut self, framer: &mut Framer) -> Result<(), Failure> {
        while let Some(found) = framer.next().map_err(|broken| self.broken(&broken))? {
            self.take(framer, &found)?;
        }
        Ok(())
    }

    fn take(&mut self, framer: &Framer, found: &Found) -> Result<(), Failure> {
        let (range, number) = match found {
            Found::Record(range, number) => (range, *number),
            Found::TooLarge(number) => {
                let max = Geometry::DEFAULT.payload_max();
                self.refuse(*number, &format!("too large: the maximum is {max} bytes"));
                return Ok(());
            }
        };
        let payload = match self.payload(framer.bytes(range)) {
            Ok(payload) => payload,
            Err(why) => {
                self.refuse(number, &why);
                return Ok(());
            }
        };
        match self.open()?.submit(&payload) {
            Ok(ticket) => {
                let before = self.pending.take().map_or(0, |(_, count)| count);
                self.tally.bytes += text::to_u64(payload.len());
                self.pending = Some((ticket, before + 1));
            }
            Err(Error::TooLarge { size, max, .. }) => {
                self.refuse(number, &format!("too large: {size} bytes; the maximum is {max}"));
            }
            Err(Error::Encode { source, .. }) => self.refuse(number, &source.to_string()),
            Err(error) => return Err(self.fail(&error)),
        }
        Ok(())
    }

    /// Converts a record of the input to the payload to store.
    fn payload<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, String> {
        match (self.codec, self.args.format) {
            (CodecId::Json, Format::Lines) => value::text_to_json(bytes).map(Into::into),
            (CodecId::Json, _) => value::minified(bytes).map(|text| text.into_bytes().into()),
            (CodecId::MessagePack, Format::Json) => value::to_message_pack(bytes).map(Into::into),
            (CodecId::MessagePack | CodecId::Positional, Format::Lines) => {
                value::text_to_message_pack(bytes).map(Into::into)
            }
            (CodecId::MessagePack | CodecId::Positional, _) => {
                let sound = value::from_message_pack(bytes);
                sound.map(|_| bytes.into()).map_err(|why| format!("not MessagePack: {why}"))
            }
            _ => Ok(bytes.into()),
        }
    }

    /// Waits until the appended records are durable, and acknowledges them. Returns the signal that
    /// arrived while the acknowledgements had no reader.
    fn commit(&mut self, waiter: &Waiter) -> Result<Option<i32>, Failure> {
        let Some((ticket, count)) = self.pending.take() else { return Ok(None) };
        let last = ticket.wait().map_err(|error| self.fail(&error))?;
        if let Some(log) = self.log.as_ref().filter(|log| log.level() == Level::Buffered)
            && self.args.ack
        {
            log.flush().map_err(|error| self.fail(&error))?;
        }
        let numbers = last.get() + 1 - count..=last.get();
        self.tally.first_lsn.get_or_insert(*numbers.start());
        self.tally.last_lsn = Some(last.get());
        self.tally.records += count;
        if self.args.ack { self.acknowledge(numbers, waiter) } else { Ok(None) }
    }

    /// Prints the numbers of durable records in pieces that do not block, so that a signal ends the
    /// program although nothing reads its output.
    fn acknowledge(
        &mut self,
        mut numbers: RangeInclusive<u64>,
        waiter: &Waiter,
    ) -> Result<Option<i32>, Failure> {
        let as_json = self.args.look.json;
        while self.out.is_open() && !numbers.is_empty() {
            let first = *numbers.start();
            let mut piece = String::new();
            while piece.len() < PIECE_MAX - LINE_MAX
                && let Some(lsn) = numbers.next()
            {
                let (before, after) = if as_json { ("{\"lsn\":", "}") } else { ("", "") };
                writeln!(piece, "{before}{lsn}{after}").expect("a string takes all");
            }
            if let Some(signal) =
                waiter.wait_for_output().map_err(|error| self.unreadable(&error))?
            {
                if !self.args.look.quiet {
                    say(&format!(
                        "seawall: nothing reads the acknowledgements: those from LSN {first} on \
                         were not printed, but the records are durable"
                    ));
                }
                self.out.close();
                return Ok(Some(signal));
            }
            self.out.write(|out| out.write_all(piece.as_bytes()));
            self.out.flush();
        }
        Ok(None)
    }

    fn refuse(&mut self, number: u64, why: &str) {
        self.tally.refused += 1;
        if self.tally.refused <= NAMED_MAX {
            say(&format!("seawall: {} {number} refused: {why}", unit(self.args.format)));
        }
    }

    fn fail(&self, error: &Error) -> Failure {
        Failure::of(error, "append", &self.args.log)
    }

    fn broken(&self, broken: &Broken) -> Failure {
        let failure = Failure::new(Exit::Failed, format!("invalid input: {}", broken.why));
        failure.at(format!("standard input, byte {}", broken.at)).next(format!(
            "the records before it are in {}; send the rest again",
            self.args.log.display()
        ))
    }

    pub(super) fn unreadable(&self, error: &io::Error) -> Failure {
        let failure = Failure::new(Exit::Failed, format!("cannot read the input: {error}"));
        failure.at("standard input").next(format!(
            "send the rest again; {} of it reached {}",
            text::count(self.tally.records, "record"),
            self.args.log.display()
        ))
    }
}

impl Tally {
    /// Prints the summary.
    pub(super) fn tell(&self, args: &Append) {
        if self.refused > NAMED_MAX {
            say(&format!("seawall: {} more refused", text::number(self.refused - NAMED_MAX)));
        }
        if self.refused > 0 {
            say(&format!(
                "seawall: {} refused\n  where: standard input\n  \
                 next: correct them and append them again",
                text::count(self.refused, unit(args.format)),
            ));
        }
        if let (Some(first), Some(last), false) =
            (self.first_lsn, self.last_lsn, args.look.quiet || args.look.json)
        {
            let records = text::count(self.records, "record");
            say(&format!("appended {records} to {}: {}", self.log, text::span_of(first, last)));
        }
    }
}

/// The name of a record in messages about the input.
fn unit(format: Format) -> &'static str {
    match format {
        Format::Lines | Format::Json => "line",
        Format::Len32 | Format::Raw => "record",
    }
}
