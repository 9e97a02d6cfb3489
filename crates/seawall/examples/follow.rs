//! A second pair of eyes: one thread appends, another follows and is woken by each commit.
//!
//! `follow LOG`. In another process the same works with [`LogReader::follow`], which looks every
//! 50 ms; the number of the next record is all there is to remember.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "follow.wal".to_owned());
    let log: Arc<Log<String>> = Arc::new(Log::open(&folder)?);
    let from = log.durable().map_or(Lsn::FIRST, Lsn::next);
    let mut follower = log.follow(from)?;
    let writer = {
        let log = log.clone();
        std::thread::spawn(move || {
            (1..=5).try_for_each(|n| log.append(&format!("event {n}")).map(drop))
        })
    };
    let mut out = std::io::stdout().lock();
    while let Some((lsn, event)) = follower.next_within(Duration::from_millis(500))? {
        writeln!(out, "{lsn}: {event}")?;
    }
    writeln!(
        out,
        "nothing new for half a second; to go on later, begin at {}",
        follower.position()
    )?;
    writer.join().map_err(|_| "the writer panicked")??;
    Ok(())
}
