//! `seawall tail`: prints the last records, and follows the log.

use super::cat::{chosen_shape, judge_end};
use crate::args::Tail;
use crate::commands::opener::Opener;
use crate::commands::records::cursor_file::Bookmark;
use crate::commands::records::intact::{next_lsn, visit_intact};
use crate::commands::records::printer::Printer;
use crate::select::Picker;
use seawall::damage::Lost;
use seawall::verify::Verification;
use seawall::{Error, LogReader, Lsn, Raw, Record};
use seawall_host::has_lost_reader;
use seawall_output::report::{Exit, Failure};
use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// The interval of polling for new records, the same as in the library.
const POLL: Duration = Duration::from_millis(50);
/// The maximum number of records printed before the cursor file is updated.
const SAVE_EVERY: u64 = 1024;

/// Prints the last records, then follows if requested.
pub(crate) fn run(args: &Tail) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "tail", &args.log);
    let opener = Opener::of(&args.key)?;
    let reader = opener.reader(&args.log).map_err(fail)?;
    let bookmark = args.cursor_file.as_deref().map(Bookmark::open).transpose()?;
    let found = opener.maintenance(&args.log).verify().map_err(fail)?;
    let oldest = reader.oldest().map_err(fail)?;
    let resumed = bookmark.as_ref().and_then(Bookmark::position);
    let chosen = &args.selection;
    let from = match resumed {
        Some(position) => resume(&found, (oldest, position)),
        None if chosen.has_conditions() => back_by_matches(args, opener.reader(&args.log))
            .map(|first| first.unwrap_or(oldest).max(oldest)),
        None => last_shown(|| opener.reader(&args.log), &reader, &found)
            .map(|last| back_from(last, args.count, &found.given_up).unwrap_or(oldest).max(oldest)),
    };
    let from = from.map_err(fail)?;
    let shape = chosen_shape(args.look.json, args.shape)?;
    let mut tailing = Tailing {
        args,
        printer: Printer::new(shape, reader.codec(), chosen)?,
        reader,
        bookmark,
        next: from,
        unsaved: 0,
    };
    // Print no more than `count` records: a writer may have appended more in the meantime.
    let left = if args.follow || resumed.is_some() { u64::MAX } else { args.count };
    let mut done = tailing.catch_up(left);
    if args.follow && done.is_ok() {
        done = tailing.follow();
    }
    let (somebody_reads, written) = tailing.printer.finish();
    done?;
    let end = if somebody_reads && !args.follow {
        judge_end(&args.log, &found, (from, Exit::Fine))
    } else {
        Exit::Fine
    };
    Ok(end.worse(written))
}

/// Returns the position in the cursor file, or an error if the log does not have it any more.
fn resume(found: &Verification, (oldest, position): (Lsn, Lsn)) -> Result<Lsn, Error> {
    let end = next_lsn(found, oldest);
    if position < oldest {
        return Err(Error::pruned(oldest));
    }
    if position > end { Err(Error::rewound(end)) } else { Ok(position) }
}

/// The first of the last `count` records. Those that a repair gave up do not count.
fn back_from(last: Option<Lsn>, count: u64, given_up: &[Lost]) -> Option<Lsn> {
    let (mut end, mut left) = (last.map_or(Lsn::FIRST, Lsn::next).get(), count);
    for lost in given_up.iter().rev() {
        let after = lost.to.map_or(end, |to| to.get().saturating_add(1).min(end));
        if end - after >= left {
            break;
        }
        left -= end - after;
        end = lost.from.get().min(end);
    }
    Lsn::new(end.saturating_sub(left))
}

