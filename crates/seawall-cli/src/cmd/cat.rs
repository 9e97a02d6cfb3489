//! `seawall cat`: records on standard output, verified; it stops where they are damaged.

use crate::args::{Cat, Shape};
use crate::output::{Output, hex, one_line};
use crate::report::{Exit, Failure, say};
use crate::{human, json};
use seawall::{CodecId, Cursor, Damage, Error, LogReader, Lsn, Record, TailState};
use serde_json::Value;
use std::io::{self, Write};

/// Bytes that are shown of a payload that is no text.
const PREVIEW: usize = 32;

/// Prints the records that were asked for.
pub(crate) fn run(args: &Cat) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "cat", &args.log);
    let reader = LogReader::open_any(&args.log).map_err(fail)?.skip_damaged(args.skip_damaged);
    let from = Lsn::new(args.from).expect("clap lets no 0 pass");
    let mut cursor = reader.cursor(from).map_err(fail)?;
    let mut printer = Printer {
        shape: if args.look.json { Shape::Json } else { args.shape },
        codec: reader.codec(),
        out: Output::new(),
        undecodable: 0,
    };
    let read = print(args, &mut cursor, &mut printer);
    let Printer { out, undecodable, .. } = printer;
    let reader_gone = !out.is_open();
    let written = out.finish();
    if undecodable > 0 {
        say(&format!(
            "seawall: warning: {} shown as bytes: no {}",
            human::count(undecodable, "record"),
            reader.codec().name()
        ));
    }
    if reader_gone {
        return Ok(written);
    }
    let end = match read {
        Err(error) => return Err(fail(error)),
        Ok(Reach::Stopped(exit)) => exit,
        Ok(Reach::End(exit)) => exit.worse(judge_end(args, exit)?),
    };
    Ok(end.worse(written))
}

/// How far reading came, and how bad what it met was.
enum Reach {
    /// As far as was asked for, or to damage.
    Stopped(Exit),
    /// To the end of the log.
    End(Exit),
}

fn print(args: &Cat, cursor: &mut Cursor, printer: &mut Printer) -> Result<Reach, Error> {
    let mut worst = Exit::Fine;
    let mut left = args.count.unwrap_or(u64::MAX);
    while left > 0 && printer.out.is_open() {
        match cursor.next_record() {
            Ok(None) => return Ok(Reach::End(worst)),
            Ok(Some(record)) if args.to.is_some_and(|to| record.lsn.get() > to) => break,
            Ok(Some(record)) => {
                printer.record(&record);
                left -= 1;
                if args.to == Some(record.lsn.get()) {
                    break;
                }
            }
            Err(Error::Damaged(damage)) => {
                // Damage that lies wholly behind what was asked for is not what was asked for.
                let begins = damage.lost.map(|lost| lost.from.get());
                if begins.zip(args.to).is_some_and(|(begins, to)| begins > to) {
                    break;
                }
                printer.out.flush();
                worst = worst.worse(tell(args, &damage));
                if !args.skip_damaged {
                    return Ok(Reach::Stopped(worst));
                }
            }
            Err(error) => {
                printer.out.flush();
                return Err(error);
            }
        }
    }
    Ok(Reach::Stopped(worst))
}

fn tell(args: &Cat, damage: &Damage) -> Exit {
    let failure = Failure::of(&Error::Damaged(Box::new(damage.clone())), "cat", &args.log);
    failure.tell();
    failure.exit
}

/// The records ended; whether that is the end of the log, only a look at all of it tells.
fn judge_end(args: &Cat, met: Exit) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "cat", &args.log);
    let found = seawall::verify(&args.log).map_err(fail)?;
    let in_range = |damage: &&Damage| {
        let lost_to = damage.lost.map(|lost| lost.to);
        !matches!(lost_to, Some(Some(to)) if to.get() < args.from)
    };
    if met == Exit::Fine
        && let Some(damage) = found.damage.iter().find(in_range)
    {
        return Ok(tell(args, damage));
    }
    if found.tail == TailState::CannotTell {
        let what = "what lies behind the last record was torn or damaged: nobody can tell";
        let place = found.tail_at.map_or_else(String::new, |(segment, offset)| {
            format!(", segment {segment}, offset {offset}")
        });
        let failure = Failure::new(Exit::Unsure, what).at(format!("{}{place}", args.log.display()));
        failure.next(format!("seawall verify {}", args.log.display())).tell();
        return Ok(Exit::Unsure);
    }
    Ok(Exit::Fine)
}

/// Puts records into the shape that was asked for.
struct Printer {
    shape: Shape,
    codec: CodecId,
    out: Output,
    /// Records whose payload is not what the log's codec says.
    undecodable: u64,
}

impl Printer {
    fn record(&mut self, record: &Record<'_>) {
        let (lsn, payload) = (record.lsn, record.payload);
        match self.shape {
            Shape::Raw => self.out.write(|out| {
                out.write_all(payload)?;
                out.write_all(b"\n")
            }),
            Shape::Len32 => self.out.write(|out| write_counted(out, payload)),
            Shape::Hex => self.out.write(|out| writeln!(out, "{lsn}\t{}", hex(payload))),
            Shape::Short => {
                let text = self.short(payload);
                self.out.write(|out| writeln!(out, "{lsn}\t{text}"));
            }
            Shape::Json => {
                let data = self.data(payload);
                let time = human::time(record.time_us);
                let time = time.map_or(Value::Null, Value::String);
                self.out.write(|out| {
                    writeln!(out, "{{\"lsn\":{lsn},\"time\":{time},\"data\":{data}}}")
                });
            }
        }
    }

    fn short(&mut self, payload: &[u8]) -> String {
        if self.codec == CodecId::MessagePack
            && let Some(value) = self.decoded(payload)
        {
            return value.to_string();
        }
        match std::str::from_utf8(payload) {
            Ok(text) if self.codec == CodecId::Raw => one_line(text),
            _ => preview(payload),
        }
    }

    fn data(&mut self, payload: &[u8]) -> Value {
        if self.codec == CodecId::MessagePack {
            return self.decoded(payload).unwrap_or_else(|| json::bytes(payload));
        }
        match std::str::from_utf8(payload) {
            Ok(text) => Value::from(text),
            Err(_) => json::bytes(payload),
        }
    }

    fn decoded(&mut self, payload: &[u8]) -> Option<Value> {
        let value = json::from_message_pack(payload).ok();
        self.undecodable += u64::from(value.is_none());
        value
    }
}

fn write_counted(out: &mut dyn Write, payload: &[u8]) -> io::Result<()> {
    let length = u32::try_from(payload.len()).expect("a frame's length is stored in 31 bits");
    out.write_all(&length.to_le_bytes())?;
    out.write_all(payload)
}

fn preview(payload: &[u8]) -> String {
    match payload.get(..PREVIEW) {
        Some(start) if payload.len() > PREVIEW => {
            format!("0x{}... ({} bytes)", hex(start), payload.len())
        }
        _ => format!("0x{}", hex(payload)),
    }
}
