//! A queue between two processes, whose log keeps what is not done yet and little more.
//!
//! `queue LOG` reads "put TEXT" and "done LSN" from standard input: work, and from where on it is
//! still needed. A consumer takes the work with `seawall tail -f`. After each 500 lines that were
//! put, and at the end, it prints the number of the last record that is durable.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn, Options, Raw, Ticket};
use std::error::Error;
use std::io::{self, Write};

/// How many records share a sync.
const TOGETHER: usize = 500;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: queue LOG")?;
    // Whole segments are given up, so short ones keep the log short.
    let log: Log<[u8], Raw> =
        Options::new().segment_size(seawall::format::SEGMENT_MIN).open(path)?;
    let mut waiting = vec![];
    for line in io::stdin().lines() {
        match line?.split_once(' ') {
            Some(("put", text)) => waiting.push(log.submit(text.as_bytes())?),
            Some(("done", lsn)) => give_up(&log, lsn)?,
            _ => return Err("neither `put TEXT` nor `done LSN`".into()),
        }
        if waiting.len() == TOGETHER {
            acknowledge(&mut waiting)?;
        }
    }
    acknowledge(&mut waiting)?;
    Ok(log.close()?)
}

/// The last of them is durable, and so is everything before.
fn acknowledge(waiting: &mut Vec<Ticket>) -> Result<(), Box<dyn Error>> {
    let Some(last) = waiting.drain(..).next_back() else { return Ok(()) };
    Ok(writeln!(io::stdout(), "{}", last.wait()?)?)
}

/// Gives up what stands before the record that the consumer takes next.
fn give_up(log: &Log<[u8], Raw>, next: &str) -> Result<(), Box<dyn Error>> {
    let next = Lsn::new(next.parse()?).ok_or("records are numbered from 1")?;
    log.truncate_before(next)?;
    Ok(())
}
