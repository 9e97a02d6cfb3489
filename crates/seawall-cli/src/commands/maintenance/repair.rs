//! `seawall repair`: plans a repair, and applies it with `--yes` or `--salvage-to`.

mod answers;
mod trust;

use super::verify::{range, tell_damage, tell_given_up, tell_orphans, tell_tail, tell_verdict};
use crate::args::Repair;
use crate::commands::opener::Opener;
use crate::commands::outside;
use crate::commands::records::cat::judge_tail;
use crate::output::progress::Progress;
use answers::{Cut, Mended, Plan, Salvaged, cut_off, given_up};
use seawall::damage::{Corruption, Damage, Lost};
use seawall::encryption::KeyError;
use seawall::repair::{RepairPlan, SalvageReport, TailTruncation};
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Layout, Lsn, Maintenance};
use seawall_host::identity;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{self, count, span_of, to_u64, typed};
use std::io::ErrorKind;
use std::path::Path;
use trust::Trust;

/// The maximum number of changes to list.
const TOLD: usize = 8;

/// Plans or runs a repair. Damage is restored, where possible, before anything is removed.
pub(crate) fn run(args: &Repair) -> Result<Exit, Failure> {
    args.from_replica.iter().try_for_each(|replica| look_at_replica(args, replica))?;
    let opener = &Opener::of(&args.key)?;
    let fail = |error: Error| failure(args, &error);
    opener.check(&args.log).map_err(fail)?;
    if let Some(target) = &args.salvage_to {
        return salvage(args, opener, target);
    }
    if !args.yes {
        return plan(args, opener);
    }
    let mut maintenance = maintenance(args, opener).until_reported();
    let exit = repair(args, opener, &mut maintenance)?;
    // A repair that is killed before it answers has to answer when it runs again. An error here
    // only repeats the answer then.
    let _ = maintenance.confirm_report();
    Ok(exit)
}

/// Restores what can be restored, and then removes the damaged end if that is wanted.
fn repair(
    args: &Repair,
    opener: &Opener,
    maintenance: &mut Maintenance<'_>,
) -> Result<Exit, Failure> {
    let fail = |error: Error| failure(args, &error);
    let planned = maintenance.plan_repair().map_err(fail)?;
    let is_asked = !args.from_replica.is_empty() || planned.unfinished.is_some();
    if is_asked || !planned.is_empty() {
        let done = maintenance.repair().map_err(fail)?;
        let is_whole = done.after.damage.is_empty() && unreported_cut(maintenance).is_none();
        if !args.cut_tail || is_whole {
            return Ok(mended(args, &done));
        }
        // With JSON, one answer reports both repairs; without, print the first result in any case.
        if !args.look.json {
            mended(args, &done);
        }
        return cut_tail(args, maintenance, &done.after, Some(&done)).inspect_err(|_| {
            if args.look.json {
                mended(args, &done);
            }
        });
    }
    if !args.cut_tail {
        if planned.before.damage.is_empty() {
            return plan(args, opener);
        }
        return Err(unrepaired(args, &planned.before));
    }
    cut_tail(args, maintenance, &planned.before, None)
}

/// The error of `--yes` alone, where parity has no bytes to repair with.
fn unrepaired(args: &Repair, found: &Verification) -> Failure {
    let log = typed(&args.log);
    let (what, next) = if found.verdict == Verdict::Correctable {
        (
            "parity cannot repair this damage in place; all records are readable",
            salvages(args, found),
        )
    } else {
        let what = "--yes needs --cut-tail or --from-replica: parity cannot repair this damage";
        (what, format!("seawall repair {log}, for a plan; --salvage-to NEW keeps the most records"))
    };
    Failure::new(Exit::Usage, what).at(args.log.display()).next(next)
}

/// The advice to copy all records of a readable log.
fn salvages(args: &Repair, found: &Verification) -> String {
    let key = args.key.hint(found.summary.encrypted_segments > 0);
    format!("seawall repair {} --salvage-to NEW{key}, which keeps all of them", typed(&args.log))
}

/// The note of an interrupted truncation that has yet to be reported.
fn unreported_cut(maintenance: &mut Maintenance<'_>) -> Option<String> {
    maintenance.plan_truncation().ok()?.unfinished
}

