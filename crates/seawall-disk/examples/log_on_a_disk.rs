//! A log on a virtual disk in the same process: how long an append takes.
//!
//! ```sh
//! cargo run --release -p seawall-disk --example log_on_a_disk -- DIRECTORY
//! ```
//!
//! While the disk is armed, an append returns once its record is in the memory of this process. A
//! real program calls `Disk::supplied` when its UPS is on battery, and `Disk::emergency` when the
//! power is about to fail.

use seawall::{Log, Raw};
use seawall_disk::{Disk, Files, Options, Supply, Volume};
use seawall_io::{Access, Clock, PosixStorage, Storage, SystemClock};
use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 256 << 20;
const APPENDS: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("give a directory for 260 MiB of files")?;
    let supply = Supply {
        hold_up: Duration::from_millis(150),
        detection: Duration::from_millis(1),
        is_healthy: true,
    };
    let options = Options { supply, ..Options::default() };
    let clock = Arc::new(SystemClock::new());
    let (disk, _) = Disk::open(files(path.as_ref(), &options)?, &options, clock.clone())?;
    let volume = Volume::open(Arc::new(disk))?;
    volume.disk().calibrate()?;

    let log: Log<[u8], Raw> =
        seawall::Options::new().open_in(volume.root().folder("orders.wal")?)?;
    let mut times = Vec::with_capacity(APPENDS);
    for _ in 0..APPENDS {
        let began = clock.now();
        log.append(&[7; 116])?;
        times.push(clock.now().saturating_sub(began).as_nanos());
    }
    log.close()?;
    volume.disk().drain()?;

    times.sort_unstable();
    let percentile = |part| times.get(APPENDS * part / 1000).copied().unwrap_or_default();
    let [p50, p99, p999] = [500, 990, 999].map(percentile);
    let flushes = volume.disk().status().counts;
    writeln!(
        io::stdout(),
        "{APPENDS} appends of 116 bytes: p50 {p50} ns, p99 {p99} ns, p99.9 {p999} ns; {} flushes \
         returned early, {} waited",
        flushes.flushes_early,
        flushes.flushes_waited
    )?;
    Ok(())
}

/// The image of the disk and its dump area.
fn files(path: &std::path::Path, options: &Options) -> io::Result<Files> {
    let storage = match PosixStorage::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => PosixStorage::create(path)?,
        other => other?,
    };
    if let Ok(area) = storage.open("area", Access::ReadWrite) {
        return Ok(Files { home: storage.open("image", Access::ReadWrite)?, area });
    }
    let files = Files { home: storage.create("image")?, area: storage.create("area")? };
    files.home.fill_with_zeros(SIZE)?;
    files.home.sync()?;
    files.prepare(SIZE, options)?;
    storage.sync_dir()?;
    Ok(files)
}
