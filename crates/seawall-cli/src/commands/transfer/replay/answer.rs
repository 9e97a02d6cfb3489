//! The result of a replay or dry run, for people and programs.

use crate::args::{Replay as Args, Target};
use seawall::Lsn;
use seawall_output::answer;
use seawall_output::text::{count, number, rounded, typed};
use seawall_replay::{Plan, Report, TxId, Unfinished};
use serde::Serialize;
use std::path::Path;
use std::time::Duration;

/// The result.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The first record read.
    pub(super) from: Lsn,
    /// The last record read.
    pub(super) last: Option<Lsn>,
    pub(super) records: u64,
    /// Records that a repair gave up.
    pub(super) given_up: u64,
    /// Transactions that were applied, or would be.
    pub(super) applied: u64,
    pub(super) had: u64,
    pub(super) aborted: u64,
    pub(super) unfinished: u64,
    pub(super) oldest_unfinished: Option<Unfinished>,
    /// Transactions that lack records, and were skipped.
    pub(super) incomplete: u64,
    pub(super) changes: u64,
    /// `None` for a dry run.
    pub(super) done: Option<Done>,
}

/// The changes of a replay that was not a dry run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    /// `None` for JSON lines, which have no batches.
    pub(super) fed: Option<Fed>,
    pub(super) time: Duration,
    /// The last commit that the target has.
    pub(super) applied_lsn: Option<Lsn>,
}

/// The result of a target with a watermark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fed {
    pub(super) writes: u64,
    pub(super) batches: u64,
    pub(super) partitions: u32,
    /// The first record that the target may still need.
    pub(super) needed_from: Lsn,
}

impl Answer {
    pub(super) fn of_plan(plan: &Plan) -> Self {
        Self {
            from: plan.from,
            last: plan.last,
            records: plan.records,
            given_up: plan.given_up,
            applied: plan.committed - plan.applied_before,
            had: plan.applied_before,
            aborted: plan.aborted,
            unfinished: plan.unfinished,
            oldest_unfinished: plan.oldest_unfinished,
            incomplete: plan.incomplete,
            changes: plan.changes,
            done: None,
        }
    }

    pub(super) fn of_report(report: &Report) -> Self {
        let done = Done {
            fed: Some(Fed {
                writes: report.writes,
                batches: report.batches,
                partitions: report.partitions,
                needed_from: report.needed_from,
            }),
            time: report.applying,
            applied_lsn: report.applied_lsn,
        };
        Self {
            from: report.from,
            last: report.last,
            records: report.records,
            given_up: report.given_up,
            applied: report.applied,
            had: report.committed.saturating_sub(report.applied),
            aborted: report.aborted,
            unfinished: report.unfinished,
            oldest_unfinished: report.oldest_unfinished,
            incomplete: report.incomplete,
            changes: report.changes,
            done: Some(done),
        }
    }

    pub(super) fn lines(&self, args: &Args) -> Vec<String> {
        let applied = count(self.applied, "transaction");
        let keeps_no_place = matches!(args.into, Target::Output | Target::File(_));
        let fate = match self.done {
            None => "would be applied",
            Some(_) if keeps_no_place => "written",
            Some(_) => "applied",
        };
        let Self { had, aborted, unfinished, .. } = self;
        let [had, aborted, unfinished] = [had, aborted, unfinished].map(|count| number(*count));
        let had_is = if keeps_no_place { "before --from" } else { "had already" };
        let records = count(self.records, "record");
        let mut lines = vec![
            format!("{} into {}   {applied} {fate}", args.log.display(), args.into),
            format!("  read         {records}, from LSN {} on", self.from),
            format!("  skipped      {had} {had_is}, {aborted} aborted, {unfinished} unfinished"),
        ];
        if let Some(Unfinished { tx, lsn }) = self.oldest_unfinished {
            lines.push(format!("  unfinished   the oldest is transaction {tx}, since LSN {lsn}"));
        }
        lines.extend(self.says_given_up());
        let changes = format!("  changes      {}", number(self.changes));
        match &self.done {
            None => lines.extend([changes, String::new(), "nothing was changed".to_owned()]),
            Some(Done { fed: None, .. }) => lines.push(changes),
            Some(Done { fed: Some(fed), applied_lsn, .. }) => {
                lines.push(changes + &fed.says());
                lines.extend(
                    self.rate()
                        .map(|rate| format!("  rate         {} changes a second", rounded(rate))),
                );
                lines.push(match applied_lsn {
                    Some(lsn) => format!("  applied      up to LSN {lsn}, durably"),
                    None => "  applied      nothing so far".to_owned(),
                });
                lines.push(fed.says_needed(&args.log));
            }
        }
        lines
    }

