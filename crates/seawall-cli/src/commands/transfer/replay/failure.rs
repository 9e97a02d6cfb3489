//! Why a replay stopped: what, where, what next.

use crate::args::Replay as Args;
use crate::output::report::{Exit, Failure};
use crate::output::text::typed;
use seawall_replay::Error;

/// The error of a replay, as a person reads it.
pub(super) fn of(error: &Error, args: &Args) -> Failure {
    let (log, into) = (&args.log, &args.into);
    let place = format!("{}, on the way to {into}", log.display());
    match error {
        Error::Log(seawall::Error::Decode { lsn, source, .. }) => {
            let what = format!("LSN {lsn} is not an operation: {source}");
            let failure = Failure::new(Exit::Usage, what).at(log.display());
            let next = format!("seawall cat {} --from {lsn} -n 1, to see it", typed(log));
            failure.next(format!("{next}; give a log of operations: seawall replay --help"))
        }
        Error::Log(error) => Failure::of(error, "replay", log),
        Error::InvalidOption { .. } => {
            Failure::new(Exit::Usage, error).at("the command line").next("seawall replay --help")
        }
        Error::OtherLog { .. } | Error::OtherHistory { .. } | Error::Unproven { .. } => {
            Failure::new(Exit::Conflict, error).at(place).next(next_after(error, args))
        }
        Error::Ahead { applied, last: None } => {
            let what = format!("{into} has applied LSN {applied}, and the log ends before that");
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
        Error::NeverBegan { lsn, .. } => format!(
            "if what came before was truncated away: --from a later LSN, into what was loaded with \
             the state there; else the program that logged LSN {lsn} has a bug"
        ),
        Error::Apply { .. } => {
            "see what logged it: a row needs its table, created before, and a merge its operator; \
             what was applied is kept, and the next replay continues there"
                .to_owned()
        }
        Error::Store { .. } => {
            "remove the cause, then replay again: nothing is applied twice".to_owned()
        }
        Error::Pruned { oldest, .. } => format!(
            "begin with a target that was loaded with the state before LSN {oldest}, and --from \
             {oldest}"
        ),
        Error::Ahead { .. } => {
            format!("give the log that it belongs to; seawall verify {} says", typed(&args.log))
        }
        Error::OtherLog { .. } => format!(
            "give the log that {into} belongs to; or make it again: empty, from this log, or from \
             a dump of this log's state and --from the record behind it"
        ),
        Error::OtherHistory { .. } => format!(
            "make {into} again: empty, from this log, or from a dump of this log's state and \
             --from the record behind it"
        ),
        Error::Unproven { .. } => {
            let log = typed(&args.log);
            format!(
                "if {into} was brought back from this log, which was not truncated since to before \
                 what it has applied: the same command with --adopt, once; else make it again \
                 from {log}"
            )
        }
        Error::Watermarks { .. } => "begin with a new store".to_owned(),
        Error::Spill(_) => {
            "make room in the folder for temporary files, or set TMPDIR to another".to_owned()
        }
        _ => "replay again: what is applied is not applied twice".to_owned(),
    }
}
