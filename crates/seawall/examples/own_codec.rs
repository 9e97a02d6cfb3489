//! A codec of your own: each record is a line of CSV, which other tools read as it is.
//!
//! `own_codec LOG` appends a reading and prints all of them; so does `seawall cat LOG -o raw`.

#![forbid(unsafe_code)]

use seawall::format::CodecId;
use seawall::{Codec, CodecError, Log};
use std::io::Write;

/// What a sensor measured.
struct Reading {
    sensor: String,
    celsius: f64,
}

/// `sensor,celsius`
enum Csv {}

impl Codec<Reading> for Csv {
    type Item = Reading;
    // These bytes are in none of the encodings that Seawall knows. The name keeps others out.
    const ID: CodecId = CodecId::Raw;
    const TYPE_NAME: &'static str = "reading-csv";

    fn encode(reading: &Reading, payload: &mut Vec<u8>) -> Result<(), CodecError> {
        let Reading { sensor, celsius } = reading;
        // Refuse a record that would not read back as it is.
        if sensor.contains([',', '\n']) || !celsius.is_finite() {
            return Err(format!("{sensor:?} at {celsius} does not fit into a line").into());
        }
        payload.extend_from_slice(format!("{sensor},{celsius}").as_bytes());
        Ok(())
    }

    fn decode(payload: &[u8]) -> Result<Reading, CodecError> {
        let (sensor, celsius) = str::from_utf8(payload)?.split_once(',').ok_or("no comma")?;
        Ok(Reading { sensor: sensor.to_owned(), celsius: celsius.parse()? })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: own_codec LOG")?;
    let log: Log<Reading, Csv> = Log::open(path)?;
    log.append(&Reading { sensor: "roof".to_owned(), celsius: -3.25 })?;
    for entry in log.read_from(log.replay_start())? {
        let (lsn, Reading { sensor, celsius }) = entry?;
        writeln!(std::io::stdout(), "{lsn}: {sensor} {celsius}")?;
    }
    Ok(log.close()?)
}
