//! The process that the demo kills: up to eight threads write, and acknowledge each durable record.

use super::earthquake::{Catalogue, Earthquake};
use crate::args::DemoWriter;
use seawall::Log;
use seawall_output::report::{Exit, Failure};
use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const THREADS: usize = 8;

/// Writes until this process is killed, or the reader of the acknowledgements closes the pipe.
pub(crate) fn run(args: &DemoWriter) -> Result<Exit, Failure> {
    let catalogue = Catalogue::read()?;
    let fail = |error| Failure::of(&error, "demo", &args.log);
    let log: Log<Earthquake> = Log::open(&args.log).map_err(fail)?;
    let next = AtomicUsize::new(args.start);
    thread::scope(|scope| {
        let write = || write(&log, &catalogue, &next);
        let start = |_| thread::Builder::new().spawn_scoped(scope, write).ok();
        let threads: Vec<_> = (0..THREADS).map_while(start).collect();
        if threads.is_empty() {
            // The system starts no thread.
            return write();
        }
        threads.into_iter().try_for_each(|thread| thread.join().expect("a writer returns"))
    })
    .map_err(fail)?;
    log.close().map_err(fail)?;
    Ok(Exit::Fine)
}

fn write(log: &Log<Earthquake>, catalogue: &Catalogue, next: &AtomicUsize) -> seawall::Result<()> {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let lsn = log.append(catalogue.event(number))?;
        // One call writes a whole line, so every line that the witness reads was durable before the
        // kill.
        let line = format!("{lsn} {number}\n");
        let mut out = io::stdout().lock();
        if out.write_all(line.as_bytes()).and_then(|()| out.flush()).is_err() {
            return Ok(());
        }
    }
}
