//! `seawall protect`: verifies the log, then adds missing parity.

use super::mended::{beyond_parity, protection, restorable};
use crate::args::Protect;
use crate::commands::opener::Opener;
use crate::commands::records::cat::judge_end;
use crate::output::progress::Progress;
use seawall::format::SegmentId;
use seawall::parity::{Parity, Protection};
use seawall::{Error, Lsn};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{self, count, to_u64, typed};
use serde::Serialize;
use std::io::ErrorKind;

/// Verifies the log, then adds missing parity; exits according to the verdict.
pub(crate) fn run(args: &Protect) -> Result<Exit, Failure> {
    let fail = |error: Error| Failure::of(&error, "protect", &args.log);
    let opener = Opener::of(&args.key)?;
    let mut progress = Progress::start(args.patience, args.look.quiet)?;
    let found = opener.maintenance(&args.log).progress(|at| progress.hear(at)).verify();
    progress.end();
    let found = found.map_err(fail)?;
    if let Some(damage) = beyond_parity(&args.log, &found).map_err(fail)? {
        return Err(fail(Error::damaged(damage)));
    }
    // The damaged bytes contradict the parity that restores them: none may be made from them, and
    // the parity must stay.
    if !found.mended.is_empty() {
        return Err(restorable(&args.log, found.mended.len()));
    }
    let before = protection(&args.log, &found).map_err(fail)?;
    let scheme = args.parity.or(before.scheme).unwrap_or(Parity::DEFAULT);
    if !args.dry_run {
        opener.maintenance(&args.log).build_parity(scheme).map_err(|error| match &error {
            Error::Io { source, .. } if source.kind() == ErrorKind::InvalidData => {
                fail(error).next("check that the records are correct, then remove that file")
            }
            _ => fail(error),
        })?;
    }
    let after = protection(&args.log, &found).map_err(fail)?;
    let told = Told { args, scheme, before: &before, after: &after };
    let mut out = Output::lock();
    args.look.show(&mut out, &Answer::of(&told), |out| told.tell(out));
    let written = out.finish();
    Ok(judge_end(&args.log, &found, (Lsn::FIRST, Exit::Fine)).worse(written))
}

answer! {
    /// `seawall protect --json`
    #[serde(tag = "schema", rename = "seawall.protect/1")]
    struct Answer(told: &Told<'_>) {
        log: String = told.args.log.display().to_string(),
        dry_run: bool = told.args.dry_run,
        parity: String = told.scheme.to_string(),
        kept: Option<String> = told.before.scheme.map(|scheme| scheme.to_string()),
        bytes: u64 = told.after.bytes,
        covered_before: u64 = told.before.covered,
        covered: u64 = told.after.covered,
        parity_bytes: u64 = told.after.parity_bytes,
        made: Vec<u64> = numbers(&told.made().1),
        lacking: Vec<u64> = numbers(&told.after.open),
        unsure_bytes: u64 = told.after.unsure,
    }
}

pub(super) fn numbers(ids: &[SegmentId]) -> Vec<u64> {
    ids.iter().copied().map(SegmentId::get).collect()
}

/// The parity of the log before and after.
struct Told<'a> {
    args: &'a Protect,
    scheme: Parity,
    before: &'a Protection,
    after: &'a Protection,
}

impl Told<'_> {
    /// Returns how many bytes got parity, or would get it, and their segments.
    fn made(&self) -> (u64, Vec<SegmentId>) {
        let Self { before, after, .. } = self;
        let all = if self.args.dry_run { before.bytes - before.unsure } else { after.covered };
        let bytes = all.saturating_sub(before.covered);
        let may_be_all = self.args.dry_run || after.unsure > 0;
        let is_made = |id: &&SegmentId| bytes > 0 && (may_be_all || !after.open.contains(id));
        (bytes, before.open.iter().filter(is_made).copied().collect())
    }

    fn tell(&self, out: &mut Output) {
        let Self { args, scheme, before, after } = self;
        let (log, covered) = (args.log.display(), text::bytes(after.covered));
        let (of, (bytes, made)) = (text::bytes(after.bytes), self.made());
        out.line(&format!("{log}   parity of {covered} of {of}"));
        let what = if args.dry_run { "would make" } else { "made" };
        if !made.is_empty() {
            let (beside, bytes) = (beside(&made), text::bytes(bytes));
            out.line(&format!("  {what:<11}{scheme} {beside}: {bytes} had none"));
        } else if after.open.is_empty() {
            out.line("  made       nothing: all records have parity");
        }
        let typed = typed(&args.log);
        if after.unsure > 0 {
            let unsure = text::bytes(after.unsure);
            let newest = after.open.last().map(|id| beside(&[*id])).unwrap_or_default();
            out.line(&format!("  lacking    {newest}: nothing says that the last {unsure} are"));
            out.line("             durable; open the log, which makes them so, and try again:");
            out.line(&format!("      seawall append {typed} < /dev/null"));
        } else if !args.dry_run && !after.open.is_empty() {
            let lacking = beside(&after.open);
            out.line(&format!("  lacking    {lacking}: repair the log, then try again"));
        }
        out.line(&format!("  takes      {}", text::bytes(after.parity_bytes)));
        if args.dry_run && !made.is_empty() {
            out.line("");
            out.line(&format!("nothing was changed; to do it: seawall protect {typed}"));
        }
        if before.scheme.is_none() {
            out.line("");
            out.line("new records get no parity; to change that:");
            out.line(&format!("      seawall append {typed} --parity {scheme} < /dev/null"));
        }
    }
}

/// Names a segment, or counts several.
fn beside(ids: &[SegmentId]) -> String {
    if let [one] = ids {
        return format!("beside segment {one}");
    }
    format!("beside {}", count(to_u64(ids.len()), "segment"))
}