/// Returns the maintenance of the log with the given replicas.
fn maintenance(args: &Repair, opener: &Opener) -> Maintenance<'static> {
    opener.maintenance(&args.log).replicas(&args.from_replica)
}

/// Refuses a replica that does not exist or is the log itself.
fn look_at_replica(args: &Repair, replica: &Path) -> Result<(), Failure> {
    let next = "check the path that --from-replica was given";
    let found = identity(replica).map_err(|error| {
        let what = match error.kind() {
            ErrorKind::NotFound => format!("no such replica: {}", replica.display()),
            _ => format!("cannot open the replica {}: {error}", replica.display()),
        };
        Failure::new(Exit::Failed, what).at(replica.display()).next(next)
    })?;
    // The same directory may have several paths, also by a bind mount.
    if identity(&args.log).is_ok_and(|log| log == found) {
        let what = "the replica is the log itself";
        return Err(Failure::new(Exit::Usage, what)
            .at(replica.display())
            .next("give another copy of the log, or omit --from-replica"));
    }
    Ok(())
}

/// The error of a failed repair, which can be caused by the replica.
fn failure(args: &Repair, error: &Error) -> Failure {
    let place: &Path = match error {
        Error::Mismatch { what: "the id", has, requested, .. } => {
            let what = format!(
                "the replica belongs to another log: {requested}; the id of this log is {has}"
            );
            return Failure::new(Exit::Usage, what)
                .at(args.log.display())
                .next("give a copy of this log: seawall copy makes one, with the same id");
        }
        Error::NotALog { log: Some(log), .. } => log,
        Error::Unsupported { place, .. } => Path::new(place),
        _ => return Failure::of(error, "repair", &args.log),
    };
    match args.from_replica.iter().find(|replica| place.starts_with(replica)) {
        Some(replica) => Failure::of(error, "repair", replica)
            .next("give a copy of this log: seawall copy makes one, with the same id"),
        None => Failure::of(error, "repair", &args.log),
    }
}

/// Prints what was restored and what was not.
fn mended(args: &Repair, done: &RepairPlan) -> Exit {
    let exit = exit_of_mend(done);
    let mut out = Output::lock();
    args.look.show(&mut out, &Mended::of(args, done), |out| {
        let log = args.log.display();
        let is_all = done.after.damage.is_empty();
        let word = match (done.is_empty() && done.quarantine.is_empty(), is_all) {
            (true, true) => "nothing was damaged",
            (true, false) => "nothing could be restored",
            (false, true) => "restored",
            (false, false) => "restored in part",
        };
        out.line(&format!("{log}   {word}"));
        tell_mend(out, done);
        for damage in &done.after.damage {
            tell_damage(out, damage, done.after.summary.layout);
        }
        for file in &done.quarantine {
            out.line(&format!("  kept       {log}/{file}"));
        }
    });
    exit.worse(out.finish())
}

/// Returns the exit code of a repair in place. If only a replica knows the end of the log, the code
/// is at least `Unsure`: there may have been more records.
fn exit_of_mend(done: &RepairPlan) -> Exit {
    Exit::of(done.after.verdict, false).worse(Trust::of_repair(done).exit())
}

fn tell_mend(out: &mut Output, mend: &RepairPlan) {
    for (patch, change) in mend.patches.iter().zip(&mend.changes).take(TOLD) {
        out.line(&format!("  {:<9}  {}: {change}", patch.by.name(), change.file));
    }
    if mend.changes.len() > TOLD {
        out.line(&format!("             and {} more places", mend.changes.len() - TOLD));
    }
    for stray in &mend.orphan_files {
        out.line(&format!("  orphan     {stray}, not part of the log: it goes to quarantine"));
    }
    Trust::of_repair(mend).tell(out);
}

