//! The target of a conversion: a file or log that is created completely or not at all. An existing
//! target is compared instead, and never changed.

use super::place::{Place, unreadable};
use crate::args::ForeignFormat;
use crate::commands::opener::Opener;
use seawall::format::CodecId;
use seawall::recovery::TailState;
use seawall::{Cursor, Error, Log, Lsn, Maintenance, Raw};
use seawall_foreign::{cwal, json, msgpack};
use seawall_io::{Access, File, PosixStorage, Storage};
use seawall_measure::scratch::{Scratch, Watched};
use seawall_output::report::{Exit, Failure};
use seawall_output::text::typed;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// The number of bytes to write or compare at once; also the limit of unsynced bytes in a log.
const CHUNK: usize = 1 << 20;

/// Whether the target was created or existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Made {
    New,
    /// The target existed with the same content.
    Same,
}

/// Why the target refuses an entry.
pub(in crate::commands) enum Refusal {
    Failed(Failure),
    /// The entry exceeds the maximum record size of a log.
    TooLarge {
        size: usize,
        max: usize,
    },
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// A target that accepts entries.
pub(in crate::commands) enum Target {
    File(Box<FileTarget>),
    Log(Box<LogTarget>),
}

impl Target {
    /// Opens a target. Refuses one inside a log.
    pub(in crate::commands) fn open(
        path: &Path,
        (format, codec): (ForeignFormat, CodecId),
        opener: &Opener,
    ) -> Result<Self, Failure> {
        if format != ForeignFormat::Seawall {
            return Self::open_file(path, format);
        }
        let log = LogTarget::open(Place::find_outside(path)?, codec, opener)?;
        Ok(Self::Log(Box::new(log)))
    }

    /// Opens a target file in a foreign format. Refuses one inside a log.
    pub(in crate::commands) fn open_file(
        path: &Path,
        format: ForeignFormat,
    ) -> Result<Self, Failure> {
        let place = Place::find_outside(path)?;
        FileTarget::open(place, format).map(|file| Self::File(Box::new(file)))
    }

    pub(in crate::commands) fn put(&mut self, content: &[u8]) -> Result<(), Refusal> {
        match self {
            Self::File(file) => Ok(file.put(content)?),
            Self::Log(log) => log.put(content),
        }
    }

    /// Makes everything durable under the final name.
    pub(in crate::commands) fn finish(self) -> Result<Made, Failure> {
        match self {
            Self::File(file) => file.finish(),
            Self::Log(log) => log.finish(),
        }
    }
}

/// A file in one of the foreign formats.
pub(in crate::commands) struct FileTarget {
    place: Place,
    format: ForeignFormat,
    /// The existing file, or a new one under a temporary name.
    file: Arc<dyn File>,
    temporary: Option<Temporary>,
    /// Content not written or compared yet, and its offset.
    pending: Vec<u8>,
    at: u64,
}

/// The temporary name of a new file, which a signal removes.
struct Temporary {
    name: String,
    _watched: Watched,
}

impl Temporary {
    fn of(place: &Place) -> Result<Self, Failure> {
        let name = temporary_name(place);
        let watched = Watched::new(&place.parent.join(&name));
        let watched = watched.map_err(|error| unreadable(&place.path, error))?;
        Ok(Self { name, _watched: watched })
    }
}

impl FileTarget {
    fn open(place: Place, format: ForeignFormat) -> Result<Self, Failure> {
        let (file, temporary) = match place.folder.open(&place.name, Access::Read) {
            Ok(file) => (file, None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let temporary = Temporary::of(&place)?;
                let made = place.folder.create(&temporary.name);
                let made = made.map_err(|error| not_made(&place, &temporary.name, error))?;
                (made, Some(temporary))
            }
            // The target is not a file.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(conflict(&place));
            }
            Err(error) => return Err(unreadable(&place.path, error)),
        };
        Ok(Self { place, format, file, temporary, pending: vec![], at: 0 })
    }

    fn put(&mut self, content: &[u8]) -> Result<(), Failure> {
        match self.format {
            ForeignFormat::Cwal => cwal::write_binary(content, &mut self.pending),
            ForeignFormat::CwalText => cwal::write_text(content, &mut self.pending),
            ForeignFormat::Json => json::write(content, &mut self.pending),
            ForeignFormat::Msgpack => msgpack::write(content, &mut self.pending),
            ForeignFormat::Seawall => unreachable!("a log is a directory"),
        }
        if self.pending.len() >= CHUNK { self.hand_over() } else { Ok(()) }
    }

