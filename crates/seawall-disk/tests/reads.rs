//! Reads beside writes that reach the device during the read of the device.

use crate::common::{Call, guarded, made};
use seawall_disk::{Disk, Files, Options};
use seawall_io::{Access, Storage, SystemClock};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

const SIZE: u64 = 1 << 20;
/// A run shorter than a block waits a second before it is written to the device.
const SHORT: usize = 100;
/// The number of reads of the device during which other calls run.
const READS_MAX: u64 = 3;

/// Opens a disk that calls `during` before a read of its device ends. Also returns the number of
/// these reads.
fn open(during: impl Fn(&Disk) + Send + Sync + 'static) -> (Arc<Disk>, Arc<AtomicU64>) {
    let options = Options { buffers: 4, ..Options::default() };
    let device = made(SIZE, &options);
    let open = |name| device.open(name, Access::ReadWrite).unwrap();
    let reads = Arc::new(AtomicU64::new(0));
    let opened: Arc<OnceLock<Weak<Disk>>> = Arc::default();
    let home = guarded(open("home"), {
        let (opened, reads) = (opened.clone(), reads.clone());
        move |call| {
            let disk = opened.get().and_then(Weak::upgrade);
            if let (Call::Read, Some(disk)) = (call, disk)
                && reads.fetch_add(1, Ordering::Relaxed) < READS_MAX
            {
                during(&disk);
            }
        }
    });
    let files = Files { home, area: open("area") };
    let disk = Arc::new(Disk::open(files, &options, Arc::new(SystemClock::new())).unwrap().0);
    disk.disarm();
    opened.set(Arc::downgrade(&disk)).unwrap();
    (disk, reads)
}

#[test]
fn writes_elsewhere_never_delay_a_read() {
    let (disk, reads) = open(|disk| {
        disk.write(SIZE / 2, &[1; SHORT]).unwrap();
        disk.flush().unwrap();
    });
    disk.read(0, &mut [0; SHORT]).unwrap();
    assert_eq!(reads.load(Ordering::Relaxed), 1);
}

#[test]
fn bytes_that_reach_the_device_during_the_read_are_in_it() {
    let (disk, reads) = open(|disk| disk.flush().unwrap());
    disk.write(0, &[7; SHORT]).unwrap();
    let mut read = [0; SHORT];
    disk.read(0, &mut read).unwrap();
    assert_eq!((read, reads.load(Ordering::Relaxed)), ([7; SHORT], 1));
}