/// The first of the last `count` matching records. `None` if there are fewer: then printing starts
/// at the oldest record and reports all damage.
fn back_by_matches(
    args: &Tail,
    reader: Result<LogReader<[u8], Raw>, Error>,
) -> Result<Option<Lsn>, Error> {
    let reader = reader?;
    let codec = reader.codec();
    let most = usize::try_from(args.count).unwrap_or(usize::MAX);
    let mut picker = Picker::new(args.selection.clone());
    let (mut matching, mut next) = (VecDeque::new(), Lsn::FIRST);
    visit_intact(reader, |record| {
        next = record.lsn.next();
        if picker.pick(codec, record.payload).is_some() {
            matching.push_back(record.lsn);
        }
        if matching.len() > most {
            matching.pop_front();
        }
        true
    })?;
    if most == 0 {
        return Ok(Some(next));
    }
    Ok(matching.front().copied().filter(|_| matching.len() == most))
}

/// Returns the last record visible to readers. After a writer was killed, readers may see only the
/// records that the writer had published as durable.
fn last_shown(
    open: impl FnOnce() -> Result<LogReader<[u8], Raw>, Error>,
    reader: &LogReader<[u8], Raw>,
    found: &Verification,
) -> Result<Option<Lsn>, Error> {
    let Some(last) = found.last_lsn else { return Ok(None) };
    if !matches!(reader.cursor(last)?.next_record(), Ok(None)) {
        return Ok(Some(last));
    }
    let mut shown = None;
    visit_intact(open()?, |record| {
        shown = Some(record.lsn);
        true
    })?;
    Ok(shown)
}

/// Prints the end of a log.
struct Tailing<'a> {
    args: &'a Tail,
    reader: LogReader<[u8], Raw>,
    printer: Printer,
    bookmark: Option<Bookmark>,
    /// The next record to print.
    next: Lsn,
    /// Records printed since the cursor file was updated.
    unsaved: u64,
}

impl Tailing<'_> {
    /// Prints up to `left` existing records.
    fn catch_up(&mut self, mut left: u64) -> Result<(), Failure> {
        let mut cursor = self.reader.cursor(self.next).map_err(|error| self.fail(&error))?;
        while left > 0 && self.printer.out.is_open() {
            let record = match cursor.next_record() {
                Ok(Some(record)) => record,
                Ok(None) => break,
                Err(error) => {
                    self.save()?;
                    return Err(self.fail(&error));
                }
            };
            left -= u64::from(self.printer.record(&record));
            self.next = record.lsn.next();
            self.note_printed()?;
        }
        self.save()
    }

    /// Prints new records as soon as they are durable.
    fn follow(&mut self) -> Result<(), Failure> {
        let mut follower = self.reader.follow(self.next).map_err(|error| self.fail(&error))?;
        while self.printer.out.is_open() {
            // Do not wait while the cursor file is out of date: update it once no more records are
            // ready.
            let patience = if self.unsaved > 0 { Duration::ZERO } else { POLL };
            match follower.next_within(patience) {
                Ok(Some((lsn, payload))) => {
                    // A follower does not know when a record was written.
                    self.printer.record(&Record::new(lsn, &payload));
                    self.printer.out.flush();
                    self.next = lsn.next();
                    self.note_printed()?;
                }
                // No record is written to an output that is closed while the log is idle.
                Ok(None) if has_lost_reader(io::stdout().as_fd()).unwrap_or(false) => {
                    self.printer.out.close();
                }
                Ok(None) => self.save()?,
                Err(error) => {
                    self.save()?;
                    return Err(self.fail(&error));
                }
            }
        }
        Ok(())
    }

    fn note_printed(&mut self) -> Result<(), Failure> {
        self.unsaved += 1;
        if self.unsaved >= SAVE_EVERY { self.save() } else { Ok(()) }
    }

    /// Flushes the output, and only then updates the cursor file.
    fn save(&mut self) -> Result<(), Failure> {
        self.printer.out.flush();
        self.unsaved = 0;
        match &mut self.bookmark {
            Some(bookmark) if self.printer.out.is_open() => bookmark.save(self.next),
            _ => Ok(()),
        }
    }

    fn fail(&self, error: &Error) -> Failure {
        Failure::of(error, "tail", &self.args.log)
    }
}
