//! `seawall copy`: an online backup.

use crate::args::Copy;
use crate::human::{count, span_of};
use crate::output::Output;
use crate::progress::Progress;
use crate::report::{Exit, Failure};
use seawall::Lsn;
use serde_json::json;

/// Copies the log to a directory that is not there yet.
pub(crate) fn run(args: &Copy) -> Result<Exit, Failure> {
    let mut progress = Progress::start(args.patience, args.look.quiet)?;
    let copied = seawall::copy_with(&args.log, &args.target, |at| progress.hear(at));
    progress.end();
    let copied =
        copied.map_err(|error| Failure::of_making(&error, "copy", (&args.log, &args.target)))?;
    let mut out = Output::new();
    if args.look.json {
        let answer = json!({
            "schema": "seawall.copy/1",
            "log": args.log.display().to_string(),
            "target": args.target.display().to_string(),
            "first_lsn": copied.first.map(Lsn::get),
            "last_lsn": copied.last.map(Lsn::get),
            "bytes": copied.bytes,
        });
        out.line(&answer.to_string());
    } else if !args.look.quiet {
        let range = match (copied.first, copied.last) {
            (Some(first), Some(last)) => {
                let records = count(last.get() + 1 - first.get(), "record");
                format!("{records}, {}", span_of(first, last))
            }
            _ => "no record".to_owned(),
        };
        out.line(&format!("{}: {range}, durable", args.target.display()));
    }
    Ok(out.finish())
}
