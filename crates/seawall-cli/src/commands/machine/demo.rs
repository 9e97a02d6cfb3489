//! `seawall demo`: tests the guarantees on this machine.
//!
//! A child process writes real earthquakes and is killed again and again. Each acknowledgement goes
//! through a pipe to this process, an independent witness. Then the demo looks up every
//! acknowledged record, flips bits and erases blocks in copies without and with parity, and
//! measures the speed. Speed never decides the exit code.

mod chart;
mod damage;
mod earthquake;
mod outcome;
mod parity;
mod report;
mod rescue;
mod speed;
mod stage;
mod witness;
pub(crate) mod writer;

use crate::args::Demo;
use crate::commands::outside;
use damage::{Damaged, JsonLines};
use earthquake::Catalogue;
use outcome::Done;
use parity::Mended;
use report::Report;
use rescue::Rescue;
use seawall::Log;
use seawall_host::{HostInfo, Writable};
use seawall_io::{Entropy, SeededEntropy, SystemEntropy};
use seawall_measure::machine::{IN_MEMORY, Stopwatch, is_in_memory};
use seawall_measure::pairs::{Plain, Trouble};
use seawall_measure::scratch::Scratch;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::Output;
use seawall_output::text::{self, count, number, to_u64};
use stage::{RECORD_SIZE, Stage, trouble};
use std::path::{Path, PathBuf};
use std::time::Duration;
use witness::{Compared, Plot, Witness};

/// File size for the plain writes of the probe and the speed table.
const PLAIN_FILE: u64 = 16 << 20;
/// Runs the demo; exits with 0 if every guarantee held, otherwise with 5.
pub(crate) fn run(args: &Demo) -> Result<Exit, Failure> {
    let watch = Stopwatch::start();
    let seed = match args.seed {
        Some(seed) => seed,
        None => SystemEntropy.random().map_err(|error| trouble("draw a seed", &error))? % 1_000_000,
    };
    args.dir.iter().try_for_each(|folder| outside::check_folder(folder))?;
    args.report.iter().try_for_each(|folder| outside::check_path(folder))?;
    let parent = args.dir.clone().unwrap_or_else(default_place);
    let mut scratch = Scratch::new(&parent, "seawall-demo")?;
    if args.keep {
        scratch.keep();
    }
    let report = args.report.as_deref().map(Report::begin).transpose()?;
    let silent = args.look.json || args.look.quiet;
    let mut stage = Stage { out: Output::lock(), silent, said: vec![] };
    stage.say(&format!("seawall demo --seed {seed}"));
    stage.say("");
    let mut done = play(args, (seed, scratch.path()), &mut stage)?;
    done.exit = if done.kept() { Exit::Fine } else { Exit::Lost };
    let Stage { mut out, said, .. } = stage;
    if let Some(report) = report {
        report.write(&done, &said)?;
    }
    let (folder, took) = (scratch.path(), watch.elapsed());
    args.look.show(&mut out, &done, |out| tell_end(out, args, &done, (folder, took)));
    Ok(done.exit.worse(out.finish()))
}

/// Returns the directory for temporary files. If that is in memory, and the current directory is on
/// a disk and writable, returns the current directory.
fn default_place() -> PathBuf {
    let (temporary, here) = (std::env::temp_dir(), PathBuf::from("."));
    let can_be_used = |place: &Path| {
        let around = HostInfo::of(place).ok();
        around.is_some_and(|around| !around.is_in_memory() && around.writable == Writable::Yes)
    };
    if is_in_memory(&temporary) && can_be_used(&here) { here } else { temporary }
}

fn play(args: &Demo, (seed, folder): (u64, &Path), stage: &mut Stage) -> Result<Done, Failure> {
    let catalogue = Catalogue::read()?;
    let dice = SeededEntropy::new(seed);
    let plain_failed = |error| super::bench::failure(folder, &Trouble::Plain(error));
    let mut plain = Plain::new(folder, PLAIN_FILE, RECORD_SIZE).map_err(plain_failed)?;
    let in_memory = is_in_memory(folder);
    let mut syncs_per_s = None;
    if in_memory {
        stage.say(&format!("1 disk     {IN_MEMORY};"));
        stage.say("           with --dir PATH the demo runs on the disk of PATH");
    } else {
        let probe = Duration::from_millis(if args.fast { 250 } else { 800 });
        let rate = plain.rate(probe).map_err(plain_failed)?;
        let shown = text::rounded(rate);
        stage.say(&format!("1 disk     {shown:>9} syncs a second with one writer, as it is now"));
        syncs_per_s = Some(rate.round());
    }
    let log = folder.join("earthquakes.wal");
    // In memory, speed is not measured, and more records would prove nothing more.
    let delay_ms = if args.fast || in_memory { 5..=60 } else { 20..=200 };
    let plot = Plot { log: &log, delay_ms, dice: &dice, stage };
    let witness = witness::kill_again_and_again(&plot)?;
    tell_kills(stage, &witness);
    let compared = recover(&log, &witness, &catalogue)?;
    tell_recovery(stage, &compared);
    let damage = damage::flip_one_bit(&log, folder, &catalogue, &dice)?;
    tell_damage(stage, &damage);
    let rescue = rescue::erase_and_rescue(&log, folder, &dice)?;
    tell_rescue(stage, &rescue);
    let parity = parity::damage_and_read(&log, folder, &dice)?;
    tell_parity(stage, &parity);
    let is_measured = !args.fast && !in_memory;
    let rates = is_measured.then(|| speed::measure(&mut plain, folder, stage)).transpose()?;
    Ok(Done {
        exit: Exit::Fine,
        seed,
        in_memory,
        syncs_per_s,
        witness,
        compared,
        damage,
        rescue,
        parity,
        ranked: rates.as_deref().map(|rows| speed::why_not_ranked(rows).is_none()),
        speed: rates,
    })
}

