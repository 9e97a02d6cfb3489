//! `seawall convert`: converts logs of other programs to Seawall and back, as far as the source is
//! intact.

mod place;
mod source;
pub(super) mod target;

use crate::args::{Convert, ForeignFormat};
use crate::commands::answers::Lost;
use crate::commands::opener::Opener;
use crate::output::progress::Progress;
use seawall::format::CodecId;
use seawall_foreign::translate::translate;
use seawall_foreign::value::minified;
use seawall_foreign::{Damage, ENTRY_MAX, Remark, Stop};
use seawall_output::answer;
use seawall_output::report::{Exit, Failure, say};
use seawall_output::stdout::Output;
use seawall_output::text::{number, to_u64};
use serde::Serialize;
use source::Source;
use std::borrow::Cow;
use target::{Made, Refusal, Target};

/// Converts all intact entries of the source.
pub(crate) fn run(args: &Convert) -> Result<Exit, Failure> {
    let opener = Opener::of(&args.key)?;
    let mut source = Source::open(args, &opener)?;
    if source.is_typed && args.to == ForeignFormat::Seawall {
        let what = "the records have a type name or a schema number, which would be lost";
        let failure = Failure::new(Exit::Usage, what).at(args.source.display());
        return Err(failure.next("copy the log with seawall copy"));
    }
    let way = Way::choose(args, &source)?;
    let mut target = Target::open(&args.target, (args.to, way.target), &opener)?;
    let progress = Progress::start(args.patience, args.look.quiet)?;
    let mut work = Work { args, way, entries: 0, bytes: 0, progress };
    let damage = work.carry(&mut source, &mut target);
    work.progress.end();
    let damage = damage?;
    let end = End { made: target.finish()?, damage, remarks: source.entries.remarks() };
    let exit = work.tell_remarks(&end.remarks).worse(work.tell_damage(end.damage.as_ref()));
    let mut out = Output::lock();
    let answer = Answer::of(&work, &source, &end);
    args.look.show(&mut out, &answer, |out| work.tell(end.made, out));
    Ok(exit.worse(out.finish()))
}

/// How a conversion ended.
struct End {
    made: Made,
    damage: Option<Damage>,
    remarks: Vec<Remark>,
}

answer! {
    /// `seawall convert --json`
    #[serde(tag = "schema", rename = "seawall.convert/1")]
    struct Answer(work: &Work<'_>, source: &Source, end: &End) {
        source: String = work.args.source.display().to_string(),
        target: String = work.args.target.display().to_string(),
        from: String = source.format.name(),
        to: String = work.args.to.name(),
        codec: &'static str = work.way.target.name(),
        entries: u64 = work.entries,
        bytes: u64 = work.bytes,
        made: bool = end.made == Made::New,
        damage: Option<DamagedEntry> = end.damage.as_ref().map(DamagedEntry::of),
        given_up: Vec<Lost> = end.remarks.iter().filter_map(given_up).collect(),
        unsure_tail: bool = end.remarks.contains(&Remark::UnsureTail),
        zero_entries_at_end: u64 = end.remarks.iter().find_map(zeros).unwrap_or(0),
    }
}

answer! {
    /// The entry at which a conversion stopped.
    struct DamagedEntry(damage: &Damage) {
        /// `null` if no entry is damaged.
        entry: Option<u64> = (!damage.harmless).then_some(damage.entry),
        offset: u64 = damage.offset,
        segment: Option<u64> = damage.segment,
        cause: &'static str = damage.cause,
        why: String = damage.why.clone(),
    }
}

fn given_up(remark: &Remark) -> Option<Lost> {
    if let Remark::GivenUp(lost) = remark { Some(Lost::of(lost)) } else { None }
}

fn zeros(remark: &Remark) -> Option<u64> {
    if let Remark::ZerosAtEnd(entries) = remark { Some(*entries) } else { None }
}

/// The codecs of the source and the target.
#[derive(Clone, Copy, Debug)]
struct Way {
    source: CodecId,
    target: CodecId,
}

impl Way {
    /// Derives the codec from the formats, or from `--codec` where they leave it open.
    fn choose(args: &Convert, source: &Source) -> Result<Self, Failure> {
        let asked = args.codec.map(CodecId::from);
        let known = source.codec;
        let fixed = match args.to {
            ForeignFormat::Json => Some(CodecId::Json),
            ForeignFormat::Msgpack => Some(CodecId::MessagePack),
            _ => None,
        };
        if asked.is_some() && known.is_some() && fixed.is_some() {
            let what = "--codec is already determined by the formats";
            let failure = Failure::new(Exit::Usage, what).at(args.source.display());
            return Err(failure.next("omit --codec"));
        }
        let from = known.or(asked).unwrap_or(CodecId::Raw);
        let stored = match (args.to, from) {
            (ForeignFormat::Seawall, CodecId::Json) if source.format != args.to => {
                CodecId::MessagePack
            }
            (_, from) => from,
        };
        Ok(Self { source: from, target: fixed.or(asked).unwrap_or(stored) })
    }
}