    /// Writes or compares the pending content.
    fn hand_over(&mut self) -> Result<(), Failure> {
        let fail = |error: io::Error| unreadable(&self.place.path, error);
        if self.temporary.is_some() {
            self.file.write_at(&self.pending, self.at).map_err(fail)?;
        } else {
            let mut there = vec![0; self.pending.len()];
            let read = self.file.read_at(&mut there, self.at).map_err(fail)?;
            if read < there.len() || there != self.pending {
                return Err(conflict(&self.place));
            }
        }
        self.at += u64::try_from(self.pending.len()).expect("it is in memory");
        self.pending.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<Made, Failure> {
        self.hand_over()?;
        let fail = |error: io::Error| unreadable(&self.place.path, error);
        if self.temporary.is_none() && self.file.len().map_err(fail)? != self.at {
            return Err(conflict(&self.place));
        }
        // Sync an existing file, too: the process that created it may have died before its sync.
        // The name of a new file must not become durable before its content.
        self.file.sync().map_err(fail)?;
        let made = match &self.temporary {
            None => Made::Same,
            Some(Temporary { name, .. }) => {
                if !give_name(&self.place, name)? {
                    self.compare_file()?;
                    self.place.folder.sync_dir().map_err(fail)?;
                    return Ok(Made::Same);
                }
                check_same(&self.place, self.file.has_name(), name)?;
                Made::New
            }
        };
        self.place.folder.sync_dir().map_err(fail)?;
        self.temporary = None;
        Ok(made)
    }
}

impl FileTarget {
    /// Compares the new file with the one that another process has created meanwhile.
    fn compare_file(&self) -> Result<(), Failure> {
        let fail = |error: io::Error| unreadable(&self.place.path, error);
        let there = match self.place.folder.open(&self.place.name, Access::Read) {
            Ok(there) => there,
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                return Err(conflict(&self.place));
            }
            Err(error) => return Err(fail(error)),
        };
        if there.len().map_err(fail)? != self.at {
            return Err(conflict(&self.place));
        }
        let (mut old, mut new, mut at) = (vec![0; CHUNK], vec![0; CHUNK], 0);
        while at < self.at {
            let read = there.read_at(&mut old, at).map_err(fail)?;
            let written = self.file.read_at(&mut new, at).map_err(fail)?;
            if read == 0 || old.get(..read) != new.get(..written) {
                return Err(conflict(&self.place));
            }
            at += u64::try_from(read).expect("it is in memory");
        }
        there.sync().map_err(fail)
    }
}

impl Drop for FileTarget {
    fn drop(&mut self) {
        if let Some(Temporary { name, .. }) = &self.temporary {
            // A file that cannot be removed is harmless: no other process uses its name.
            let _ = self.place.folder.remove(name);
        }
    }
}

/// A log.
pub(in crate::commands) struct LogTarget {
    place: Place,
    state: State,
    opener: Opener,
    codec: CodecId,
    /// Bytes appended since the last wait.
    pending: usize,
}

enum State {
    /// Creates a log under a temporary name.
    Making { log: Box<Log<[u8], Raw>>, folder: Scratch, name: String, made: PosixStorage },
    /// Compares the records with those of an existing log.
    Comparing(Box<Existing>),
}

/// An existing log, which has to have the records of a new one: all from LSN 1 on.
struct Existing {
    cursor: Cursor,
    next: Lsn,
    maintenance: Maintenance<'static>,
}

impl Existing {
    fn open(place: &Place, codec: CodecId, opener: &Opener) -> Result<Self, Failure> {
        let there = opener.reader(&place.path).and_then(|reader| {
            let cursor = reader.cursor(reader.oldest()?)?;
            Ok((reader.codec(), cursor))
        });
        match there {
            Ok((found, cursor)) if found == codec => {
                let maintenance = opener.maintenance(&place.path);
                Ok(Self { cursor, next: Lsn::FIRST, maintenance })
            }
            Ok(_) => Err(conflict(place)),
            Err(error) => Err(not_compared(place, &error)),
        }
    }

    /// Compares the next record.
    fn compare(&mut self, place: &Place, content: &[u8]) -> Result<(), Failure> {
        match self.cursor.next_record() {
            Ok(Some(record)) if record.lsn == self.next && record.payload == content => {
                self.next = record.lsn.next();
                Ok(())
            }
            Ok(_) => Err(conflict(place)),
            Err(error) => Err(not_compared(place, &error)),
        }
    }

