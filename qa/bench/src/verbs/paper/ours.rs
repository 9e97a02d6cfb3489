//! Writes and reads the paper's records with Seawall. All records are durable when the clock stops.

use super::records::Record;
use super::{Format, Measured, sets};
use seawall::format::CodecId;
use seawall::{Codec, Json, Layout, Level, Log, Lsn, Options, Positional};
use seawall_measure::machine::Stopwatch;
use seawall_measure::pairs::Trouble;
use std::path::Path;
use std::time::Duration;

/// When the writer waits for durability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Once, at the end, for all records.
    AtTheEnd,
    /// After each set. Stops after this time, with as many sets as were written.
    EachSet(Duration),
}

/// Writes `total` records in sets of `size`, or as many as the time allows.
pub(crate) fn write(
    folder: &Path,
    (format, wait): (Format, Wait),
    what: (&[Record], usize, u64),
) -> Result<Measured, Trouble> {
    match format {
        Format::MessagePack => write_as::<Positional>(folder, wait, what),
        Format::Json => write_as::<Json>(folder, wait, what),
    }
    .map_err(Trouble::Ours)
}

fn write_as<C: Codec<Record>>(
    folder: &Path,
    wait: Wait,
    (records, size, total): (&[Record], usize, u64),
) -> seawall::Result<Measured> {
    let level = match wait {
        Wait::AtTheEnd => Level::Buffered,
        Wait::EachSet(_) => Level::Synced,
    };
    let log: Log<Record, C> = options::<C>().level(level).open(folder.join("log"))?;
    let watch = Stopwatch::start();
    let mut written = 0;
    for set in sets(records, size, total) {
        log.append(set)?;
        written += 1;
        if let Wait::EachSet(time) = wait
            && watch.elapsed() >= time
        {
            break;
        }
    }
    let last = log.flush()?;
    let time = watch.elapsed();
    assert_eq!(last.map_or(0, Lsn::get), written, "all that was written is durable");
    let records = written * super::to_u64(size);
    let bytes = log.stats().bytes;
    log.close()?;
    Ok(Measured { time, records, bytes })
}

fn options<C: Codec<Record>>() -> Options {
    let layout = if C::ID == CodecId::Json { Layout::Text } else { Layout::Binary };
    Options::new().layout(layout)
}

/// Reads the records back, verified and decoded one by one.
pub(super) fn read(
    folder: &Path,
    format: Format,
    (size, bytes): (usize, u64),
) -> Result<Measured, Trouble> {
    let (sets, time) = match format {
        Format::MessagePack => read_as::<Positional>(folder),
        Format::Json => read_as::<Json>(folder),
    }
    .map_err(Trouble::Ours)?;
    Ok(Measured { time, records: sets * super::to_u64(size), bytes })
}

/// Returns the number of sets, and the time.
fn read_as<C: Codec<Record, Item = Record>>(folder: &Path) -> seawall::Result<(u64, Duration)> {
    let watch = Stopwatch::start();
    let reader = options::<C>().open_reader::<Record, C>(folder.join("log"))?;
    let mut count = 0;
    for entry in reader.read_from(Lsn::FIRST)? {
        entry?;
        count += 1;
    }
    Ok((count, watch.elapsed()))
}