/// Recovers the log by opening it as any program would, closes it, and looks up every record.
fn recover(log: &Path, witness: &Witness, catalogue: &Catalogue) -> Result<Compared, Failure> {
    let fail = |error| Failure::of(&error, "demo", log);
    let opened: Log<earthquake::Earthquake> = Log::open(log).map_err(fail)?;
    opened.close().map_err(fail)?;
    witness.compare(log, catalogue).map_err(fail)
}

fn tell_kills(stage: &mut Stage, witness: &Witness) {
    let acknowledged = number(witness.acknowledged());
    stage.say(&format!(
        "2 kill -9  {:>9} times, while 8 threads wrote real earthquakes",
        witness.kills
    ));
    stage.say(&format!("           {acknowledged:>9} acknowledgements reached the witness"));
    let torn = match witness.torn {
        0 => "        0 times a torn tail was left".to_owned(),
        torn => format!("{torn:>9} times a torn tail was left, and removed at the next start"),
    };
    stage.say(&format!("           {torn}"));
}

fn tell_recovery(stage: &mut Stage, compared: &Compared) {
    let (found, lost) = (number(compared.found), number(compared.lost));
    stage.say(&format!("3 recover  {found:>9} of them found, byte for byte, once"));
    stage.judge(&format!("           {lost:>9} lost"), compared.holds());
    let extra = number(compared.unacknowledged_found);
    stage.say(&format!("           {extra:>9} more were on their way at a kill: allowed"));
    if compared.wrong + compared.gaps > 0 {
        let (wrong, gaps) = (number(compared.wrong), number(compared.gaps));
        stage.say(&format!("           {wrong:>9} records are not what was sent; {gaps} gaps"));
    }
}

fn tell_damage(stage: &mut Stage, damaged: &Damaged) {
    let Damaged { lsn, json_lines: JsonLines { written, read, lines, lines_that_parse }, .. } =
        damaged;
    stage.say(&format!("4 damage   one bit flipped in a copy, inside record {lsn}:"));
    stage.say(&indented(&format!("M {written} {}", damaged.place)));
    stage.judge(&format!("           verify says: {}", damaged.lost), damaged.named_exactly);
    let others = count(damaged.others, "record");
    stage.judge(&format!("           the other {others} are still read"), damaged.others_read);
    let (parse, lines) = (number(*lines_that_parse), number(*lines));
    stage.say(&format!(
        "           plain JSON lines: M {written} reads {read}; {parse} of {lines} lines parse"
    ));
}

fn tell_rescue(stage: &mut Stage, rescue: &Rescue) {
    let erased = text::bytes(to_u64(rescue::ERASED));
    stage.say(&format!("5 rescue   {erased} of zeros over the copy, in the middle:"));
    stage.say(&indented(&format!("lost: {}", rescue.lost)));
    let rescued = format!("all other {} are in a new log", count(rescue.rescued, "record"));
    stage.judge(&format!("           {rescued}"), rescue.all_others);
}

fn tell_parity(stage: &mut Stage, mended: &Mended) {
    let Mended { lsn, scheme, .. } = mended;
    let all = format!("all {} are read", count(mended.records, "record"));
    let erased = text::bytes(to_u64(parity::BLOCK));
    stage.say(&format!("6 parity   a copy of the sound log gets parity, {scheme}:"));
    let bit = format!("           a bit flipped in record {lsn}: {all}");
    stage.judge(&bit, mended.bit_corrected);
    stage.judge(&format!("           {erased} around it erased: {all}"), mended.block_corrected);
}

/// Wraps the text, and indents it to the column of the figures.
fn indented(text: &str) -> String {
    const INDENT: usize = 11;
    format!("{:INDENT$}{}", "", text::folded(text, INDENT))
}

fn tell_end(out: &mut Output, args: &Demo, done: &Done, (folder, took): (&Path, Duration)) {
    let (verdict, tone) = done.verdict();
    out.line("");
    out.headline(verdict, (verdict, tone), &text::span(took));
    out.line("");
    if args.keep {
        let folder = folder.display();
        out.line(&format!("kept: {folder}"));
        out.line("next: in that folder,");
        out.line("      seawall verify damaged.wal        the flipped bit, and the zeros");
        out.line("      seawall verify rescued.wal        the records rescued from it");
        out.line("      seawall verify parity.wal         damage that parity restores");
        out.line("      seawall cat earthquakes.wal -n 3  the records");
    } else {
        out.line("next: seawall append my.wal --ack       type lines; a number means durable");
        out.line("      seawall demo --dir . --keep       inspect the logs afterwards");
    }
    match &args.report {
        Some(folder) => out.line(&format!("report: {}", folder.join("report.html").display())),
        None => out.line("      seawall demo --report demo        a page with a chart, and JSON"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any event may be printed: the number of events written before the kills decides which one
    /// is damaged.
    #[test]
    fn every_event_fits_in_eighty_columns() {
        let catalogue = Catalogue::read().unwrap();
        for number in 0..catalogue.len() {
            let event = catalogue.event(number);
            let told = indented(&format!("M {} {}", event.mag, event.place));
            assert!(told.lines().all(|line| line.len() <= 80), "{told}");
            assert_eq!(told.split_whitespace().skip(2).collect::<Vec<_>>().join(" "), event.place);
        }
    }
}
