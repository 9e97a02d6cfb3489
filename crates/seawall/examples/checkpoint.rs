//! A snapshot covers the log up to here: the next open need not look at what stands before.
//!
//! `checkpoint LOG` notes that for all the records there are, and prints the last of them.

#![forbid(unsafe_code)]

use seawall::{Log, Options, Raw};
use std::error::Error;
use std::io::{self, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: checkpoint LOG")?;
    let log: Log<[u8], Raw> = Options::new().create(false).open(path)?;
    // Here a program would make its snapshot durable: first that, then the checkpoint.
    let Some(last) = log.recovery().last else { return Err("the log has no record".into()) };
    log.checkpoint(last)?;
    writeln!(io::stdout(), "{last}")?;
    Ok(log.close()?)
}
