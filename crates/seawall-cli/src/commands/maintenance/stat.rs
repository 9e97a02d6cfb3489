//! `seawall stat`: the size, record count and settings of a log, even a damaged one.

mod sizes;

use super::mended::protection;
use super::protect::numbers;
use super::verify::{encryption, headline};
use crate::args::Stat;
use crate::commands::answers::decrypted;
use crate::commands::foreign;
use crate::commands::opener::Opener;
use seawall::format::CodecId;
use seawall::parity::Protection;
use seawall::verify::{Summary, Verdict, Verification};
use seawall::{Compression, Error, Layout, Level, Lsn};
use seawall_format::VERSION;
use seawall_format::time::to_text;
use seawall_output::answer;
use seawall_output::prometheus::MetricList;
use seawall_output::report::{Exit, Failure};
use seawall_output::stdout::{Output, one_line};
use seawall_output::text::{self, count, number, span_of};
use serde::Serialize;
use sizes::{Group, Sizes};
use std::path::Path;

const METRICS: MetricList = MetricList {
    prefix: "seawall_log",
    label: ("log", "/log"),
    lines: include_str!("stat/metrics.txt"),
};

/// Prints what is known about the log; exits as `verify` does.
pub(crate) fn run(args: &Stat) -> Result<Exit, Failure> {
    let fail = |error: Error| foreign::failure(&error, "stat", &args.log);
    let opener = Opener::of(&args.key)?;
    let found = opener.maintenance(&args.log).verify().map_err(fail)?;
    let reader = opener.reader_unless_locked(&args.log).map_err(fail)?;
    let oldest = match &reader {
        Some(reader) => Some(reader.oldest().map_err(fail)?),
        None => first_named(&found),
    };
    let sizes = Sizes::measure(reader, found.last_lsn).map_err(fail)?;
    // If damage hides the end of the records, their parity is unknown.
    let parity = protection(&args.log, &found).ok().filter(|_| found.verdict != Verdict::Lost);
    let told = Told { found: &found, oldest, sizes: &sizes, parity: parity.as_ref() };
    let mut out = Output::lock();
    if args.prometheus {
        let answer = serde_json::to_value(Answer::of(&args.log, &told));
        let answer = answer.expect("an answer is text and numbers");
        out.lines(&METRICS.render(&answer).lines().collect::<Vec<_>>());
    } else if args.look.json {
        out.json(&Answer::of(&args.log, &told));
    } else {
        tell(&mut out, &args.log, &told);
    }
    // A script that looks at the exit code only must not take a damaged log for a sound one.
    Ok(Exit::of(found.verdict, false).worse(out.finish()))
}

answer! {
    /// `seawall stat --json`. If records are lost, the members about parity are null.
    #[serde(tag = "schema", rename = "seawall.stat/1")]
    struct Answer(log: &Path, told: &Told<'_>) {
        log: String = log.display().to_string(),
        format: String = VERSION.to_string(),
        log_format: Option<&'static str> = told.found.summary.layout.map(Layout::name),
        codec: Option<&'static str> = told.found.summary.codec.map(CodecId::name),
        type_name: Option<String> = told.type_name().map(str::to_owned),
        record_schema: u32 = told.found.summary.schema,
        level: Option<&'static str> = told.found.summary.level.map(Level::name),
        records: u64 = told.found.records,
        first_lsn: Option<u64> = told.found.first_lsn.map(Lsn::get),
        last_lsn: Option<u64> = told.found.last_lsn.map(Lsn::get),
        oldest_lsn: Option<u64> = told.oldest.map(Lsn::get),
        bytes: u64 = told.found.summary.bytes,
        segments: u64 = told.found.summary.segments,
        payload_bytes: Option<u64> = payload(told.found),
        overhead_percent: Option<f64> = overhead(told.found),
        segment_size: u64 = told.found.summary.segment_size,
        checkpoint_lsn: Option<u64> = told.found.summary.checkpoint.map(Lsn::get),
        closed_lsn: Option<u64> = told.found.summary.closed.map(Lsn::get),
        first_written: Option<String> = told.written().0,
        last_written: Option<String> = told.written().1,
        in_use: bool = told.found.summary.in_use,
        verdict: &'static str = told.found.verdict.name(),
        parity: Option<String> = told.parity.and_then(|it| it.scheme).map(|it| it.to_string()),
        parity_bytes: Option<u64> = told.parity.map(|parity| parity.parity_bytes),
        parity_of_bytes: Option<u64> = told.parity.map(|parity| parity.bytes),
        parity_covered: Option<u64> = told.parity.map(|parity| parity.covered),
        parity_lacking: Option<Vec<u64>> = told.parity.map(|parity| numbers(&parity.open)),
        compression: Option<&'static str> = told.found.summary.compression.map(Compression::name),
        compressed_batches: u64 = told.found.summary.compressed_batches,
        stored_bytes: u64 = told.found.summary.stored_bytes,
        plain_bytes: u64 = told.found.summary.plain_bytes,
        size_p50: Option<u64> = told.sizes.quantile(0.5),
        size_p99: Option<u64> = told.sizes.quantile(0.99),
        size_max: Option<u64> = told.sizes.quantile(1.0),
        sizes: Vec<Group> = told.sizes.groups(),
        encrypted_segments: u64 = told.found.summary.encrypted_segments,
        encrypts: Option<bool> = told.found.summary.encrypts,
        decrypted: Option<bool> = decrypted(&told.found.summary),
    }
}

