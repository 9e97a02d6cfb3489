//! `seawall copy`: an online backup.

use crate::args::Copy;
use crate::commands::opener::Opener;
use crate::commands::records::cat::judge_tail;
use crate::commands::{answers, outside};
use crate::output::progress::Progress;
use seawall::Error;
use seawall::verify::Verdict;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{count, span_of, typed};

/// Copies the log to a new directory.
pub(crate) fn run(args: &Copy) -> Result<Exit, Failure> {
    let opener = Opener::of(&args.key)?;
    opener.check(&args.log).map_err(|error| failed(args, &error))?;
    outside::check_path(&args.target)?;
    let mut progress = Progress::start(args.patience, args.look.quiet)?;
    let copied =
        opener.maintenance(&args.log).progress(|at| progress.hear(at)).back_up(&args.target);
    progress.end();
    let copied = copied.map_err(|error| failed(args, &error))?;
    let mut out = Output::lock();
    args.look.show(&mut out, &answers::Copy::of(&args.log, &args.target, &copied), |out| {
        let range = match (copied.first, copied.last) {
            (Some(first), Some(last)) => {
                format!("{}, {}", count(copied.records, "record"), span_of(first, last))
            }
            _ => "no record".to_owned(),
        };
        out.line(&format!("{}: {range}, durable", args.target.display()));
    });
    Ok(judge_tail(&args.log, copied.tail, "").worse(out.finish()))
}

/// Returns the error of a failed copy. A copy takes the files as they are, so it fails at damage
/// that parity restores for readers. The library's error then names records that are not lost.
fn failed(args: &Copy, error: &Error) -> Failure {
    let Copy { log, target, .. } = args;
    if matches!(error, Error::Damaged { .. }) {
        let found = seawall::Maintenance::at(log).verify();
        if found
            .is_ok_and(|found| found.verdict == Verdict::Correctable && !found.mended.is_empty())
        {
            let what = format!(
                "{} is damaged, and parity can restore it: no record is lost",
                log.display()
            );
            let typed = typed(log);
            let next = format!(
                "seawall repair {typed} --yes, while no writer has it open; then copy it again"
            );
            return Failure::new(Exit::Correctable, what).at(log.display()).next(next);
        }
    }
    Failure::of_making(error, "copy", (log, target))
}