    /// What a repair of the log gave up, and what was skipped for that reason.
    fn says_given_up(&self) -> Option<String> {
        let (records, skipped) = (count(self.given_up, "record"), number(self.incomplete));
        match (self.given_up, self.incomplete) {
            (0, 0) => None,
            (0, _) => Some(format!("  incomplete   {skipped} skipped: their begin was not read")),
            (_, 0) => Some(format!("  given up     {records}, by a repair of the log")),
            _ => Some(format!("  given up     {records}; skipped {skipped} incomplete for that")),
        }
    }

    /// Returns the result of a target with a watermark; `None` for other targets and dry runs.
    fn fed(&self) -> Option<Fed> {
        self.done.and_then(|done| done.fed)
    }

    /// Changes per second, if there were any.
    fn rate(&self) -> Option<f64> {
        let time = self.done.as_ref()?.time.as_secs_f64();
        (self.changes > 0 && time > 0.0).then(|| seawall_output::text::to_f64(self.changes) / time)
    }
}

answer! {
    /// `seawall replay --json`
    #[serde(tag = "schema", rename = "seawall.replay/1")]
    pub(super) struct Told(args: &Args, answer: &Answer) {
        log: String = args.log.display().to_string(),
        into: String = args.into.to_string(),
        dry_run: bool = args.dry_run,
        from_lsn: u64 = answer.from.get(),
        records: u64 = answer.records,
        given_up: u64 = answer.given_up,
        applied: u64 = answer.applied,
        had_already: u64 = answer.had,
        aborted: u64 = answer.aborted,
        unfinished: u64 = answer.unfinished,
        oldest_unfinished: Option<OldestUnfinished> =
            answer.oldest_unfinished.as_ref().map(OldestUnfinished::of),
        incomplete: u64 = answer.incomplete,
        changes: u64 = answer.changes,
        writes: Option<u64> = answer.fed().map(|fed| fed.writes),
        batches: Option<u64> = answer.fed().map(|fed| fed.batches),
        lanes: Option<u32> = answer.fed().map(|fed| fed.partitions),
        seconds: Option<f64> = answer.done.map(|done| done.time.as_secs_f64()),
        changes_per_s: Option<f64> = answer.rate().map(f64::round),
        applied_lsn: Option<u64> = answer.done.and_then(|done| done.applied_lsn).map(Lsn::get),
        needed_from_lsn: Option<u64> = answer.fed().map(|fed| fed.needed_from.get()),
    }
}

answer! {
    /// The oldest unfinished transaction.
    struct OldestUnfinished(oldest: &Unfinished) {
        tx: TxId = oldest.tx,
        lsn: u64 = oldest.lsn.get(),
    }
}

impl Fed {
    fn says(&self) -> String {
        let batches = match self.batches {
            1 => "1 batch".to_owned(),
            many => format!("{} batches", number(many)),
        };
        let (writes, partitions) =
            (count(self.writes, "write"), count(self.partitions.into(), "partition"));
        format!(", as {writes} in {batches}, {partitions}")
    }

    fn says_needed(&self, log: &Path) -> String {
        let lsn = self.needed_from;
        if lsn == Lsn::FIRST {
            return "  needed       all of the log".to_owned();
        }
        let next = format!("seawall truncate {} --before {lsn}", typed(log));
        format!("  needed       from LSN {lsn} on, so this is safe: {next}")
    }
}