/// Returns the first LSN that is present, lost or given up.
fn first_named(found: &Verification) -> Option<Lsn> {
    let lost = found.damage.iter().filter_map(|damage| damage.lost);
    let gone = lost.chain(found.given_up.iter().copied()).map(|lost| lost.from);
    gone.chain(found.first_lsn).min()
}

/// Returns the size of all payloads in bytes; `None` if some could not be decrypted.
fn payload(found: &Verification) -> Option<u64> {
    Some(found.summary.payload_bytes).filter(|_| !found.summary.is_locked)
}

/// The share of the files that is not payload, in percent, with one decimal.
#[expect(clippy::cast_precision_loss, reason = "only one decimal is shown")]
fn overhead(found: &Verification) -> Option<f64> {
    let (all, payload) = (found.summary.bytes, payload(found)?);
    let share = all.saturating_sub(payload) as f64 / all as f64;
    (all > 0).then(|| (share * 1000.0).round() / 10.0)
}

/// What is known about a log.
struct Told<'a> {
    found: &'a Verification,
    /// `None` if unknown.
    oldest: Option<Lsn>,
    sizes: &'a Sizes,
    /// `None` if unknown.
    parity: Option<&'a Protection>,
}

impl Told<'_> {
    fn type_name(&self) -> Option<&str> {
        Some(self.found.summary.type_name.as_str()).filter(|name| !name.is_empty())
    }

    /// Returns the times at which the oldest and the newest batch were written, if known.
    fn written(&self) -> (Option<String>, Option<String>) {
        let (first, last) = self.found.summary.written_us.unzip();
        (first.and_then(to_text), last.and_then(to_text))
    }
}

fn tell(out: &mut Output, log: &Path, told: &Told<'_>) {
    let Told { found, oldest, sizes, parity } = *told;
    let summary = &found.summary;
    let codec = summary.codec.map_or("unknown codec", CodecId::name);
    let readable = if summary.layout == Some(Layout::Text) { ", readable" } else { "" };
    out.line(&format!("{}   seawall format {VERSION}{readable}, {codec}, crc32c", log.display()));
    let mut row = |name: &str, text: String| out.line(&format!("  {name:<13}{text}"));
    let range = match (found.first_lsn, found.last_lsn) {
        (Some(first), Some(last)) => {
            format!("   {}", span_of(first, last))
        }
        _ => String::new(),
    };
    row("records", format!("{}{range}", number(found.records)));
    if let Some(oldest) = oldest.filter(|oldest| *oldest > Lsn::FIRST) {
        let text = format!("LSN {oldest}; older records were truncated away");
        row("oldest", text);
    }
    let (bytes, segments) = (text::bytes(summary.bytes), count(summary.segments, "segment"));
    let largest = text::bytes(summary.segment_size);
    row("size", format!("{bytes}   {segments}, growing to {largest} each"));
    let free = overhead(found).map_or_else(String::new, |percent| {
        format!("   {percent} % of the files is framing and room to grow")
    });
    let payload = payload(found).map_or_else(|| "unknown".to_owned(), text::bytes);
    row("payload", format!("{payload}{free}"));
    if let Some(text) = encryption(summary) {
        row("encrypted", text);
    }
    if let Some(line) = sizes.line() {
        row("record size", line);
    }
    if told.type_name().is_some() || summary.schema > 0 {
        let name = told.type_name().map_or_else(|| "nameless".to_owned(), one_line);
        row("type", format!("{name}, schema {}", summary.schema));
    }
    row("level", summary.level.map_or("unknown", Level::name).to_owned());
    row("parity", parity.map_or_else(|| "unknown".to_owned(), in_words));
    if summary.compressed_batches > 0 || is_on(summary.compression) {
        row("compression", compression(summary));
    }
    if let Some(lsn) = summary.checkpoint {
        row("checkpoint", format!("LSN {lsn}"));
    }
    let closed = summary.closed.map(|lsn| format!("cleanly, after record {lsn}"));
    row("closed", closed.unwrap_or_else(|| "not cleanly, or never".to_owned()));
    if summary.written_us.is_some() {
        let (first, last) = told.written();
        let shown = |time: Option<String>| time.unwrap_or_else(|| "unknown".to_owned());
        row("written", format!("{} .. {}", shown(first), shown(last)));
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

/// Whether new batches are compressed.
fn is_on(compression: Option<Compression>) -> bool {
    compression.is_some_and(|method| method != Compression::None)
}

/// The compression of the log on one line.
fn compression(summary: &Summary) -> String {
    let method = summary.compression.map_or("unknown", Compression::name);
    let [plain, stored] = [summary.plain_bytes, summary.stored_bytes].map(text::bytes);
    format!("{method}   {plain} of batches take {stored}")
}

/// The parity of the log on one line.
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
        1 => "   1 segment lacks some".to_owned(),
        lacking => format!("   {} lack some", count(text::to_u64(lacking), "segment")),
    };
    format!("{kept}   {share}, in {}{lacking}", text::bytes(*parity_bytes))
}

/// Whether a log with parity has segments without it, other than the one being written.
fn lacks_some(parity: &Protection, in_use: bool) -> bool {
    parity.scheme.is_some() && parity.open.len() > usize::from(in_use)
}