    /// Checks that the log had no other records than those compared.
    fn finish(mut self, place: &Place) -> Result<Made, Failure> {
        match self.cursor.next_record() {
            Ok(None) => {}
            Ok(Some(_)) => return Err(conflict(place)),
            Err(error) => return Err(not_compared(place, &error)),
        }
        // Only verification tells whether the last record is the end of the log.
        let found = self.maintenance.verify().map_err(|error| not_compared(place, &error))?;
        let is_last = found.last_lsn == self.next.previous();
        if !is_last || !found.given_up.is_empty() {
            return Err(conflict(place));
        }
        if found.tail == TailState::Ambiguous {
            let what = "the target has the same records, but an ambiguous tail: torn write or \
                        damage";
            let failure = Failure::new(Exit::Unsure, what).at(place.path.display());
            return Err(failure.next(format!("seawall verify {}", typed(&place.path))));
        }
        place.folder.sync_dir().map_err(|error| unreadable(&place.path, error))?;
        Ok(Made::Same)
    }
}

impl LogTarget {
    fn open(place: Place, codec: CodecId, opener: &Opener) -> Result<Self, Failure> {
        let state = if place.path.symlink_metadata().is_ok() {
            State::Comparing(Box::new(Existing::open(&place, codec, opener)?))
        } else {
            let name = temporary_name(&place);
            let folder = Scratch::around(place.parent.join(&name))?;
            let options = opener.options().codec(codec);
            let log = options.open(folder.path()).map_err(|error| failed(&place, &error))?;
            let made = PosixStorage::open(folder.path());
            let made = made.map_err(|error| unreadable(&place.path, error))?;
            State::Making { log: Box::new(log), folder, name, made }
        };
        Ok(Self { place, state, opener: opener.clone(), codec, pending: 0 })
    }

    fn put(&mut self, content: &[u8]) -> Result<(), Refusal> {
        match &mut self.state {
            State::Making { log, .. } => {
                let ticket = match log.submit(content) {
                    Ok(ticket) => ticket,
                    Err(Error::TooLarge { size, max, .. }) => {
                        return Err(Refusal::TooLarge { size, max });
                    }
                    Err(error) => return Err(failed(&self.place, &error).into()),
                };
                self.pending += content.len();
                if self.pending >= CHUNK {
                    self.pending = 0;
                    ticket.wait().map_err(|error| failed(&self.place, &error))?;
                }
                Ok(())
            }
            State::Comparing(existing) => Ok(existing.compare(&self.place, content)?),
        }
    }

    fn finish(self) -> Result<Made, Failure> {
        let Self { place, state, opener, codec, .. } = self;
        let fail = |error: io::Error| unreadable(&place.path, error);
        match state {
            State::Comparing(existing) => existing.finish(&place),
            State::Making { log, mut folder, name, made } => {
                log.close().map_err(|error| failed(&place, &error))?;
                check_same(&place, made.is_at(folder.path()), &name)?;
                if !give_name(&place, &name)? {
                    return compare_logs(&place, folder.path(), (codec, &opener));
                }
                check_same(&place, made.is_at(&place.parent.join(&place.name)), &name)?;
                folder.keep();
                place.folder.sync_dir().map_err(fail)?;
                Ok(Made::New)
            }
        }
    }
}

/// Compares the new log with the one that another process has created meanwhile.
fn compare_logs(
    place: &Place,
    new: &Path,
    (codec, opener): (CodecId, &Opener),
) -> Result<Made, Failure> {
    let fail = |error: Error| failed(place, &error);
    let mut existing = Existing::open(place, codec, opener)?;
    let reader = opener.reader(new).map_err(fail)?;
    let mut cursor = reader.cursor(Lsn::FIRST).map_err(fail)?;
    while let Some(record) = cursor.next_record().map_err(fail)? {
        existing.compare(place, record.payload)?;
    }
    existing.finish(place)
}

/// Renames the new target to its final name, and returns whether it did: it never replaces one that
/// another process has created meanwhile.
fn give_name(place: &Place, temporary: &str) -> Result<bool, Failure> {
    match place.folder.rename_new(temporary, &place.name) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(unreadable(&place.path, error)),
    }
}

/// Refuses a new target that another process has removed or replaced.
fn check_same(place: &Place, is_same: io::Result<bool>, temporary: &str) -> Result<(), Failure> {
    if is_same.map_err(|error| unreadable(&place.path, error))? {
        return Ok(());
    }
    let what = "another process removed or replaced the new target";
    let failure = Failure::new(Exit::Failed, what).at(place.parent.join(temporary).display());
    Err(failure.next("convert again, to a name that does not exist"))
}

/// Returns a unique temporary name for the target's directory.
fn temporary_name(place: &Place) -> String {
    format!(".{}.{}.new", place.name, std::process::id())
}

fn conflict(place: &Place) -> Failure {
    let what = "the target exists with different content, and was not changed";
    let failure = Failure::new(Exit::Conflict, what).at(place.path.display());
    failure.next("give a name that does not exist")
}

