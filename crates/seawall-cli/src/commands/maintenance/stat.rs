//! `seawall stat`: the size, record count and settings of a log, also of a damaged one.

mod sizes;

use super::mended::protection;
use super::verify::headline;
use crate::args::{Stat, level_name};
use crate::output::report::{Exit, Failure};
use crate::output::stdout::{Output, one_line};
use crate::output::text::{self, count, number, span_of};
use seawall::format::{CodecId, SegmentId};
use seawall::parity::{Parity, Protection};
use seawall::verify::{Verdict, Verification};
use seawall::{Error, Layout, LogReader, Lsn};
use seawall_format::VERSION;
use serde_json::{Value, json};
use sizes::Sizes;
use std::path::Path;

/// Says what can be said of the log.
pub(crate) fn run(args: &Stat) -> Result<Exit, Failure> {
    let found = seawall::Maintenance::at(&args.log).verify();
    let fail = |error: Error| Failure::of(&error, "stat", &args.log);
    let found = found.map_err(fail)?;
    let oldest = LogReader::open_any(&args.log).and_then(|reader| reader.oldest());
    let oldest = oldest.map_err(fail)?;
    let sizes = Sizes::measure(&args.log, found.last_lsn).map_err(fail)?;
    // Where damage hides how far the records go, it is not known what of them has parity.
    let parity = protection(&args.log, &found).ok().filter(|_| found.verdict != Verdict::Lost);
    let mut out = Output::new();
    if args.look.json {
        let mut answer = as_json(&args.log, &found, oldest);
        sizes.add_to(&mut answer);
        if let Some(parity) = &parity {
            add_parity(&mut answer, parity);
        }
        out.line(&answer.to_string());
    } else {
        let told = Told { found: &found, oldest, sizes: &sizes, parity: parity.as_ref() };
        tell(&mut out, &args.log, &told);
    }
    Ok(out.finish())
}

fn as_json(log: &Path, found: &Verification, oldest: Lsn) -> Value {
    let summary = &found.summary;
    let (first, last) = summary.written_us.unzip();
    json!({
        "schema": "seawall.stat/1",
        "log": log.display().to_string(),
        "format": format(),
        "log_format": summary.layout.map(Layout::name),
        "codec": summary.codec.map(CodecId::name),
        "type_name": Some(&summary.type_name).filter(|name| !name.is_empty()),
        "record_schema": summary.schema,
        "level": summary.level.map(level_name),
        "records": found.records,
        "first_lsn": found.first_lsn.map(Lsn::get),
        "last_lsn": found.last_lsn.map(Lsn::get),
        "oldest_lsn": oldest.get(),
        "bytes": summary.bytes,
        "segments": summary.segments,
        "payload_bytes": summary.payload_bytes,
        "overhead_percent": overhead(found),
        "segment_size": summary.segment_size,
        "checkpoint_lsn": summary.checkpoint.map(Lsn::get),
        "closed_lsn": summary.closed.map(Lsn::get),
        "first_written": first.and_then(seawall_format::time::to_text),
        "last_written": last.and_then(seawall_format::time::to_text),
        "in_use": summary.in_use,
        "verdict": found.verdict.name(),
        "parity": null,
        "parity_bytes": null,
        "parity_of_bytes": null,
        "parity_covered": null,
        "parity_lacking": null,
    })
}

/// Adds what parity there is; without, the fields stay null.
fn add_parity(answer: &mut Value, parity: &Protection) {
    answer["parity"] = parity.scheme.as_ref().map(Parity::to_string).into();
    answer["parity_bytes"] = parity.parity_bytes.into();
    answer["parity_of_bytes"] = parity.bytes.into();
    answer["parity_covered"] = parity.covered.into();
    answer["parity_lacking"] = parity.open.iter().copied().map(SegmentId::get).collect();
}

/// What this program writes and reads.
fn format() -> String {
    VERSION.to_string()
}

/// What the files take beyond the payloads, in percent of the files, with one digit.
#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn overhead(found: &Verification) -> Option<f64> {
    let (all, payload) = (found.summary.bytes, found.summary.payload_bytes);
    let share = all.saturating_sub(payload) as f64 / all as f64;
    (all > 0).then(|| (share * 1000.0).round() / 10.0)
}

