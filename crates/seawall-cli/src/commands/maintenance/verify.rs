//! `seawall verify`: checks whole logs and names lost records; each verdict has an exit code.

use super::mended;
use crate::args;
use crate::commands::answers::Verify;
use crate::commands::foreign;
use crate::commands::opener::Opener;
use crate::output::progress::Progress;
use seawall::Layout;
use seawall::damage::{Corruption, Damage, Lost};
use seawall::format::SegmentId;
use seawall::recovery::TailState;
use seawall::verify::{Orphan, Summary, Verdict, Verification};
use seawall_measure::machine::Stopwatch;
use seawall_output::color::Tone;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{self, count, number, span_of};
use std::path::Path;
use std::time::Duration;

/// Checks every log; exits with the worst code.
pub(crate) fn run(args: &args::Verify) -> Result<Exit, Failure> {
    let opener = Opener::of(&args.key)?;
    let mut out = Output::lock();
    let mut worst = Exit::Fine;
    for log in &args.logs {
        let watch = Stopwatch::start();
        let mut progress = Progress::start(args.patience, args.look.quiet)?;
        let found = opener.maintenance(log).progress(|at| progress.hear(at)).verify();
        progress.end();
        let exit = match found {
            Ok(found) => {
                let exit = Exit::of(found.verdict, args.strict);
                let took = watch.elapsed();
                args.look.show(&mut out, &Verify::of(log, &found, exit), |out| {
                    let key = args.key.hint(found.summary.encrypted_segments > 0);
                    tell(out, log, &found, (exit, took, key));
                });
                exit
            }
            Err(error) => {
                let failure = foreign::failure(&error, "verify", log);
                if args.look.json {
                    out.json(&Verify::failed(log, &failure));
                }
                failure.tell()
            }
        };
        out.flush();
        worst = worst.worse(exit);
    }
    Ok(worst.worse(out.finish()))
}

fn tell(
    out: &mut Output,
    log: &Path,
    found: &Verification,
    (exit, took, key): (Exit, Duration, String),
) {
    tell_verdict(out, log, (found.verdict, exit));
    let (records, size) = (count(found.records, "record"), text::bytes(found.summary.bytes));
    let segments = count(found.summary.segments, "segment");
    let took = text::span(took);
    out.line(&format!("  read       {records}   {size}   {segments}   {took}"));
    if let (Some(first), Some(last)) = (found.first_lsn, found.last_lsn) {
        out.line(&format!("  records    {}", span_of(first, last)));
    }
    if let Some(text) = encryption(&found.summary) {
        out.line(&format!("  encrypted  {text}"));
    }
    for damage in &found.damage {
        tell_damage(out, damage, found.summary.layout);
    }
    mended::tell(out, log, &found.mended);
    tell_given_up(out, &found.given_up);
    tell_tail(out, found);
    tell_orphans(out, &found.orphans);
    let log = text::typed(log);
    if found.verdict == Verdict::Correctable && !found.mended.is_empty() {
        out.line("");
        out.line(&format!("next: seawall repair {log} --yes         repairs the files"));
    } else if !found.damage.is_empty() {
        out.line("");
        out.line(&format!("next: seawall repair {log}               a plan, changes nothing"));
        out.line(&format!("      seawall cat {log} --skip-damaged{key}   reads around the damage"));
    } else if found.verdict == Verdict::Unsure {
        out.line("");
        out.line(&format!("next: seawall repair {log}               a plan, changes nothing"));
    }
}

/// How much of the log is encrypted, on one line; `None` if nothing is.
pub(super) fn encryption(summary: &Summary) -> Option<String> {
    let Summary { encrypted_segments, segments, is_locked, .. } = *summary;
    let will = summary.encrypts == Some(true);
    if encrypted_segments == 0 && !will {
        return None;
    }
    let some = format!("{} of {}", number(encrypted_segments), count(segments, "segment"));
    let checked = match (is_locked, encrypted_segments) {
        (_, 0) => "new records are",
        (true, _) => "checked, but not decrypted: that needs --key-file",
        (false, _) => "decrypted",
    };
    Some(format!("{some}   {checked}"))
}

