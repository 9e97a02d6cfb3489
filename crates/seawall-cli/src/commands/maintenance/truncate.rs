//! `seawall truncate`: shows which records would be removed at one end of a log; removes with
//! `--yes`.

mod plan;

use crate::args::{Last, Truncate};
use crate::commands::opener::Opener;
use crate::commands::records::append::tell_recovery;
use crate::commands::records::intact::next_lsn;
use plan::Plan;
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Log, LogReader, Lsn, Raw};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use seawall_output::text::{self, count, span_of, typed};
use serde::Serialize;
use std::path::Path;

/// Shows the plan, and applies it with `--yes`.
pub(crate) fn run(args: &Truncate) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "truncate", &args.log);
    let opener = Opener::of(&args.key)?;
    let reader = opener.reader(&args.log).map_err(fail)?;
    let found = opener.maintenance(&args.log).verify().map_err(fail)?;
    let oldest = reader.oldest().map_err(fail)?;
    let last = found.last_lsn.or(oldest.previous());
    let next = next_lsn(&found, oldest);
    let plan = match (args.before.and_then(Lsn::new), args.after) {
        (Some(before), _) => Plan::before(&args.log, before, (&found, next)).map_err(|error| {
            let what = format!("cannot read the segments: {error}");
            Failure::new(Exit::Failed, what).at(args.log.display()).next("try again")
        })?,
        (None, Some(after)) => Plan::after(after.0, (oldest, last, next)).map_err(fail)?,
        (None, None) => unreachable!("clap asks for one of them"),
    };
    if args.yes {
        carry_out(args, (&plan, &found), (&opener, &reader)).map_err(fail)?;
    }
    let would = if args.yes { Exit::Fine } else { forecast(args, (&plan, &found), &opener) };
    let mut out = Output::lock();
    args.look.show(&mut out, &Answer::of(args, &plan, &found), |out| {
        if would == Exit::Fine || !plan.is_empty() {
            tell(out, args, (&plan, &found));
        }
        if !args.yes && !plan.is_empty() {
            let log = typed(&args.log);
            let how = format!("; to do it: seawall truncate {log} {} --yes", end(args));
            let how = if would == Exit::Fine { how } else { String::new() };
            out.line("");
            out.line(&format!("nothing was changed{how}"));
        }
    });
    Ok(would.worse(out.finish()))
}

/// Opens the log and removes no more than the plan shows. Opening after a crash creates a segment,
/// so otherwise a truncation could remove more segments than the plan.
fn carry_out(
    args: &Truncate,
    (plan, found): (&Plan, &Verification),
    (opener, reader): (&Opener, &LogReader<[u8], Raw>),
) -> Result<(), Error> {
    let log = &args.log;
    if found.summary.in_use {
        return Err(Error::Busy { log: Some(log.clone()) });
    }
    if plan.is_empty() {
        // In a damaged log, it is unknown which records precede or follow a record.
        return lost(found).map_or(Ok(()), Err);
    }
    // This process starts no further segment, so it could not reuse the file of a removed one.
    let options = opener.options().create(false).reuse(false).name_ahead(false);
    let log: Log<[u8], Raw> = options.codec(reader.codec()).schema(reader.schema()).open(log)?;
    if !args.look.quiet {
        tell_recovery(&args.log, &log);
    }
    match *plan {
        Plan { new_end: Some(Last(last)), .. } => log.truncate_after(last)?,
        Plan { oldest, .. } => drop(log.truncate_before(oldest)?),
    }
    log.close()
}

/// Prints to standard error what would make `--yes` fail.
fn forecast(args: &Truncate, (plan, found): (&Plan, &Verification), opener: &Opener) -> Exit {
    if found.summary.in_use && !args.look.quiet {
        say("seawall: a writer has the log open: --yes works once it has ended");
    }
    let prevents = lost(found).or_else(|| {
        let opens = !plan.is_empty() && found.verdict == Verdict::Correctable;
        opens.then(|| prevents_opening(&args.log, opener)).flatten()
    });
    prevents.map_or(Exit::Fine, |error| Failure::of(&error, "truncate", &args.log).tell())
}

/// The damage of a readable log that prevents opening it for writing.
fn prevents_opening(log: &Path, opener: &Opener) -> Option<Error> {
    match opener.maintenance(log).plan_truncation() {
        Ok(cut) => cut.damage.first().map(|damage| Error::damaged(damage.clone())),
        Err(error) => Some(error),
    }
}

/// The first damage that loses records.
fn lost(found: &Verification) -> Option<Error> {
    let damage = found.damage.iter().find(|damage| damage.lost.is_some());
    let damage = damage.filter(|_| found.verdict == Verdict::Lost)?;
    Some(Error::damaged(damage.clone()))
}

answer! {
    /// `seawall truncate --json`
    #[serde(tag = "schema", rename = "seawall.truncate/1")]
    struct Answer(args: &Truncate, plan: &Plan, found: &Verification) {
        log: String = args.log.display().to_string(),
        done: bool = args.yes,
        records: u64 = plan.records(&found.given_up),
        first_lsn: Option<u64> = plan.goes.map(|(first, _)| first.get()),
        last_lsn: Option<u64> = plan.goes.map(|(_, last)| last.get()),
        segments: Option<u64> = plan.files.map(|(segments, _)| segments),
        bytes: Option<u64> = plan.files.map(|(_, bytes)| bytes),
        oldest_lsn: u64 = plan.oldest.get(),
        next_lsn: u64 = plan.next.get(),
    }
}

fn tell(out: &mut Output, args: &Truncate, (plan, found): (&Plan, &Verification)) {
    let log = args.log.display();
    let verb = if args.yes { "removed" } else { "would be removed" };
    let Some((first, last)) = plan.goes else {
        out.line(&format!("{log}   nothing to remove"));
        if let (Some(before), true) = (args.before, plan.oldest < plan.next) {
            let oldest = plan.oldest;
            out.line(&format!(
                "  only whole segments are removed: none has all its records before {before}"
            ));
            out.line(&format!("  oldest     LSN {oldest}"));
        }
        return;
    };
    out.line(&format!("{log}   {} {verb}", count(plan.records(&found.given_up), "record")));
    out.line(&format!("  records    {}", span_of(first, last)));
    if let Some((segments, bytes)) = plan.files {
        let (segments, bytes) = (count(segments, "segment"), text::bytes(bytes));
        out.line(&format!("  files      {segments}   {bytes}"));
    }
    let after = if args.yes { "is" } else { "would be" };
    if plan.new_end.is_some() {
        out.line(&format!("  next       LSN {} {after} the next record", plan.next));
    } else {
        out.line(&format!("  oldest     LSN {} {after} the first left", plan.oldest));
    }
}

/// The truncation as options of the command line.
fn end(args: &Truncate) -> String {
    match (args.before, args.after) {
        (Some(before), _) => format!("--before {before}"),
        (None, Some(after)) => {
            format!("--after {}", after.0.map_or("none".to_owned(), |last| last.to_string()))
        }
        (None, None) => String::new(),
    }
}
