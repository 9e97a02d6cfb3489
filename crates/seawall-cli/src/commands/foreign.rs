//! Reads files in foreign formats, and recognises the format by the first entry.

use crate::args::ForeignFormat;
use seawall::Error;
use seawall_foreign::{Entries, Stop, cwal, json, msgpack};
use seawall_host::folder_and_name;
use seawall_io::{Access, File, PosixStorage, Storage};
use seawall_output::report::{Exit, Failure};
use seawall_output::text::typed;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// Formats with checksums are tried first.
const FORMATS: [ForeignFormat; 4] =
    [ForeignFormat::Cwal, ForeignFormat::CwalText, ForeignFormat::Msgpack, ForeignFormat::Json];

/// The entries of a file.
pub(super) fn entries(format: ForeignFormat, file: &Arc<dyn File>) -> Box<dyn Entries> {
    let input = Reader { file: file.clone(), at: 0 };
    match format {
        ForeignFormat::Cwal => Box::new(cwal::Binary::new(input)),
        ForeignFormat::CwalText => Box::new(cwal::Text::new(input)),
        ForeignFormat::Json => Box::new(json::Values::new(input)),
        ForeignFormat::Msgpack => Box::new(msgpack::Pairs::new(input)),
        ForeignFormat::Seawall => unreachable!("a log is a directory"),
    }
}

/// Returns the format in which the file's first entry is valid; `None` if no format fits.
pub(super) fn recognised(file: &Arc<dyn File>) -> io::Result<Option<ForeignFormat>> {
    for format in FORMATS {
        match entries(format, file).next() {
            Ok(Some(_)) | Err(Stop::TooLarge) => return Ok(Some(format)),
            Err(Stop::Io(error)) => return Err(error),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Returns the error of a verb that could not read a log. If the path is a file in a foreign
/// format, the error names the format and the command that converts it.
pub(super) fn failure(error: &Error, verb: &str, path: &Path) -> Failure {
    let format = match error {
        Error::NotALog { .. } if path.is_file() => found_at(path).ok().flatten(),
        _ => None,
    };
    let (name, what) = match format {
        Some(ForeignFormat::Cwal) => ("cwal", "a file of CWal"),
        Some(ForeignFormat::CwalText) => ("cwal-text", "a file of CWal in its text form"),
        Some(ForeignFormat::Msgpack) => ("msgpack", "a file of MessagePack records with CRC-32"),
        Some(ForeignFormat::Json) => ("json", "a file of JSON values"),
        Some(ForeignFormat::Seawall) | None => return Failure::of(error, verb, path),
    };
    let (source, target) = (typed(path), typed(&path.with_extension("seawall")));
    let failure = Failure::new(Exit::Format, format!("not a Seawall log, but {what}"));
    failure.at(path.display()).next(format!(
        "seawall convert {source} {target} --from {name} --to seawall; then seawall {verb} {target}"
    ))
}

fn found_at(path: &Path) -> io::Result<Option<ForeignFormat>> {
    let path = path.canonicalize()?;
    let (folder, name) = folder_and_name(&path).ok_or(io::ErrorKind::InvalidFilename)?;
    let file = PosixStorage::open(folder)?.open(name, Access::Read)?;
    let found = recognised(&file)?;
    if found != Some(ForeignFormat::Json) {
        return Ok(found);
    }
    // Text that is not JSON can begin with a number or a quoted word, so these prove nothing.
    let mut values = entries(ForeignFormat::Json, &file);
    let first = values.next().ok().flatten().and_then(<[u8]>::first).copied();
    let is_json = match first {
        Some(b'{' | b'[') => true,
        Some(b'"') => values.next().is_ok(),
        _ => false,
    };
    Ok(found.filter(|_| is_json))
}

/// Reads a file from start to end.
struct Reader {
    file: Arc<dyn File>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += u64::try_from(read).expect("a buffer is in memory");
        Ok(read)
    }
}