fn plan(args: &Repair, opener: &Opener) -> Result<Exit, Failure> {
    let fail = |error: Error| failure(args, &error);
    let found = opener.maintenance(&args.log).diagnose().map_err(fail)?;
    let mend = match maintenance(args, opener).plan_repair() {
        Ok(mend) => Some(mend),
        // Without a replica, verification is enough.
        Err(Error::NotALog { .. }) if args.from_replica.is_empty() => None,
        // Nothing can be repaired in place without all headers, but records can be salvaged.
        Err(Error::Io { .. }) if args.from_replica.is_empty() && !found.damage.is_empty() => None,
        Err(error) => return Err(fail(error)),
    };
    let cut = match opener.maintenance(&args.log).plan_truncation() {
        Ok(cut) => Some(cut),
        // Only a holder of the key can truncate an encrypted log.
        Err(Error::Damaged { .. } | Error::Key { source: KeyError::NoKey, .. }) => None,
        // The log cannot be truncated at bytes that the device cannot read.
        Err(Error::Io { .. }) if !found.damage.is_empty() => None,
        Err(error) => return Err(fail(error)),
    };
    let exit = Exit::of(found.verdict, false);
    let (cut, mend) = (cut.as_ref(), mend.as_ref());
    let told = Told { args, found: &found, cut, mend, exit };
    let mut out = Output::lock();
    args.look.show(&mut out, &Plan::of(args, &found, cut, mend), |out| told.tell(out));
    Ok(exit.worse(out.finish()))
}

/// The damage, and the options for repair.
struct Told<'a> {
    args: &'a Repair,
    found: &'a Verification,
    cut: Option<&'a TailTruncation>,
    mend: Option<&'a RepairPlan>,
    exit: Exit,
}

impl Told<'_> {
    fn tell(&self, out: &mut Output) {
        let (log, found) = (self.args.log.display(), self.found);
        tell_verdict(out, &self.args.log, (found.verdict, self.exit));
        out.line(&format!("  intact     {}", count(found.records, "record")));
        for damage in &found.damage {
            tell_damage(out, damage, found.summary.layout);
        }
        tell_given_up(out, &found.given_up);
        tell_tail(out, found);
        tell_orphans(out, &found.orphans);
        out.line("");
        match found.verdict {
            Verdict::Clean if !found.orphans.is_empty() => {
                out.line("there is nothing to repair; to move away files outside the log");
                out.line(&format!("      seawall repair {} --yes", typed(&self.args.log)));
            }
            Verdict::Clean => out.line("there is nothing to repair"),
            Verdict::Torn => {
                out.line("there is nothing to repair: the next open removes the torn write");
            }
            Verdict::Unsure => {
                out.line("the next open moves the ambiguous tail to quarantine;");
                out.line("it may contain the last acknowledged records, or nothing");
            }
            _ => self.tell_ways(out),
        }
        let unfinished = self.mend.and_then(|mend| mend.unfinished.as_ref());
        if let Some(journal) = unfinished {
            out.line(&format!("a repair was interrupted: {log}/{journal}; --yes finishes it"));
        }
        if let Some(note) = self.cut.and_then(|cut| cut.unfinished.as_ref()) {
            out.line(&format!("records were removed: {log}/{note};"));
            out.line("--cut-tail --yes reports them");
        }
        if found.verdict != Verdict::Clean || !found.damage.is_empty() {
            out.line("nothing was changed");
        }
    }

    fn tell_mending(&self, out: &mut Output) {
        let Some(mend) = self.mend.filter(|mend| !mend.is_empty()) else {
            if !self.args.from_replica.is_empty() {
                out.line("  the replica has no valid bytes to repair this");
                self.mend.iter().for_each(|mend| tell_mend(out, mend));
            }
            return;
        };
        out.line("  restore the original bytes in place; the present bytes go to quarantine");
        let log = typed(&self.args.log);
        out.line(&format!("      seawall repair {log}{} --yes", replicas(self.args)));
        out.line(&format!("      keeps {}", count(mend.after.records, "record")));
        let left = to_u64(mend.after.damage.len());
        out.line(&match left {
            0 => "      leaves no damage".to_owned(),
            _ => format!("      leaves {} damaged", count(left, "place")),
        });
        out.line(&format!("      needs {} of free space", text::bytes(mend.quarantine_bytes())));
        tell_mend(out, mend);
    }

    /// Prints advice for files that were moved or copied by hand.
    fn tell_moving(&self, out: &mut Output) {
        use Corruption::{Duplicated, ForeignEpoch, Misplaced, SegmentHeader, SegmentMissing};
        let log = self.args.log.display();
        for damage in self.found.damage.iter().filter(|damage| damage.offset.0 == 0) {
            let Some(id) = damage.segment else { continue };
            let id = match self.found.summary.layout {
                Some(Layout::Text) => {
                    format!("{log}/{}, and its {}", id.head_name(), id.text_name())
                }
                _ => format!("{log}/{}", id.file_name()),
            };
            match damage.cause {
                SegmentMissing => {
                    out.line("  put the file back, if it was moved or is in a backup");
                    out.line(&format!("      {id}"));
                }
                SegmentHeader if damage.bytes == 0 && damage.lost.is_some_and(is_open) => {
                    out.line(
                        "  move the file away, if it was put there by mistake and never was a",
                    );
                    out.line("  segment of this log");
                    out.line(&format!("      {id}"));
                }
                Duplicated | Misplaced | ForeignEpoch if damage.bytes == 0 => {
                    out.line("  move the file away, if it was put there by mistake");
                    out.line(&format!("      {id}"));
                }
                _ => {}
            }
        }
    }

    /// Prints why `--cut-tail` is not offered for a readable log.
    fn tell_needless_cut(&self, out: &mut Output) {
        let is_mended = self.mend.is_some_and(|mend| !mend.is_empty());
        let cut = self.cut.filter(|_| !is_mended);
        if let Some(loss) = cut.and_then(|cut| needless_loss(cut, self.found)) {
            out.line("  --cut-tail is refused: all records are readable, and it would give up");
            out.line(&format!("      {loss}"));
        }
    }

    fn tell_ways(&self, out: &mut Output) {
        let (log, found) = (typed(&self.args.log), self.found);
        let with = replicas(self.args);
        let key = self.args.key.hint(found.summary.encrypted_segments > 0);
        out.line("what can be done:");
        self.tell_moving(out);
        self.tell_mending(out);
        out.line("  copy all intact records to a new log, with their LSNs; this one is only read");
        out.line(&format!("      seawall repair {log}{with} --salvage-to NEW{key}"));
        let is_lost = found.verdict == Verdict::Lost;
        // Salvage keeps restored records, too.
        let found = self.mend.map_or(found, |mend| &mend.after);
        let records = count(found.records - found.broken_sets, "record");
        out.line(&format!("      keeps {records}"));
        if found.broken_sets > 0 {
            let parts = count(found.broken_sets, "intact record");
            out.line(&format!("      gives up {parts} of incomplete atomic sets"));
        }
        if !is_lost {
            self.tell_needless_cut(out);
            return;
        }
        if let Some(cut) = self.cut.filter(|cut| !cut.damage.is_empty()) {
            out.line("  remove everything from the damage on; it is kept in quarantine");
            out.line(&format!("      seawall repair {log} --cut-tail --yes{key}"));
            out.line(&format!("      {}", kept(cut.last)));
            if cut.intact_behind > 0 {
                let intact = count(cut.intact_behind, "intact record");
                out.line(&format!("      gives up {intact} after it"));
            }
            out.line(&format!("      needs {} of free space", text::bytes(cut.room)));
        }
        out.line("  read around the damage");
        out.line(&format!("      seawall cat {log} --skip-damaged{key}"));
    }
}