/// Prints the line with the verdict and the exit code.
pub(super) fn tell_verdict(out: &mut Output, log: &Path, (verdict, exit): (Verdict, Exit)) {
    let tone = match verdict {
        Verdict::Clean | Verdict::Torn => Tone::Good,
        Verdict::Unsure => Tone::Doubtful,
        _ => Tone::Bad,
    };
    let word = headline(verdict);
    let head = format!("{}   {word}", log.display());
    out.headline(&head, (word, tone), &format!("exit {}", exit.code()));
}

pub(super) fn headline(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Clean => "clean",
        Verdict::Torn => "clean, with a torn tail (normal after a crash)",
        Verdict::Unsure => "AMBIGUOUS TAIL, torn write or damage",
        Verdict::Correctable => "DAMAGED, ALL RECORDS READABLE",
        _ => "DAMAGED, RECORDS LOST",
    }
}

pub(super) fn tell_damage(out: &mut Output, damage: &Damage, layout: Option<Layout>) {
    let (place, file) = match damage.segment {
        Some(segment) => (format!("segment {segment}"), file_of(segment, damage.cause, layout)),
        None if damage.cause == Corruption::Keys => ("keys".to_owned(), "keys".to_owned()),
        None => ("manifest".to_owned(), "manifest".to_owned()),
    };
    let bytes = if damage.bytes == 0 { String::new() } else { count(damage.bytes, "byte") + ": " };
    let origin = damage.origin.map_or_else(String::new, |origin| {
        format!(" (segment {}, offset {})", origin.segment, origin.offset)
    });
    out.line(&format!("  {place:<9}  {file}, offset {}", damage.offset));
    out.line(&format!("             {bytes}{}{origin}", damage.reason()));
    let Some(lost) = damage.lost else {
        out.line("             no record is lost");
        return;
    };
    out.line(&format!("             lost     {}", range(&lost)));
}

/// The damaged or missing file.
fn file_of(segment: SegmentId, cause: Corruption, layout: Option<Layout>) -> String {
    use Corruption::{Line, SegmentHeader, SegmentMissing, TextMissing};
    match (cause, layout) {
        (SegmentHeader | SegmentMissing, Some(Layout::Text)) => segment.head_name(),
        (Line | TextMissing, _) | (_, Some(Layout::Text)) => segment.text_name(),
        _ => segment.file_name(),
    }
}

/// A range of lost records for people.
pub(super) fn range(lost: &Lost) -> String {
    let from = lost.from;
    match lost.to {
        Some(to) => {
            let records = count(to.get() - from.get() + 1, "record");
            format!("{}      {records}", span_of(from, to))
        }
        None => format!("LSN {from} and later; the number of records is unknown"),
    }
}

/// Prints the records that earlier repairs gave up.
pub(super) fn tell_given_up(out: &mut Output, given_up: &[Lost]) {
    for lost in given_up {
        out.line(&format!("  given up   {}   by a repair", range(lost)));
    }
}

/// Prints files that are named like segments but are not part of the log.
pub(super) fn tell_orphans(out: &mut Output, orphans: &[Orphan]) {
    for orphan in orphans {
        out.line(&format!("  orphan     {orphan}"));
    }
    if !orphans.is_empty() {
        out.line("             not part of the log, and no record is lost: remove it, or let");
        out.line("             the next open for writing move it to quarantine");
    }
}

pub(super) fn tell_tail(out: &mut Output, found: &Verification) {
    let place = found.tail_at.map_or_else(String::new, |(segment, offset)| {
        format!(" at segment {segment}, offset {offset}")
    });
    let bytes = count(found.tail_bytes, "byte");
    let text = match found.tail {
        TailState::Clean if found.tail_at.is_none() => "not reached".to_owned(),
        TailState::Clean => "clean".to_owned(),
        TailState::Torn => format!("torn{place}: {bytes} of an unfinished write"),
        TailState::Ambiguous => {
            format!("unsure{place}: {bytes} could be a torn write,\n             or damage")
        }
    };
    out.line(&format!("  tail       {text}"));
    if found.summary.in_use {
        out.line("  in use     a writer has it open; these are the durable records so far");
    }
}
