//! Group commit for async tasks: hundreds of tasks await their records and share a few syncs.
//!
//! `tokio_tasks LOG TASKS`. A ticket is a future that does no I/O when polled, so it works with
//! tokio and with any other runtime. Awaiting a ticket blocks no thread. `submit` itself blocks
//! while records arrive faster than the device writes them (2 MiB may wait in memory). A program
//! that submits large records should limit the number of unawaited tickets, or call `submit` in
//! `spawn_blocking`.

#![forbid(unsafe_code)]

use seawall::{Log, Lsn};
use std::io::Write;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut given = std::env::args().skip(1);
    let folder = given.next().unwrap_or_else(|| "tasks.wal".to_owned());
    let tasks: u32 = given.next().map_or(Ok(500), |tasks| tasks.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    let log: Arc<Log<String>> = Arc::new(Log::open(&folder)?);

    let order = |task: u32| {
        let log = Arc::clone(&log);
        async move {
            let ticket = log.submit(&format!("order of task {task}"))?; // has its number at once
            ticket.await // durable
        }
    };
    let spawned: Vec<_> = (0..tasks).map(|task| runtime.spawn(order(task))).collect();
    let mut last: Option<Lsn> = None;
    for task in spawned {
        last = last.max(Some(runtime.block_on(task)??));
    }

    let mut out = std::io::stdout().lock();
    if let Some(last) = last {
        let batches = log.stats().batches;
        writeln!(out, "{tasks} tasks, the last record is {last}; {batches} syncs")?;
    }
    Ok(())
}
