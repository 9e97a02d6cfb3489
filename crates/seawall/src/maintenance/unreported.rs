//! Losses of a repair that was killed before it could report them: a note in quarantine, so that
//! the next repair reports them.
//!
//! The file `TIME-cut.report` or `TIME-mend.report` is text. Its first line is a CRC32C of the
//! others, bound to the log id; each other line has a word and its values, where 0 or `-` is none.
//! The note is durable before the repair hides what was lost, and is removed once the losses are
//! reported.

use crate::base::env::Env;
use crate::base::error::{Corruption, Damage, Error, Lost, Origin, Result};
use crate::files::directory::{QUARANTINE, read_small};
use seawall_format::{ChangedPart, LogId, Lsn, Offset, Salt, SegmentId};
use seawall_io::Storage;
use std::io;
use std::str::SplitWhitespace;
use std::sync::Arc;

/// The maximum size of a note.
const SIZE_MAX: usize = 64 << 20;

/// Which repair wrote a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Truncation,
    Repair,
}

impl By {
    fn suffix(self) -> &'static str {
        match self {
            Self::Truncation => "-cut.report",
            Self::Repair => "-mend.report",
        }
    }
}

/// What a repair has to report, and the next one would no longer find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// The last remaining record.
    pub(crate) last: Option<Lsn>,
    /// The highest segment id before a truncation: the segment that it continues in has a higher
    /// one.
    pub(crate) max_id: Option<SegmentId>,
    /// The intact records that a truncation gave up.
    pub(crate) intact_behind: u64,
    pub(crate) end_by_replica: Option<Lsn>,
    pub(crate) unproven: Vec<Lost>,
    pub(crate) damage: Vec<Damage>,
    /// The copies in quarantine.
    pub(crate) kept: Vec<String>,
}

/// A note on the device.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    /// The path, relative to the log's directory.
    pub(crate) place: String,
    pub(crate) losses: Losses,
}

/// The valid notes of this log, oldest first.
pub(crate) fn notes(log: &Arc<dyn Storage>, id: Option<LogId>, by: By) -> Result<Vec<Note>> {
    let folder = log.folder_if_any(QUARANTINE);
    let folder = folder.map_err(Error::io(format!("open {QUARANTINE}")))?;
    let Some((folder, id)) = folder.zip(id) else { return Ok(vec![]) };
    let names = folder.list().map_err(Error::io(format!("list {QUARANTINE}")))?;
    let mut found = vec![];
    for name in names.iter().filter(|name| name.ends_with(by.suffix())) {
        let bytes = read_small(&*folder, name, SIZE_MAX)?.unwrap_or_default();
        // A killed repair may have left an incomplete note; then it had not changed anything.
        if let Some(losses) = Losses::decode(&bytes, id) {
            found.push(Note { place: format!("{QUARANTINE}/{name}"), losses });
        }
    }
    Ok(found)
}

/// Writes a note, durably. Returns its path.
pub(crate) fn write(env: &Env, (id, by): (LogId, By), losses: &Losses) -> Result<String> {
    let name = format!("{:020}{}", env.clock.wall_us(), by.suffix());
    let failed = || Error::io_in(format!("write {QUARANTINE}/{name}"));
    let folder = env.storage.folder(QUARANTINE).map_err(failed())?;
    let written = fill(&*folder, &name, &losses.encode(id));
    if written.is_err() {
        let _ = folder.remove(&name);
    }
    written.map_err(failed())?;
    Ok(format!("{QUARANTINE}/{name}"))
}

fn fill(folder: &dyn Storage, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = folder.create(name)?;
    file.write_at(bytes, 0)?;
    file.sync()?;
    folder.sync_dir()
}

/// Removes notes. If that fails, the losses are reported once more.
pub(crate) fn remove(log: &Arc<dyn Storage>, places: &[String]) {
    if places.is_empty() {
        return;
    }
    let Ok(Some(folder)) = log.folder_if_any(QUARANTINE) else { return };
    for name in places.iter().filter_map(|place| place.strip_prefix(QUARANTINE)) {
        let _ = folder.remove(name.trim_start_matches('/'));
    }
    let _ = folder.sync_dir();
}

impl Losses {
    /// The size of the note in bytes.
    pub(crate) fn size(&self) -> usize {
        self.encode(LogId(0)).len()
    }

