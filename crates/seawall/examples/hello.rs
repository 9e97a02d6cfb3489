//! The smallest program: write, close, open, read.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn};
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "hello.wal".to_owned());
    let log: Log<String> = Log::open(&folder)?; // creates or opens; recovery happens here
    let lsn = log.append(&"hello".to_owned())?; // returns when durable
    let mut out = std::io::stdout().lock();
    writeln!(out, "record {lsn} is durable; so far there are:")?;
    for entry in log.read_from(Lsn::FIRST)? {
        let (lsn, greeting) = entry?;
        writeln!(out, "{lsn}: {greeting}")?;
    }
    Ok(())
}
