//! A step, in the process that runs it: writes a log, reads it, or appends to it.

use super::{RECORDS, SIZE};
use crate::args::{Act, Step};
use crate::payload::{Check, Order, Payloads};
use crate::peer::{Done, Kind, Level, Place};
use crate::peers::DAMAGED;
use crate::tell;
use seawall_bench::failure::Failure;
use seawall_bench::output::say;

/// The folder of the log, below the current folder of the process.
const FOLDER: &str = "log";

/// Returns the log with this name.
pub(super) fn named(name: &str) -> Option<&'static Kind> {
    DAMAGED.iter().find(|kind| tell::key(kind) == name).copied()
}

/// Runs one step in the current folder.
pub(crate) fn run(args: &Step) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: {error}", args.act.name()), &args.peer, "see its documents")
    };
    let kind = named(&args.peer).ok_or_else(|| failed(&"there is no such log"))?;
    let home = std::env::current_dir().map_err(|error| failed(&error))?;
    let folder = home.join(FOLDER);
    let kept = RECORDS + 1;
    let place = Place { folder: &folder, level: Level::Synced, threads: 1, size: SIZE, kept };
    let done = match args.act {
        Act::Write => write(kind, &place),
        Act::Read => return read(kind, &place).map_err(|error| failed(&error)),
        Act::Append => append(kind, &place),
    };
    done.map_err(|error| failed(&error))
}

/// Writes all records and ends without closing the log, as in a crash.
fn write(kind: &Kind, place: &Place<'_>) -> Done {
    let peer = (kind.open)(place)?;
    for record in Payloads::new(SIZE).first(RECORDS) {
        peer.append(0, &record)?;
    }
    std::mem::forget(peer);
    Ok(())
}

/// Reads all records and prints how many were delivered, even if an error ended the reading.
fn read(kind: &Kind, place: &Place<'_>) -> Done {
    let mut check = Check::new(place.kept, SIZE, Order::Damaged);
    let done = (kind.reader)(place).and_then(|mut reader| {
        check.begin(reader.rewind()?, None);
        reader.read(&mut check)
    });
    say(&[check.delivered().to_string()]).map_err(|_| "nothing can be printed")?;
    done
}

/// Appends one more record.
fn append(kind: &Kind, place: &Place<'_>) -> Done {
    let record = Payloads::new(SIZE).first(place.kept).pop().ok_or("there is no record")?;
    let peer = (kind.open)(place)?;
    peer.append(0, &record)?;
    peer.close()
}