    fn encode(&self, id: LogId) -> Vec<u8> {
        let lsn = |lsn: Option<Lsn>| lsn.map_or(0, Lsn::get);
        let segment = |id: Option<SegmentId>| id.map_or(0, SegmentId::get);
        let lines = [
            format!("last {}\n", lsn(self.last)),
            format!("max-id {}\n", segment(self.max_id)),
            format!("intact {}\n", self.intact_behind),
            format!("end-by-replica {}\n", lsn(self.end_by_replica)),
        ];
        let unproven = |lost: &Lost| format!("unproven {} {}\n", lost.from, lsn(lost.to));
        let damage = |damage: &Damage| {
            let (cause, segment, offset) =
                (damage.cause.name(), segment(damage.segment), damage.offset.0);
            let (from, to) = (damage.lost.map(|lost| lost.from), damage.lost.and_then(|l| l.to));
            let (bytes, from, to) = (damage.bytes, lsn(from), lsn(to));
            let changed = damage.changed.map_or("-", ChangedPart::name);
            let origin = damage.origin.map_or((0, 0), |at| (at.segment.get(), at.offset.0));
            let place = format!("{segment} {offset} {bytes} {from} {to}");
            format!("damage {cause} {place} {changed} {} {}\n", origin.0, origin.1)
        };
        let lines = lines.into_iter().chain(self.unproven.iter().map(unproven));
        let lines = lines.chain(self.damage.iter().map(damage));
        let text: String = lines.chain(self.kept.iter().map(|at| format!("kept {at}\n"))).collect();
        let checksum = Salt::of_log(id).checksum(Offset(0), text.as_bytes());
        format!("{checksum:08x}\n{text}").into_bytes()
    }

    /// Reads a note of this log; `None` if it is not valid.
    fn decode(bytes: &[u8], id: LogId) -> Option<Self> {
        let (checksum, text) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        let expected = Salt::of_log(id).checksum(Offset(0), text.as_bytes());
        if checksum != format!("{expected:08x}") {
            return None;
        }
        let mut losses = Self::default();
        for line in text.lines() {
            losses.add_line(&mut line.split_whitespace())?;
        }
        Some(losses)
    }

    fn add_line(&mut self, words: &mut SplitWhitespace<'_>) -> Option<()> {
        match words.next()? {
            "last" => self.last = Lsn::new(number(words)?),
            "max-id" => self.max_id = SegmentId::new(number(words)?),
            "intact" => self.intact_behind = number(words)?,
            "end-by-replica" => self.end_by_replica = Lsn::new(number(words)?),
            "unproven" => self.unproven.push(lost(number(words)?, number(words)?)?),
            "damage" => self.damage.push(damage(words)?),
            "kept" => self.kept.push(words.next()?.to_owned()),
            // A newer program may say more.
            _ => {}
        }
        Some(())
    }
}

fn number(words: &mut SplitWhitespace<'_>) -> Option<u64> {
    words.next()?.parse().ok()
}

fn damage(words: &mut SplitWhitespace<'_>) -> Option<Damage> {
    let cause = words.next()?;
    let cause = Corruption::ALL.into_iter().find(|known| known.name() == cause)?;
    let segment = SegmentId::new(number(words)?);
    let (offset, bytes) = (Offset(number(words)?), number(words)?);
    let (lost, changed) = (lost(number(words)?, number(words)?), words.next()?);
    let changed = ChangedPart::ALL.into_iter().find(|part| part.name() == changed);
    let (origin, at) = (SegmentId::new(number(words)?), Offset(number(words)?));
    let origin = origin.map(|segment| Origin { segment, offset: at });
    Some(Damage { segment, offset, bytes, lost, cause, changed, origin })
}

/// The range of records, if it is not empty.
fn lost(from: u64, to: u64) -> Option<Lost> {
    Lsn::new(from).map(|from| Lost { from, to: Lsn::new(to) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses() -> Losses {
        let lsn = |number| Lsn::new(number).expect("not zero");
        let lost = Lost { from: lsn(7), to: None };
        let segment = SegmentId::new(3);
        let damage = |cause| Damage { segment, bytes: 9, lost: Some(lost), ..Damage::new(cause) };
        let origin = Some(Origin { segment: SegmentId::FIRST, offset: Offset(8) });
        let changed = |part| {
            let changed = Some(part);
            Damage { changed, origin, ..Damage::new(Corruption::Body) }
        };
        let parts = ChangedPart::ALL.into_iter().map(changed);
        Losses {
            last: Some(lsn(6)),
            max_id: segment,
            intact_behind: 2,
            end_by_replica: None,
            unproven: vec![lost, Lost { from: lsn(1), to: Some(lsn(2)) }],
            damage: Corruption::ALL.into_iter().map(damage).chain(parts).collect(),
            kept: vec!["quarantine/one".to_owned()],
        }
    }

    #[test]
    fn note_says_what_was_written_and_only_for_its_log() {
        let bytes = losses().encode(LogId(5));
        assert_eq!(Losses::decode(&bytes, LogId(5)), Some(losses()));
        assert_eq!(Losses::decode(&bytes, LogId(6)), None);
        for length in 0..bytes.len() {
            assert_eq!(Losses::decode(bytes.get(..length).expect("shorter"), LogId(5)), None);
        }
    }
}
