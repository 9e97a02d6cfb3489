//! `seawall convert`: a log of another program becomes one of ours, or the other way round; whole,
//! or as much of it as is intact.

mod place;
mod source;
pub(super) mod target;

use crate::args::{Convert, ForeignFormat};
use crate::commands::maintenance::verify::lost_as_json;
use crate::output::progress::Progress;
use crate::output::report::{Exit, Failure, say};
use crate::output::stdout::Output;
use crate::output::text::number;
use seawall::format::CodecId;
use seawall_foreign::translate::translate;
use seawall_foreign::value::minified;
use seawall_foreign::{Damage, Remark, Stop};
use serde_json::{Value, json};
use source::Source;
use std::borrow::Cow;
use target::{Made, Refusal, Target};

/// Converts all of the source that is intact.
pub(crate) fn run(args: &Convert) -> Result<Exit, Failure> {
    let mut source = Source::open(args)?;
    if source.is_typed && args.to == ForeignFormat::Seawall {
        let what = "the records have a type name or a schema number, and would lose it";
        let failure = Failure::new(Exit::Usage, what).at(args.source.display());
        return Err(failure.next("make another log like it with seawall copy"));
    }
    let way = Way::choose(args, &source)?;
    let mut target = Target::open(&args.target, args.to, way.target)?;
    let progress = Progress::start(args.patience, args.look.quiet)?;
    let mut work = Work { args, way, entries: 0, bytes: 0, progress };
    let damage = work.carry(&mut source, &mut target);
    work.progress.end();
    let damage = damage?;
    let made = target.finish()?;
    let remarks = source.entries.remarks();
    let exit = work.tell_remarks(&remarks).worse(work.tell_damage(damage.as_ref()));
    let mut out = Output::new();
    if args.look.json {
        out.line(&work.as_json(&source, (made, damage.as_ref(), &remarks)).to_string());
    } else if !args.look.quiet {
        work.tell(made, &mut out);
    }
    Ok(exit.worse(out.finish()))
}

/// What entries are on both sides.
#[derive(Clone, Copy, Debug)]
struct Way {
    source: CodecId,
    target: CodecId,
}

impl Way {
    /// As the formats say, and `--codec` where they do not.
    fn choose(args: &Convert, source: &Source) -> Result<Self, Failure> {
        let asked = args.codec.map(CodecId::from);
        let known = source.codec;
        let fixed = match args.to {
            ForeignFormat::Json => Some(CodecId::Json),
            ForeignFormat::Msgpack => Some(CodecId::MessagePack),
            _ => None,
        };
        if asked.is_some() && known.is_some() && fixed.is_some() {
            let what = "--codec says what the formats say already";
            let failure = Failure::new(Exit::Usage, what).at(args.source.display());
            return Err(failure.next("leave --codec out"));
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

/// A conversion under way.
struct Work<'a> {
    args: &'a Convert,
    way: Way,
    /// How many entries were handed to the target, and the bytes of their content there.
    entries: u64,
    bytes: u64,
    progress: Progress,
}

impl Work<'_> {
    /// Carries entries over until the source ends, or is not intact any more.
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
                Err(Stop::Io(error)) => return Err(place::unreadable(&self.args.source, error)),
                Err(Stop::Log(error)) => {
                    return Err(Failure::of(&error, "convert", &self.args.source));
                }
            };
            let content = match self.content(entry) {
                Ok(content) => content,
                Err(why) => return Err(self.refused(source, &why)),
            };
            let bytes = u64::try_from(content.len()).expect("an entry is in memory");
            match target.put(&content) {
                Ok(()) => {}
                Err(Refusal::Failed(failure)) => return Err(failure),
                Err(Refusal::TooLarge { size, max }) => {
                    let why = format!("it has {size} bytes, and a record {max} at most");
                    return Err(self.refused(source, &why));
                }
            }
            (self.entries, self.bytes) = (self.entries + 1, self.bytes + bytes);
            match source.size {
                Some(size) => self.progress.tell(source.entries.position(), Some(size)),
                // The position in a log of ours is a record, and its files are not read whole.
                None => self.progress.tell(self.bytes, None),
            }
        }
    }

    /// What an entry is in the target.
    fn content<'e>(&self, entry: &'e [u8]) -> Result<Cow<'e, [u8]>, String> {
        let content = translate(entry, self.way.source, self.way.target)?;
        if (self.args.to, self.way.target) == (ForeignFormat::Seawall, CodecId::Json) {
            // As `append` stores it: what every reader of JSON takes in.
            return minified(&content).map(|text| text.into_bytes().into());
        }
        Ok(content)
    }

    /// The entry that the source lends is intact, and cannot be what was asked for.
    fn refused(&self, source: &Source, why: &str) -> Failure {
        let entry = self.entries + 1;
        let what = format!("entry {entry} cannot be converted exactly: {why}");
        let (path, place) = (self.args.source.display(), source.place());
        let failure = Failure::new(Exit::Failed, what).at(format!("{path}{place}"));
        failure.next("try another --codec or --to; nothing was made: seawall convert --help")
    }

    /// Tells of the entry that is not intact; how the program ends.
    fn tell_damage(&self, damage: Option<&Damage>) -> Exit {
        let Some(Damage { entry, offset, cause, why, segment, harmless }) = damage else {
            return Exit::Fine;
        };
        let exit = if *harmless { Exit::Correctable } else { Exit::Lost };
        let file = segment.map_or_else(String::new, |id| format!(", segment {id}"));
        let (source, target) = (self.args.source.display(), self.args.target.display());
        Failure::new(exit, format!("entry {entry} is damaged: {why} ({cause})"))
            .at(format!("{source}{file}, byte {offset}"))
            .next(format!(
                "{target} has the {} before it; repair the source for the rest",
                entries(self.entries)
            ))
            .tell();
        exit
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
                    exit = Exit::Unsure;
                    let what =
                        "ambiguous tail: what follows the last record is a torn write or damage";
                    let failure = Failure::new(exit, what).at(&source);
                    failure.next(format!("seawall verify {source}")).tell();
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

    fn as_json(
        &self,
        source: &Source,
        (made, damage, remarks): (Made, Option<&Damage>, &[Remark]),
    ) -> Value {
        let zeros = remarks.iter().find_map(|remark| match remark {
            Remark::ZerosAtEnd(entries) => Some(*entries),
            _ => None,
        });
        let given_up = remarks.iter().filter_map(|remark| match remark {
            Remark::GivenUp(lost) => Some(lost_as_json(lost)),
            _ => None,
        });
        json!({
            "schema": "seawall.convert/1",
            "source": self.args.source.display().to_string(),
            "target": self.args.target.display().to_string(),
            "from": source.format.name(),
            "to": self.args.to.name(),
            "codec": self.way.target.name(),
            "entries": self.entries,
            "bytes": self.bytes,
            "made": made == Made::New,
            "damage": damage.map(|damage| json!({
                "entry": damage.entry,
                "offset": damage.offset,
                "segment": damage.segment,
                "cause": damage.cause,
                "why": damage.why,
            })),
            "given_up": given_up.collect::<Vec<_>>(),
            "unsure_tail": remarks.contains(&Remark::UnsureTail),
            "zero_entries_at_end": zeros.unwrap_or(0),
        })
    }
}

fn entries(count: u64) -> String {
    format!("{} {}", number(count), if count == 1 { "entry" } else { "entries" })
}
