//! One run over standard input: cut, hand over, wait, acknowledge, count.

use crate::args::{Append, Format};
use crate::framing::{Broken, Found, Framer};
use crate::output::Output;
use crate::report::{Exit, Failure, say};
use crate::{human, json};
use seawall::{CodecId, Error, Geometry, Level, Log, Lsn, Raw, Ticket};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::io::{self, Read};

/// What is read from standard input at once, and so the most that is acknowledged at once.
const CHUNK: usize = 64 * 1024;
/// Refused records that are named one by one.
const NAMED_MAX: u64 = 10;

/// One run over the input.
pub(super) struct Session<'a> {
    args: &'a Append,
    log: &'a Log<[u8], Raw>,
    codec: CodecId,
    pub(super) out: Output,
    pub(super) tally: Tally,
    /// The last record that was handed to the log, and how many of this chunk were.
    pending: Option<(Ticket, u64)>,
}

/// What became of the records.
#[derive(Debug, Default)]
pub(super) struct Tally {
    records: u64,
    bytes: u64,
    first: Option<Lsn>,
    last: Option<Lsn>,
    pub(super) refused: u64,
}

impl<'a> Session<'a> {
    pub(super) fn new(args: &'a Append, log: &'a Log<[u8], Raw>, codec: CodecId) -> Self {
        let (out, tally) = (Output::new(), Tally::default());
        Self { args, log, codec, out, tally, pending: None }
    }

    pub(super) fn feed(&mut self, input: &mut dyn Read) -> Result<(), Failure> {
        let mut framer = Framer::new(self.args.format, Geometry::DEFAULT.payload_max());
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unreadable(&error)),
            };
            framer.feed(chunk.get(..read).expect("no more is read than fits"));
            let taken = self.take_all(&mut framer);
            self.commit()?;
            taken?;
        }
        let last = framer.finish().map_err(|broken| self.broken(&broken))?;
        if let Some(found) = last {
            self.take(&framer, &found)?;
        }
        self.commit()
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
                self.refuse(*number, &format!("too large: a record has {max} bytes at most"));
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
        match self.log.submit(&payload) {
            Ok(ticket) => {
                let before = self.pending.take().map_or(0, |(_, count)| count);
                self.tally.bytes += u64::try_from(payload.len()).expect("a payload is in memory");
                self.pending = Some((ticket, before + 1));
                Ok(())
            }
            Err(Error::TooLarge { size, max }) => {
                self.refuse(number, &format!("too large: {size} bytes; {max} fit"));
                Ok(())
            }
            Err(Error::Encode { why }) => {
                self.refuse(number, &why);
                Ok(())
            }
            Err(error) => Err(self.fail(&error)),
        }
    }

    /// The bytes that the log is to hold for these of the input.
    fn payload<'b>(&self, bytes: &'b [u8]) -> Result<Cow<'b, [u8]>, String> {
        match (self.codec, self.args.format) {
            (CodecId::Json, Format::Lines) => json::text_to_json(bytes).map(Into::into),
            (CodecId::Json, _) => json::minified(bytes).map(|text| text.into_bytes().into()),
            (CodecId::MessagePack, Format::Json) => json::to_message_pack(bytes).map(Into::into),
            (CodecId::MessagePack | CodecId::Positional, Format::Lines) => {
                json::text_to_message_pack(bytes).map(Into::into)
            }
            (CodecId::MessagePack | CodecId::Positional, _) => {
                let sound = json::from_message_pack(bytes);
                sound.map(|_| bytes.into()).map_err(|why| format!("no MessagePack: {why}"))
            }
            _ => Ok(bytes.into()),
        }
    }

    /// Waits for what was taken, and acknowledges it.
    fn commit(&mut self) -> Result<(), Failure> {
        let Some((ticket, count)) = self.pending.take() else { return Ok(()) };
        let last = ticket.wait().map_err(|error| self.fail(&error))?;
        if self.args.ack && self.log.level() == Level::Buffered {
            self.log.flush().map_err(|error| self.fail(&error))?;
        }
        let numbers = last.get() + 1 - count..=last.get();
        self.tally.first = self.tally.first.or_else(|| Lsn::new(*numbers.start()));
        self.tally.last = Some(last);
        self.tally.records += count;
        if self.args.ack && self.out.is_open() {
            let as_json = self.args.look.json;
            self.out.write(|out| {
                let mut numbers = numbers;
                numbers.try_for_each(|lsn| {
                    if as_json {
                        writeln!(out, "{{\"lsn\":{lsn}}}")
                    } else {
                        writeln!(out, "{lsn}")
                    }
                })
            });
            self.out.flush();
        }
        Ok(())
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
        let failure = Failure::new(Exit::Failed, format!("the input is broken: {}", broken.why));
        failure.at(format!("standard input, byte {}", broken.at)).next(format!(
            "the records before it are in {}; send the rest again",
            self.args.log.display()
        ))
    }

    fn unreadable(&self, error: &io::Error) -> Failure {
        let failure = Failure::new(Exit::Failed, format!("cannot read the input: {error}"));
        failure.at("standard input").next(format!(
            "send the rest again; {} of it reached {}",
            human::count(self.tally.records, "record"),
            self.args.log.display()
        ))
    }
}

impl Tally {
    /// What a person hears at the end.
    pub(super) fn tell(&self, args: &Append) {
        if self.refused > NAMED_MAX {
            say(&format!("seawall: {} more refused", human::number(self.refused - NAMED_MAX)));
        }
        if self.refused > 0 {
            say(&format!(
                "seawall: {} refused\n  where: standard input\n  next: mend and append them again",
                human::count(self.refused, unit(args.format)),
            ));
        }
        if let (Some(first), Some(last), false) =
            (self.first, self.last, args.look.quiet || args.look.json)
        {
            let records = human::count(self.records, "record");
            say(&format!("appended {records} to {}: LSN {first} .. {last}", args.log.display()));
        }
    }

    pub(super) fn as_json(&self, args: &Append, failovers: u64) -> Value {
        json!({
            "schema": "seawall.append/1",
            "log": args.log.display().to_string(),
            "records": self.records,
            "first_lsn": self.first.map(Lsn::get),
            "last_lsn": self.last.map(Lsn::get),
            "bytes": self.bytes,
            "refused": self.refused,
            "failovers": failovers,
        })
    }
}

/// What a record is called in messages about the input.
fn unit(format: Format) -> &'static str {
    match format {
        Format::Lines | Format::Json => "line",
        Format::Len32 | Format::Raw => "record",
    }
}