/// A conversion in progress.
struct Work<'a> {
    args: &'a Convert,
    way: Way,
    /// The number of converted entries, and the bytes of their content in the target.
    entries: u64,
    bytes: u64,
    progress: Progress,
}

impl Work<'_> {
    /// Converts entries until the source ends or is damaged.
    fn carry(
        &mut self,
        source: &mut Source,
        target: &mut Target,
    ) -> Result<Option<Damage>, Failure> {
        loop {
            let entry = match source.entries.next() {
                Ok(Some(entry)) => entry,
                Ok(None) => return Ok(None),
                Err(Stop::Damaged(damage)) => return Ok(Some(damage)),
                Err(Stop::TooLarge) => {
                    let why = format!("it has more than {} bytes", number(to_u64(ENTRY_MAX)));
                    return Err(self.refused(source, &why));
                }
                Err(Stop::Io(error)) => return Err(place::unreadable(&self.args.source, error)),
                Err(Stop::Log(error)) => {
                    return Err(Failure::of(&error, "convert", &self.args.source));
                }
            };
            let content = match self.content(entry) {
                Ok(content) => content,
                Err(why) => return Err(self.refused(source, &why)),
            };
            let bytes = to_u64(content.len());
            match target.put(&content) {
                Ok(()) => {}
                Err(Refusal::Failed(failure)) => return Err(failure),
                Err(Refusal::TooLarge { size, max }) => {
                    let why = format!("it has {size} bytes; the maximum for a record is {max}");
                    return Err(self.refused(source, &why));
                }
            }
            (self.entries, self.bytes) = (self.entries + 1, self.bytes + bytes);
            match source.size {
                Some(size) => self.progress.tell(source.entries.position(), Some(size)),
                // A log is read by record, so a position in bytes is unknown.
                None => self.progress.tell(self.bytes, None),
            }
        }
    }

    /// Converts the content of an entry.
    fn content<'e>(&self, entry: &'e [u8]) -> Result<Cow<'e, [u8]>, String> {
        let content = translate(entry, self.way.source, self.way.target)?;
        if (self.args.to, self.way.target) == (ForeignFormat::Seawall, CodecId::Json) {
            // Store JSON as `append` does: without optional whitespace, which every reader accepts.
            return minified(&content).map(|text| text.into_bytes().into());
        }
        Ok(content)
    }

    /// The error for an intact entry that the target cannot represent.
    fn refused(&self, source: &Source, why: &str) -> Failure {
        let entry = self.entries + 1;
        let what = format!("entry {entry} cannot be converted exactly: {why}");
        let (path, place) = (self.args.source.display(), source.place());
        let failure = Failure::new(Exit::Failed, what).at(format!("{path}{place}"));
        failure.next("try another --codec or --to; nothing was created: seawall convert --help")
    }

    /// Reports the first damaged entry. Returns the exit code.
    fn tell_damage(&self, damage: Option<&Damage>) -> Exit {
        let Some(Damage { entry, offset, cause, why, segment, harmless }) = damage else {
            return Exit::Fine;
        };
        let file = segment.map_or_else(String::new, |id| format!(", segment {id}"));
        let (source, target) = (self.args.source.display(), self.args.target.display());
        let entries = entries(self.entries);
        let failure = if *harmless {
            let what = format!("the source is damaged, but no entry is: {why} ({cause})");
            let next = format!("{target} has all {entries}; seawall verify {source}");
            Failure::new(Exit::Correctable, what).next(next)
        } else {
            let what = format!("entry {entry} is damaged: {why} ({cause})");
            let next =
                format!("{target} has the {entries} before it; repair the source for the rest");
            Failure::new(Exit::Lost, what).next(next)
        };
        failure.at(format!("{source}{file}, byte {offset}")).tell()
    }

    /// Prints remarks that are not damage; returns the exit code.
    fn tell_remarks(&self, remarks: &[Remark]) -> Exit {
        let source = self.args.source.display().to_string();
        let mut exit = Exit::Fine;
        for remark in remarks {
            match remark {
                Remark::ZerosAtEnd(empties) => say(&format!(
                    "seawall: warning: {} without content at the end of {source} could as well be \
                     {} zeros that no program wrote",
                    entries(*empties),
                    number(12 * empties)
                )),
                Remark::GivenUp(_) if self.args.look.quiet => {}
                Remark::GivenUp(lost) => say(&format!("seawall: {lost} given up by a repair")),
                Remark::UnsureTail => {
                    let what =
                        "ambiguous tail: what follows the last record is a torn write or damage";
                    let failure = Failure::new(Exit::Unsure, what).at(&source);
                    exit = failure.next(format!("seawall verify {source}")).tell();
                }
            }
        }
        exit
    }

    fn tell(&self, made: Made, out: &mut Output) {
        let (target, entries) = (self.args.target.display(), entries(self.entries));
        let state = match made {
            Made::New => "durable",
            Made::Same => "there already",
        };
        out.line(&format!("{target}: {entries} as {}, {state}", self.way.target.name()));
    }
}

fn entries(count: u64) -> String {
    format!("{} {}", number(count), if count == 1 { "entry" } else { "entries" })
}
