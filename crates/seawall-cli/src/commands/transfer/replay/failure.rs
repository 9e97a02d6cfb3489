//! Errors of a replay: what, where, and what next.

use crate::args::Replay as Args;
use seawall_output::report::{Exit, Failure};
use seawall_output::text::typed;
use seawall_replay::Error;

/// Converts the error of a replay for people.
pub(super) fn of(error: &Error, args: &Args) -> Failure {
    let (log, into) = (&args.log, &args.into);
    let place = format!("{}, replayed into {into}", log.display());
    match error {
        Error::Log(seawall::Error::Decode { lsn, source, .. }) => {
            let what = format!("LSN {lsn} is not an operation: {source}");
            let failure = Failure::new(Exit::Usage, what).at(log.display());
            let next = format!("seawall cat {} --from {lsn} -n 1, to see it", typed(log));
            let append = "append operations with --format json";
            failure.next(format!("{next}; {append}: seawall replay --help"))
        }
        Error::Log(error) => Failure::of(error, "replay", log),
        Error::InvalidOption { .. } => {
            Failure::new(Exit::Usage, error).at("the command line").next("seawall replay --help")
        }
        Error::Incomplete { .. } => {
            Failure::new(Exit::Lost, error).at(place).next(next_after(error, args))
        }
        Error::OtherLog { .. } | Error::OtherHistory { .. } | Error::Unproven { .. } => {
            Failure::new(Exit::Conflict, error).at(place).next(next_after(error, args))
        }
        // A new target, or json, which start there.
        Error::Ahead { applied, last } if args.from == Some(applied.next().get()) => {
            let last =
                last.map_or("holds nothing".to_owned(), |last| format!("ends at LSN {last}"));
            let failure = Failure::new(Exit::Usage, format!("the log {last}"));
            failure.at(format!("--from {}", applied.next())).next("give a number that exists")
        }
        Error::Ahead { applied, last: None } => {
            let what = format!("{into} has applied LSN {applied}, but the log ends before that");
            Failure::new(Exit::Failed, what).at(place).next(next_after(error, args))
        }
        _ => {
            Failure::new(Exit::Failed, format!("{error:#}")).at(place).next(next_after(error, args))
        }
    }
}

fn next_after(error: &Error, args: &Args) -> String {
    let into = &args.into;
    match error {
        Error::Incomplete { .. } if args.accept.skip_incomplete => {
            "some partitions of the store have applied it: use a new store".to_owned()
        }
        Error::Incomplete { .. } => {
            "replay a copy of the log that has these records, for example a replica; or, to go on \
             without such transactions: the same command with --skip-incomplete"
                .to_owned()
        }
        Error::NeverBegan { lsn, .. } => format!(
            "if it began earlier: load the state of an LSN at which it is not open, and give \
             --from that LSN; otherwise the program that logged LSN {lsn} has a bug; to go on \
             without such transactions: the same command with --skip-incomplete"
        ),
        Error::Apply { .. } => {
            "check the program that logged it: a row needs an existing table, and a merge a known \
             operator; what was applied is kept, and the next replay continues there"
                .to_owned()
        }
        Error::Store { .. } => {
            "fix the cause, then replay again: nothing is applied twice".to_owned()
        }
        Error::Flush(_) => format!(
            "if the device is full, free some space; otherwise check the device; then replay \
             again, which refuses {into} if it may lack changes that it still shows: rebuild it \
             then"
        ),
        Error::Pruned { oldest, .. } => format!(
            "use a target that was loaded with the state before LSN {oldest}, and --from \
             {oldest}"
        ),
        Error::Ahead { .. } => {
            format!(
                "give the log that it belongs to; seawall verify {} checks this one",
                typed(&args.log)
            )
        }
        Error::OtherLog { .. } => format!(
            "give the log that {into} belongs to; or rebuild it: empty from this log, or from a \
             dump of this log's state and --from the next record"
        ),
        Error::OtherHistory { .. } => format!(
            "rebuild {into}: empty from this log, or from a dump of this log's state and --from \
             the next record"
        ),
        Error::Unproven { .. } => {
            let log = typed(&args.log);
            format!(
                "if {into} was built from this log, which was not truncated since before what it \
                 has applied: the same command with --adopt, once; else rebuild it from {log}"
            )
        }
        Error::Watermarks { .. } => "use a new store".to_owned(),
        Error::Spill(_) => {
            "free some space for temporary files, or set TMPDIR to another directory".to_owned()
        }
        Error::Thread(_) => {
            "replay again when fewer threads run, or with fewer --threads: nothing is applied twice"
                .to_owned()
        }
        _ => "replay again: nothing is applied twice".to_owned(),
    }
}