/// The error of reading an existing target. What is damaged, no log, or a link to nothing has
/// different content.
fn not_compared(place: &Place, error: &Error) -> Failure {
    use io::ErrorKind::{NotADirectory, NotFound};
    match error {
        Error::Key { .. } => failed(place, error),
        Error::Io { source, .. } if ![NotADirectory, NotFound].contains(&source.kind()) => {
            failed(place, error)
        }
        _ => conflict(place),
    }
}

/// The error for a target that cannot be created.
fn not_made(place: &Place, name: &str, error: io::Error) -> Failure {
    if error.kind() != io::ErrorKind::AlreadyExists {
        return unreadable(&place.path, error);
    }
    let left = place.parent.join(name);
    let failure = Failure::new(Exit::Failed, "an interrupted run left its file").at(left.display());
    failure.next("remove it, and try again")
}

fn failed(place: &Place, error: &Error) -> Failure {
    Failure::of(error, "convert", &place.path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::KeyOption;

    #[test]
    fn target_that_another_process_has_created_is_not_replaced() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-target").unwrap();
        let folder = PosixStorage::open(scratch.path()).unwrap();
        let create: [fn(&PosixStorage, &str); 2] = [
            |folder, name| drop(folder.create(name).unwrap()),
            |folder, name| drop(folder.folder(name).unwrap()),
        ];
        for (number, create) in create.into_iter().enumerate() {
            let [name, new] = [format!("{number}"), format!("{number}.new")];
            let place = Place::find(&scratch.path().join(&name)).unwrap();
            create(&folder, &new);
            assert!(give_name(&place, &new).unwrap());
            create(&folder, &new);
            assert!(!give_name(&place, &new).unwrap());
            assert!(scratch.path().join(&new).symlink_metadata().is_ok(), "both are there");
        }
    }

    /// Two conversions of the same source run at the same time.
    #[test]
    fn equal_target_made_meanwhile_is_the_same() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-meanwhile").unwrap();
        let place = |name: &str| Place::find(&scratch.path().join(name)).unwrap();
        let opener = Opener::of(&KeyOption { key_file: None }).unwrap();
        for is_log in [false, true] {
            let start = || -> Target {
                if is_log {
                    let log = LogTarget::open(place("log"), CodecId::Raw, &opener).unwrap();
                    Target::Log(Box::new(log))
                } else {
                    let file = FileTarget::open(place("file"), ForeignFormat::Cwal).unwrap();
                    Target::File(Box::new(file))
                }
            };
            // The temporary names have the number of the process, so the others are made first.
            let made = |contents: &[&[u8]], to: &str| {
                let mut target = start();
                for content in contents {
                    assert!(target.put(content).is_ok());
                }
                assert_eq!(target.finish().unwrap(), Made::New);
                let name = if is_log { "log" } else { "file" };
                let folder = PosixStorage::open(scratch.path()).unwrap();
                folder.rename(name, to).unwrap();
            };
            made(&[b"one", b"two"], "same");
            made(&[b"one", b"other"], "different");
            for (there, expected) in [("same", Ok(Made::Same)), ("different", Err(Exit::Conflict))]
            {
                let mut target = start();
                assert!(target.put(b"one").is_ok() && target.put(b"two").is_ok());
                let name = if is_log { "log" } else { "file" };
                let folder = PosixStorage::open(scratch.path()).unwrap();
                folder.rename(there, name).unwrap();
                let ended = target.finish().map_err(|failure| failure.exit);
                assert_eq!(ended, expected, "{there}");
                folder.rename(name, &format!("{there}.{is_log}")).unwrap();
                let left = folder.list().unwrap();
                assert!(!left.iter().any(|name| name.starts_with('.')), "{left:?}");
            }
        }
    }

    #[test]
    fn target_that_another_process_has_replaced_is_not_reported() {
        let scratch = Scratch::new(&std::env::temp_dir(), "seawall-replaced").unwrap();
        let folder = PosixStorage::open(scratch.path()).unwrap();
        let place = |name: &str| Place::find(&scratch.path().join(name)).unwrap();
        let refused =
            |made: Result<Made, Failure>| assert_eq!(made.unwrap_err().exit, Exit::Failed);

        let file = FileTarget::open(place("file"), ForeignFormat::Json).unwrap();
        let name = temporary_name(&file.place);
        folder.remove(&name).unwrap();
        folder.create(&name).unwrap();
        refused(file.finish());

        let opener = Opener::of(&KeyOption { key_file: None }).unwrap();
        let log = LogTarget::open(place("log"), CodecId::Raw, &opener).unwrap();
        let name = temporary_name(&log.place);
        folder.rename(&name, "elsewhere").unwrap();
        folder.folder(&name).unwrap();
        refused(log.finish());
        assert!(!scratch.path().join("log").exists());
    }
}