/// Returns what `--cut-tail` would give up of a log that can be read completely.
fn needless_loss(cut: &TailTruncation, found: &Verification) -> Option<String> {
    let loss = cut_off(cut, found).filter(|_| found.verdict == Verdict::Correctable)?;
    // An interrupted truncation has removed records already, and has to report them.
    let loss = Some(loss).filter(|_| cut.unfinished.is_none())?;
    let to = loss.to.unwrap_or(loss.from);
    Some(format!("{}, {}", count(cut.intact_behind, "intact record"), span_of(loss.from, to)))
}

/// Whether the number of lost records is unknown.
fn is_open(lost: Lost) -> bool {
    lost.to.is_none()
}

/// The replicas as command-line options.
fn replicas(args: &Repair) -> String {
    let each = args.from_replica.iter().map(|path| format!(" --from-replica {}", typed(path)));
    each.collect::<Vec<_>>().concat()
}

fn kept(last: Option<Lsn>) -> String {
    match last {
        Some(last) => format!("keeps everything up to LSN {last}"),
        None => "keeps no record".to_owned(),
    }
}

fn salvage(args: &Repair, opener: &Opener, target: &Path) -> Result<Exit, Failure> {
    outside::check_path(target)?;
    let mut progress = Progress::start(args.patience, args.look.quiet)?;
    let tell = |at| progress.hear(at);
    let done = maintenance(args, opener).progress(tell).salvage(target);
    progress.end();
    let done = done.map_err(|error| Failure::of_making(&error, "repair", (&args.log, target)))?;
    let mut exit = exit_of(&done.damage);
    let trust = Trust::of_salvage(&done);
    let mut out = Output::lock();
    let answer = Salvaged::of(args, target, &done);
    args.look.show(&mut out, &answer, |out| tell_rescued(out, args, target, &done));
    if exit == Exit::Fine {
        exit = judge_tail(&args.log, done.tail, "");
    }
    Ok(exit.worse(trust.exit()).worse(out.finish()))
}

