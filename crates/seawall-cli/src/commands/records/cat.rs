//! `seawall cat`: prints records after verifying them; stops at damage.

use crate::args::{Cat, Shape};
use crate::commands::foreign;
use crate::commands::maintenance::mended;
use crate::commands::opener::Opener;
use crate::commands::records::intact::damage_from;
use crate::commands::records::printer::Printer;
use crate::output::progress::Progress;
use seawall::damage::{Damage, Lost};
use seawall::recovery::TailState;
use seawall::verify::Verification;
use seawall::{Cursor, Error, LogReader, Lsn, Raw};
use seawall_output::report::{Exit, Failure, say};
use seawall_output::text::{to_u64, typed};
use std::path::Path;

/// Prints the requested records.
pub(crate) fn run(args: &Cat) -> Result<Exit, Failure> {
    let fail = |error: Error| foreign::failure(&error, "cat", &args.log);
    let opener = Opener::of(&args.key)?;
    let reader = opener.reader(&args.log).map_err(fail)?.skip_damaged(args.skip_damaged);
    let (from, mut cursor) = start(args, &reader).map_err(fail)?;
    let shape = chosen_shape(args.look.json, args.shape)?;
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from > to
        && !args.look.quiet
    {
        say(&format!("seawall: nothing to print: --from {from} is after --to {to}"));
    }
    let mut printer = Printer::new(shape, reader.codec(), &args.selection)?;
    // A bar would disturb records on a terminal, or the output of the next program in a pipe.
    let into_a_file = Path::new("/dev/stdout").metadata().is_ok_and(|it| it.is_file());
    let quiet = args.look.quiet || !into_a_file;
    let mut progress = Progress::start(args.patience, quiet)?;
    let read = print(args, &mut cursor, (&mut printer, &mut progress));
    progress.end();
    let (somebody_reads, written) = printer.finish();
    let end = match read {
        Err(error) => return Err(fail(error)),
        // A closed pipe does not hide damage that was reported.
        Ok(Reach::Stopped(exit) | Reach::End(exit)) if !somebody_reads => exit,
        Ok(Reach::Stopped(exit)) => match cursor.mended().len() {
            0 => exit,
            places => exit.worse(mended::warn(&args.log, places)),
        },
        Ok(Reach::End(exit)) => {
            let found = opener.maintenance(&args.log).verify().map_err(fail)?;
            tell_beyond(args, &found);
            exit.worse(judge_end(&args.log, &found, (from, exit)))
        }
    };
    Ok(end.worse(written))
}

/// The output shape. `--json` contradicts any other `-o`.
pub(super) fn chosen_shape(as_json: bool, shape: Option<Shape>) -> Result<Shape, Failure> {
    match (as_json, shape) {
        (true, Some(Shape::Json) | None) => Ok(Shape::Json),
        (false, shape) => Ok(shape.unwrap_or(Shape::Short)),
        (true, Some(_)) => {
            let what = "--json means -o json, but another -o was given";
            let failure = Failure::new(Exit::Usage, what).at("the command line");
            Err(failure.next("omit one of them"))
        }
    }
}

/// Explains empty output: the requested range is after the last record.
fn tell_beyond(args: &Cat, found: &Verification) {
    let Some(from) = args.from.filter(|_| !args.look.quiet) else { return };
    match found.last_lsn {
        _ if args.to.is_some_and(|to| to < from) => {}
        Some(last) if from > last.get() => {
            say(&format!("seawall: no record from {from} on: the last record is {last}"));
        }
        None => say("seawall: the log has no records"),
        Some(_) => {}
    }
}

/// Starts at the requested record, else at the oldest.
fn start(args: &Cat, reader: &LogReader<[u8], Raw>) -> Result<(Lsn, Cursor), Error> {
    let from = match args.from.and_then(Lsn::new) {
        Some(from) => from,
        None => reader.oldest()?,
    };
    match reader.cursor(from) {
        // Truncated in the meantime: start at the present oldest record.
        Err(Error::Pruned { oldest, .. }) if args.from.is_none() => {
            Ok((oldest, reader.cursor(oldest)?))
        }
        found => Ok((from, found?)),
    }
}

/// Where reading ended, and the worst exit code until then.
enum Reach {
    /// At the last requested record, or at damage.
    Stopped(Exit),
    /// At the end of the log.
    End(Exit),
}

fn print(
    args: &Cat,
    cursor: &mut Cursor,
    (printer, progress): (&mut Printer, &mut Progress),
) -> Result<Reach, Error> {
    let mut bytes = 0;
    let mut worst = Exit::Fine;
    let mut left = args.count.unwrap_or(u64::MAX);
    // The expected LSN of the next record; `None` at the start and after reported damage.
    let mut next = None;
    while left > 0 && printer.out.is_open() {
        match cursor.next_record() {
            Ok(None) => return Ok(Reach::End(worst)),
            Ok(Some(record)) if args.to.is_some_and(|to| record.lsn.get() > to) => break,
            Ok(Some(record)) => {
                tell_given_up(args, next, record.lsn);
                next = Some(record.lsn.next());
                left -= u64::from(printer.record(&record));
                bytes += to_u64(record.payload.len());
                progress.tell(bytes, None);
                if args.to == Some(record.lsn.get()) {
                    break;
                }
            }
            Err(Error::Damaged { damage, .. }) => {
                // Damage entirely after the requested range does not matter.
                let begins = damage.lost.map(|lost| lost.from.get());
                if begins.zip(args.to).is_some_and(|(begins, to)| begins > to) {
                    break;
                }
                printer.out.flush();
                next = None;
                worst = worst.worse(tell(&args.log, &damage));
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

/// Prints which records between two existing ones were given up by a repair.
fn tell_given_up(args: &Cat, next: Option<Lsn>, found: Lsn) {
    let gap = next.zip(found.previous()).filter(|(from, to)| from <= to && !args.look.quiet);
    if let Some((from, to)) = gap {
        say(&format!("seawall: {} given up by a repair", Lost::new(from, Some(to))));
    }
}

fn tell(log: &Path, damage: &Damage) -> Exit {
    Failure::of(&Error::damaged(damage.clone()), "cat", log).tell()
}

/// Returns the exit code for the end of the records read from `from` on, and reports its reason.
/// `met` is the exit code of damage that was already reported. Only verification tells whether the
/// last record read is the end of the log.
pub(crate) fn judge_end(log: &Path, found: &Verification, (from, met): (Lsn, Exit)) -> Exit {
    let lost = damage_from(found, from).find(|damage| damage.lost.is_some());
    if lost.is_none() && !found.mended.is_empty() {
        return mended::warn(log, found.mended.len());
    }
    if met == Exit::Fine
        && let Some(damage) = lost.or_else(|| damage_from(found, from).next())
    {
        return tell(log, damage);
    }
    let place = found.tail_at.map_or_else(String::new, |(segment, offset)| {
        format!(", segment {segment}, offset {offset}")
    });
    judge_tail(log, found.tail, &place)
}

/// Reports an ambiguous tail at `place` of the log.
pub(crate) fn judge_tail(log: &Path, tail: TailState, place: &str) -> Exit {
    if tail != TailState::Ambiguous {
        return Exit::Fine;
    }
    let what = "ambiguous tail: what follows the last record is a torn write or damage";
    let failure = Failure::new(Exit::Unsure, what).at(format!("{}{place}", log.display()));
    failure.next(format!("seawall verify {}", typed(log))).tell()
}