/// What was found out about a log.
struct Told<'a> {
    found: &'a Verification,
    oldest: Lsn,
    sizes: &'a Sizes,
    /// `None`: not known.
    parity: Option<&'a Protection>,
}

fn tell(out: &mut Output, log: &Path, told: &Told<'_>) {
    let Told { found, oldest, sizes, parity } = *told;
    let summary = &found.summary;
    let codec = summary.codec.map_or("unknown codec", CodecId::name);
    let readable = if summary.layout == Some(Layout::Text) { ", readable" } else { "" };
    let format = format();
    out.line(&format!("{}   seawall format {format}{readable}, {codec}, crc32c", log.display()));
    let mut row = |name: &str, text: String| out.line(&format!("  {name:<13}{text}"));
    let range = match (found.first_lsn, found.last_lsn) {
        (Some(first), Some(last)) => {
            format!("   {}", span_of(first, last))
        }
        _ => String::new(),
    };
    row("records", format!("{}{range}", number(found.records)));
    if oldest > Lsn::FIRST {
        let text = format!("LSN {oldest}; older records were truncated away");
        row("oldest", text);
    }
    let (bytes, segments) = (text::bytes(summary.bytes), count(summary.segments, "segment"));
    let largest = text::bytes(summary.segment_size);
    row("size", format!("{bytes}   {segments}, growing to {largest} each"));
    let free = overhead(found).map_or_else(String::new, |percent| {
        format!("   {percent} % of the files is framing and room to grow")
    });
    row("payload", format!("{}{free}", text::bytes(summary.payload_bytes)));
    if let Some(line) = sizes.line() {
        row("record size", line);
    }
    if !summary.type_name.is_empty() || summary.schema > 0 {
        let name = match summary.type_name.as_str() {
            "" => "nameless".to_owned(),
            name => one_line(name),
        };
        row("type", format!("{name}, schema {}", summary.schema));
    }
    row("level", summary.level.map_or("unknown", level_name).to_owned());
    row("parity", parity.map_or_else(|| "unknown".to_owned(), in_words));
    if let Some(lsn) = summary.checkpoint {
        row("checkpoint", format!("LSN {lsn}"));
    }
    let closed = summary.closed.map(|lsn| format!("cleanly, after record {lsn}"));
    row("closed", closed.unwrap_or_else(|| "not cleanly, or never".to_owned()));
    if let Some((first, last)) = summary.written_us {
        let time = |us| seawall_format::time::to_text(us).unwrap_or_else(|| "unknown".to_owned());
        row("written", format!("{} .. {}", time(first), time(last)));
    }
    row("in use", if summary.in_use { "by a writer".to_owned() } else { "no".to_owned() });
    row("verdict", headline(found.verdict).to_owned());
    let shown = text::typed(log);
    if !found.damage.is_empty() {
        out.line("");
        out.line(&format!("next: seawall verify {shown}     name what is damaged"));
    } else if parity.is_some_and(|parity| lacks_some(parity, summary.in_use)) {
        out.line("");
        out.line(&format!("next: seawall protect {shown}     make the parity that is missing"));
    }
}

/// What parity there is, on one line.
fn in_words(parity: &Protection) -> String {
    let Protection { scheme, bytes, covered, parity_bytes, open, .. } = parity;
    let kept = scheme.map_or_else(|| "none".to_owned(), |scheme| scheme.to_string());
    if *parity_bytes == 0 && scheme.is_none() {
        return kept;
    }
    let share = if covered == bytes {
        "all records have some".to_owned()
    } else {
        format!("{} of {} have some", text::bytes(*covered), text::bytes(*bytes))
    };
    let lacking = match open.len() {
        0 => String::new(),
        lacking => {
            let lacking = u64::try_from(lacking).expect("fits in 64 bits");
            let verb = if lacking == 1 { "lacks" } else { "lack" };
            format!("   {} {verb} some", count(lacking, "segment"))
        }
    };
    format!("{kept}   {share}, in {}{lacking}", text::bytes(*parity_bytes))
}

/// Whether a log that keeps parity has segments without, but for the one that is being written.
fn lacks_some(parity: &Protection, in_use: bool) -> bool {
    parity.scheme.is_some() && parity.open.len() > usize::from(in_use)
}
