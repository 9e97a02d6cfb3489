//! Committed transactions as lines of JSON.

use super::answer::{Answer, Done};
use super::job::{Ended, Job};
use super::tables::Tables;
use crate::args::{ForeignFormat, Replay as Args};
use crate::commands::transfer::convert::target::{Made, Refusal, Target};
use crate::commands::transfer::operations::OperationLog;
use seawall::Lsn;
use seawall::format::RecordId;
use seawall_measure::machine::Stopwatch;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::{Output, harmless_json};
use seawall_replay::{Change, Error, Replay, Source, Transaction, Transactions, Watermark};
use serde::Serialize;
use std::path::Path;

/// Prints one line per transaction to standard output until its reader closes the pipe.
pub(super) fn to_output(job: &mut Job<'_>) -> Result<Ended, Failure> {
    let mut out = Output::lock();
    let written = dump(job, |line| {
        out.line(&harmless_json(line));
        Ok(out.is_open())
    });
    // Flush the output before an error is reported.
    let is_open = out.is_open();
    let exit = out.finish();
    let answer = written?;
    let is_heard = is_open && exit == Exit::Fine;
    Ok(if is_heard { Ended::Told(answer) } else { Ended::Unheard(exit) })
}

/// Writes the lines to a new file, which gets its name once it is complete and durable.
pub(super) fn to_file(job: &mut Job<'_>, path: &Path) -> Result<Ended, Failure> {
    if job.args.dry_run {
        return dump(job, |_| Ok(true)).map(Ended::Told);
    }
    let mut file = Target::open_file(path, ForeignFormat::Json)?;
    let answer = dump(job, |line| match file.put(line.as_bytes()) {
        Ok(()) => Ok(true),
        Err(Refusal::Failed(failure)) => Err(failure),
        Err(Refusal::TooLarge { .. }) => unreachable!("a file takes lines of any length"),
    })?;
    let (Made::New | Made::Same) = file.finish()?;
    Ok(Ended::Told(answer))
}

/// Passes each line to `put`, until `put` returns false.
fn dump(
    job: &mut Job<'_>,
    mut put: impl FnMut(&str) -> Result<bool, Failure>,
) -> Result<Answer, Failure> {
    let watch = Stopwatch::start();
    let mut walk = transactions(job.replay(), &job.source, job.args)?;
    let mut answer = Answer::of_plan(walk.plan());
    if job.args.dry_run {
        return Ok(answer);
    }
    let (from, last) = (walk.plan().from.get(), walk.plan().last.map_or(0, Lsn::get));
    let (mut changes, mut applied, mut tables) = (0, None, Tables::new(job, None)?);
    for transaction in &mut walk {
        let transaction = transaction.map_err(|error| super::failure::of(&error, job.args))?;
        tables.check(job, &transaction)?;
        let lsn = transaction.lsn;
        changes += u64::try_from(transaction.changes.len()).unwrap_or(u64::MAX);
        applied = Some(lsn);
        job.progress
            .tell((lsn.get() + 1).saturating_sub(from), Some(last.saturating_sub(from) + 1));
        if !put(&line(&transaction)?)? {
            break;
        }
    }
    answer.changes = changes;
    let (time, applied_lsn) = (watch.elapsed(), applied);
    answer.done = Some(Done { fed: None, time, applied_lsn });
    Ok(answer)
}

/// Transactions committed at `--from` or later; without it, all in the log.
fn transactions<'a>(
    replay: Replay,
    source: &'a OperationLog,
    args: &Args,
) -> Result<Transactions<'a>, Failure> {
    let fail = |error: Error| super::failure::of(&error, args);
    let oldest = source.oldest().map_err(|error| fail(error.into()))?;
    let before = args.from.and_then(Lsn::new).and_then(Lsn::previous);
    // A transaction that began earlier can commit after `from`. Nothing was applied, so there is no
    // history to compare.
    let mark = before.map(|lsn| {
        let applied = Some(RecordId { lsn, time_us: 0, crc: 0 });
        Watermark { log: None, applied, restart: oldest, partitions: 1 }
    });
    replay.from(oldest).adopt().transactions(source, mark).map_err(fail)
}

/// Formats a transaction as one line.
pub(super) fn line(transaction: &Transaction) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Line<'a> {
        lsn: u64,
        changes: Vec<Numbered<'a>>,
    }
    #[derive(Serialize)]
    struct Numbered<'a> {
        lsn: u64,
        #[serde(flatten)]
        change: &'a Change,
    }
    let changes = transaction.changes.iter();
    let changes = changes.map(|(lsn, change)| Numbered { lsn: lsn.get(), change }).collect();
    let line = Line { lsn: transaction.lsn.get(), changes };
    serde_json::to_string(&line).map_err(|error| {
        let what = format!("the transaction at LSN {} is not valid JSON: {error}", transaction.lsn);
        Failure::new(Exit::Failed, what).at("json").next("please report it with the log")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use seawall::format::LogId;

    #[test]
    fn transaction_is_one_line_with_binary_bytes_as_numbers() {
        let lsn = |number| Lsn::new(number).unwrap();
        let changes =
            vec![(lsn(3), Change::put("t", "k", [0xff, 0])), (lsn(4), Change::drop_table("t"))];
        let watermark = Watermark::new(LogId(1), None, lsn(6));
        let transaction = Transaction { lsn: lsn(5), watermark, changes };
        assert_eq!(
            line(&transaction).unwrap(),
            r#"{"lsn":5,"changes":[{"lsn":3,"put":{"table":"t","key":"k","value":[255,0]}},"#
                .to_owned()
                + r#"{"lsn":4,"drop_table":{"table":"t"}}]}"#
        );
    }
}
