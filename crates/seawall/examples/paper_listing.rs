//! Listing 1 of *Design and Reliability of a User Space Write-Ahead Log in Rust*, and the restore
//! that it leaves out.

#![forbid(unsafe_code)]

use seawall::paper::BinLogger;
use serde::{Deserialize, Serialize};
use std::io::Write;

#[derive(Deserialize, Serialize)]
struct Record {
    id: u32,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "records.wal".to_owned());
    let mut out = std::io::stdout().lock();

    let logger: BinLogger<Record> = BinLogger::new(&folder);

    let record = Record { id: 42 };

    if let Err(e) = logger.write_data(&record) {
        writeln!(out, "Something went wrong: {e}")?;
    }

    let records = logger.retrieve_iterator()?;
    for record in records {
        // Restore record
        writeln!(out, "restored {}", record?.id)?;
    }
    Ok(())
}
