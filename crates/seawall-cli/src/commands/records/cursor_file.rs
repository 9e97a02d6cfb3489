//! A file that stores a position in a log and is replaced atomically.

use crate::commands::outside;
use seawall::Lsn;
use seawall_host::{folder_and_name, open_if_any, read_start, replace_file};
use seawall_io::{Access, PosixStorage};
use seawall_measure::scratch::Watched;
use seawall_output::report::{Exit, Failure};
use std::io;
use std::path::{Path, PathBuf};

/// A 64-bit number has 20 digits; the rest is for whitespace added by hand.
const SIZE_MAX: u64 = 64;
/// The maximum number of temporary names to try.
const NAMES_MAX: u32 = 1000;

/// A reader's position in a log, stored in a file.
#[derive(Debug)]
pub(crate) struct Bookmark {
    path: PathBuf,
    folder: PosixStorage,
    name: String,
    /// The stored position.
    position: Option<Lsn>,
}

impl Bookmark {
    /// Reads the file, if it exists. Refuses one inside a log: it would replace a file of the log,
    /// or be mistaken for one.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        outside::check_path(path)?;
        let fail = |error: &io::Error| trouble("read", path, error);
        let found = folder_and_name(path);
        let (folder, name) = found.ok_or_else(|| fail(&io::ErrorKind::InvalidFilename.into()))?;
        let folder = PosixStorage::open(folder).map_err(|error| fail(&error))?;
        let file = open_if_any(&folder, name, Access::Read).map_err(|error| fail(&error))?;
        let text = file.map(|file| read_start(&*file, SIZE_MAX)).transpose();
        let text = text.map_err(|error| fail(&error))?;
        let position = text.map(|text| parse(&text).ok_or_else(|| nonsense(path))).transpose()?;
        Ok(Self { path: path.to_owned(), folder, name: name.to_owned(), position })
    }

    /// The next record to read; `None` if the file does not exist yet.
    pub(crate) fn position(&self) -> Option<Lsn> {
        self.position
    }

    /// Stores the position. After a power failure, the file has this position or the previous one.
    pub(crate) fn save(&mut self, position: Lsn) -> Result<(), Failure> {
        if self.position != Some(position) {
            let text = format!("{position}\n");
            self.replace(text.as_bytes()).map_err(|error| trouble("write", &self.path, &error))?;
            self.position = Some(position);
        }
        Ok(())
    }

    /// Replaces the file by way of a new one whose name no other file has. A signal removes it.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let process = std::process::id();
        for number in 0..NAMES_MAX {
            let temporary = format!(".{}.{process}.{number}.new", self.name);
            let _watched = Watched::new(&self.path.with_file_name(&temporary))?;
            match replace_file(&self.folder, (&self.name, &temporary), text) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                replaced => return replaced,
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

fn parse(text: &[u8]) -> Option<Lsn> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().and_then(Lsn::new)
}

fn nonsense(path: &Path) -> Failure {
    let failure = Failure::new(Exit::Failed, "the cursor file does not hold an LSN");
    failure.at(path.display()).next("write the LSN of the next record into it, or remove it")
}

fn trouble(act: &str, path: &Path, error: &io::Error) -> Failure {
    let failure = Failure::new(Exit::Failed, format!("cannot {act} the cursor file: {error}"));
    failure.at(path.display()).next("give another file with --cursor-file, or fix this one")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_exactly_one_number() {
        assert_eq!(parse(b"7\n"), Lsn::new(7));
        assert_eq!(parse(b" 18446744073709551614 \n"), Lsn::new(u64::MAX - 1));
        for text in [&b""[..], b"0\n", b"-1", b"7 8", b"seven", b"\xff", b"99999999999999999999"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
