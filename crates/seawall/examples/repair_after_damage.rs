//! A log is damaged and rescued: everything intact goes to a new log, with its numbers.
//!
//! `repair_after_damage FOLDER`: writes a log there, flips a bit of it, and shows what follows.

#![forbid(unsafe_code)]
#![expect(clippy::disallowed_methods, reason = "it damages the log as a disk would")]

use seawall::{Error, Log, LogReader, Lsn, Maintenance};
use std::io::Write;
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "repair-example".to_owned());
    let (damaged, rescued) = (Path::new(&folder).join("log"), Path::new(&folder).join("rescued"));
    std::fs::create_dir_all(&folder)?;
    let log: Log<String> = Log::open(&damaged)?;
    for number in 1..=5 {
        log.append(&format!("payment number {number}"))?;
    }
    log.close()?;
    flip_a_bit(&damaged.join("000000000001.seg"), b"number 3")?;

    let mut out = std::io::stdout().lock();
    for damage in Maintenance::at(&damaged).verify()?.damage {
        writeln!(out, "verify: {damage}")?;
    }
    if let Err(error @ Error::Damaged { .. }) = Log::<String>::open(&damaged) {
        writeln!(out, "open:   {error}")?;
    }
    let done = Maintenance::at(&damaged).salvage(&rescued)?;
    writeln!(out, "rescued {} records; the damaged log is as it was", done.records)?;
    let reader: LogReader<String> = LogReader::open(&rescued)?;
    for entry in reader.read_from(Lsn::FIRST)? {
        let (lsn, payment) = entry?;
        writeln!(out, "{lsn}: {payment}")?;
    }
    Ok(())
}

fn flip_a_bit(file: &Path, near: &[u8]) -> std::io::Result<()> {
    let mut bytes = std::fs::read(file)?;
    let place = bytes.windows(near.len()).position(|window| window == near);
    let place = place.ok_or_else(|| std::io::Error::other("the record is not there"))?;
    if let Some(byte) = bytes.get_mut(place) {
        *byte ^= 1;
    }
    std::fs::write(file, bytes)
}
