//! The target of a conversion: a file or log that is created completely or not at all. An existing
//! target is compared instead, and never changed.

use super::place::{Place, unreadable};
use crate::args::ForeignFormat;
use crate::commands::opener::Opener;
use seawall::format::CodecId;
use seawall::{Cursor, Error, Log, Raw};
use seawall_foreign::{cwal, json, msgpack};
use seawall_io::{Access, File, PosixStorage, Storage};
use seawall_measure::scratch::{Scratch, Watched};
use seawall_output::report::{Exit, Failure};
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
                give_name(&self.place, name)?;
                check_same(&self.place, self.file.has_name(), name)?;
                Made::New
            }
        };
        self.place.folder.sync_dir().map_err(fail)?;
        self.temporary = None;
        Ok(made)
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
    /// Bytes appended since the last wait.
    pending: usize,
}

enum State {
    /// Creates a log under a temporary name.
    Making { log: Box<Log<[u8], Raw>>, folder: Scratch, name: String, made: PosixStorage },
    /// Compares the records with those of an existing log.
    Comparing(Box<Cursor>),
}

impl LogTarget {
    fn open(place: Place, codec: CodecId, opener: &Opener) -> Result<Self, Failure> {
        let state = if place.path.symlink_metadata().is_ok() {
            let there = opener.reader(&place.path).and_then(|reader| {
                let cursor = reader.cursor(reader.oldest()?)?;
                Ok((reader.codec(), cursor))
            });
            match there {
                Ok((found, cursor)) if found == codec => State::Comparing(Box::new(cursor)),
                Ok(_) => return Err(conflict(&place)),
                Err(error) => return Err(not_compared(&place, &error)),
            }
        } else {
            let name = temporary_name(&place);
            let folder = Scratch::around(place.parent.join(&name))?;
            let options = opener.options().codec(codec);
            let log = options.open(folder.path()).map_err(|error| failed(&place, &error))?;
            let made = PosixStorage::open(folder.path());
            let made = made.map_err(|error| unreadable(&place.path, error))?;
            State::Making { log: Box::new(log), folder, name, made }
        };
        Ok(Self { place, state, pending: 0 })
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
            State::Comparing(cursor) => match cursor.next_record() {
                Ok(Some(record)) if record.payload == content => Ok(()),
                Ok(_) => Err(conflict(&self.place).into()),
                Err(error) => Err(not_compared(&self.place, &error).into()),
            },
        }
    }

    fn finish(self) -> Result<Made, Failure> {
        let Self { place, state, .. } = self;
        let fail = |error: io::Error| unreadable(&place.path, error);
        match state {
            State::Comparing(mut cursor) => match cursor.next_record() {
                Ok(None) => {
                    place.folder.sync_dir().map_err(fail)?;
                    Ok(Made::Same)
                }
                Ok(Some(_)) => Err(conflict(&place)),
                Err(error) => Err(not_compared(&place, &error)),
            },
            State::Making { log, mut folder, name, made } => {
                log.close().map_err(|error| failed(&place, &error))?;
                check_same(&place, made.is_at(folder.path()), &name)?;
                give_name(&place, &name)?;
                check_same(&place, made.is_at(&place.parent.join(&place.name)), &name)?;
                folder.keep();
                place.folder.sync_dir().map_err(fail)?;
                Ok(Made::New)
            }
        }
    }
}

/// Renames the new target to its final name. Never replaces one that another process has created
/// meanwhile.
fn give_name(place: &Place, temporary: &str) -> Result<(), Failure> {
    let renamed = place.folder.rename_new(temporary, &place.name);
    renamed.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => conflict(place),
        _ => unreadable(&place.path, error),
    })
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
            give_name(&place, &new).unwrap();
            create(&folder, &new);
            let refused = give_name(&place, &new).unwrap_err();
            assert_eq!(refused.exit, Exit::Conflict);
            assert!(scratch.path().join(&new).symlink_metadata().is_ok(), "both are there");
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
