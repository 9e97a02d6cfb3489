//! What a repair takes from the replicas alone, and what it does not take from them.

use crate::commands::maintenance::verify::range;
use seawall::Lsn;
use seawall::damage::Lost;
use seawall::repair::{RepairPlan, SalvageReport};
use seawall_output::report::Exit;
use seawall_output::stdout::Output;

/// What rests on the replicas, in a repair in place or a salvage.
pub(super) struct Trust<'a> {
    end: Option<Lsn>,
    unproven: &'a [Lost],
    refused: &'a [Lost],
    beyond: Option<Lsn>,
}

impl<'a> Trust<'a> {
    pub(super) fn of_repair(plan: &'a RepairPlan) -> Self {
        let (end, beyond) = (plan.end_by_replica, plan.beyond);
        Self { end, unproven: &plan.unproven, refused: &plan.refused, beyond }
    }

    pub(super) fn of_salvage(report: &'a SalvageReport) -> Self {
        let (end, beyond) = (report.end_by_replica, report.beyond);
        Self { end, unproven: &report.unproven, refused: &report.refused, beyond }
    }

    /// `Unsure` if only a replica knows the end of the log or the records of a file: there may have
    /// been others.
    pub(super) fn exit(&self) -> Exit {
        let is_unsure = self.end.is_some() || !self.unproven.is_empty();
        if is_unsure { Exit::Unsure } else { Exit::Fine }
    }

    pub(super) fn tell(&self, out: &mut Output) {
        for lost in self.unproven {
            out.line(&format!("  unknown    {}", range(lost)));
            let what = "nothing of that file is left here: only the replica has its content";
            out.line(&format!("             {what}"));
        }
        for lost in self.refused {
            out.line(&format!("  not taken  {}", range(lost)));
            out.line(
                "             the replica has these records, but nothing here proves that they",
            );
            out.line("             belong to this log: seawall cat REPLICA shows them");
        }
        if let Some(last) = self.end {
            let what = "whether there were more records after LSN";
            out.line(&format!("  unknown    {what} {last}, where"));
            out.line("             the replica ends");
        }
        if let Some(last) = self.beyond {
            let what = "the replica's records after the end, up to LSN";
            out.line(&format!("  not taken  {what} {last}"));
        }
    }
}