/// The exit code of a repair; giving up records is an error for scripts.
fn exit_of(damage: &[Damage]) -> Exit {
    if damage.iter().any(|damage| damage.lost.is_some()) { Exit::Lost } else { Exit::Fine }
}

fn tell_rescued(out: &mut Output, args: &Repair, target: &Path, done: &SalvageReport) {
    let (log, target) = (args.log.display(), target.display());
    out.line(&format!("{target}   {} copied, durable", count(done.records, "record")));
    if let (Some(first), Some(last)) = (done.first, done.last) {
        out.line(&format!("  records    {}", span_of(first, last)));
    }
    for lost in &done.given_up {
        out.line(&format!("  given up   {}", range(lost)));
    }
    let open = done.damage.iter().filter_map(|damage| damage.lost).find(|lost| lost.to.is_none());
    if let Some(lost) = open {
        let from = lost.from;
        out.line(&format!("  unknown    whether there were more records, from LSN {from} on"));
    }
    if done.broken_sets > 0 {
        let parts = count(done.broken_sets, "intact record");
        out.line(&format!("  of sets    {parts} given up with the lost parts of their sets"));
    }
    Trust::of_salvage(done).tell(out);
    out.line("");
    out.line(&format!("{log} was not changed; {target} opens as any log"));
}

/// Removes everything from the first damage on, and reports it together with earlier repairs.
fn cut_tail(
    args: &Repair,
    maintenance: &mut Maintenance<'_>,
    found: &Verification,
    mend: Option<&RepairPlan>,
) -> Result<Exit, Failure> {
    // The truncation itself reports an error of the plan, too.
    let planned = maintenance.plan_truncation().ok();
    if let Some(loss) = planned.and_then(|cut| needless_loss(&cut, found)) {
        let what = format!("all records are readable, and --cut-tail would give up {loss}");
        let failure = Failure::new(Exit::Usage, what).at(args.log.display());
        return Err(failure.next(salvages(args, found)));
    }
    let cut = maintenance.truncate_damaged_tail();
    let cut = cut.map_err(|error| match &error {
        Error::Damaged { damage, .. } => {
            let failure =
                Failure::new(Exit::Lost, format!("the damaged end cannot be removed: {damage}"));
            let next = format!("seawall repair {} --salvage-to NEW", typed(&args.log));
            failure.at(args.log.display()).next(next)
        }
        _ => Failure::of(&error, "repair", &args.log),
    })?;
    let exit = if given_up(&cut) > 0 { Exit::Lost } else { exit_of(&cut.damage) };
    let exit = mend.map_or(exit, |mend| exit.worse(Trust::of_repair(mend).exit()));
    let mut out = Output::lock();
    args.look.show(&mut out, &Cut::of(args, &cut, found, mend), |out| tell_cut(out, args, &cut));
    Ok(exit.worse(out.finish()))
}

fn tell_cut(out: &mut Output, args: &Repair, cut: &TailTruncation) {
    let log = args.log.display();
    if cut.damage.is_empty() {
        out.line(&format!("{log}   nothing prevented opening it"));
    } else {
        let end = cut.last.map_or_else(|| "nothing".to_owned(), |last| format!("LSN {last}"));
        out.line(&format!("{log}   ends with {end} now"));
        if cut.intact_behind > 0 {
            let intact = count(cut.intact_behind, "intact record");
            out.line(&format!("  given up   {intact} after the damage, and the damaged records"));
        }
    }
    for file in &cut.quarantine {
        out.line(&format!("  kept       {log}/{file}"));
    }
}
